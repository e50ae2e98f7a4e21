// SPDX-License-Identifier: Apache-2.0
#include <manta/node/runtime.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <manta/base/clock.hpp>
#include <manta/base/machine.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/spec/config.hpp>
#include <manta/spec/error.hpp>

#include "node/array_home.hpp"
#include "node/check_copy.hpp"
#include "node/desk.hpp"
#include "node/interrupt.hpp"
#include "node/journal.hpp"
#include "node/kv_watches.hpp"
#include "node/worker_pool.hpp"
#include "node/zygote.hpp"

namespace manta::inline v0 {

namespace {

result<config> settle(const config& given, const std::vector<spec::setting>& arguments) {
  return spec::complete(given, arguments, spec::settings_from_environment(),
                        {base::usable_cores(), base::usable_gpus(), base::usable_memory()});
}

// A wrong setting is the user's to mend: one line, no stack of exceptions.
[[noreturn]] void leave(const error& reason) {
  std::fprintf(stderr, "manta: %s\n", reason.message().c_str());
  std::fflush(stderr);
  std::exit(2);
}

// Ends what runs in this process. asks_to_stop: nobody wants its results any more.
void end_engine(bool asks_to_stop) noexcept {
  exec::executor& e = exec::executor::global();
  if (asks_to_stop) exec::cancel_all();
  node::kv_watches::global().close();  // a worker may wait for one
  node::worker_pool& pool = node::worker_pool::global();
  const bool is_isolated = pool.is_open();
  pool.close(asks_to_stop);
  const std::uint64_t isolated = is_isolated ? pool.work_since_open().runs : 0;
  e.stop();
  node::array_home::global().close();
  node::journal::global().close(e.counts().run + isolated);
}

}  // namespace

runtime::runtime(int argc, char** argv) {
  const result<config> settled = settle({}, spec::settings_from_arguments(argc, argv));
  if (!settled) leave(settled.error());
  try {
    start(*settled);
  } catch (const storage_failed& wrong) {
    leave(wrong.as_error());  // of the setting `control`
  } catch (const unsupported& wrong) {
    leave(wrong.as_error());  // of the setting `isolation`
  }
}

runtime::runtime() : runtime(0, nullptr) {}

runtime::runtime(const config& settings) {
  const result<config> settled = settle(settings, {});
  if (!settled) settled.error().raise();
  start(*settled);
}

void runtime::start(const config& settings) {
  if (const result<void> may = node::interrupt::check(); !may) may.error().raise();
  exec::executor_settings with;
  with.workers = settings.workers;
  with.spin_us = settings.spin_us;
  with.extra_threads = settings.extra_threads;
  if (settings.check == check_mode::copy) with.check_outcome = node::check_outcome;
  if (settings.check == check_mode::slow) with.check_outcome = node::check_outcome_slowly;
  const bool is_isolated = settings.isolation == isolation_mode::processes;
  // First, since it forks: nothing of this runtime has begun, and no lock is held.
  const bool is_early = is_isolated || settings.zygote == zygote_mode::early;
  if (is_early && !exec::executor::is_running()) {
    if (const result<void> made = node::zygote::global().start(settings); !made) {
      made.error().raise();
    }
  }
  const auto prepare = [&settings, is_isolated] {
    if (is_isolated) {
      node::worker_pool::global().open(settings, true);
    } else {
      node::worker_pool::global().offer(settings);
    }
    node::array_home::global().open(settings);
    node::desk::global().open(settings);
    node::journal::global().open(settings);
    node::kv_watches::global().open();
  };
  bool has_started = false;
  try {
    has_started = exec::executor::global().start(with, prepare);
  } catch (...) {
    node::worker_pool::global().close(false);
    node::journal::global().close(0);
    throw;
  }
  if (!has_started) {
    raise(errc::invalid_argument,
          "a manta::runtime runs in this process already; use that one, or end it first");
  }
  try {
    node::interrupt::global().open(settings, [] { end_engine(true); });
  } catch (...) {
    end_engine(false);
    throw;
  }
}

runtime::~runtime() {
  if (!node::interrupt::global().close()) end_engine(false);
}

int runtime::workers() const noexcept { return exec::executor::global().target(); }

resource_report runtime::resources() const { return node::desk::global().report(); }

std::vector<demand_report> runtime::unmet_demand() const { return node::desk::global().unmet(); }

store_report runtime::store() const {
  const auto& home = node::array_home::global();
  store_report out;
  out.limit_bytes = home.limit_bytes();
  if (const auto made = home.store_if_made()) {
    const store::object_store::use now = made->measure();
    out.reserved_bytes = now.reserved;
    out.used_bytes = now.live;
    out.spilled_bytes = now.spilled;
  }
  return out;
}

runtime_stats runtime::stats() const {
  exec::executor& e = exec::executor::global();
  const exec::executor_counts counts = e.counts();
  runtime_stats out;
  out.tasks_submitted = counts.submitted;
  out.tasks_run = counts.run;
  out.run_in_place = counts.run_in_place;
  out.stolen = counts.stolen;
  out.actor_calls = counts.actor_calls;
  out.wakes = counts.wakes;
  out.threads_lent = counts.threads_lent;
  out.uptime_seconds = std::chrono::duration<double>(base::now() - e.started()).count();
  for (const auto& w : counts.workers) {
    out.workers.push_back({w.run, w.busy_seconds, w.busy_seconds / out.uptime_seconds});
  }
  node::worker_pool& pool = node::worker_pool::global();
  if (!pool.is_open()) return out;
  const node::worker_pool::work isolated = pool.work_since_open();
  out.run_isolated = isolated.runs;
  out.tasks_run += isolated.runs;
  out.actor_calls += isolated.calls;
  out.isolated_workers = isolated.workers;
  for (const auto& w : pool.work_of_each()) {
    const double busy = std::chrono::duration<double>(w.busy).count();
    out.workers.push_back({w.runs, busy, busy / out.uptime_seconds, w.process});
  }
  return out;
}

}  // namespace manta::inline v0
