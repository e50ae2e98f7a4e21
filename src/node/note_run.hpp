// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include <manta/exec/observer.hpp>
#include <manta/spec/error.hpp>

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

}  // namespace manta::inline v0::node
