// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_cluster where it matters in which node data lies: tasks that each need one
// of many arrays, and one array that all nodes need.
//
// The driver has names of the arrays alone: futures that were made in the node with the array; a
// value comes to another node when one of its tasks wants it. A task that takes the future runs
// before its value is there; one that takes the value has it fetched by the driver first.
#include <manta/manta.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "harness/measure.hpp"
#include "ours/cluster_jobs.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using object = manta::future<bytes>;

std::vector<object> make_objects(std::size_t count, std::size_t size) {
  std::vector<object> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(manta::put(written_bytes(size)));
  return made;
}

struct touched {
  int process = 0;
  unsigned char found = 0;
};
touched touch(object in, std::size_t at) { return {getpid(), in.get()[at]}; }
touched touch_value(const bytes& all, std::size_t at) { return {getpid(), all[at]}; }

enum class placing {
  beside,   // in the node with the array
  spread,   // in each node in turn, which knows nothing of arrays
  nowhere,  // where the engine puts it: the array is an argument, and no place is named
};

struct placed_object {
  object what;
  std::string node;
  int process = 0;
};

// A job of 4 nodes, each with its arrays.
class located {
 public:
  located(const locality& of, bool is_quick, bool maps)
      : size_(is_quick ? of.bytes / 16 : of.bytes),
        rt_(job_with_store(4, std::size_t{is_quick ? 256U : 3000U} << 20U, maps)) {
    for (const manta::node_info& node : rt_->nodes()) {
      const manta::options here{.where = manta::on_node(node.name)};
      const auto made =
          manta::remote<make_objects>.with(here)(is_quick ? std::size_t{2} : of.objects, size_);
      for (const object& one : made.get()) objects_.push_back({one, node.name, node.pid});
    }
  }

  const placed_object& any() { return objects_[draw_() % objects_.size()]; }
  std::size_t any_place() { return draw_() % size_; }

 private:
  std::size_t size_;
  std::shared_ptr<manta::runtime> rt_;
  std::vector<placed_object> objects_;
  std::minstd_rand draw_{1};
};

touched ask(const placed_object& of, std::size_t at, placing how) {
  switch (how) {
    case placing::beside:
      return manta::remote<touch>.with({.where = manta::on_node(of.node)})(of.what, at).get();
    case placing::spread:
      return manta::remote<touch>.with({.where = manta::spread()})(of.what, at).get();
    case placing::nowhere:
      break;
  }
  return manta::remote<touch_value>(of.what, at).get();
}

// One task after the other: 1,000, or as many as 4 seconds have room for.
contestant tasks_with_data(const locality& of, const char* name, placing how, bool maps) {
  contestant c{of.row, name, side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t most = p.quick ? 20 : 1000;
    const auto data = std::make_shared<located>(of, p.quick, maps);
    return [=](const turn&) {
      std::vector<double> each;
      const double start = now_s();
      while (each.size() < most && now_s() - start < 4) {
        const placed_object& one = data->any();
        const double before = now_s();
        const touched found = ask(one, data->any_place(), how);
        each.push_back((now_s() - before) * 1e6);
        check(found.found == written, "the byte of an array");
        check(how != placing::beside || found.process == one.process, "the node with the array");
      }
      const auto n = static_cast<double>(each.size());
      reading r{.value = std::accumulate(each.begin(), each.end(), 0.0) / n, .operations = n};
      r.p50 = quantile(each, 0.5);
      r.p99 = quantile(each, 0.99);
      r.n = n;
      return r;
    };
  };
  return c;
}

int ends_of(const bytes& all) { return all.size() > 0 ? all[0] + all[all.size() - 1] : 0; }
std::uint64_t sum_of(const bytes& all) {
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

// An array of the driver is the argument of a task in each of the other nodes.
template <auto F>
contestant broadcasts(const char* name, bool maps, bool is_whole) {
  contestant c{cluster_broadcast, name, side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t size = bulk_bytes(p);
    const int rounds = p.quick ? 1 : 5;
    const std::size_t right = written * (is_whole ? size : 2);
    const std::size_t store = std::size_t{p.quick ? 256U : 2200U} << 20U;
    const auto rt = job_with_store(static_cast<int>(broadcast_nodes) + 1, store, maps);
    return [=](const turn&) {
      return median_ms(rounds, [&] {
        const bytes all = written_bytes(size);  // another one, which nobody has a copy of
        const double before = now_s();
        std::vector<decltype(manta::remote<F>(all))> there;
        for (const manta::node_info& node : rt->nodes()) {
          if (node.pid == getpid()) continue;
          there.push_back(manta::remote<F>.with({.where = manta::on_node(node.name)})(all));
        }
        check(there.size() == broadcast_nodes, "all nodes");
        for (auto& one : there) check(static_cast<std::size_t>(one.get()) == right, "its bytes");
        return now_s() - before;
      });
    };
  };
  return c;
}

}  // namespace

void add_our_cluster_data(suite& s) {
  for (const locality& of : localities) {
    s.add(tasks_with_data(of, "manta, beside the data", placing::beside, true));
    s.add(tasks_with_data(of, "manta, spread", placing::spread, true));
    s.add(tasks_with_data(of, "manta, no place named", placing::nowhere, true));
    s.add(tasks_with_data(of, "manta copying, beside the data", placing::beside, false));
    s.add(tasks_with_data(of, "manta copying, spread", placing::spread, false));
    s.add(tasks_with_data(of, "manta copying, no place named", placing::nowhere, false));
  }
  s.add(broadcasts<ends_of>("manta", true, false));
  s.add(broadcasts<sum_of>("manta, every byte read", true, true));
  s.add(broadcasts<ends_of>("manta, copied", false, false));
}

}  // namespace bench
