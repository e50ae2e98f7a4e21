// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/argument.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/suspension.hpp>
#include <manta/future.hpp>

// What a coroutine of manta can await: how anything that can tell an exec::waiter becomes
// awaitable, and the futures.
//
// A source is a small class that says what is waited for:
//   bool is_ready()                      nothing has to be waited for
//   bool add_waiter(exec::waiter* w)     registers w, to be fired once; false: not needed any more
//   bool remove_waiter(exec::waiter* w)  true when w was still there: then it will not fire. It may
//                                        be called more than once, and while w is being fired
//   auto take()                          the result, or an exception; called once, at the end
// It lives in the coroutine's frame while it waits and is never moved. detail::awaiter does the
// rest: suspension, cancellation, the end of the runtime. A type of one's own becomes awaitable by
//   friend auto manta_await(type& x) { return detail::awaiter<my_source>(x); }
// which is found by its argument and called for `co_await x` inside a manta::coroutine or a
// generator; the awaiter passes its arguments to the source's constructor.

namespace manta::inline v0::detail {

/// The promises of manta's coroutines.
template <class Promise>
concept engine_promise = std::derived_from<Promise, exec::coroutine_frame>;

/// Awaits a source; see above. Its thread: the coroutine's.
template <class Source>
class [[nodiscard]] awaiter : exec::await_node {
 public:
  template <class... Args>
  explicit awaiter(Args&&... args) : source_(std::forward<Args>(args)...) {}
  ~awaiter() {
    give_up([this] { return source_.remove_waiter(this); });
  }
  awaiter(const awaiter&) = delete;
  awaiter& operator=(const awaiter&) = delete;

  bool await_ready() { return source_.is_ready(); }
  template <engine_promise Promise>
  bool await_suspend(std::coroutine_handle<Promise> leaf) {
    begin(leaf.promise());
    bool is_registered = false;
    try {
      is_registered = source_.add_waiter(this);
    } catch (...) {
      withdraw();
      throw;
    }
    if (!is_registered) {
      withdraw();
      return false;
    }
    return commit([this] { return source_.remove_waiter(this); });
  }
  decltype(auto) await_resume() {
    resumed([this] { return source_.remove_waiter(this); });
    return source_.take();
  }

 private:
  Source source_;
};

/// Throws self_wait when `j` can't be ready before the coroutine that runs here ends.
MANTA_API void refuse_self_await(exec::job* j);

/// The job that has the value of the ready job `j`; throws its error.
inline exec::job* done_job(exec::job* j) {
  exec::job* const end = j->outcome();
  if ((end->word() & exec::job_bits::failed) != 0) [[unlikely]]
    end->failure().raise();
  return end;
}

/// A future that somebody else holds: its value in place.
template <class T>
class borrowed_future {
 public:
  explicit borrowed_future(const future<T>& of) : job_(access::job(of)) {
    if (job_ == nullptr) raise_empty_future();
  }
  bool is_ready() const noexcept { return job_->is_ready(); }
  bool add_waiter(exec::waiter* w) {
    refuse_self_await(job_);
    return job_->add_waiter(w);
  }
  bool remove_waiter(exec::waiter* w) noexcept { return job_->remove_waiter(w); }
  typename future<T>::reference take() {
    exec::job* const end = done_job(job_);
    if constexpr (!std::is_void_v<T>) return seen_value<T>(end);
  }

 private:
  exec::job* job_;
};

/// A future of one's own: its value, moved out where nobody else has it.
template <class T>
class owned_future {
 public:
  explicit owned_future(future<T>&& of) : job_(access::release(of)) {
    if (!job_) raise_empty_future();
  }
  bool is_ready() const noexcept { return job_->is_ready(); }
  bool add_waiter(exec::waiter* w) {
    refuse_self_await(job_.get());
    return job_->add_waiter(w);
  }
  bool remove_waiter(exec::waiter* w) noexcept { return job_->remove_waiter(w); }
  T take() {
    exec::job* const end = done_job(job_.get());
    if constexpr (!std::is_void_v<T>) return take_value<T>(job_.get(), end);
  }

 private:
  exec::job_ref job_;
};

/// Walks a list of jobs until all are ready or one has failed, and then tells one waiter.
class MANTA_API list_walk : exec::waiter {
 public:
  list_walk() noexcept { fire = &list_walk::next_ready; }
  list_walk(const list_walk&) = delete;
  list_walk& operator=(const list_walk&) = delete;

  void set(exec::job* const* begin, std::size_t count) noexcept {
    begin_ = begin;
    count_ = count;
  }
  bool is_ready() const noexcept;
  bool add_waiter(exec::waiter* w);
  bool remove_waiter(exec::waiter* w) noexcept;

 private:
  static void next_ready(exec::waiter* self) noexcept;
  bool advance() noexcept;

  exec::job* const* begin_ = nullptr;
  std::size_t count_ = 0;
  std::atomic<std::size_t> at_{0};
  exec::waiter* told_ = nullptr;
};

/// Many futures: their values in order, or the first error.
template <class T>
class owned_futures {
 public:
  explicit owned_futures(std::vector<future<T>>&& of) : from_(std::move(of)) {
    for (const future<T>& one : from_) {
      if (!one.valid()) raise_empty_future();
    }
    static_assert(sizeof(future<T>) == sizeof(exec::job*) && std::is_standard_layout_v<future<T>>);
    walk_.set(reinterpret_cast<exec::job* const*>(from_.data()), from_.size());
  }
  bool is_ready() const noexcept { return walk_.is_ready(); }
  bool add_waiter(exec::waiter* w) {
    for (const future<T>& one : from_) refuse_self_await(access::job(one));
    return walk_.add_waiter(w);
  }
  bool remove_waiter(exec::waiter* w) noexcept { return walk_.remove_waiter(w); }
  auto take() {
    if constexpr (std::is_void_v<T>) {
      for (future<T>& one : from_) done_job(access::job(one));
    } else {
      std::vector<T> values;
      values.reserve(from_.size());
      for (future<T>& one : from_) {
        const exec::job_ref keep(access::release(one));
        values.push_back(take_value<T>(keep.get(), done_job(keep.get())));
      }
      return values;
    }
  }

 private:
  std::vector<future<T>> from_;
  list_walk walk_;
};

template <class T>
auto manta_await(const future<T>& f) {
  return awaiter<borrowed_future<T>>(f);
}
template <class T>
auto manta_await(future<T>&& f) {
  return awaiter<owned_future<T>>(std::move(f));
}
template <class T>
auto manta_await(std::vector<future<T>>&& f) {
  return awaiter<owned_futures<T>>(std::move(f));
}
template <class T>
auto manta_await(const std::vector<future<T>>& f) {
  return awaiter<owned_futures<T>>(std::vector<future<T>>(f));
}

/// What can be awaited in manta's coroutines.
template <class X>
concept awaitable = requires(X&& x) {
  manta_await(std::forward<X>(x));
};

/// What all promises have in common: the frame, its memory, and what may be awaited.
struct promise_base : exec::coroutine_frame {
  static void* operator new(std::size_t bytes) { return exec::allocate_block(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept {
    exec::free_block(block, bytes);
  }

  std::suspend_always initial_suspend() const noexcept { return {}; }

  /// The end of a frame: its caller goes on, or the turn is over.
  struct leave {
    bool await_ready() const noexcept { return false; }
    template <engine_promise Promise>
    void await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      exec::coroutine_turn::leave(self.promise());
    }
    void await_resume() const noexcept {}
  };
  leave final_suspend() const noexcept { return {}; }

  template <class X>
  auto await_transform(X&& x) {
    static_assert(awaitable<X>,
                  "manta: this can't be awaited in a coroutine of manta; await a future, a vector "
                  "of futures, a manta::coroutine (as an rvalue), a channel or a stream's next");
    return manta_await(std::forward<X>(x));
  }
};

/// What a frame ended with.
template <class T>
class frame_outcome {
 public:
  frame_outcome() noexcept {}
  ~frame_outcome() {
    if (state_ == state::value) std::destroy_at(&value_);
  }
  frame_outcome(const frame_outcome&) = delete;
  frame_outcome& operator=(const frame_outcome&) = delete;

  template <class U>
  requires std::is_constructible_v<T, U&&>
  void return_value(U&& from) {
    new (&value_) T(std::forward<U>(from));
    state_ = state::value;
  }
  void unhandled_exception() noexcept {
    // A local's destructor may throw after the value was returned.
    if (state_ == state::value) std::destroy_at(&value_);
    state_ = state::thrown;
    thrown_ = std::current_exception();
  }
  /// The value, moved out, or the exception.
  T take() {
    if (state_ == state::thrown) std::rethrow_exception(std::move(thrown_));
    return std::move(value_);
  }

 private:
  enum class state : unsigned char { none, value, thrown };
  union {
    T value_;
  };
  std::exception_ptr thrown_;
  state state_ = state::none;
};

template <>
class frame_outcome<void> {
 public:
  void return_void() const noexcept {}
  void unhandled_exception() noexcept { thrown_ = std::current_exception(); }
  void take() {
    if (thrown_ != nullptr) std::rethrow_exception(std::move(thrown_));
  }

 private:
  std::exception_ptr thrown_;
};

}  // namespace manta::inline v0::detail
