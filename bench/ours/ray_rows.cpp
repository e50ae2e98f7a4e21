// SPDX-License-Identifier: Apache-2.0
//
// Ray's microbenchmark rows, with their names, bodies and multipliers, in the modes `threads` (one
// process), `processes` (each task and actor in an isolated worker, as Ray's are) and `nodes` (two
// nodes on this machine, which decide themselves what goes), also with all that may go in the other
// one. "Small value" is the two bytes "ok", as there.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using text = manta::future<std::string>;
using numbers = std::vector<std::int64_t>;

std::string small_value() { return "ok"; }

// Gets all of `answers` and checks the last.
void get_all(std::vector<text> answers) {
  const std::vector<std::string> values = manta::get(std::move(answers));
  check(!values.empty() && values.back() == "ok", "small value");
}

std::vector<text> small_tasks(std::size_t count) {
  std::vector<text> answers;
  answers.reserve(count);
  for (std::size_t i = 0; i < count; ++i) answers.push_back(manta::remote<small_value>());
  return answers;
}

struct server {
  std::string small_value() { return "ok"; }
  std::string small_value_arg(int) { return "ok"; }
};
using servers = std::vector<manta::actor<server>>;

servers make_servers(int count) {
  servers made;
  for (int i = 0; i < count; ++i) made.push_back(manta::spawn<server>());
  return made;
}

// The rows' client actors.
struct client {
  explicit client(servers given) : targets(std::move(given)) {}
  bool task_batch(std::size_t count) {
    get_all(small_tasks(count));
    return true;
  }
  bool call_batch(std::size_t count) {
    std::vector<text> answers;
    answers.reserve(count * targets.size());
    for (const manta::actor<server>& t : targets) {
      for (std::size_t i = 0; i < count; ++i) {
        answers.push_back(manta::remote<&server::small_value>(t));
      }
    }
    get_all(std::move(answers));
    return true;
  }
  bool call_batch_with_arg(std::size_t count) {
    const manta::future<int> x = manta::put(0);
    std::vector<text> answers;
    answers.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      answers.push_back(manta::remote<&server::small_value_arg>(targets.front(), x));
    }
    get_all(std::move(answers));
    return true;
  }
  servers targets;
};

// A task of row n:n: calls round robin over all servers.
bool round_robin(servers targets, std::size_t count) {
  std::vector<text> answers;
  answers.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    answers.push_back(manta::remote<&server::small_value>(targets[i % targets.size()]));
  }
  get_all(std::move(answers));
  return true;
}

bool put_small(int count) {
  for (int i = 0; i < count; ++i) keep(manta::put(0));
  return true;
}

bool put_large(int count, std::size_t length) {
  for (int i = 0; i < count; ++i) keep(manta::put(numbers(length)));
  return true;
}

void get_done(std::vector<manta::future<bool>> done) { manta::get(std::move(done)); }

using call = std::function<void()>;

struct setting {
  manta::runtime& rt;
  const plan& how;
  bool is_isolated;
};

struct mode {
  const char* name;
  manta::isolation_mode isolation;
  int nodes = 1;
  bool all_far = false;
};
constexpr mode modes[] = {{"threads", manta::isolation_mode::threads},
                          {"processes", manta::isolation_mode::processes},
                          {"nodes", manta::isolation_mode::threads, 2},
                          {"nodes (all far)", manta::isolation_mode::threads, 2, true}};

manta::config config_of_a_node() {
  manta::config with;
  with.resources = {{"custom", 1}};  // what the groups ask for
  return with;
}

std::shared_ptr<manta::runtime> start(const mode& m) {
  manta::config with = config_of_a_node();
  with.isolation = m.isolation;
  if (m.nodes == 1) return std::make_shared<manta::runtime>(with);
  with.nodes = m.nodes;
  // The other node hears of it by the environment, which the rows after this one have as it was.
  if (m.all_far) setenv("MANTA_CHECK", "far", 1);
  auto out = std::make_shared<manta::runtime>(with);
  unsetenv("MANTA_CHECK");
  return out;
}

struct ray_row {
  std::string name;
  double multiplier;
  double ray, ray_best;
  std::size_t batch;                         // calls between two looks at the clock
  std::function<call(const setting&)> make;  // sets up; the call is what is timed
  bool is_per_n = false;                     // the multiplier is per worker
  std::string note = {};
  double isolated_part = 1;  // of the multiplier, which a call does in processes
};

void add(suite& s, const ray_row& r) {
  row shown{r.name, r.name, unit::per_second, r.note};
  shown.passes = 1;
  shown.warm_rounds = 4;
  shown.cold_seconds = 1;
  shown.warm_seconds = 2;
  shown.ray = r.ray;
  shown.ray_best = r.ray_best;
  s.add(shown);
  for (const mode& m : modes) {
    contestant c{r.name, m.name, side::ours};
    c.start = [r, m](const plan& how) -> body {
      const auto rt = start(m);
      const int n = rt->workers();
      const bool is_isolated = m.isolation == manta::isolation_mode::processes;
      call once = r.make({*rt, how, is_isolated});
      const double each = r.multiplier * (r.is_per_n ? n : 1) * (is_isolated ? r.isolated_part : 1);
      return [=](const turn& t) {
        keep(rt);
        reading got = rate(t, each, r.batch, once);
        if (r.is_per_n) got.n = n;
        return got;
      };
    };
    s.add(c);
  }
}

void add_object_rows(suite& s) {
  add(s, {"single client get calls", 1, 10620, 28595, 1000, [](const setting&) -> call {
            return [object = manta::put(0)] { check(object.get() == 0, "object"); };
          }});
  add(s, {"single client put calls", 1, 5173, 6314, 1000,
          [](const setting&) -> call { return [] { keep(manta::put(0)); }; }});
  add(s, {"multi client put calls", 1000, 16526, 16801, 1, [](const setting&) -> call {
            return [] {
              std::vector<manta::future<bool>> done;
              for (int i = 0; i < 10; ++i) done.push_back(manta::remote<put_small>(100));
              get_done(std::move(done));
            };
          }});
  add(s, {"single client get object containing 10k refs", 1, 13.4, 13.4, 1,
          [](const setting&) -> call {
            std::vector<manta::future<int>> refs;
            for (int i = 0; i < 10000; ++i) refs.push_back(manta::put(i));
            return [object = manta::put(std::move(refs))] {
              long sum = 0;
              for (const manta::future<int>& f : object.get()) sum += f.get();
              check(sum == 49995000, "values behind the list");
            };
          },
          false, "The list is read where it is, and every future in it is got."});
  add(s, {"the same list copied out", 1, not_measured, not_measured, 1,
          [](const setting&) -> call {
            std::vector<manta::future<int>> refs;
            for (int i = 0; i < 10000; ++i) refs.push_back(manta::put(i));
            return [object = manta::put(std::move(refs))] {
              const std::vector<manta::future<int>> copy = object.get();
              check(copy.size() == 10000, "list of futures");
            };
          },
          false, "Not one of Ray's rows: 10,000 handles are counted up and down again."});
  add(s, {"get of 10k futures at once", 1, not_measured, not_measured, 1,
          [](const setting&) -> call {
            std::vector<manta::future<int>> refs;
            for (int i = 0; i < 10000; ++i) refs.push_back(manta::put(i));
            return [refs] { check(manta::get(refs).back() == 9999, "values of a list"); };
          },
          false, "Not one of Ray's rows: the values of 10,000 ready futures as one vector."});
}

constexpr const char* heap_note =
    "GB per s. Into the memory of the process that puts it; see bench_arrays for the store.";

void add_gigabyte_rows(suite& s) {
  add(s, {"single client put gigabytes", 0.8, 19.9, 20.3, 1,
          [](const setting& at) -> call {
            return
                [array = numbers(at.how.count(100 * 1024 * 1024), 1)] { keep(manta::put(array)); };
          },
          false, heap_note});
  add(s, {"multi client put gigabytes", 8, 38.1, 38.1, 1,
          [](const setting& at) -> call {
            return [length = at.how.count(10 * 1024 * 1024)] {
              std::vector<manta::future<bool>> done;
              for (int i = 0; i < 10; ++i) {
                done.push_back(manta::remote<put_large>(10, length));
              }
              get_done(std::move(done));
            };
          },
          false, heap_note});
}

// Ray's single-node limits, in seconds: lists of 10,000 ints.
std::vector<manta::future<numbers>> lists(std::size_t count) {
  std::vector<manta::future<numbers>> made;
  made.reserve(count);
  for (std::size_t i = 0; i < count; ++i) made.push_back(manta::put(numbers(10000, 1)));
  return made;
}

std::int64_t sum_of_lasts(const std::vector<numbers>& all) {
  std::int64_t sum = 0;
  for (const numbers& one : all) sum += one.back();
  return sum;
}

row limit_row(const char* name, const std::string& ray) {
  row shown{name, name, unit::seconds};
  shown.note = "Ray 2.31-2.37, one node: " + ray + ".";
  return shown;
}

template <class Timed>
void add_limit(suite& s, const char* name, const char* ray, Timed timed) {
  s.add(limit_row(name, ray));
  for (const mode& m : modes) {
    contestant c{name, m.name, side::ours};
    c.start = [timed, m](const plan& how) -> body {
      const auto rt = start(m);
      auto objects = lists(how.count(10000));
      return [=](const turn&) {
        keep(rt);
        return time_per_operation(unit::seconds, 1, [&] {
          check(timed(objects) == static_cast<std::int64_t>(objects.size()), "sum over the lists");
        });
      };
    };
    s.add(c);
  }
}

// One task that returns `count` lists of 10,000 ints.
std::vector<numbers> make_lists(std::size_t count) {
  return std::vector<numbers>(count, numbers(10000, 1));
}

std::int64_t as_parts(std::size_t count) {
  std::int64_t sum = 0;
  for (manta::future<numbers>& part : manta::split(manta::remote<make_lists>(count), count)) {
    sum += std::move(part).get().back();
  }
  return sum;
}

std::int64_t as_one_list(std::size_t count) {
  return sum_of_lasts(manta::remote<make_lists>(count).get());
}

void add_returns(suite& s) {
  const char* const name = "3,000 returns of one task";
  s.add(limit_row(name, "5.6 s"));
  const std::pair<const char*, std::int64_t (*)(std::size_t)> forms[] = {
      {"", as_parts}, {", as one list", as_one_list}};
  for (const mode& m : modes) {
    for (const auto& [form, timed] : forms) {
      contestant c{name, std::string(m.name) + form, side::ours};
      c.start = [timed = timed, m](const plan& how) -> body {
        const auto rt = start(m);
        const std::size_t count = how.count(3000);
        return [=](const turn&) {
          keep(rt);
          return time_per_operation(unit::seconds, 1, [&] {
            check(timed(count) == static_cast<std::int64_t>(count), "sum over the lists");
          });
        };
      };
      s.add(c);
    }
  }
}

void add_limits(suite& s) {
  using objects = std::vector<manta::future<numbers>>;
  add_limit(s, "10,000 object arguments to one task", "17.2 s",
            [](const objects& all) { return manta::remote<sum_of_lasts>(all).get(); });
  add_limit(s, "get of 10,000 objects at once", "22.9 s",
            [](const objects& all) { return sum_of_lasts(manta::get(all)); });
  add_returns(s);
}

void wait_for_each() {
  std::vector<text> pending = small_tasks(1000);
  for (int i = 0; i < 1000; ++i) {
    auto [ready, rest] = manta::wait(std::move(pending), {.count = 1});
    check(ready.size() == 1, "wait for one");
    pending = std::move(rest);
  }
}

void add_task_rows(suite& s) {
  add(s, {"single client tasks and get batch", 1, 5.80, 12.66, 1,
          [](const setting&) -> call { return [] { get_all(small_tasks(1000)); }; }});
  add(s, {"single client wait 1k refs", 1, 5.08, 5.38, 1,
          [](const setting&) -> call { return wait_for_each; }});
  add(s, {"single client tasks sync", 1, 981, 1964, 100, [](const setting&) -> call {
            return [] { check(manta::remote<small_value>().get() == "ok", "small value"); };
          }});
  add(s, {"single client tasks async", 1000, 8041, 18790, 1,
          [](const setting&) -> call { return [] { get_all(small_tasks(1000)); }; }});
  add(s, {"multi client tasks async", 40000, 21230, 36049, 1, [](const setting&) -> call {
            std::vector<manta::actor<client>> clients;
            for (int i = 0; i < 4; ++i) clients.push_back(manta::spawn<client>(servers()));
            return [clients] {
              std::vector<manta::future<bool>> done;
              for (const manta::actor<client>& c : clients) {
                done.push_back(manta::remote<&client::task_batch>(c, std::size_t{10000}));
              }
              get_done(std::move(done));
            };
          }});
}

call thousand_calls(const manta::actor<server>& target) {
  return [target] {
    std::vector<text> answers;
    answers.reserve(1000);
    for (int i = 0; i < 1000; ++i) answers.push_back(manta::remote<&server::small_value>(target));
    get_all(std::move(answers));
  };
}

void add_one_caller_rows(suite& s) {
  add(s, {"1:1 actor calls sync", 1, 2012, 2490, 100, [](const setting&) -> call {
            return [a = manta::spawn<server>()] {
              check(manta::remote<&server::small_value>(a).get() == "ok", "small value");
            };
          }});
  add(s, {"1:1 actor calls async", 1000, 8664, 8664, 1,
          [](const setting&) -> call { return thousand_calls(manta::spawn<server>()); }});
}

void add_concurrent_row(suite& s) {
  add(s, {"1:1 actor calls concurrent", 1000, 5775, 6035, 1, [](const setting&) -> call {
            const manta::actor_options sixteen{.max_concurrency = 16};
            return thousand_calls(manta::spawn<server>.with(sixteen)());
          }});
}

void add_group_row(suite& s) {
  add(s, {"placement group create/removal", 100, 765, 1243, 1, [](const setting&) -> call {
            const std::vector<manta::bundle> wanted{{.resources = {{"custom", 0.001}}}};
            return [wanted] {
              std::vector<manta::placement_group> groups;
              groups.reserve(100);
              for (int i = 0; i < 100; ++i) groups.push_back(manta::make_placement_group(wanted));
              for (const manta::placement_group& g : groups) g.ready().get();
              for (const manta::placement_group& g : groups) {
                check(manta::remove_placement_group(g), "removal of a group");
              }
            };
          }});
}

// Actors are made, called once and dropped; a rate of actors.
void add_actor_crowd(suite& s) {
  add(s,
      {"many actors, each called once", 10000, 576, 576, 1,
       [](const setting& at) -> call {
         return [count = at.how.count(at.is_isolated ? 100 : 10000)] {
           const servers made = make_servers(static_cast<int>(count));
           std::vector<text> answers;
           answers.reserve(count);
           for (const manta::actor<server>& a : made) {
             answers.push_back(manta::remote<&server::small_value>(a));
           }
           get_all(std::move(answers));
         };
       },
       false,
       "10,000 at a time (processes: 100, each a process). Ray: 2.31-2.37, 10,000 actors on many "
       "nodes.",
       0.01});
}

constexpr const char* n_note = "n is the number of workers (Ray: 32).";

void add_many_caller_rows(suite& s) {
  add(s, {"1:n actor calls async", 5000, 8038, 14032, 1,
          [](const setting& at) -> call {
            auto one = manta::spawn<client>(make_servers(at.rt.workers()));
            return [one] {
              check(manta::remote<&client::call_batch>(one, std::size_t{5000}).get(), "batch");
            };
          },
          true, n_note});
  add(s, {"n:n actor calls async", 20000, 27376, 90703, 1,
          [](const setting& at) -> call {
            return [targets = make_servers(at.rt.workers())] {
              std::vector<manta::future<bool>> done;
              for (int i = 0; i < 4; ++i) {
                done.push_back(manta::remote<round_robin>(targets, std::size_t{5000}));
              }
              get_done(std::move(done));
            };
          },
          false, n_note});
  add(s, {"n:n actor calls with arg async", 1000, 2759, 13300, 1,
          [](const setting& at) -> call {
            std::vector<manta::actor<client>> clients;
            for (int i = 0; i < at.rt.workers(); ++i) {
              clients.push_back(manta::spawn<client>(make_servers(1)));
            }
            return [clients] {
              std::vector<manta::future<bool>> done;
              for (const manta::actor<client>& c : clients) {
                done.push_back(manta::remote<&client::call_batch_with_arg>(c, std::size_t{1000}));
              }
              get_done(std::move(done));
            };
          },
          true, n_note});
}

}  // namespace

void be_a_ray_node() {
  if (std::getenv("MANTA_RANK") == nullptr) return;
  const manta::runtime rt(config_of_a_node());  // does not return
}

void add_our_ray_rows(suite& s) {
  add_object_rows(s);
  add_gigabyte_rows(s);
  add_task_rows(s);
  add_one_caller_rows(s);
  add_concurrent_row(s);
  add_actor_crowd(s);
  add_many_caller_rows(s);
  add_group_row(s);
  add_limits(s);
}

}  // namespace bench
