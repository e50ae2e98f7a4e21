// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/exec/actor_core.hpp>
#include <manta/signature.hpp>
#include <manta/spec/options.hpp>
#include <manta/task.hpp>

// actor<T>: a handle to an object that lives in the runtime and runs one method at a time.

namespace manta::inline v0 {

namespace detail {

/// The core and, behind it, the object.
template <class T>
struct actor_block : exec::actor_core {
  union {
    T object;
  };
  explicit actor_block(const exec::actor_ops* kind) : actor_core(kind) {}
  ~actor_block() {}  // the object is ended by destroy, when it was made

  static T& object_of(exec::actor_core* core) noexcept {
    return static_cast<actor_block*>(core)->object;
  }
  static void destroy(exec::actor_core* core) noexcept { std::destroy_at(&object_of(core)); }

  static const exec::actor_ops ops;
};

template <class T>
constexpr const char* constructor_name() noexcept {
  return base::spelled_type<T>();
}

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
  [[no_unique_address]] Pack arguments;

  template <class... A>
  method_call(exec::actor_core* to, A&&... args)
      : cell<flat_t<R>>(&ops, 2), core(to), arguments(std::forward<A>(args)...) {}
  ~method_call() {}

  static method_call* self(exec::job* j) noexcept { return static_cast<method_call*>(j); }
  static constexpr const char* name() noexcept { return base::spelled_function<F>(); }

  static std::uint64_t run(exec::job* j) noexcept {
    method_call* const c = self(j);
    if constexpr (Pack::is_linked) {
      if (const error* e = c->arguments.failure()) {
        error inherited = *e;
        c->arguments.drop();
        new (&j->failure()) error(std::move(inherited));
        return exec::job_bits::ready | exec::job_bits::failed;
      }
    }
    const std::uint64_t bits = store_outcome<R>(j, name(), [c]() -> decltype(auto) {
      // Not through c->core: that is another cache line of the caller's.
      T& object = actor_block<T>::object_of(exec::this_thread.current->actor);
      return c->arguments.call([&object](auto&&... args) -> decltype(auto) {
        return (object.*F)(std::forward<decltype(args)>(args)...);
      });
    });
    c->arguments.drop();
    return bits;
  }
  // The call took a handle when it was made, so the actor is there whatever other threads do.
  static void ready(exec::job* j) noexcept { self(j)->core->arguments_ready(self(j)->caller); }
  static void cancel(exec::job* j, const error& reason) noexcept { j->cancel_unclaimed(reason); }
  static void drop_arguments(exec::job* j) noexcept { self(j)->arguments.drop(); }
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
    .execute = nullptr,
    .run = &method_call::run,
    .ready = &method_call::ready,
    .cancel = &method_call::cancel,
    .drop_arguments = &method_call::drop_arguments,
    .drop_value = value_dropper<flat_t<R>>(),
    .alias = &method_call::alias,
    .origin = &method_call::origin,
    .size = front_of_call<flat_t<R>> + sizeof(method_call),
    .front = front_of_call<flat_t<R>>,
    .in_place = false,
    .function = name(),
    .function_hash = base::hash_name(name()),
};

/// The job that constructs an actor's object.
template <class T, class Pack>
struct construction : cell<void> {
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
        new (&j->failure()) error(std::move(inherited));
        return exec::job_bits::ready | exec::job_bits::failed;
      }
    }
    const std::uint64_t bits = store_outcome<void>(j, constructor_name<T>(), [c] {
      c->arguments.call([c](auto&&... args) {
        new (&actor_block<T>::object_of(c->core)) T(std::forward<decltype(args)>(args)...);
      });
    });
    c->arguments.drop();
    return bits;
  }
  // The block is read once more after the job: the second hold is ours.
  static void execute(exec::job* j) noexcept {
    exec::actor_core* const of = self(j)->core;
    j->try_claim();
    exec::run_claimed(j, {.drops = 1, .actor = of, .is_last = false});
    const bool has_failed = (j->word() & exec::job_bits::failed) != 0;
    if (has_failed) {
      const error reason = j->failure();
      j->drop();
      of->begin(&reason);
    } else {
      j->drop();
      of->begin(nullptr);
    }
  }
  static void ready(exec::job* j) noexcept { exec::executor::resume(j); }
  static void cancel(exec::job* j, const error& reason) noexcept {
    exec::actor_core* const of = self(j)->core;
    const error why = reason;
    j->cancel_unclaimed(why);
    j->drop();
    of->begin(&why);
  }
  static void drop_arguments(exec::job* j) noexcept { self(j)->arguments.drop(); }

  static const exec::job_ops ops;
};

template <class T, class Pack>
const exec::job_ops construction<T, Pack>::ops = {
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
};

template <class T>
const exec::actor_ops actor_block<T>::ops = {
    .destroy = &actor_block::destroy,
    .size = sizeof(actor_block),
    .type = constructor_name<T>(),
};

struct actor_access;

}  // namespace detail

/// A copyable handle to an actor: an object of type T that lives in the runtime, whose methods are
/// called with remote<&T::method>(handle, args...).
///
/// Methods run one at a time. The calls of one caller (a task, an actor, or a thread of the driver)
/// run in the order they were made; calls of different callers may interleave. Handles travel into
/// tasks, other actors and containers. When the last handle goes, the calls already made finish and
/// then the object is destroyed on a worker. An actor that keeps a handle to itself lives until the
/// runtime ends. Any thread may use a handle and its copies; one handle object is externally
/// synchronised.
template <class T>
class actor {
  static_assert(std::is_class_v<T>, "manta::actor<T>: T must be a class");

 public:
  using value_type = T;

  actor() noexcept = default;
  actor(const actor& other) noexcept : core_(other.core_) {
    if (core_ != nullptr) core_->add_handle();
  }
  actor(actor&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  actor& operator=(actor other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~actor() {
    if (core_ != nullptr) core_->drop_handle();
  }

  /// Whether this is a handle to an actor (it may have ended).
  bool valid() const noexcept { return core_ != nullptr; }
  /// Two handles are equal when they are to the same actor.
  friend bool operator==(const actor& a, const actor& b) noexcept { return a.core_ == b.core_; }

 private:
  friend struct detail::actor_access;
  explicit actor(exec::actor_core* handle) noexcept : core_(handle) {}
  exec::actor_core* core_ = nullptr;
};

namespace detail {

[[noreturn]] MANTA_API void raise_empty_actor();
MANTA_API void check_actor_options(const actor_options& asked);

struct actor_access {
  template <class T>
  static exec::actor_core* core(const actor<T>& a) {
    if (a.core_ == nullptr) raise_empty_actor();
    return a.core_;
  }
  template <class T>
  static actor<T> make(exec::actor_core* handle) noexcept {
    return actor<T>(handle);
  }
};

template <class T>
struct is_actor : std::false_type {};
template <class T>
struct is_actor<actor<T>> : std::true_type {};

template <auto F, class Handle, class... Args>
auto call_method(Handle&& to, Args&&... args) {
  using handle = std::remove_cvref_t<Handle>;
  static_assert(is_actor<handle>::value,
                "manta::remote<&T::method>: the first argument must be a manta::actor<T>; make one "
                "with manta::spawn<T>(...)");
  using sig = signature<decltype(F)>;
  static_assert(sig::is_known,
                "manta::remote<&T::method>: rvalue-qualified and volatile methods can't be called");
  using T = typename handle::value_type;
  static_assert(std::is_base_of_v<std::remove_const_t<typename sig::object>, T>,
                "manta::remote<&T::method>: the method belongs to another class than the actor's");
  using R = typename sig::result;
  static_assert(check_result<R>() && check_parameters<false>(typename sig::parameters{}));
  using pack = typename pack_for<typename sig::parameters, Args...>::type;
  using call = method_call<F, R, T, pack>;

  exec::executor::require();
  exec::actor_core* const core = actor_access::core(to);
  if constexpr (pack::is_linked) core->prepare_held();
  call* const c = make_job<call, front_of_call<flat_t<R>>>(core, std::forward<Args>(args)...);
  exec::name_child(c);
  future<flat_t<R>> out = access::make<flat_t<R>>(c);
  if constexpr (pack::is_linked) {
    core->add_handle();
    c->needs.store(1, std::memory_order_relaxed);
    c->arguments.link(c);
    core->send_linked(c, c->caller);
  } else {
    core->send(c, c->caller);
  }
  return out;
}

/// What a constructor's argument is kept as: text as std::string, futures as what they will hold.
template <class A>
struct awaited {
  using type = A;
};
template <class U>
struct awaited<future<U>> {
  using type = U;
};
template <class U>
struct awaited<std::vector<future<U>>> {
  using type = std::vector<U>;
};
template <>
struct awaited<const char*> {
  using type = std::string;
};
template <>
struct awaited<char*> {
  using type = std::string;
};
template <class A>
using awaited_t = typename awaited<std::decay_t<A>>::type;

template <class T, class... P, class... Args>
actor<T> start_actor(type_list<P...> /*parameters*/, Args&&... args) {
  static_assert(std::is_constructible_v<T, P...>,
                "manta::spawn<T>: T has no constructor for these arguments (futures may stand for "
                "their values, and a vector of futures for a vector)");
  using pack = argument_pack<argument_t<P, Args>...>;
  using job = construction<T, pack>;
  static_assert((check_parameter<P, false>() && ... && true));
  exec::executor::require();
  job* const made = make_job<job>(nullptr, std::forward<Args>(args)...);
  try {
    made->core = make_job<actor_block<T>>(&actor_block<T>::ops);
  } catch (...) {
    made->arguments.drop();
    exec::free_block(made, sizeof(job));
    throw;
  }
  actor<T> out = actor_access::make<T>(made->core);
  exec::name_child(made);
  if constexpr (pack::is_linked) {
    made->needs.store(1, std::memory_order_relaxed);
    made->arguments.link(made);
    if (made->needs.fetch_sub(1, std::memory_order_acq_rel) != 1) return out;
  }
  start_job(made);
  return out;
}

template <class T, class... Args>
actor<T> start_actor_awaiting(Args&&... args) {
  // A constructor that takes the values gets them; one that takes the futures themselves gets
  // those.
  if constexpr (std::is_constructible_v<T, awaited_t<Args>...>) {
    return start_actor<T>(type_list<awaited_t<Args>...>{}, std::forward<Args>(args)...);
  } else {
    return start_actor<T>(type_list<std::decay_t<Args>...>{}, std::forward<Args>(args)...);
  }
}

}  // namespace detail

/// spawn<T> with options; made by spawn<T>.with(...).
template <class T>
class spawn_with_options {
 public:
  explicit spawn_with_options(actor_options with) : with_(std::move(with)) {}

  template <class... Args>
  actor<T> operator()(Args&&... args) const {
    detail::check_actor_options(with_);
    return detail::start_actor_awaiting<T>(std::forward<Args>(args)...);
  }

 private:
  actor_options with_;
};

/// The callable type of spawn<T>.
template <class T>
struct spawn_function {
  /// Makes an actor from T(args...) and gives its handle at once; the constructor runs on a worker,
  /// and calls made meanwhile wait. When it throws, every call fails with actor_lost and the cause.
  /// Errors and arguments as for remote. Any thread. Cost: two blocks, one queue entry.
  template <class... Args>
  actor<T> operator()(Args&&... args) const {
    return detail::start_actor_awaiting<T>(std::forward<Args>(args)...);
  }

  /// The same with options; see options.hpp.
  spawn_with_options<T> with(actor_options asked) const {
    return spawn_with_options<T>(std::move(asked));
  }
};

/// `spawn<T>(args...)` makes an actor.
template <class T>
inline constexpr spawn_function<T> spawn{};

}  // namespace manta::inline v0
