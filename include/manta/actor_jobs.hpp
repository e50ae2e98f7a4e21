// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/task.hpp>

// The typed blocks behind actors: the object with its core, a call of a method, the construction.

namespace manta::inline v0::detail {

/// The core and, behind it, the object and what it holds all its life.
template <class T>
struct actor_block : exec::actor_core {
  std::unique_ptr<exec::resource_claim> claim;  // given back with the object
  union {
    T object;
  };
  explicit actor_block(const exec::actor_ops* kind) : actor_core(kind) {}
  ~actor_block() {}  // the object is ended by destroy, when it was made

  static T& object_of(exec::actor_core* core) noexcept {
    return static_cast<actor_block*>(core)->object;
  }
  static std::unique_ptr<exec::resource_claim>& claim_of(exec::actor_core* core) noexcept {
    return static_cast<actor_block*>(core)->claim;
  }
  static exec::resource_claim* claim_in(exec::actor_core* core) noexcept {
    return claim_of(core).get();
  }
  static void release_claim(exec::actor_core* core) noexcept {
    if (auto& held = claim_of(core)) held->release();
  }
  static void forget_claim(exec::actor_core* core) noexcept { claim_of(core).reset(); }
  static void destroy(exec::actor_core* core) noexcept {
    std::destroy_at(&object_of(core));
    release_claim(core);
  }
  /// A construction is finished, here or elsewhere; its last hold is ours.
  static void settle(exec::actor_core* core, exec::job* construction) noexcept {
    if ((construction->word() & exec::job_bits::failed) == 0) {
      construction->drop();
      core->begin(nullptr);
      return;
    }
    release_claim(core);
    const error reason = construction->failure();
    construction->drop();
    core->begin(&reason);
  }

  static const exec::actor_ops ops;
};

template <class T>
constexpr const char* constructor_name() noexcept {
  return base::spelled_type<T>();
}

/// Of a core that stands for an actor of another process.
template <class T>
inline constexpr exec::actor_ops mirror_ops{
    .destroy = nullptr, .size = sizeof(exec::mirror_core), .type = base::spelled_type<T>()};

/// How calls of F and constructions that come from another process become jobs of an actor that is
/// a T; see inbound_actor.hpp.
template <auto F, class T>
struct inbound_method;
template <class T, class... P>
struct inbound_constructor;

/// A method of actors of type T as codec/identity.hpp wants it.
template <auto F, class T>
struct described_method {
  static constexpr codec::entry_kind kind = codec::entry_kind::method;
  static constexpr const char* function() noexcept { return base::spelled_function<F>(); }
  static constexpr const char* type() noexcept { return base::spelled_type<decltype(F)>(); }
  static constexpr const void* ops() noexcept { return inbound_method<F, T>::ops(); }
};

/// Bytes before a method call's job: the mailbox's link, so that link, header and a small value
/// share one cache line; more where the value's alignment asks for it.
template <class T>
inline constexpr std::size_t front_of_call = alignof(cell<T>) <= 8    ? 8
                                             : alignof(cell<T>) <= 16 ? 16
                                                                      : 64;

/// A call of a method, in the mailbox until it runs.
template <auto F, class R, class T, class Pack>
struct method_call : cell<flat_t<R>>, delegation<is_future<R>::value> {
  exec::actor_core* core;
  std::uint64_t caller = exec::caller_serial();
  [[no_unique_address]] typename stream_starter<R>::seat seat;
  [[no_unique_address]] Pack arguments;

  template <class... A>
  method_call(exec::actor_core* to, A&&... args)
      : cell<flat_t<R>>(&ops, 2), core(to), arguments(std::forward<A>(args)...) {}
  ~method_call() {}

  using returned = R;

  static method_call* self(exec::job* j) noexcept { return static_cast<method_call*>(j); }
  auto& generator_seat() noexcept { return seat; }
  static constexpr const char* name() noexcept { return base::spelled_function<F>(); }

  static std::uint64_t run(exec::job* j) noexcept {
    method_call* const c = self(j);
    if constexpr (Pack::is_linked) {
      if (const error* e = c->arguments.failure()) {
        error inherited = *e;
        drop_arguments(j);
        new (j->slot(1)) error(std::move(inherited));
        return exec::job_bits::ready | exec::job_bits::failed;
      }
    }
    if constexpr (is_coroutine<R>::value) {
      return store_outcome_of_frame<R>(
          j, name(), false, [c] { return stream_starter<R>::seated(c->seat, c->invoke()); });
    } else {
      const std::uint64_t bits =
          store_outcome<R>(j, name(), [c]() -> decltype(auto) { return c->invoke(); });
      c->arguments.drop();
      return bits;
    }
  }
  decltype(auto) invoke() {
    // Not through `core`: that is another cache line of the caller's.
    // As the class that has the method: through a derived one GCC warns of aliasing.
    typename signature<decltype(F)>::object& object =
        actor_block<T>::object_of(exec::this_thread.current->actor);
    return arguments.call([&object](auto&&... args) -> decltype(auto) {
      return (object.*F)(std::forward<decltype(args)>(args)...);
    });
  }
  // The call took a handle when it was made, so the actor is there whatever other threads do.
  static void ready(exec::job* j) noexcept { self(j)->core->arguments_ready(j, self(j)->caller); }
  static void drop_arguments(exec::job* j) noexcept {
    self(j)->arguments.drop();
    std::destroy_at(&self(j)->seat);
  }
  static exec::call_origin origin(exec::job* j) noexcept {
    return {self(j)->core, self(j)->caller};
  }
  static exec::alias_node* alias(exec::job* j) noexcept {
    if constexpr (is_future<R>::value) {
      return &static_cast<delegation<true>*>(self(j))->alias;
    } else {
      static_cast<void>(j);
      return nullptr;
    }
  }

  static const exec::job_ops ops;
};

template <auto F, class R, class T, class Pack>
const exec::job_ops method_call<F, R, T, Pack>::ops = {
    .execute = &exec::actor_core::execute_call,
    .run = &method_call::run,
    .ready = &method_call::ready,
    .cancel = &exec::actor_core::cancel_call,
    .drop_arguments = &method_call::drop_arguments,
    .drop_value = value_dropper<flat_t<R>>(),
    .alias = &method_call::alias,
    .origin = &method_call::origin,
    .size = front_of_call<flat_t<R>> + sizeof(method_call),
    .front = front_of_call<flat_t<R>>,
    .in_place = false,
    .function = name(),
    .function_hash = base::hash_name(name()),
    .carrier = &carrier_for<method_call, flat_t<R>, described_method<F, T>>::value,
};

/// A constructor as codec/identity.hpp wants it.
template <class T, class... P>
struct described_constructor {
  static constexpr codec::entry_kind kind = codec::entry_kind::constructor;
  static constexpr const char* function() noexcept { return ""; }
  static constexpr const char* type() noexcept { return base::spelled_type<T(P...)>(); }
  static constexpr const void* ops() noexcept { return inbound_constructor<T, P...>::ops(); }
};

/// The job that constructs an actor's object from parameters P.
template <class T, class Pack, class... P>
struct construction : cell<void> {
  using returned = void;

  exec::actor_core* core;
  [[no_unique_address]] Pack arguments;

  template <class... A>
  explicit construction(exec::actor_core* of, A&&... args)
      : cell<void>(&ops, 2), core(of), arguments(std::forward<A>(args)...) {}
  ~construction() {}

  static construction* self(exec::job* j) noexcept { return static_cast<construction*>(j); }

  static std::uint64_t run(exec::job* j) noexcept {
    construction* const c = self(j);
    if constexpr (Pack::is_linked) {
      if (const error* e = c->arguments.failure()) {
        error inherited = *e;
        c->arguments.drop();
        new (j->slot(1)) error(std::move(inherited));
        return exec::job_bits::ready | exec::job_bits::failed;
      }
    }
    // It has no extra, from which its calls would learn of the check-copy mode, and where its own
    // failure would be checked.
    exec::this_thread.current->deadline = exec::executor::without_deadline();
    const std::uint64_t bits = store_outcome<void>(j, constructor_name<T>(), [c] {
      c->arguments.call([c](auto&&... args) {
        new (&actor_block<T>::object_of(c->core)) T(std::forward<decltype(args)>(args)...);
      });
    });
    c->arguments.drop();
    const exec::outcome_check check = exec::executor::check_of_outcomes();
    return check != nullptr ? check(j, bits) : bits;
  }
  // The block is read once more after the job: the second hold is ours.
  static void execute(exec::job* j) noexcept {
    exec::actor_core* const of = self(j)->core;
    if (!of->claim_start()) {
      cancel(j, exec::cancelled_error());
      return;
    }
    j->try_claim();
    if (of->is_elsewhere()) [[unlikely]] {
      exec::construct_elsewhere(of, j);
      return;
    }
    exec::run_actor_call(j, {.actor = of, .follows_caller = false});
    actor_block<T>::settle(of, j);
  }
  // What the actor asks for comes last, as with tasks. A worker tells its node at once, on this
  // thread: what its caller sends next may name the actor.
  static void ready(exec::job* j) noexcept {
    if (exec::asks_elsewhere()) [[unlikely]]
      return execute(j);
    exec::resource_claim* const claim = actor_block<T>::claim_in(self(j)->core);
    if (claim != nullptr && exec::executor::is_running() && !claim->is_settled() &&
        !claim->request(j)) {
      return;
    }
    exec::executor::resume(j);
  }
  static void cancel(exec::job* j, const error& reason) noexcept {
    exec::actor_core* const of = self(j)->core;
    actor_block<T>::release_claim(of);
    // `reason` outlives the call: it is never the error of a job that ends here.
    j->cancel_unclaimed(reason);
    j->drop();
    of->abandon_start(reason);
  }
  static void drop_arguments(exec::job* j) noexcept { self(j)->arguments.drop(); }

  static const exec::job_ops ops;
};

template <class T, class Pack, class... P>
const exec::job_ops construction<T, Pack, P...>::ops = {
    .execute = &construction::execute,
    .run = &construction::run,
    .ready = &construction::ready,
    .cancel = &construction::cancel,
    .drop_arguments = &construction::drop_arguments,
    .drop_value = nullptr,
    .alias = nullptr,
    .origin = nullptr,
    .size = sizeof(construction),
    .front = 0,
    .in_place = false,
    .function = constructor_name<T>(),
    .function_hash = base::hash_name(constructor_name<T>()),
    .carrier = &carrier_for<construction, void, described_constructor<T, P...>>::value,
};

template <class T>
const exec::actor_ops actor_block<T>::ops = {
    .destroy = &actor_block::destroy,
    .size = sizeof(actor_block),
    .type = constructor_name<T>(),
    .claim = &actor_block::claim_in,
    .release = &actor_block::release_claim,
    .forget = &actor_block::forget_claim,
    .settle = &actor_block::settle,
};

}  // namespace manta::inline v0::detail
