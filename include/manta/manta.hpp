// SPDX-License-Identifier: Apache-2.0
#pragma once

// The whole public interface: tasks, futures, actors and the runtime. See README.md for a tour.

#include <manta/actor.hpp>
#include <manta/actor_life.hpp>
#include <manta/actor_pool.hpp>
#include <manta/array.hpp>
#include <manta/as_completed.hpp>
#include <manta/async.hpp>
#include <manta/barrier.hpp>
#include <manta/base/version.hpp>
#include <manta/cancel.hpp>
#include <manta/channel.hpp>
#include <manta/channel_await.hpp>
#include <manta/coroutine.hpp>
#include <manta/exceptions.hpp>
#include <manta/future.hpp>
#include <manta/history.hpp>
#include <manta/kv.hpp>
#include <manta/map_reduce.hpp>
#include <manta/node/runtime.hpp>
#include <manta/object.hpp>
#include <manta/on_ready.hpp>
#include <manta/parallel.hpp>
#include <manta/placement.hpp>
#include <manta/progress.hpp>
#include <manta/remote.hpp>
#include <manta/select.hpp>
#include <manta/semaphore.hpp>
#include <manta/spec/actor_end.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/options.hpp>
#include <manta/split.hpp>
#include <manta/stream.hpp>
#include <manta/this_task.hpp>
#include <manta/wait.hpp>
