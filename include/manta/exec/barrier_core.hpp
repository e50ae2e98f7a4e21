// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>

#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/linked_list.hpp>

namespace manta::inline v0::exec {

/// One party's arrival. The barrier links it while it waits.
struct barrier_party {
  waiter* tell = nullptr;        ///< fired once, when all have come, unless this one was the last
  std::uint64_t generation = 0;  ///< the round, when it is complete
  bool is_last = false;          ///< it completed the round
  std::exception_ptr failure;    ///< of one elsewhere: why it did not arrive

  barrier_party* previous = nullptr;
  barrier_party* next = nullptr;
  bool is_listed = false;
};

/// A barrier of another process, as far_channel is a channel.
class far_barrier {
 public:
  virtual bool enlist(barrier_party& p) noexcept = 0;
  virtual bool withdraw(barrier_party& p) noexcept = 0;

 protected:
  ~far_barrier() = default;
};

/// A meeting point of a number of parties, used again and again. Parties are told by the last one
/// of their round, under the lock. Any thread.
class MANTA_API barrier_core {
 public:
  explicit barrier_core(std::size_t parties) noexcept : parties_(parties) {}
  barrier_core(const barrier_core&) = delete;
  barrier_core& operator=(const barrier_core&) = delete;

  /// It stands for that one. Before others know it.
  void stand_for(far_barrier* there) noexcept { far_ = there; }
  far_barrier* stands_for() const noexcept { return far_; }

  /// Arrives and waits for the others; a worker that has to sleep lends its core. Throws cancelled
  /// with the arrival taken back; its failure; std::bad_alloc.
  void perform(barrier_party& me);
  /// Arrives; true when that completes the round, or there is a failure: then nobody is told.
  bool enlist(barrier_party& p) noexcept;
  /// Takes back an arrival; false when its round is complete.
  bool withdraw(barrier_party& p) noexcept;

  std::size_t parties() const noexcept { return parties_; }

 private:
  std::mutex mutex_;
  const std::size_t parties_;
  far_barrier* far_ = nullptr;
  std::size_t arrived_ = 0;
  std::uint64_t generation_ = 0;
  linked_list<barrier_party> waiting_;
};

}  // namespace manta::inline v0::exec
