// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <sys/types.h>

#include <fmt/format.h>

#include <manta/exec/observer.hpp>
#include <manta/spec/error.hpp>

#include "spec/made_error.hpp"
#include "wire/error_record.hpp"
#include "wire/views.hpp"

namespace manta::inline v0::node {

/// Another process has run that job, and has sent this: who watches runs is told, but of what was
/// cancelled. Not for images, which are filled with what others have run. Any thread.
inline void note_run(const exec::job& of, const wire::result_view& arrived) noexcept {
  const auto* const failure = std::get_if<wire::error_view>(&arrived.outcome);
  const bool was_cancelled = failure != nullptr && !failure->chain.empty() &&
                             failure->chain.front().code == errc::cancelled;
  if (!was_cancelled) exec::tell_run_elsewhere(of, arrived.ran);
}

/// The same of a run that has failed there with what it is repeated for, and before it is.
inline void note_retry(const exec::job& of, const wire::result_view& arrived) noexcept {
  const auto* const failure = std::get_if<wire::error_view>(&arrived.outcome);
  if (failure == nullptr || exec::observing() == nullptr) return;
  try {
    exec::tell_retry_elsewhere(of, arrived.ran, wire::to_error(*failure));
  } catch (...) {
    return;  // no memory: it is not recorded
  }
}

/// The same of one that was lost with who ran it, and is to run again: what nobody wants any more
/// does not. When it began there nobody knows here.
inline void note_lost_run(const exec::job& of, const error& why) noexcept {
  constexpr std::uint64_t unwanted = exec::job_bits::late | exec::job_bits::cancel;
  if ((of.word() & unwanted) == 0) exec::tell_retry_elsewhere(of, duration::zero(), why);
}
/// With an isolated worker.
inline void note_lost_run(const exec::job& of, pid_t pid, const std::string& how) noexcept {
  if (exec::observing() == nullptr) return;
  note_lost_run(of, spec::made_error(errc::worker_lost, [&] {
                  return fmt::format("the isolated worker that ran it (pid {}) ended with {}", pid,
                                     how);
                }));
}

}  // namespace manta::inline v0::node
