// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <mutex>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/linked_list.hpp>

namespace manta::inline v0::exec {

/// A wait for permits. The semaphore links it while it waits.
struct permit_request {
  std::size_t count = 1;
  waiter* tell = nullptr;      ///< fired once, when the permits are granted
  std::exception_ptr failure;  ///< of a semaphore elsewhere: why they never will be

  permit_request* previous = nullptr;
  permit_request* next = nullptr;
  bool is_listed = false;
};

/// A semaphore of another process, as far_channel is a channel.
class far_semaphore {
 public:
  virtual bool attempt(std::size_t count) = 0;
  virtual bool enlist(permit_request& r) noexcept = 0;
  virtual bool withdraw(permit_request& r) noexcept = 0;
  virtual void release(std::size_t count) noexcept = 0;
  virtual std::size_t available() = 0;

 protected:
  ~far_semaphore() = default;
};

/// Permits that are taken and given back. Requests are granted strictly in the order in which they
/// came, so that a large one is not starved by small ones; also, nobody who comes later overtakes
/// those who wait. Permits are granted by who gives them back, under the lock. Any thread.
class MANTA_API semaphore_core {
 public:
  explicit semaphore_core(std::size_t permits) noexcept : total_(permits), free_(permits) {}
  semaphore_core(const semaphore_core&) = delete;
  semaphore_core& operator=(const semaphore_core&) = delete;

  /// It stands for that one. Before others know it.
  void stand_for(far_semaphore* there) noexcept { far_ = there; }
  far_semaphore* stands_for() const noexcept { return far_; }

  /// Takes `count` permits if that is possible now. This one and available throw only of a
  /// semaphore elsewhere that can't be asked: node_lost, cancelled, std::bad_alloc.
  bool attempt(std::size_t count);
  /// Takes `count` permits, waiting until the deadline. A worker that has to sleep lends its core.
  /// Throws cancelled; the request's failure; std::bad_alloc.
  bool perform(std::size_t count, const base::deadline& deadline);
  /// Lists the request; true when it is granted at once instead, or there is a failure: then
  /// nobody is told.
  bool enlist(permit_request& r) noexcept;
  /// Takes back a request; false when it was granted.
  bool withdraw(permit_request& r) noexcept;
  /// Gives permits back.
  void release(std::size_t count) noexcept;

  std::size_t total() const noexcept { return total_; }
  std::size_t available() const;

 private:
  void grant() noexcept;

  mutable std::mutex mutex_;
  const std::size_t total_;
  far_semaphore* far_ = nullptr;
  std::size_t free_;
  linked_list<permit_request> waiting_;
};

}  // namespace manta::inline v0::exec
