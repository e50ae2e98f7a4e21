// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include <manta/exec/job.hpp>

// What other nodes have here, tasks and calls, by who has sent them and their number: the owner of
// such a table has its mutex meanwhile.

namespace manta::inline v0::node {

template <class Visits>
bool has_job(const Visits& all, const exec::job* j) noexcept {
  return std::ranges::any_of(all, [&](const auto& one) { return one.second.job == j; });
}

/// With a hold; null: it is not here, or not read yet.
template <class Visits>
exec::job* job_of_visit(const Visits& all, const typename Visits::key_type& who) noexcept {
  const auto found = all.find(who);
  if (found == all.end() || found->second.job == nullptr) return nullptr;
  found->second.job->hold();
  return found->second.job;
}

}  // namespace manta::inline v0::node
