// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <manta/exec/completion_queue.hpp>
#include <manta/future.hpp>
#include <manta/wait.hpp>

// as_completed: futures one by one, as they end. The mechanism is in exec/completion_queue.hpp.

namespace manta::inline v0 {

/// The futures of a list in the order in which they end; made by as_completed. An input range, to
/// be walked once: each future is given once. Movable; externally synchronised. It may be dropped
/// at any time; the tasks go on.
template <class T>
class completion_range {
 public:
  /// Walks the range: an input iterator whose value is the next future. Its reference is valid
  /// until the iterator moves on, and may be moved from.
  class iterator {
   public:
    using iterator_concept = std::input_iterator_tag;  ///< walks once, forward
    using difference_type = std::ptrdiff_t;            ///< as iterators must have; without use here
    using value_type = future<T>;                      ///< what it walks over

    /// Made by completion_range::begin.
    explicit iterator(completion_range* of) noexcept : of_(of) {}
    /// The future that ended.
    future<T>& operator*() const noexcept { return of_->current_; }
    /// Waits for the next one.
    iterator& operator++() {
      of_->advance();
      return *this;
    }
    /// The same.
    void operator++(int) { of_->advance(); }
    /// Whether every future was given.
    friend bool operator==(const iterator& i, std::default_sentinel_t /*end*/) noexcept {
      return i.is_over();
    }

   private:
    bool is_over() const noexcept { return !of_->current_.valid(); }

    completion_range* of_;
  };

  /// As as_completed.
  explicit completion_range(std::vector<future<T>>&& futures)
      : queue_(std::make_unique<exec::completion_queue>(detail::jobs_of(futures), futures.size())) {
    for (future<T>& each : futures) detail::access::release(each);  // the queue has the holds
    futures.clear();
  }

  /// Waits for the next future that ends, with a value or an error; empty when all were given.
  /// Throws self_wait when an actor's method waits and only calls of this actor are left. Cost: a
  /// few nanoseconds when one has ended already; a worker that has to sleep lends its core.
  std::optional<future<T>> next() { return wrap(queue_->next(std::nullopt)); }
  /// The same, empty also when none ended within `timeout`: then remaining() is not 0. Zero asks
  /// without waiting.
  std::optional<future<T>> next(duration timeout) {
    return wrap(queue_->next(base::after(timeout)));
  }
  /// How many futures next() has still to give.
  std::size_t remaining() const noexcept { return queue_->left(); }

  /// Waits for the first future. Call it once.
  iterator begin() {
    advance();
    return iterator(this);
  }
  /// The end of the range.
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  static std::optional<future<T>> wrap(exec::job* j) noexcept {
    if (j == nullptr) return std::nullopt;
    return detail::access::make<T>(j);
  }
  void advance() {
    exec::job* const j = queue_->next(std::nullopt);
    current_ = j == nullptr ? future<T>() : detail::access::make<T>(j);
  }

  std::unique_ptr<exec::completion_queue> queue_;
  future<T> current_;
};

/// The futures one by one, as they end:
///
///     for (manta::future<int>& f : manta::as_completed(std::move(futures))) use(f.get());
///
/// Those that have ended come first, in their order; then who ends first is given first. Runs
/// nothing on this thread. Throws invalid_argument for an empty future and for one that is listed
/// twice, and std::bad_alloc. Any thread. Cost: linear in total, 32 bytes a future; pass an rvalue
/// to move the futures instead of counting them.
template <class T>
completion_range<T> as_completed(std::vector<future<T>>&& futures) {
  return completion_range<T>(std::move(futures));
}
/// The same for a list that stays: its futures are copied.
template <class T>
completion_range<T> as_completed(const std::vector<future<T>>& futures) {
  return completion_range<T>(std::vector<future<T>>(futures));
}

}  // namespace manta::inline v0
