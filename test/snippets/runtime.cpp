// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// The engine: start, settings, counts.

TEST_CASE("runtime: from the command line, the environment, or a struct") {
  {
    char program[] = "app";
    char workers[] = "--manta-workers=2";
    char* argv[] = {program, workers, nullptr};
    manta::runtime rt(2, argv);  // in main: manta::runtime rt(argc, argv);
    CHECK(rt.workers() == 2);
  }
  const manta::config settings = {.workers = 3, .spin_us = 20, .extra_threads = 64};
  manta::runtime rt(settings);  // one after the other, as often as you like
  CHECK(rt.workers() == 3);
}

TEST_CASE("runtime: what a node has beside its cores") {
  manta::config settings;
  settings.gpus = 2;
  settings.memory_bytes = std::int64_t{8} << 30;
  settings.resources = manta::resource_list{{"license", 3}};
  settings.labels = manta::label_list{{"zone", "a"}};
  settings.control = "memory";
  const manta::runtime rt(settings);
  CHECK(rt.workers() > 0);
}

namespace {
int half(int x) { return x / 2; }
}  // namespace

TEST_CASE("runtime: tasks in processes of their own") {
  manta::config settings;
  settings.isolation = manta::isolation_mode::processes;  // or MANTA_ISOLATION=processes
  CHECK(settings.isolation != manta::isolation_mode::threads);
  settings.worker_output = manta::output_mode::prefixed;
  CHECK(settings.worker_output != manta::output_mode::plain);  // straight to standard output
  settings.interrupt = manta::interrupt_mode::leave;         // Ctrl-C is this program's own affair
  CHECK(settings.interrupt != manta::interrupt_mode::end);   // ends it in order, with code 130
  settings.worker_tasks = 1000;                              // then it is replaced
  settings.worker_recycle_bytes = std::int64_t{512} << 20U;  // also when it has grown so far
  settings.worker_memory_bytes = std::int64_t{8} << 30U;     // ended past that: worker_lost
  settings.zygote = manta::zygote_mode::early;  // workers are copies of this process as it is now
  CHECK(settings.zygote != manta::zygote_mode::late);
  const manta::runtime rt(settings);
  CHECK(manta::remote<half>(8).get() == 4);
}

TEST_CASE("runtime: one call in a process of its own") {
  const manta::runtime rt;
  const auto apart = manta::remote<half>.with({.isolation = manta::isolation_mode::processes});
  CHECK(apart(manta::remote<half>(8)).get() == 2);  // a crash there costs that call alone
}

TEST_CASE("runtime: a bad setting says which and what is allowed") {
  manta::config settings;
  settings.workers = 0;
  CHECK_THROWS_AS(manta::runtime(settings), manta::invalid_config);
}

TEST_CASE("runtime: what it did so far") {
  manta::runtime rt;
  manta::async([] {}).get();
  const manta::runtime_stats did = rt.stats();
  CHECK(did.tasks_run >= 1);
  CHECK(did.tasks_submitted >= did.stolen);
  CHECK(did.run_in_place <= did.tasks_run);
  CHECK((did.actor_calls == 0 && did.uptime_seconds > 0));
  CHECK(did.wakes <= did.tasks_submitted);
  CHECK(did.threads_lent < 100);
  // With isolation = processes.
  CHECK((did.run_isolated <= did.tasks_run && did.isolated_workers == 0));
  for (const manta::worker_stats& each : did.workers) {
    CHECK((each.tasks_run <= did.tasks_run && each.busy_seconds >= 0 && each.utilisation >= 0));
    CHECK(each.process == 0);  // a thread
  }
}

TEST_CASE("runtime: the version, for the preprocessor") {
  CHECK(MANTA_VERSION_MAJOR * 10000 + MANTA_VERSION_MINOR * 100 + MANTA_VERSION_PATCH > 0);
}
