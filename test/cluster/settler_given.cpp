// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp whose calls are given large arrays: none maps another's memory.
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"
#include "cluster/stopping.hpp"
#include "node/array_home.hpp"

namespace settling {

namespace {

using weights = manta::array<float>;

constexpr std::size_t many = std::size_t{1} << 21U;  // 8 MiB
constexpr std::uint64_t many_bytes = many * sizeof(float);

weights weights_of(std::size_t count, float from) {
  auto room = manta::make_array<float>(manta::array_shape(count));
  for (std::size_t i = 0; i < count; ++i) {
    room.data()[i] = from + static_cast<float>(i % 4096);
  }
  return std::move(room).seal();
}
bool are_weights(const weights& all, std::size_t count, float from) {
  if (all.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (all[i] != from + static_cast<float>(i % 4096)) return false;
  }
  return true;
}
std::uint64_t fetched() { return manta::node::fetched_array_bytes(); }
std::uint64_t live() {
  const auto in = manta::node::array_home::global().store_if_made();
  return in == nullptr ? 0 : in->measure().live;
}
std::uint64_t fetched_by(const std::string& node) {
  return manta::remote<fetched>.with(at(node))().get(long_enough);
}
bool live_is_soon(const std::string& node, std::uint64_t bytes) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (manta::remote<live>.with(at(node))().get(long_enough) != bytes) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);  // it is told soon
  }
  return true;
}
bool live_here_is_soon(std::uint64_t bytes) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (live() != bytes && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);  // it is told soon
  }
  return live() == bytes;
}

// What a class hides is found when it is read.
class model {
 public:
  model() = default;
  explicit model(weights of) : of_(std::move(of)) {}
  bool is(std::size_t count, float from) const { return are_weights(of_, count, from); }

 private:
  friend class cereal::access;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(of_);
  }
  weights of_;
};
bool reads_model(const model& of, float from) { return of.is(many, from); }
bool reads_two(const weights& one, const std::vector<weights>& more) {
  return are_weights(one, many, 1) && more.size() == 2 && are_weights(more[0], many, 2) &&
         are_weights(more[1], many, 3);
}

struct learner {
  explicit learner(weights first) : now(std::move(first)) {}
  // Each step has to find the one before it.
  bool step(int number, const weights& next, float from) {
    const bool is = number == steps + 1 && are_weights(next, many, from);
    ++steps;
    now = next;
    return is;
  }
  bool has(float from) const { return are_weights(now, many, from); }
  weights now;
  int steps = 0;
};

// Several at a time, and one after the other.
void check_given_often(const std::string& node) {
  const std::uint64_t before = fetched_by(node);
  const weights some = weights_of(many, 1);
  const auto reads = manta::remote<are_weights>.with(at(node));
  std::vector<manta::future<bool>> all;
  for (int i = 0; i < 8; ++i) all.push_back(reads(some, many, 1.0F));
  for (const auto& one : all) expect(one.get(long_enough), "one of several");
  for (int i = 0; i < 8; ++i) expect(reads(some, many, 1.0F).get(long_enough), "one after another");
  // Of 16 calls: a copy is kept for a moment only, and a machine may stand still for longer.
  const std::uint64_t after = fetched_by(node);
  expect(after > before && after <= before + 3 * many_bytes, "fetched once for all of them");
  const weights few = weights_of(1000, 5);
  expect(reads(few, std::size_t{1000}, 5.0F).get(long_enough), "a small one");
  expect(fetched_by(node) == after, "a small one comes with its call");
  expect(live_is_soon(node, 0), "the copy is gone soon");
}

void check_given_values(const std::string& node) {
  const std::uint64_t before = fetched_by(node);
  const weights other = weights_of(many, 9);
  expect(manta::remote<reads_model>.with(at(node))(model(other), 9.0F).get(long_enough), "hidden");
  expect(fetched_by(node) == before + many_bytes, "hidden, and fetched");
  const std::vector more{weights_of(many, 2), weights_of(many, 3)};
  expect(manta::remote<reads_two>.with(at(node))(weights_of(many, 1), more).get(long_enough),
         "several in one call");
  const auto stored = manta::put(weights_of(many, 4));
  expect(manta::remote<are_weights>.with(at(node))(stored, many, 4.0F).get(long_enough), "a put's");
}

// The third node has it from who made it, and not through this one.
void check_given_third(const std::string& maker, const std::string& third) {
  const std::uint64_t here = fetched();
  const std::uint64_t there = fetched_by(third);
  const auto made = manta::remote<weights_of>.with(at(maker))(many, 6.0F);
  expect(manta::remote<are_weights>.with(at(third))(made, many, 6.0F).get(long_enough), "a third");
  expect(fetched_by(third) == there + many_bytes && fetched() == here, "straight from its maker");
}

void check_given_actor(const std::string& node) {
  const auto one = manta::spawn<learner>.with({.where = manta::on_node(node)})(weights_of(many, 1));
  expect(manta::remote<&learner::has>(one, 1.0F).get(long_enough), "a constructor's");
  std::vector<manta::future<bool>> steps;
  for (int i = 1; i <= 10; ++i) {
    const float from = static_cast<float>(i);
    steps.push_back(manta::remote<&learner::step>(one, i, weights_of(many, from), from));
  }
  for (const auto& each : steps) expect(each.get(long_enough), "a step, in its order");
  expect(manta::remote<&learner::has>(one, 10.0F).get(long_enough), "the last is kept");
}

}  // namespace

int given(const manta::runtime& rt) {
  const auto all = others(rt);
  check_given_often(all[0].name);
  check_given_values(all[0].name);
  check_given_third(all[0].name, all[1].name);
  check_given_actor(all[1].name);
  expect(live_is_soon(all[0].name, 0), "nothing is left there");
  expect(live_is_soon(all[1].name, 0), "nor in the other one");
  expect(live_here_is_soon(0), "nor here: " + std::to_string(live()));
  return say("given");
}

// Who has made what was given is lost before it was read; then who was given some is.
int given_lost(const manta::runtime& rt) {
  const auto all = others(rt);
  const manta::node_info& maker = all[1];
  const manta::node_info& reader = all[0];
  const auto made = manta::remote<weights_of>.with(at(maker.name))(many, 6.0F);
  static_cast<void>(manta::wait(std::vector{made}, {.count = 1, .timeout = long_enough}));
  cluster_test::stop(static_cast<pid_t>(maker.pid));
  const auto call = manta::remote<are_weights>.with(at(reader.name))(made, many, 6.0F);
  std::this_thread::sleep_for(200ms);  // the fault's schedule: it is asked for meanwhile
  kill(static_cast<pid_t>(maker.pid), SIGKILL);
  const std::string why = thrown_by<manta::node_lost>(call);
  expect(has(why, "stayed there"), why);
  const weights mine = weights_of(many, 2);
  expect(manta::remote<are_weights>.with(at(reader.name))(mine, many, 2.0F).get(long_enough),
         "who read goes on");
  cluster_test::stop(static_cast<pid_t>(reader.pid));
  const auto last =
      manta::remote<are_weights>.with(at(reader.name))(weights_of(many, 3), many, 3.0F);
  std::this_thread::sleep_for(200ms);  // likewise
  kill(static_cast<pid_t>(reader.pid), SIGKILL);
  const std::string end = thrown_by<manta::node_lost>(last);
  expect(has(end, "lost"), end);
  expect(live_here_is_soon(many_bytes), "what it was given is freed: " + std::to_string(live()));
  return say("given-lost");
}

}  // namespace settling
