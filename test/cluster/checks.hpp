// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include <sys/types.h>

#include <catch2/catch.hpp>

#include "cluster/support.hpp"

// What most cases ask of the program whose files are settler*.cpp: that it found all right, be it
// that a node was lost meanwhile.

namespace cluster_test {

inline const std::string settler = MANTA_SETTLER_PROGRAM;

inline void check_right(const outcome& o, const std::string& what) {
  CAPTURE(what, o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Catch::Matchers::Contains(what + ": right"));
}

struct loss {
  int signal = SIGKILL;
  std::string rank = "rank-2";
  std::chrono::milliseconds after{0};  ///< all have said their pids: the fault's time
  variables with = {};
};

/// Runs one of its programs in four nodes, of which one gets that signal.
inline void lose(const std::string& what, const loss& how) {
  CAPTURE(what, how.signal, how.rank, how.after.count(), how.with);
  const site here;
  variables more{"MANTA_NODES=4", dead_after(how.signal), "MANTA_DRAIN_MS=300"};
  more.insert(more.end(), how.with.begin(), how.with.end());
  child job({settler, what}, here.with(more));
  if (!job.says("pid rank-3")) {
    const outcome o = job.finish();
    FAIL("it ended, or was too slow, before its fault: " << o.out << o.err);
  }
  const pid_t lost = pids_in(job.so_far().out).at(how.rank);
  if (how.after.count() > 0) std::this_thread::sleep_for(how.after);
  kill(lost, how.signal);
  check_right(job.finish(), what);
  kill(lost, SIGKILL);
}

}  // namespace cluster_test
