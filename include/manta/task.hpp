// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <new>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

#include <manta/argument_pack.hpp>
#include <manta/base/type_name.hpp>
#include <manta/carriers.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/suspension.hpp>
#include <manta/future.hpp>
#include <manta/spec/options.hpp>

// The jobs behind remote, async and spawn: what is common to running a function with its arguments
// and putting its outcome into the slot.

namespace manta::inline v0::detail {

template <class... P>
inline constexpr bool ends_with_stop = false;
template <class P>
inline constexpr bool ends_with_stop<P> = std::is_same_v<P, std::stop_token>;
template <class P, class... Rest>
requires(sizeof...(Rest) >
         0) inline constexpr bool ends_with_stop<P, Rest...> = ends_with_stop<Rest...>;

/// The pack of holders for parameters P given arguments A, with the stop token filled in.
template <class... Holders>
struct pack_of {
  using type = argument_pack<Holders...>;
};
template <class Given, class Rest, class... Holders>
struct pack_filled;
template <class P, class A, class... Ps, class... As, class... Holders>
struct pack_filled<type_list<P, Ps...>, type_list<A, As...>, Holders...>
    : pack_filled<type_list<Ps...>, type_list<As...>, Holders..., argument_t<P, A>> {
  static_assert(check_argument<P, A>());
};
template <class... Holders>
struct pack_filled<type_list<>, type_list<>, Holders...> : pack_of<Holders...> {};
template <class... Holders>
struct pack_filled<type_list<std::stop_token>, type_list<>, Holders...>
    : pack_of<Holders..., stop_argument> {};

template <class List, class... A>
struct pack_for;
template <class... P, class... A>
struct pack_for<type_list<P...>, A...> {
  static constexpr bool is_injected = ends_with_stop<P...> && sizeof...(P) == sizeof...(A) + 1;
  static_assert(
      sizeof...(P) == sizeof...(A) || is_injected,
      "manta: wrong number of arguments for the remote function (default arguments do not "
      "count through a function's address: wrap it in a lambda)");
  using type = typename pack_filled<type_list<P...>, type_list<A...>>::type;
};

/// The name that errors show: the option's, or the function's.
inline const char* shown_name(const exec::job* j, const char* function) noexcept {
  const exec::call_extra* const with = j->extra();
  return with != nullptr && with->name != nullptr ? with->name->c_str() : function;
}

inline int attempt_of(const exec::job* j) noexcept {
  const exec::call_extra* const with = j->extra();
  return with != nullptr ? static_cast<int>(with->attempt) : 0;
}

/// Stores what `call` returns, or what it throws, in the slot of `j`; answers the bits to finish
/// with.
template <class R, class Call>
std::uint64_t store_outcome(exec::job* j, const char* function, Call&& call) noexcept {
  using bits = exec::job_bits;
  using T = flat_t<R>;
  try {
    if constexpr (std::is_void_v<R>) {
      call();
    } else if constexpr (is_future<R>::value) {
      R inner = call();
      if (!inner.valid()) raise_empty_future();
      j->target() = access::release(inner);
      return bits::aliased;
    } else {
      new (&value_of<T>(j)) T(call());
      rest_value<T>(j);
    }
    return bits::ready;
  } catch (...) {
    new (j->slot(1)) error(describe_current_exception(shown_name(j, function), attempt_of(j)));
    return bits::ready | bits::failed;
  }
}

[[noreturn]] MANTA_API void raise_empty_coroutine();

/// How a function that returns R, which suspends, runs as a job: frame(R) takes the frame out,
/// settle(job, frame) stores what it ended with, hold(f, args...) calls f and keeps f and args as
/// long as its frame lives. See coroutine.hpp.
template <class R>
struct frame_starter;

/// How a generator is called, and what its call keeps for it; nothing for other functions. See
/// stream.hpp.
template <class R>
struct stream_starter {
  static constexpr bool is_stream = false;
  struct seat {};
  static seat make_seat() { return {}; }
  template <class Made>
  static Made seated(const seat& /*nothing*/, Made made) {
    return made;
  }
};

/// store_outcome for such functions. The arguments are dropped when the frame has its own, unless
/// another run may need them: `is_kept`.
template <class R, class Call>
std::uint64_t store_outcome_of_frame(exec::job* j, const char* function, bool is_kept,
                                     Call&& call) noexcept {
  using starter = frame_starter<R>;
  exec::coroutine_frame* frame = nullptr;
  try {
    frame = starter::frame(call());
  } catch (...) {
    new (j->slot(1)) error(describe_current_exception(shown_name(j, function), attempt_of(j)));
  }
  if (!is_kept) j->ops->drop_arguments(j);
  return exec::start_coroutine(j, frame, &starter::settle, is_kept);
}

/// What only delegating tasks have: the node that waits for the future they returned.
template <bool Delegates>
struct delegation {};
template <>
struct delegation<true> {
  exec::alias_node alias;
};

/// A plain task. `Repeats`: its arguments can be kept for another run. `Callee` gives `static/const
/// invoke(args...)` and the names.
template <class Callee, class R, class Pack, bool Repeats>
struct task : cell<flat_t<R>>, delegation<is_future<R>::value> {
  [[no_unique_address]] Callee callee;
  [[no_unique_address]] Pack arguments;

  template <class... A>
  explicit task(Callee c, A&&... args)
      : cell<flat_t<R>>(&ops, 2), callee(std::move(c)), arguments(std::forward<A>(args)...) {}
  ~task() {}

  using returned = R;

  static task* self(exec::job* j) noexcept { return static_cast<task*>(j); }
  /// Of a generator.
  Callee& generator_seat() noexcept { return callee; }

  void drop_inputs() noexcept {
    arguments.drop();
    std::destroy_at(&callee);
  }

  static std::uint64_t run(exec::job* j) noexcept {
    task* const t = self(j);
    if constexpr (Pack::is_linked) {
      if (const error* e = t->arguments.failure()) {
        error inherited = *e;
        t->drop_inputs();
        new (j->slot(1)) error(std::move(inherited));
        return exec::job_bits::ready | exec::job_bits::failed;
      }
    }
    if constexpr (is_coroutine<R>::value) {
      return run_frame(t);
    } else {
      return run_function(t);
    }
  }
  static std::uint64_t run_function(task* t) noexcept {
    std::uint64_t bits = 0;
    if constexpr (Repeats) {
      const exec::call_extra* const with = t->extra();
      if (with != nullptr && with->may_repeat()) {
        bits = run_kept(t);
        if ((bits & exec::job_bits::failed) != 0 && exec::take_retry(t)) {
          return exec::job_bits::again;
        }
        t->drop_inputs();
        return bits;
      }
    }
    bits = store_outcome<R>(t, Callee::name(),
                            [t]() -> decltype(auto) { return t->arguments.call(t->callee); });
    t->drop_inputs();
    return bits;
  }
  // A function that suspends: its frame has the arguments then.
  static std::uint64_t run_frame(task* t) noexcept {
    constexpr const char* name = Callee::name();
    if constexpr (Repeats) {
      const exec::call_extra* const with = t->extra();
      if (with != nullptr && with->may_repeat()) {
        return store_outcome_of_frame<R>(t, name, true,
                                         [t] { return t->arguments.call_copied(t->callee); });
      }
    }
    return store_outcome_of_frame<R>(t, name, false, [t] { return t->arguments.call(t->callee); });
  }
  // A run after which another one may follow: what the function would use up is copied first.
  static std::uint64_t run_kept(task* t) noexcept {
    return store_outcome<R>(
        t, Callee::name(), [t]() -> decltype(auto) { return t->arguments.call_copied(t->callee); });
  }
  static void cancel(exec::job* j, const error& reason) noexcept { j->cancel_unclaimed(reason); }
  static void drop_arguments(exec::job* j) noexcept { self(j)->drop_inputs(); }
  // Its arguments are ready.
  static void ready(exec::job* j) noexcept {
    if constexpr (Pack::has_arrays) {
      if (node::goes_to_its_data(j)) return;
    }
    exec::ready_task(j);
  }
  static exec::alias_node* alias(exec::job* j) noexcept {
    if constexpr (is_future<R>::value) {
      return &self(j)->alias_node_of();
    } else {
      static_cast<void>(j);
      return nullptr;
    }
  }
  exec::alias_node& alias_node_of() noexcept requires(is_future<R>::value) {
    return this->delegation<true>::alias;
  }

  static const exec::job_ops ops;
};

template <class Callee, class R, class Pack, bool Repeats>
const exec::job_ops task<Callee, R, Pack, Repeats>::ops = {
    .execute = exec::execute_task,
    .run = &task::run,
    .ready = &task::ready,
    .cancel = &task::cancel,
    .drop_arguments = &task::drop_arguments,
    .drop_value = value_dropper<flat_t<R>>(),
    .alias = &task::alias,
    .origin = nullptr,
    .size = sizeof(task),
    .front = 0,
    .in_place = true,
    .function = Callee::name(),
    .function_hash = base::hash_name(Callee::name()),
    .carrier = carrier_of_callee<Callee, task, flat_t<R>>(),
};

/// Puts a job whose needs are met on its way; takes over the queue's hold. When there is no memory
/// for the queue entry, the job fails with out_of_memory and std::bad_alloc is thrown.
MANTA_API void start_job(exec::job* j);

/// Puts a new task on its way, now or when its arguments are there; takes over the queue's hold.
template <bool HasExtra, class Task>
void launch_task(Task* t) {
  if constexpr (decltype(Task::arguments)::is_linked) {
    // One need is ours, so that it can't start before all is linked.
    t->needs.store(1, std::memory_order_relaxed);
    t->arguments.link(t);
    if (t->needs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  }
  if constexpr (decltype(Task::arguments)::has_arrays) {
    if (node::goes_to_its_data(t)) return;
  }
  if constexpr (HasExtra) {
    exec::ready_task(t);
  } else {
    start_job(t);
  }
}

/// In the check-copy mode: sends the arguments of a new job through a message. When that fails the
/// job ends with the error, which is thrown, and the queue's hold of it is given up.
MANTA_API void check_arguments(exec::job* j);

/// A task with options, or with a deadline that it inherits. Apart from start_task, so that the
/// code of calls without options stays small.
template <class R, class Task, class... Args>
[[gnu::noinline, gnu::cold]] future<flat_t<R>> start_task_with(const exec::extra_source& with,
                                                               Args&&... args) {
  Task* const t = make_job_with<Task>(with, std::forward<Args>(args)...);
  exec::name_child(t);
  future<flat_t<R>> out = access::make<flat_t<R>>(t);
  check_arguments(t);
  launch_task<true>(t);
  exec::watch_deadline(t);
  return out;
}

/// Makes a task and gives its future.
template <class R, class Task, class... Args>
future<flat_t<R>> start_task(Args&&... args) {
  exec::executor::require();
  if (exec::inherits_extra()) [[unlikely]] {
    return start_task_with<R, Task>(exec::inherited_extra, std::forward<Args>(args)...);
  }
  Task* const t = make_job<Task>(std::forward<Args>(args)...);
  exec::name_child(t);
  future<flat_t<R>> out = access::make<flat_t<R>>(t);
  launch_task<false>(t);
  return out;
}

}  // namespace manta::inline v0::detail
