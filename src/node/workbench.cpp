// SPDX-License-Identifier: Apache-2.0
#include "node/workbench.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace manta::inline v0::node {

namespace {
// More than one: to finish a job that came may send the next.
constexpr std::size_t most_spare = 4;
thread_local std::vector<std::unique_ptr<workbench>> spare;
}  // namespace

borrowed_workbench::borrowed_workbench() {
  if (spare.empty()) {
    spare.reserve(most_spare);
    bench_ = std::make_unique<workbench>();
  } else {
    bench_ = std::move(spare.back());
    spare.pop_back();
  }
}

borrowed_workbench::~borrowed_workbench() {
  bench_->lent.clear();  // first: it relies on the holds of those
  bench_->out.clear();
  bench_->writer.clear();
  bench_->references.clear();
  bench_->named.clear();
  for (array_block* const one : bench_->packed) one->drop();
  bench_->packed.clear();
  bench_->write_for(0);
  bench_->frame.trim();
  if (spare.size() < most_spare) spare.push_back(std::move(bench_));
}

}  // namespace manta::inline v0::node
