# SPDX-License-Identifier: Apache-2.0
# What libmanta is made of: every .cpp below src/, one line each, sorted. A test compares this list
# with the folder. Headers need no list: include/ is installed as it is.
set(manta_sources
  src/base/check.cpp
  src/base/machine.cpp
  src/exec/actor_core.cpp
  src/exec/block_pool.cpp
  src/exec/call_extra.cpp
  src/exec/cancellation.cpp
  src/exec/channel_core.cpp
  src/exec/completion_queue.cpp
  src/exec/core_gate.cpp
  src/exec/deque.cpp
  src/exec/executor.cpp
  src/exec/job.cpp
  src/exec/parker.cpp
  src/exec/repeats.cpp
  src/exec/slab_pool.cpp
  src/exec/timer.cpp
  src/exec/wait.cpp
  src/exec/wait_many.cpp
  src/exec/worker.cpp
  src/front.cpp
  src/node/runtime.cpp
  src/sched/groups.cpp
  src/sched/ledger.cpp
  src/sched/line.cpp
  src/sched/pool.cpp
  src/spec/config.cpp
  src/spec/error.cpp
  src/spec/options.cpp
  src/spec/resources.cpp
)
