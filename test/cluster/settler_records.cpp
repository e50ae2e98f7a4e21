// SPDX-License-Identifier: Apache-2.0
// Tasks that go to other nodes, and the records of how each is run again: what the store has of
// them while they live, and that it has none of what is over.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <manta/codec/digest.hpp>

#include "cluster/membership.hpp"
#include "cluster/settling.hpp"
#include "control/ask.hpp"
#include "control/rows.hpp"
#include "control/task_table.hpp"
#include "node/journal.hpp"
#include "node/task_records.hpp"
#include "wire/message.hpp"

namespace settling {

namespace record_words {

namespace {

namespace control = manta::control;
using manta::base::id;

/// What the store has of a node: ids of tasks, with those that they belong to.
using record =
    std::pair<std::pair<std::uint64_t, std::uint64_t>, std::pair<std::uint64_t, std::uint64_t>>;
using records = std::map<std::string, std::set<record>>;

std::pair<std::uint64_t, std::uint64_t> words(const id& of) { return {of.high, of.low}; }
record of(manta::task_id task, manta::task_id parent = {}) {
  return {{task.high, task.low}, {parent.high, parent.low}};
}

std::map<id, id, bool (*)(const id&, const id&)> digests([](const id& a, const id& b) {
  return words(a) < words(b);
});

// The recipe is the message that the task went in.
void look_at(const control::task_row& row) {
  manta::wire::frame_buffer frame;
  const auto room = frame.reset(row.recipe.size());
  std::copy_n(reinterpret_cast<const std::byte*>(row.recipe.data()), row.recipe.size(),
              room.data());
  manta::wire::message_reader reader;
  const auto read = reader.read(frame.bytes());
  const auto* const task = read ? std::get_if<manta::wire::task_view>(&read->body) : nullptr;
  expect(task != nullptr, "a recipe that is no task");
  if (task == nullptr) return;
  expect(task->id == row.id, "the recipe of another task");
  expect(task->under == row.parent, "a recipe that belongs to another task");
  expect(task->digest != id{} || !task->arguments.segments.empty(), "the digest of a recipe");
  const auto [known, is_new] = digests.try_emplace(task->id, task->digest);
  expect(is_new || known->second == task->digest, "two digests of one task");
}

// Value by value: one goes when all in it are over.
std::vector<records> stored() {
  std::vector<records> out;
  std::set<std::pair<std::string, std::pair<std::uint64_t, std::uint64_t>>> known;
  const auto store = manta::node::journal::global().store();
  const auto all = control::scan_all(*store, std::string(control::keys::tasks));
  expect(all.has_value(), "the store is read");
  if (!all) return out;
  for (const control::record& one : *all) {
    const auto rows = control::read_tasks(one.key, one.value);
    expect(rows.has_value(), "a value of records");
    const std::string node =
        one.key.substr(control::keys::tasks.size()).c_str();  // ends with the zero
    records& value = out.emplace_back();
    for (const control::task_row& row : *rows) {
      look_at(row);
      expect(known.emplace(node, words(row.id)).second, "a record is there twice");
      value[node].emplace(words(row.id), words(row.parent));
    }
  }
  return out;
}

// What lives is there, and no value without any of that.
bool is_right_of(const std::vector<records>& there, const records& living) {
  records found;
  for (const records& value : there) {
    bool has_living = false;
    for (const auto& [node, some] : value) {
      const auto meant = living.find(node);
      if (meant == living.end()) continue;
      for (const record& one : some) {
        if (!meant->second.contains(one)) continue;
        found[node].insert(one);
        has_living = true;
      }
    }
    if (!has_living) return false;
  }
  return found == living;
}

std::string text_of(const records& all) {
  std::string out;
  for (const auto& [node, some] : all) {
    out += node + ":";
    for (const record& one : some) {
      out += " " + std::to_string(one.first.second % 1000) + "<" +
             std::to_string(one.second.second % 1000);
    }
    out += "; ";
  }
  return out;
}

// Within a few writes.
void expect_stored(const records& all, const std::string& what) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  auto there = stored();
  while (!is_right_of(there, all) && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(10ms);
    there = stored();
  }
  std::string text;
  for (const records& value : there) text += text_of(value);
  expect(is_right_of(there, all), what + ": there are " + text + "expected " + text_of(all));
}

/// What a task that lives long says of itself, once.
void say_id(const std::string& key) { manta::kv::put(key, manta::this_task::id()).get(); }

std::string lives(const std::string& name, std::vector<double> /*with*/) {
  say_id(name + ".id");
  return holds_until(name + ".began", "records.end");
}

// Has children, in the node `to`, that live as long.
std::string parent(const std::string& name, const std::string& to, int children) {
  say_id(name + ".id");
  std::vector<manta::future<std::string>> all;
  for (int i = 0; i < children; ++i) {
    all.push_back(manta::remote<lives>.with(at(to))(name + "." + std::to_string(i),
                                                    std::vector<double>(10, i)));
  }
  for (const auto& one : all) static_cast<void>(one.get());
  return manta::this_task::node();
}

// Makes a parent, here: that one has no record.
std::string grandparent(const std::string& name, const std::string& to, int children) {
  say_id(name + ".id");
  return manta::remote<parent>(name + ".0", to, children).get();
}

// What it gives is made by a task of its own node, and stays there.
long slow_square(long x, const std::string& until) {
  manta::kv::put(until + ".began", 1).get();
  while (!manta::kv::get<int>(until).get().has_value()) std::this_thread::sleep_for(1ms);
  return x * x;
}
std::vector<manta::future<long>> lender(const std::string& name) {
  say_id(name + ".id");
  std::vector<manta::future<long>> out;
  out.push_back(manta::remote<slow_square>(7L, name + ".end"));
  return out;
}

manta::task_id id_of(const std::string& name) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (std::chrono::steady_clock::now() < limit) {
    if (const auto said = manta::kv::get<manta::task_id>(name + ".id").get()) return said->value;
    std::this_thread::sleep_for(1ms);
  }
  expect(false, name + " has begun");
  return {};
}

void end_all() { manta::kv::put("records.end", 1).get(); }

long add_one(long x) { return x + 1; }

std::size_t units_there() { return manta::node::task_records::global().count().units; }

// What came, and what this asks with.
void expect_no_units(const manta::runtime& rt) {
  for (const auto& one : others(rt)) {
    const auto limit = std::chrono::steady_clock::now() + long_enough;
    std::size_t units = 0;
    do {
      units = manta::remote<units_there>.with(at(one.name))().get(long_enough);
    } while (units > 1 && std::chrono::steady_clock::now() < limit);
    expect(units == 1, std::to_string(units) + " are at " + one.name);
  }
}

int recorded(const manta::runtime& rt) {
  const auto there = others(rt);
  const std::string one = there.at(0).name;
  const std::string two = there.at(1).name;
  // What this main sends has its record here alone; who runs it has one only when something hangs
  // by it.
  auto single = manta::remote<lives>.with(at(one))(std::string("single"), std::vector<double>(3));
  auto family = manta::remote<parent>.with(at(one))(std::string("family"), two, 2);
  auto elders = manta::remote<grandparent>.with(at(two))(std::string("elders"), one, 1);
  static_cast<void>(id_of("single"));
  const auto family_id = id_of("family");
  const auto elders_id = id_of("elders");
  records all;
  all[one] = {of(family_id), of(id_of("family.0"), family_id), of(id_of("family.1"), family_id)};
  // The parent of elders.0.0 is local: the nearest with a record is above it.
  all[two] = {of(elders_id), of(id_of("elders.0.0"), elders_id)};
  expect_stored(all, "what lives");
  expect(manta::node::task_records::global().count().units == 3, "three have left");
  // A future that was given back keeps the record of who made it.
  auto lent = manta::remote<lender>.with(at(one))(std::string("lender"));
  auto given = lent.get(long_enough);
  const auto lender_id = id_of("lender");
  all[one].insert(of(lender_id));
  expect_stored(all, "what was lent");
  lent = {};
  expect_stored(all, "the future alone");
  manta::kv::put("lender.end", 1).get();
  expect(given.front().get(long_enough) == 49, "the future's value");
  given.clear();
  all[one].erase(of(lender_id));
  expect_stored(all, "none is lent");
  end_all();
  static_cast<void>(single.get(long_enough));
  static_cast<void>(family.get(long_enough));
  static_cast<void>(elders.get(long_enough));
  expect_stored({}, "they have run");
  // Who has the futures may still lose what it has.
  expect(manta::node::task_records::global().count().units == 3, "they are held");
  single = {};
  family = elders = {};
  expect(manta::node::task_records::global().count().units == 0, "all is over");
  expect_no_units(rt);
  return say("recorded");
}

int fails_there(int /*any*/) { throw std::runtime_error("as it should"); }
std::string waits_there(const std::string& until) {
  std::string out = holds_until("waits.began", until);
  manta::this_task::check();  // it was asked to stop
  return out;
}

// Those that end in other ways.
void end_in_other_ways(const std::vector<manta::node_info>& there) {
  std::vector<manta::future<int>> failed;
  std::vector<manta::future<std::string>> cancelled;
  for (int i = 0; i < 60; ++i) {
    const auto& to = there[static_cast<std::size_t>(i) % there.size()].name;
    failed.push_back(manta::remote<fails_there>.with(at(to))(i));
    cancelled.push_back(manta::remote<waits_there>.with(at(to))(std::string("never")));
  }
  for (const auto& one : cancelled) static_cast<void>(manta::cancel(one));
  const auto ends_badly = [](const auto& one) {
    try {
      static_cast<void>(one.get(long_enough));
    } catch (const std::exception&) {
      return true;
    }
    return false;
  };
  for (const auto& one : failed) expect(ends_badly(one), "it fails");
  for (const auto& one : cancelled) expect(ends_badly(one), "it is cancelled");
}

// Many, some of which are held for a while: none is left.
int unrecorded(const manta::runtime& rt, int tasks) {
  const auto there = others(rt);
  std::vector<manta::future<long>> held;
  long sum = 0;
  for (int i = 0; i < tasks;) {
    std::vector<manta::future<long>> some;
    for (; some.size() < 2000 && i < tasks; ++i) {
      const auto& to = there[static_cast<std::size_t>(i) % there.size()].name;
      some.push_back(manta::remote<add_one>.with(at(to))(static_cast<long>(i)));
    }
    for (auto& one : some) sum += one.get(long_enough);
    for (std::size_t k = 0; k < some.size(); k += 100) held.push_back(some[k]);
    if (held.size() > 500) held.erase(held.begin(), held.begin() + 250);
  }
  const long n = tasks;
  expect(sum == n * (n + 1) / 2, "their sum");
  end_in_other_ways(there);
  // Those that are held, and what this node was given back and has not let go of by now.
  const auto counts = manta::node::task_records::global().count();
  expect(counts.refused == 0, std::to_string(counts.refused) + " had no room");
  expect(counts.units >= held.size(), std::to_string(counts.units) + " are held");
  expect(counts.bytes < 4000 * held.size(), std::to_string(counts.bytes) + " bytes of them");
  held.clear();
  expect(manta::node::task_records::global().count().units == 0, "and forgotten");
  expect_no_units(rt);
  expect_stored({}, "nothing was written");
  return say("unrecorded");
}

// The same for what tasks send on, which is written: by `to`, whose futures are held for a while.
long sends_on(int tasks, const std::string& to, const std::string& name) {
  std::vector<manta::future<long>> held;
  long sum = 0;
  for (int i = 0; i < tasks;) {
    std::vector<manta::future<long>> some;
    for (; some.size() < 500 && i < tasks; ++i) {
      some.push_back(manta::remote<add_one>.with(at(to))(static_cast<long>(i)));
    }
    for (auto& one : some) sum += one.get(long_enough);
    for (std::size_t k = 0; k < some.size(); k += 100) held.push_back(some[k]);
  }
  say_id(name + ".id");  // all are held just now
  static_cast<void>(holds_until(name + ".began", "records.end"));
  return sum;
}

// Batches so far, and bytes that the store has.
std::pair<std::uint64_t, std::uint64_t> writes_there() {
  const auto is = manta::node::task_records::global().count();
  return {is.writes, is.stored};
}

int streamed(const manta::runtime& rt, int tasks) {
  const auto there = others(rt);
  const std::string one = there.at(0).name;
  const auto began = std::chrono::steady_clock::now();
  auto sent = manta::remote<sends_on>.with(at(one))(tasks, there.at(1).name, std::string("sends"));
  const auto sender_id = id_of("sends");
  // Those that it holds, and it: values may have others that are over.
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  const auto count = static_cast<std::size_t>((tasks + 99) / 100);
  std::size_t found = 0;
  while (found < count + 1 && std::chrono::steady_clock::now() < limit) {
    found = 0;
    for (const records& value : stored()) {
      for (const auto& [node, some] : value) {
        expect(node == one, node + " has written");
        for (const record& row : some) {
          expect(row.first == of(sender_id).first || row.second == of(sender_id).first,
                 "a record that belongs to nobody");
        }
        found += some.size();
      }
    }
    std::this_thread::sleep_for(10ms);
  }
  expect(found > count, std::to_string(found) + " are written of " + std::to_string(count + 1));
  end_all();
  const long n = tasks;
  expect(sent.get(long_enough) == n * (n + 1) / 2, "their sum");
  expect_stored({}, "all is over");
  // It looks twice a second and more, however many tasks there are: each look writes a little here.
  const auto looks = (std::chrono::steady_clock::now() - began) / 400ms + 1;
  const auto writes = manta::remote<writes_there>.with(at(one))().get(long_enough).first;
  expect(writes > 0 && writes <= 2 * static_cast<std::uint64_t>(looks),
         std::to_string(writes) + " writes in " + std::to_string(looks) + " looks");
  return say("streamed");
}

// One that another node runs: this one's, until all are there.
void wait_for_units(std::size_t count) {
  const auto units = [] { return manta::node::task_records::global().count().units; };
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (units() != count && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  expect(units() == count, std::to_string(units()) + " are here, not " + std::to_string(count));
}

// A node is lost: others' records are right, and a task that runs again names its children as
// before.
int survived(const manta::runtime& rt) {
  const auto there = others(rt);
  const std::string lost = there.at(0).name;
  const std::string living = there.at(1).name;
  const std::string other = there.at(2).name;
  const std::string here = manta::this_task::node();
  auto family = manta::remote<parent>.with(at(lost, true))(std::string("family"), living, 2);
  auto elders = manta::remote<parent>.with(at(other))(std::string("elders"), living, 1);
  const auto family_id = id_of("family");
  const auto elders_id = id_of("elders");
  records all;
  all[lost] = {of(family_id), of(id_of("family.0"), family_id), of(id_of("family.1"), family_id)};
  all[other] = {of(elders_id), of(id_of("elders.0"), elders_id)};
  expect_stored(all, "before");
  const std::vector<std::string> children{"family.0", "family.1"};
  std::vector<manta::task_id> before;
  for (const std::string& one : children) {
    before.push_back(id_of(one));
    static_cast<void>(manta::kv::erase(one + ".id").get());
  }
  say_pids(rt);  // it is lost now
  // It runs here, where it is no guest; its children have the names that they had.
  wait_for_units(3);
  for (std::size_t i = 0; i < children.size(); ++i) {
    expect(id_of(children[i]) == before[i], children[i] + " has the name that it had");
  }
  expect_stored(all, "a lost node's stay");
  end_all();
  expect(family.get(long_enough) == here, "it ran here");
  static_cast<void>(elders.get(long_enough));
  family = elders = {};
  all.erase(other);
  expect_stored(all, "others' go");
  expect_no_units(rt);
  return say("survived");
}

std::atomic<int> open_gates{0};

int gate(int number) {
  while (open_gates.load() < number) std::this_thread::sleep_for(1ms);  // the task's work
  return number;
}

// As sends_on, of which nothing asks the head.
long relays(int tasks, const std::string& to, const manta::future<int>& until) {
  std::vector<manta::future<long>> held;
  for (int i = 0; i < tasks; ++i) {
    held.push_back(manta::remote<add_one>.with(at(to))(static_cast<long>(i)));
  }
  long sum = until.get(long_enough) - 1;
  for (auto& one : held) sum += one.get(long_enough);
  return sum;
}

std::pair<std::uint64_t, std::uint64_t> wait_for_writes(
    const std::function<bool(std::uint64_t writes, std::uint64_t stored)>& enough) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  for (;;) {
    const auto is = manta::remote<writes_there>.with(at("helper"))().get(long_enough);
    if (enough(is.first, is.second)) return is;
    if (std::chrono::steady_clock::now() > limit) break;
    std::this_thread::sleep_for(10ms);
  }
  expect(false, "the helper writes");
  return {};
}

// With a head of its own, which is killed and started again by who has started this.
int relayed(const manta::runtime& rt) {
  expect(has_joined(rt, "helper"), "the helper has joined");
  const std::string here = manta::this_task::node();
  const auto send = [&](int number) {
    auto until = manta::remote<gate>.with(at(here))(number);
    return manta::remote<relays>.with(at("helper"))(200, here, until);
  };
  auto first = send(1);
  const auto before = wait_for_writes(
      [](std::uint64_t writes, std::uint64_t stored) { return writes > 0 && stored > 0; });
  std::printf("it may be killed\n");
  std::fflush(stdout);
  // What is to be written while it is away, and after that.
  auto second = send(2);
  wait_for_writes([&](std::uint64_t writes, std::uint64_t stored) {
    return writes > before.first && stored > before.second;
  });
  open_gates = 2;
  const long sum = 200 * 201 / 2;
  expect(first.get(long_enough) == sum, "the first sum");
  expect(second.get(long_enough) == sum + 1, "the second sum");
  wait_for_writes([](std::uint64_t /*writes*/, std::uint64_t stored) { return stored == 0; });
  return say("relayed");
}

}  // namespace

}  // namespace record_words

program_list record_programs() {
  using namespace record_words;  // NOLINT: the words of these programs
  return {{"recorded", recorded},
          {"streamed",
           [](const manta::runtime& rt, const asked& of) { return streamed(rt, of.count); }},
          {"unrecorded",
           [](const manta::runtime& rt, const asked& of) { return unrecorded(rt, of.count); }},
          {"relayed", relayed},
          {"survived", survived}};
}

}  // namespace settling
