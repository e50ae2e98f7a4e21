// SPDX-License-Identifier: Apache-2.0
#include <manta/node/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include <unistd.h>

#include <manta/base/clock.hpp>
#include <manta/base/machine.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/spec/config.hpp>
#include <manta/spec/error.hpp>

#include "node/array_home.hpp"
#include "node/check_copy.hpp"
#include "node/cluster.hpp"
#include "node/desk.hpp"
#include "node/end_signals.hpp"
#include "node/far_arrays.hpp"
#include "node/far_names.hpp"
#include "node/head_facts.hpp"
#include "node/interrupt.hpp"
#include "node/journal.hpp"
#include "node/kv_watches.hpp"
#include "node/own_program.hpp"
#include "node/task_records.hpp"
#include "node/trade.hpp"
#include "node/worker_pool.hpp"
#include "node/zygote.hpp"
#include "spec/launch.hpp"
#include "spec/texts.hpp"

namespace manta::inline v0 {

namespace {

std::optional<std::string> variable(const char* name) {
  const char* const found = std::getenv(name);
  return found == nullptr ? std::nullopt : std::optional<std::string>(found);
}

// A wrong setting is the user's to mend: one line, no stack of exceptions.
[[noreturn]] void leave(const error& reason) {
  const std::string& text = reason.message();
  // Paths in it may have line feeds.
  std::fprintf(stderr, "manta: %s\n", spec::shown(text, text.size()).c_str());
  std::fflush(stderr);
  std::exit(2);
}

// Ends what runs in this process. asks_to_stop: nobody wants its results any more.
void end_engine(bool asks_to_stop) noexcept {
  exec::executor& e = exec::executor::global();
  node::trade::global().close_door();  // what others have here may fail for the end from here on
  if (asks_to_stop) exec::cancel_all();
  node::kv_watches::global().close();  // a worker may wait for one
  node::task_records::global().leave();
  node::head_facts::global().close();  // likewise, for an answer
  node::far_names::global().close();
  node::worker_pool& pool = node::worker_pool::global();
  const bool is_isolated = pool.is_open();
  pool.close(asks_to_stop);
  node::trade::global().call_back(asks_to_stop);
  const std::uint64_t isolated = is_isolated ? pool.work_since_open().runs : 0;
  e.stop();
  if (!asks_to_stop) node::cluster::global().hand_over();
  node::trade::global().close();
  node::task_records::global().close();
  node::cluster::global().close(asks_to_stop);
  node::far_arrays::global().sweep();  // its nodes have ended
  node::array_home::global().close();
  node::task_records::global().end_job();
  node::journal::global().close(e.counts().run + isolated);
}

void share_work(const config& settings) {
  if (!settings.share.value_or(false)) return;
  try {
    const bool gives_actors = settings.check == check_mode::far;
    node::cluster::global().share(static_cast<std::uint32_t>(settings.workers),
                                  {.tasks = gives_actors || settings.check == check_mode::far_tasks,
                                   .actors = gives_actors,
                                   .amounts = settings.share_resources.value_or(false)});
  } catch (...) {
    end_engine(false);
    throw;
  }
}

// What this process starts does not take the same part once more. Before the zygote is made, whose
// workers have its environment, and before there are threads, which may read theirs.
void mark_part(const spec::launch_plan& plan) {
  const std::string mark = spec::launch_mark(plan, getpid());
  if (!mark.empty()) setenv(spec::launch_mark_variable, mark.c_str(), 1);
}

// Where the driver has ended in order, what it had here ends as at home, however long it takes,
// unless this node is interrupted.
void limit_end_of_node(int code) noexcept {
  if (code != 0) {
    node::limit_end(code, []() noexcept {});
  } else {
    node::limit_end(node::interrupted_code,
                    []() noexcept { node::cluster::global().wait_interrupted(); });
  }
}

// Why this process is no member of its cluster.
struct no_member {
  error why;
};

}  // namespace

// The settings of this process, and its part in the job.
struct runtime::part {
  config settings;
  spec::launch_plan plan;
  int first_gpu = 0;

  static result<part> find(const config& given, const std::vector<spec::setting>& arguments) {
    const std::vector<spec::setting> environment = spec::settings_from_environment();
    const spec::grants machine(base::usable_cores(), base::usable_gpus(), base::usable_memory());
    const result<config> settled = spec::complete(given, arguments, environment, machine);
    if (!settled) return settled.error();
    const result<spec::launch_plan> plan = spec::plan_launch(*settled, variable, getpid());
    if (!plan) return plan.error();
    if (!plan->is_one_machine || plan->size == 1) return part{*settled, *plan, 0};
    // Several nodes share what the machine has, where nobody says otherwise.
    const spec::grants own = spec::share_of(machine, plan->rank, plan->size);
    const result<config> shared = spec::complete(given, arguments, environment, own);
    if (!shared) return shared.error();
    // Who says how many there are has them all, from 0 on.
    const bool is_said = shared->gpus == settled->gpus;
    const spec::machine_share gpus = spec::share_of(machine.gpus, plan->rank, plan->size);
    return part{*shared, *plan, is_said ? 0 : gpus.first};
  }
};

runtime::runtime(int argc, char** argv) {
  const result<part> found = part::find({}, spec::settings_from_arguments(argc, argv));
  if (!found) leave(found.error());
  try {
    start(*found);
  } catch (const storage_failed& wrong) {
    leave(wrong.as_error());  // of the setting `control`
  } catch (const store_full& wrong) {
    leave(wrong.as_error());  // likewise: its disk has no room
  } catch (const unsupported& wrong) {
    leave(wrong.as_error());  // of the setting `isolation`
  } catch (const no_member& wrong) {
    leave(wrong.why);
  }
}

runtime::runtime() : runtime(0, nullptr) {}

runtime::runtime(const config& settings) {
  const result<part> found = part::find(settings, {});
  if (!found) found.error().raise();
  try {
    start(*found);
  } catch (const no_member& wrong) {
    wrong.why.raise();
  }
}

void runtime::start(const part& with) {
  if (const result<void> may = node::interrupt::check(); !may) may.error().raise();
  const spec::launch_plan& plan = with.plan;
  const bool is_spmd = with.settings.spmd.value_or(false);
  const bool serves = plan.role == role_mode::head || (plan.role == role_mode::node && !is_spmd);
  const bool is_member = node::cluster::is_wanted(plan);
  if (is_member && !exec::executor::is_running()) mark_part(plan);
  start_engine(with);
  std::optional<node::early_signals> until_it_is_up;
  if (is_member) {
    until_it_is_up.emplace();
    const result<void> is =
        node::cluster::global().open(with.settings, plan, node::journal::global().store());
    if (!is) {
      end_engine(false);
      throw no_member{is.error()};
    }
    share_work(with.settings);
  }
  if (serves) {
    const int code = node::cluster::global().serve();
    if (plan.role == role_mode::node) limit_end_of_node(code);
    end_engine(true);
    node::note_end_over();
    std::exit(code);
  }
  try {
    node::interrupt::global().open(with.settings, [] { end_engine(true); });
  } catch (...) {
    end_engine(false);
    throw;
  }
}

void runtime::start_engine(const part& of) {
  config settings = of.settings;
  // Facts are the head's; a folder is one process's.
  if (!of.plan.hosts_head()) settings.control = "memory";
  exec::executor_settings with;
  with.workers = settings.workers;
  with.spin_us = settings.spin_us;
  with.extra_threads = settings.extra_threads;
  if (settings.check == check_mode::copy) with.check_outcome = node::check_outcome;
  if (settings.check == check_mode::slow) with.check_outcome = node::check_outcome_slowly;
  if (settings.check == check_mode::far || settings.check == check_mode::far_tasks) {
    with.check_outcome = node::pass_outcome;
  }
  const bool is_isolated = settings.isolation == isolation_mode::processes;
  // First, since it forks: nothing of this runtime has begun, and no lock is held.
  const bool is_early = is_isolated || settings.zygote == zygote_mode::early;
  if (is_early && !exec::executor::is_running()) {
    if (const result<void> made = node::zygote::global().start(settings); !made) {
      made.error().raise();
    }
  }
  const auto prepare = [&settings, first_gpu = of.first_gpu, is_isolated] {
    if (is_isolated) {
      node::worker_pool::global().open(settings, true);
    } else {
      node::worker_pool::global().offer(settings);
    }
    node::far_arrays::global().sweep();
    node::array_home::global().open(settings);
    node::desk::global().open(settings, first_gpu);
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

std::vector<node_info> runtime::nodes() const {
  const auto standing_of = [](spec::node_state is) {
    if (is == spec::node_state::suspected) return node_standing::suspected;
    if (is == spec::node_state::draining) return node_standing::draining;
    return node_standing::alive;
  };
  std::vector<node_info> out;
  for (const spec::node_member& one : node::cluster::global().members()) {
    out.push_back({.name = one.who.name,
                   .host = one.who.host,
                   .pid = static_cast<int>(one.who.pid),
                   .role = static_cast<role_mode>(one.who.as),
                   .standing = standing_of(one.is),
                   .epoch = one.epoch,
                   .queued = one.load.queued,
                   .has = spec::to_bundle(node::desk::offer_of(one.who)),
                   .labels = node::desk::labels_of(one.who)});
  }
  if (out.empty() && node::cluster::global().plan().role != role_mode::observer) {
    out.push_back({.name = "rank-0", .host = node::own_host_name(), .pid = getpid()});
    out.back().has = resources().total;
    out.back().labels = node::desk::global().labels();
  }
  return out;
}

int runtime::rank() const noexcept { return node::cluster::global().plan().rank; }
int runtime::size() const noexcept { return node::cluster::global().plan().size; }

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
