// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/semaphore_core.hpp>
#include <manta/handles.hpp>

// semaphore: at most so many at a time.

namespace manta::inline v0 {

namespace detail {
class permit_source;
}  // namespace detail

/// Permits of a semaphore that are given back when this goes. Movable; externally synchronised.
class permit {
 public:
  /// Holds nothing.
  permit() noexcept = default;
  /// Takes over what `other` holds.
  permit(permit&& other) noexcept
      : of_(std::move(other.of_)), count_(std::exchange(other.count_, 0)) {}
  /// Gives back what this held, then takes over what `other` holds.
  permit& operator=(permit&& other) noexcept {
    release();
    of_ = std::move(other.of_);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }
  ~permit() { release(); }

  /// Gives the permits back now.
  void release() noexcept {
    if (count_ > 0) of_->release(std::exchange(count_, 0));
    of_ = nullptr;
  }
  /// How many permits this holds.
  std::size_t count() const noexcept { return count_; }

 private:
  friend class semaphore;
  friend class detail::permit_source;
  permit(std::shared_ptr<exec::semaphore_core> of, std::size_t count) noexcept
      : of_(std::move(of)), count_(count) {}

  std::shared_ptr<exec::semaphore_core> of_;
  std::size_t count_ = 0;
};

struct permit_wait;

/// A handle to a number of permits. Handles are copied into tasks, actors and other threads.
/// Requests are granted in the order in which they came, so that one for many permits is not
/// starved by small ones. A thread that waits lends its core; a task that waits gets cancelled when
/// it is cancelled, or its runtime ends.
///
/// A handle may go to isolated workers and to other nodes: the permits stay in the node that made
/// it, which each call asks; two messages, one to give back. A call throws node_lost when that node
/// is lost, cancelled when the runtime ends, store_full when 65,536 calls of one node wait there.
/// What a node or a worker that is lost held is given back.
///
/// Any thread may use a handle and its copies. A default-made handle is empty: anything but
/// assignment throws invalid_argument. Cost: about 35 ns to take and give back, alone.
class MANTA_API semaphore {
 public:
  /// An empty handle.
  semaphore() noexcept = default;
  /// A new semaphore with `permits`, 1 or more, else throws invalid_argument.
  explicit semaphore(std::size_t permits);

  /// Waits for `count` permits. Throws invalid_argument for 0 and for more than there are in all.
  [[nodiscard]] permit acquire(std::size_t count = 1) const;
  /// The same with a limit: empty when they were not granted within `timeout`.
  [[nodiscard]] std::optional<permit> acquire(std::size_t count, duration timeout) const;
  /// The same without waiting: empty also when others wait.
  [[nodiscard]] std::optional<permit> try_acquire(std::size_t count = 1) const;

  /// `co_await s.async_acquire(n)` is acquire(n) in a coroutine: it is suspended instead of a
  /// thread.
  [[nodiscard]] permit_wait async_acquire(std::size_t count = 1) const;

  /// Permits that nobody holds now.
  std::size_t available() const;
  /// Permits in all.
  std::size_t total() const;
  /// Whether this is a handle to a semaphore.
  bool valid() const noexcept { return static_cast<bool>(core_); }

 private:
  friend class detail::permit_source;
  friend struct codec::custom<semaphore>;
  exec::semaphore_core& checked(std::size_t count) const;

  std::shared_ptr<exec::semaphore_core> core_;
};

/// What a coroutine awaits for permits; made by semaphore::async_acquire.
struct permit_wait {
  semaphore of;           ///< the semaphore
  std::size_t count = 1;  ///< how many permits
};

inline permit_wait semaphore::async_acquire(std::size_t count) const { return {*this, count}; }

}  // namespace manta::inline v0

namespace manta::inline v0::codec {

/// Goes as the same semaphore.
template <>
struct custom<semaphore> {
  static MANTA_API void write(out_archive& out, const semaphore& s);
  static MANTA_API semaphore read(in_archive& in);
};

/// Moves: who reads it has the permits.
template <>
struct custom<permit> {
  static void write(out_archive& out, const permit& held) {
    // What is written was given away: the job's own copy of an argument, a result nobody has yet.
    auto* const moved = new permit(std::move(const_cast<permit&>(held)));
    detail::write_handle<permit>(
        out, spec::reference_kind::permit, {1, 1}, moved,
        [](const spec::reference& lent) noexcept { delete reinterpret_cast<permit*>(lent.local); });
  }
  static permit read(in_archive& in) {
    return std::move(*detail::read_handle<permit, permit>(in, spec::reference_kind::permit));
  }
};

}  // namespace manta::inline v0::codec
