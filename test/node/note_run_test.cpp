// SPDX-License-Identifier: Apache-2.0
#include "node/note_run.hpp"

#include <string>

#include <catch2/catch.hpp>

#include <manta/exec/job.hpp>

namespace note_run_test {
namespace {

using manta::error;
using manta::exec::job;
using manta::exec::job_bits;

std::string retries;  // what was told

constexpr manta::exec::run_observer listener = {
    .began = nullptr,
    .ended = nullptr,
    .ran_elsewhere = nullptr,
    .retries = [](const job&, const error& why) noexcept { retries += why.message() + "; "; },
    .failed = nullptr,
    .named = nullptr,
    .unnamed = nullptr,
};

}  // namespace

TEST_CASE("a lost run is told as a retry, unless nobody wants the task any more", "[node]") {
  static constexpr manta::exec::job_ops kind = {};
  retries.clear();
  REQUIRE(manta::exec::observer.exchange(&listener) == nullptr);
  const error lost(manta::errc::node_lost, "gone");
  job wanted(&kind, 1);
  manta::node::note_lost_run(wanted, lost);
  CHECK(retries == "gone; ");
  for (const std::uint64_t bit : {job_bits::late, job_bits::cancel}) {
    job unwanted(&kind, 1);
    unwanted.set(bit);
    manta::node::note_lost_run(unwanted, lost);
  }
  manta::exec::observer.store(nullptr);
  CHECK(retries == "gone; ");
  manta::node::note_lost_run(wanted, lost);
  CHECK(retries == "gone; ");
}

}  // namespace note_run_test
