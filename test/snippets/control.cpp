// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "folder.hpp"

// What is kept: facts under keys, and what runs did.

namespace {

struct model {
  std::vector<double> weights;
  int generation = 0;
};

int answer() { return 42; }

}  // namespace

TEST_CASE("kv: facts under keys") {
  const manta::runtime rt;
  const manta::kv::revision first = manta::kv::put("model/best", model{{0.5, 1.5}, 7}).get();
  const std::optional<manta::kv::entry<model>> found = manta::kv::get<model>("model/best").get();
  CHECK((found->key == "model/best" && found->value.generation == 7 && found->at == first));
  for (const auto& each : manta::kv::list<model>("model/").get()) {
    CHECK(each.value.weights.size() == 2);
  }
  manta::kv::erase("model/best").get();
}

TEST_CASE("kv: only who knows what is there writes") {
  const manta::runtime rt;
  const auto mine = manta::kv::cas("leader", 0, std::string("me")).get();  // 0: nobody yet
  CHECK(mine);
  CHECK_FALSE(manta::kv::cas("leader", 0, std::string("you")).get());
  CHECK(manta::kv::cas("leader", *mine, std::string("me, still")).get());
}

TEST_CASE("kv: a lease that ends when nobody renews it") {
  const manta::runtime rt;
  const manta::kv::write_options lease{.ttl = std::chrono::seconds(5)};
  const auto mine = manta::kv::cas("lease", 0, std::string("me"), lease).get();
  CHECK(mine);
  CHECK(manta::kv::cas("lease", *mine, std::string("me"), lease).get());  // five more
}

TEST_CASE("kv: changes as they happen") {
  const manta::runtime rt;
  manta::kv::watcher<double> rates = manta::kv::watch<double>("rate/");
  manta::kv::put("rate/a", 0.1).get();
  manta::kv::erase("rate/a").get();
  const manta::kv::change<double> first = rates.next().get();
  CHECK(first.kind == manta::kv::change_kind::put);
  CHECK((first.key == "rate/a" && *first.value == 0.1 && first.at > 0));
  CHECK(rates.next().get().kind == manta::kv::change_kind::erased);
  CHECK(manta::kv::change<double>{manta::kv::change_kind::missed, {}, {}, 0}.key.empty());
}

TEST_CASE("kv: topics") {
  const manta::runtime rt;
  auto loss = manta::kv::subscribe<double>("loss");
  manta::kv::publish("loss", 0.25).get();
  CHECK(*loss.next().get().value == 0.25);
}

TEST_CASE("kv: on a disk, for the next run") {
  const manta_test::folder where;
  manta::config settings;
  settings.control = where.store();  // or MANTA_CONTROL=/var/lib/app, --manta-control=...
  {
    const manta::runtime rt(settings);
    manta::kv::put("round", 3, {.durable = true}).get();  // a power cut can't lose it now
    CHECK(manta::kv::write_options{}.durable == false);   // the default
  }
  const manta::runtime rt(settings);
  CHECK(manta::kv::get<int>("round").get()->value == 3);
}

TEST_CASE("history: what this and earlier runs did") {
  manta::config settings;
  settings.events = manta::event_mode::all;  // rare, the default: failures and retries; none
  const manta::runtime rt(settings);
  CHECK((settings.events != manta::event_mode::rare && settings.events != manta::event_mode::none));
  manta::remote<answer>().get();
  for (const manta::job_record& job : manta::history::jobs().get()) {
    CHECK((job.pid > 0 && !job.host.empty() && !job.version.empty() && job.workers > 0));
    CHECK((job.started > manta::wall_time{} && !job.ended && job.tasks_run == 0));
    CHECK((job.events_dropped == 0 && job.functions != 0 && !job.program.empty()));
    CHECK(job.id == manta::history::this_job());
    CHECK_FALSE(manta::history::functions(job.id).get().empty());
  }
  for (const manta::event_record& e : manta::history::events(manta::history::this_job()).get()) {
    CHECK((e.kind == manta::event_kind::start || e.kind == manta::event_kind::end));
    CHECK((e.kind != manta::event_kind::retry && e.kind != manta::event_kind::failure));
    CHECK((e.name == "answer()" || !e.name.empty()));
    CHECK((e.text.empty() && e.attempt == 0 && e.at > manta::wall_time{} && e.task != e.parent));
  }
  for (const manta::actor_record& a : manta::history::actors().get()) {
    std::printf("%s %s %s %s\n", a.name.c_str(), a.name_space.c_str(), a.type.c_str(),
                a.job.c_str());
    CHECK(a.since > manta::wall_time{});
  }
}
