// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/actor_jobs.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/handles.hpp>
#include <manta/inbound_actor.hpp>
#include <manta/signature.hpp>
#include <manta/spec/options.hpp>
#include <manta/task.hpp>

// actor<T>: a handle to an object that lives in the runtime and runs one method at a time.

namespace manta::inline v0 {

namespace detail {

struct actor_access;

}  // namespace detail

/// A copyable handle to an actor: an object of type T that lives in the runtime, whose methods are
/// called with remote<&T::method>(handle, args...).
///
/// Methods run one at a time. The calls of one caller (a task, an actor, or a thread of the driver)
/// run in the order they were made; calls of different callers may interleave. Handles travel into
/// tasks, other actors and containers. When the last handle goes, the calls already made finish and
/// then the object is destroyed on a worker. Any thread may use a handle and its copies; one handle
/// object is externally synchronised.
///
/// Handles are counted, so a cycle of them keeps its actors: one that holds a handle to itself, or
/// two that hold each other's, live until the runtime ends, unless kill, retire or this_actor::exit
/// ends one of them. Hold weak_actor (actor_life.hpp) in one direction.
template <class T>
class actor {
  static_assert(std::is_class_v<T>, "manta::actor<T>: T must be a class");

 public:
  /// The type of the object.
  using value_type = T;

  actor() noexcept = default;
  /// Another handle to the same actor.
  actor(const actor& other) noexcept : core_(other.core_) {
    if (core_ != nullptr) core_->add_handle();
  }
  /// Takes the handle over and leaves `other` empty.
  actor(actor&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  /// Gives up the handle that this was, which may end that actor.
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
/// Gives a new actor its options. The living actor of that name instead, with a handle, when there
/// is one and it was asked for. When it throws the new actor is gone. `mirror`: of handles to it in
/// other processes; `construction`: the job that makes it.
MANTA_API exec::actor_core* apply_options(exec::actor_core* made, const actor_options& asked,
                                          const exec::actor_ops* mirror,
                                          const exec::job_ops* construction);
MANTA_API void check_call_options(const call_options& asked);

/// A place in the mailbox of an actor with a cap, until its call is sent.
class admission {
 public:
  admission(exec::actor_core* to, const call_options* with) {
    if (!to->is_capped()) [[likely]]
      return;
    to->admit(exec::limit_of_call(with));
    to_ = to;
  }
  ~admission() {
    if (to_ != nullptr) [[unlikely]]
      to_->unadmit();
  }
  admission(const admission&) = delete;
  admission& operator=(const admission&) = delete;
  void sent() noexcept { to_ = nullptr; }

 private:
  exec::actor_core* to_ = nullptr;
};

struct actor_access {
  template <class T>
  static exec::actor_core* core(const actor<T>& a) {
    if (a.core_ == nullptr) raise_empty_actor();
    return a.core_;
  }
  template <class T>
  static exec::actor_core* core_or_null(const actor<T>& a) noexcept {
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
auto call_method(const call_options* with, Handle&& to, Args&&... args) {
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
  static_assert(check_result<R>() && check_parameters<R, false>(typename sig::parameters{}));
  using pack = typename pack_for<typename sig::parameters, Args...>::type;
  using call = method_call<F, R, T, pack>;

  exec::executor::require();
  exec::actor_core* const core = actor_access::core(to);
  if constexpr (pack::is_linked) core->prepare_held();
  std::uint64_t group = 0;
  if (with != nullptr && with->group) group = core->group_index(*with->group);
  admission place(core, with);
  [[maybe_unused]] auto seat = stream_starter<R>::make_seat();
  const exec::extra_source source{.call = with};
  const bool has_extra = with != nullptr || exec::inherits_extra() || core->is_elsewhere();
  constexpr std::size_t front = front_of_call<flat_t<R>>;
  call* const c = has_extra ? make_job_with<call, front>(source, core, std::forward<Args>(args)...)
                            : make_job<call, front>(core, std::forward<Args>(args)...);
  if constexpr (stream_starter<R>::is_stream) {
    stream_starter<R>::set_credits(*seat.core.get(), with);
    c->seat = seat;
  }
  c->caller |= group << exec::actor_core::group_shift;
  exec::name_child(c);
  future<flat_t<R>> out = access::make<flat_t<R>>(c);
  if (has_extra) [[unlikely]]
    check_arguments(c);
  place.sent();
  if constexpr (pack::is_linked) {
    core->add_handle();
    c->needs.store(1, std::memory_order_relaxed);
    c->arguments.link(c);
    core->send_linked(c, c->caller);
  } else {
    core->send(c, c->caller);
  }
  if (has_extra) [[unlikely]]
    exec::watch_deadline(access::job(out));
  if constexpr (stream_starter<R>::is_stream) {
    return stream_starter<R>::watched(std::move(seat.core), out);
  } else {
    return out;
  }
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
actor<T> start_actor(type_list<P...> /*parameters*/, const actor_options* with, Args&&... args) {
  static_assert(std::is_constructible_v<T, P...>,
                "manta::spawn<T>: T has no constructor for these arguments (futures may stand for "
                "their values, and a vector of futures for a vector)");
  using pack = argument_pack<argument_t<P, Args>...>;
  using job = construction<T, pack, P...>;
  static_assert(((check_parameter<P, false>() && check_parameter_travel<P>()) && ... && true));
  exec::executor::require();
  const std::uint64_t far =
      exec::actors_afar.load(std::memory_order_relaxed) != nullptr ? node::place_actor(with) : 0;
  const bool is_away =
      far != 0 || (with != nullptr && with->isolation ? node::goes_elsewhere(*with->isolation)
                                                      : exec::sends_all());
  std::unique_ptr<exec::resource_claim> claim;
  if (with != nullptr && far == 0) {
    claim = exec::resource_gate::claim(spec::to_demand(*with), with->where, true);
  }
  job* const made = make_job<job>(nullptr, std::forward<Args>(args)...);
  const auto unmake = [made] {
    made->arguments.drop();
    exec::free_block(made, sizeof(job));
  };
  try {
    if (is_away || exec::inherits_extra()) [[unlikely]]
      node::check_construction(made, is_away);
    made->core = make_job<actor_block<T>>(&actor_block<T>::ops);
    made->core->lives_elsewhere(is_away);
    // Before it has a name: others may find it by that at once.
    if (far != 0) [[unlikely]]
      node::send_actor(made->core, far, with);
    if (with != nullptr) {
      if (exec::actor_core* const living =
              apply_options(made->core, *with, &mirror_ops<T>, &job::ops)) {
        unmake();
        return actor_access::make<T>(living);
      }
    }
  } catch (...) {
    unmake();
    throw;
  }
  const bool has_claim = claim != nullptr;
  if (has_claim) claim->holder = made->core;
  actor_block<T>::claim_of(made->core) = std::move(claim);
  actor<T> out = actor_access::make<T>(made->core);
  exec::name_child(made);
  if constexpr (pack::is_linked) {
    made->needs.store(1, std::memory_order_relaxed);
    made->arguments.link(made);
    if (made->needs.fetch_sub(1, std::memory_order_acq_rel) != 1) return out;
  }
  if (has_claim) {
    job::ready(made);
  } else {
    start_job(made);
  }
  return out;
}

template <class T, class... Args>
actor<T> start_actor_awaiting(const actor_options* with, Args&&... args) {
  // A constructor that takes the values gets them; one that takes the futures themselves gets
  // those.
  if constexpr (std::is_constructible_v<T, awaited_t<Args>...>) {
    return start_actor<T>(type_list<awaited_t<Args>...>{}, with, std::forward<Args>(args)...);
  } else {
    return start_actor<T>(type_list<std::decay_t<Args>...>{}, with, std::forward<Args>(args)...);
  }
}

}  // namespace detail

/// spawn<T> with options; made by spawn<T>.with(...).
template <class T>
class spawn_with_options {
 public:
  /// As spawn<T>.with.
  explicit spawn_with_options(actor_options with) : with_(std::move(with)) {}

  /// As spawn<T>(args...). Throws invalid_argument for an option out of its range, name_taken, and
  /// unsupported or infeasible for what this runtime never has. One with a name waits for the
  /// head's node and for the one where it is to live, if these are others; node_lost: that is lost.
  template <class... Args>
  actor<T> operator()(Args&&... args) const {
    exec::executor::require();
    detail::check_actor_options(with_);
    return detail::start_actor_awaiting<T>(&with_, std::forward<Args>(args)...);
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
    return detail::start_actor_awaiting<T>(nullptr, std::forward<Args>(args)...);
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

namespace manta::inline v0::codec {

/// A handle goes as the actor's core.
template <class T>
struct custom<actor<T>> {
  static void write(out_archive& out, const actor<T>& handle) {
    exec::actor_core* const core = detail::actor_access::core_or_null(handle);
    if (core != nullptr) core->add_handle();
    detail::write_handle<actor<T>>(out, spec::reference_kind::actor,
                                   {reinterpret_cast<std::uint64_t>(core), 1}, core,
                                   [](const spec::reference& lent) noexcept {
                                     reinterpret_cast<exec::actor_core*>(lent.local)->drop_handle();
                                   });
  }
  static actor<T> read(in_archive& in) {
    if (!in.flag(name_of<actor<T>>())) return {};
    const spec::reference& found =
        in.reference(spec::reference_kind::actor, type_hash<actor<T>>, name_of<actor<T>>());
    if (found.local != 0) {
      auto* const core = reinterpret_cast<exec::actor_core*>(found.local);
      core->add_handle();
      return detail::actor_access::make<T>(core);
    }
    exec::actor_core* const core = node::borrow_actor(found.what, &detail::mirror_ops<T>);
    if (core == nullptr) in.refuse("nobody here knows that actor", name_of<actor<T>>());
    return detail::actor_access::make<T>(core);
  }
};

}  // namespace manta::inline v0::codec
