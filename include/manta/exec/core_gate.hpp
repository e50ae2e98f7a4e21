// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>

namespace manta::inline v0::exec {

/// The cores that one task asked for with options.cpus. Tasks that ask are let through in the order
/// they came, as long as their sum fits the runtime's cores; a task that does not ask never comes
/// here. Counted in thousandths of a core, so that fractions add up exactly.
class MANTA_API core_claim {
 public:
  core_claim() noexcept = default;
  explicit core_claim(double cores) noexcept : thousandths_(std::llround(cores * 1000.0)) {}

  /// Asks for `j`, which needs nothing else any more: true when the cores are its own now.
  /// Otherwise it gets one more need and waits in the gate, and j may be gone on return:
  /// job_ops::ready is called when the cores are its own. Any thread; once.
  bool request(job* j);
  /// Whether there is nothing to ask for any more.
  bool is_settled() const noexcept { return thousandths_ == 0 || stage_ == stage::held; }
  /// Ends the jobs that wait in the gate.
  static void cancel_waiting(const error& reason) noexcept;
  /// Gives the cores to others while the task sleeps in a wait. The task's thread; with take_back
  /// after it, which does not wait: for a moment more cores may be in use than there are.
  void lend() noexcept;
  void take_back() noexcept;
  /// Gives the cores back; lets others through. Any thread; harmless when nothing is held.
  void release() noexcept;

 private:
  friend struct core_gate;
  enum class stage : std::uint8_t { idle, queued, held, lent };

  job* job_ = nullptr;
  core_claim* next_ = nullptr;
  std::int64_t thousandths_ = 0;
  stage stage_ = stage::idle;
};

/// Cores of the runtime that starts now; nothing is held yet.
MANTA_API void reset_core_gate(int cores) noexcept;

}  // namespace manta::inline v0::exec
