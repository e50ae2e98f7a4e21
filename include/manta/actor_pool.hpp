// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/actor.hpp>
#include <manta/as_completed.hpp>
#include <manta/handles.hpp>
#include <manta/pending.hpp>
#include <manta/remote.hpp>

// actor_pool: calls that go to the next actor that is free.
//
//   submit --an actor is idle--> call --ends--> a task gives the actor back:
//      |                                        to the oldest call that waits, else to the idle
//      `--none is--> the call waits for its turn, a future<lease>, in order
//
// A lease is one actor for one call. It gives the actor back when it goes, whatever ends it: the
// call, an exception, the end of the runtime. So a call that waits always gets its turn.

namespace manta::inline v0 {

namespace detail {

[[noreturn]] MANTA_API void raise_empty_pool();
[[nodiscard]] MANTA_API error pool_lost_error();

template <class T>
class pool_state : public std::enable_shared_from_this<pool_state<T>> {
 public:
  /// An actor for one call.
  class lease {
   public:
    lease(std::shared_ptr<pool_state> from, actor<T> who) noexcept
        : from_(std::move(from)), who_(std::move(who)) {}
    lease(lease&&) noexcept = default;
    lease& operator=(lease&&) = delete;
    ~lease() {
      if (from_) from_->give(std::move(who_));
    }
    const actor<T>& who() const noexcept { return who_; }
    /// The actor has ended: it does not come back.
    void lose() noexcept { std::exchange(from_, nullptr)->drop_member(); }

   private:
    std::shared_ptr<pool_state> from_;
    actor<T> who_;
  };

  void add(actor<T> a) {
    {
      const std::lock_guard lock(mutex_);
      ++members_;
    }
    give(std::move(a));
  }
  /// The turn of a call: ready when an actor is idle.
  future<lease> take() {
    const std::lock_guard lock(mutex_);
    if (members_ == 0) raise_empty_pool();
    future<lease> turn;
    promise<lease> owed(turn);
    if (idle_.empty()) {
      waiting_.push_back(std::move(owed));
    } else {
      owed.set(lease(this->shared_from_this(), std::move(idle_.front())));
      idle_.pop_front();
    }
    return turn;
  }
  std::optional<actor<T>> remove_idle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::nullopt;
    std::optional<actor<T>> out(std::move(idle_.front()));
    idle_.pop_front();
    --members_;
    return out;
  }
  std::size_t members() const noexcept {
    const std::lock_guard lock(mutex_);
    return members_;
  }
  std::size_t idle() const noexcept {
    const std::lock_guard lock(mutex_);
    return idle_.size();
  }

 private:
  void give(actor<T> a) noexcept {
    std::unique_lock lock(mutex_);
    if (waiting_.empty()) {
      idle_.push_back(std::move(a));
      return;
    }
    promise<lease> next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    next.set(lease(this->shared_from_this(), std::move(a)));
  }
  void drop_member() noexcept {
    std::deque<promise<lease>> hopeless;
    {
      const std::lock_guard lock(mutex_);
      if (--members_ == 0) hopeless.swap(waiting_);
    }
    for (promise<lease>& each : hopeless) each.fail(pool_lost_error());
  }

  mutable std::mutex mutex_;
  std::deque<actor<T>> idle_;
  std::deque<promise<lease>> waiting_;  // only while nobody is idle
  std::size_t members_ = 0;
};

/// What a call that waits for its turn keeps of an argument A for parameter P: what the parameter
/// needs, so that nothing is referred to that may be gone by then; futures stay futures.
template <class P, class A>
struct kept_argument {
  using holder = argument_t<P, A>;
  using type = std::conditional_t<std::is_same_v<holder, value_argument<P>>, std::remove_cvref_t<P>,
                                  std::decay_t<A>>;
};
template <class Parameters, class Arguments, class... Kept>
struct kept_arguments;
template <class P, class A, class... Ps, class... As, class... Kept>
struct kept_arguments<type_list<P, Ps...>, type_list<A, As...>, Kept...>
    : kept_arguments<type_list<Ps...>, type_list<As...>, Kept...,
                     typename kept_argument<P, A>::type> {};
template <class... Ps, class... Kept>
struct kept_arguments<type_list<Ps...>, type_list<>, Kept...> {
  using type = std::tuple<Kept...>;
};

}  // namespace detail

/// A handle to a number of actors of one type that share calls: each call goes to the next actor
/// that is free, in the order in which the calls were made. An actor has one call of the pool at a
/// time (push it several times for more); others may call it as well. cancel and deadlines end the
/// future of a call; its method is not asked to stop, and the actor is free when that returns.
///
/// An actor that was lost leaves the pool when a call of it fails by that; when the last one has
/// left, the calls that wait fail with actor_lost. Handles are copied into tasks, actors and other
/// threads. Any thread may use a handle and its copies.
template <class T>
class actor_pool {
 public:
  /// A pool of these actors; more may be pushed later.
  explicit actor_pool(std::vector<actor<T>> actors = {})
      : state_(std::make_shared<detail::pool_state<T>>()) {
    for (actor<T>& each : actors) push(std::move(each));
  }

  /// Calls Method of the next free actor and gives a future to the result at once; arguments as for
  /// remote, converted to the parameters now and kept until the call's turn comes. Throws
  /// invalid_argument when the pool has no actors, and as remote does. Cost: the call and one task,
  /// two when it has to wait.
  template <auto Method, class... Args>
  auto submit(Args&&... args) const {
    using lease = typename detail::pool_state<T>::lease;
    using out = decltype(remote<Method>(std::declval<const actor<T>&>(),
                                        std::declval<std::decay_t<Args>>()...));
    using parameters = typename detail::signature<decltype(Method)>::parameters;
    using arguments = typename detail::kept_arguments<parameters, detail::type_list<Args...>>::type;
    auto call = [kept =
                     arguments(std::forward<Args>(args)...)](future<lease>&& turn) mutable -> out {
      lease held = std::move(turn).get();
      out made = call_member<Method, out>(held.who(), kept);
      return detail::after(std::move(made), [held = std::move(held)](out&& ended) mutable {
        return hand_back(std::move(held), std::move(ended));
      });
    };
    exec::executor::require();
    future<lease> turn = state_->take();
    // One that has failed meanwhile, with the pool's last actor, is the call's failure.
    const bool is_its_turn =
        turn.is_ready() && detail::failure_of(detail::access::job(turn)) == nullptr;
    if (is_its_turn) return call(std::move(turn));
    return detail::after(std::move(turn), std::move(call));
  }

  /// submit<Method>(x) for each x of a range; the results in the range's order.
  template <auto Method, class Range>
  auto map(Range&& inputs) const {
    std::vector<decltype(submit<Method>(*std::begin(inputs)))> out;
    for (auto&& each : inputs) out.push_back(submit<Method>(each));
    return out;
  }
  /// The same; the results as they come, see as_completed.
  template <auto Method, class Range>
  auto map_unordered(Range&& inputs) const {
    return as_completed(map<Method>(std::forward<Range>(inputs)));
  }

  /// Adds an actor; a call that waits takes it at once. Throws invalid_argument for an empty
  /// handle.
  void push(actor<T> a) const {
    if (!a.valid()) detail::raise_empty_actor();
    state_->add(std::move(a));
  }
  /// Takes an idle actor out of the pool; none when all are busy.
  std::optional<actor<T>> pop() const { return state_->remove_idle(); }
  /// Actors in the pool.
  std::size_t size() const noexcept { return state_->members(); }
  /// How many of them have no call of the pool now.
  std::size_t idle() const noexcept { return state_->idle(); }

 private:
  // Without a deadline, which would end its future before the method has returned, and the actor
  // would be handed on while it works.
  template <auto Method, class Out, class Kept>
  static Out call_member(const actor<T>& who, Kept& kept) {
    const detail::calls_until none(exec::executor::without_deadline());
    return std::apply([&who](auto&... each) { return remote<Method>(who, std::move(each)...); },
                      kept);
  }

  template <class R>
  static R hand_back(typename detail::pool_state<T>::lease held, future<R>&& ended) {
    const error* const e = detail::failure_of(detail::access::job(ended));
    // Its own end, or that of another actor, which its method told.
    const bool is_lost = e != nullptr && e->code() == errc::actor_lost &&
                         !detail::actor_access::core(held.who())->takes_calls();
    if (is_lost) held.lose();
    return std::move(ended).get();
  }

  std::shared_ptr<detail::pool_state<T>> state_;
};

}  // namespace manta::inline v0

namespace manta::inline v0::codec {

template <class T>
struct custom<actor_pool<T>>
    : detail::boxed_handle<actor_pool<T>, spec::reference_kind::actor_pool> {};

}  // namespace manta::inline v0::codec
