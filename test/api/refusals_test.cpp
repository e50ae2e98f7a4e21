// SPDX-License-Identifier: Apache-2.0
// What nobody can ask for. Each refusal has its type and one line that says what was asked and what
// may be, whoever asks: main, or a task in whichever node.
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "api/support.hpp"

namespace refusals_test {

namespace {

using namespace std::chrono_literals;
using manta::errc;

int one(int x) { return x; }
std::vector<int> three(int x) { return std::vector<int>(3, x); }
manta::stream<int> items(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}
struct plain {
  int get() const { return 1; }
};

struct refusal {
  const char* asked;
  errc code;
  const char* says;
  std::function<void()> ask;
};
using refusals = std::vector<refusal>;

constexpr auto negative = static_cast<std::size_t>(-1);

void call_with(const manta::options& asked) {
  static_cast<void>(manta::remote<one>.with(asked)(1).get(test::patience));
}
void spawn_with(const manta::actor_options& asked) {
  static_cast<void>(manta::spawn<plain>.with(asked)());
}
void group_of(const std::vector<manta::bundle>& asked, manta::strategy how) {
  manta::remove_placement_group(manta::make_placement_group(asked, how));
}

refusals of_calls() {
  const auto by_task = [](const char* asked, const char* says, manta::options with) {
    return refusal{asked, errc::invalid_argument, says, [with] { call_with(with); }};
  };
  manta::placement unknown;
  unknown.by = static_cast<manta::placement::rule>(9);
  return {
      by_task("no time", "option timeout: asked 0 ns, allowed more than 0", {.timeout = 0s}),
      by_task("a priority", "option priority: asked 9, allowed low, normal, high",
              {.priority = static_cast<manta::priority>(9)}),
      by_task("no name", "option name: asked an empty name", {.name = ""}),
      by_task("no credits", "stream credits: asked 0, allowed 1 to", {.stream_credits = 0}),
      by_task("a key twice", "asked \"a\" twice", {.resources = {{"a", 1}, {"a", 1}}}),
      by_task("an amount", "asked -1 of \"a\", allowed 0 or", {.resources = {{"a", -1}}}),
      by_task("no label", "with_labels: asked the label \"a=\"",
              {.where = manta::with_labels({{"a", ""}})}),
      by_task("a rule", "option where: asked the rule 9", {.where = unknown}),
  };
}

refusals of_actors() {
  const auto by_actor = [](const char* asked, const char* says, manta::actor_options with) {
    return refusal{asked, errc::invalid_argument, says, [with] { spawn_with(with); }};
  };
  return {
      by_actor("a cap", "option mailbox_cap: asked 1073741825, allowed 0 to 1073741824",
               {.mailbox_cap = (std::size_t{1} << 30U) + 1}),
      by_actor("a policy", "option on_full: asked 5, allowed wait and refuse",
               {.on_full = static_cast<manta::full_policy>(5)}),
      by_actor("nobody at a time", "option max_concurrency: asked 0, allowed 1 to 65536",
               {.max_concurrency = 0}),
      by_actor("a group twice", "option groups: \"g\" is given twice",
               {.groups = {{"g", 1}, {"g", 2}}}),
      by_actor("a group of none", "group \"g\": asked 0, allowed 1 to", {.groups = {{"g", 0}}}),
      by_actor("many groups", "option groups: asked 65536, allowed up to 65535",
               {.groups = std::vector<manta::concurrency_group>(65536)}),
      by_actor("whom if any", "option get_if_exists: asked without a name",
               {.get_if_exists = true}),
      by_actor("a space of no name", "option name_space: asked \"x\" without a name",
               {.name_space = "x"}),
      by_actor("to live on without a name", "option detached: asked without a name",
               {.detached = true}),
      {"a group that it has not", errc::invalid_argument, "option group: asked \"io\"",
       [] {
         const auto a = manta::spawn<plain>();
         static_cast<void>(manta::remote<&plain::get>.with({.group = "io"})(a));
       }},
      {"an empty handle", errc::invalid_argument, "an empty actor handle was used",
       [] { static_cast<void>(manta::remote<&plain::get>(manta::actor<plain>())); }},
  };
}

refusals of_waits() {
  return {
      {"a future of nothing", errc::invalid_argument, "an empty future was used",
       [] { static_cast<void>(manta::future<int>().get()); }},
      {"one of them is empty", errc::invalid_argument, "wait: future 1 of 2 is empty",
       [] {
         const std::vector<manta::future<int>> two{manta::put(1), {}};
         static_cast<void>(manta::wait(two, {.count = 1}));
       }},
      {"more than there are", errc::invalid_argument, "wait: asked for 3 of 1 futures",
       [] {
         const std::vector<manta::future<int>> all{manta::put(1)};
         static_cast<void>(manta::wait(all, {.count = 3}));
       }},
      {"one of all is empty", errc::invalid_argument, "get: future 1 of 2 is empty; pass futures",
       [] {
         const std::vector<manta::future<int>> two{manta::put(1), {}};
         static_cast<void>(manta::get(two, 1s));
       }},
      {"one twice as they end", errc::invalid_argument, "as_completed: a future is listed twice",
       [] {
         const manta::future<int> f = manta::put(1);
         for (auto& each : manta::as_completed(std::vector{f, f})) static_cast<void>(each);
       }},
      {"one that is empty as they end", errc::invalid_argument, "as_completed: future 0 of 1",
       [] {
         for (auto& each : manta::as_completed(std::vector{manta::future<int>()})) {
           static_cast<void>(each);
         }
       }},
      {"two parts of three", errc::invalid_argument, "split: asked for 2 parts, the vector has 3",
       [] {
         const auto parts = manta::split(manta::remote<three>(1), 2);
         static_cast<void>(parts.front().get(test::patience));
       }},
      {"a time that is over", errc::invalid_argument, "deadline_scope: asked 0 ns, allowed more",
       [] { const manta::deadline_scope scope(0s); }},
      {"a stream of nobody", errc::invalid_argument, "an empty stream was used",
       [] { static_cast<void>(manta::stream<int>().next()); }},
      {"no items ahead", errc::invalid_argument, "stream credits: asked 0, allowed 1 to",
       [] { manta::remote<items>(1).credits(0); }},
  };
}

refusals of_things() {
  return {
      {"a channel of none", errc::invalid_argument, "channel: asked for a capacity of 0, allowed",
       [] { const manta::channel<int> c(0); }},
      {"a channel of fewer", errc::invalid_argument, "channel: asked for a capacity of -1, allowed",
       [] { const manta::channel<int> c(negative); }},
      {"an empty channel", errc::invalid_argument, "an empty channel handle was used",
       [] { manta::channel<int>().send(1); }},
      {"to send when it is over", errc::channel_closed, "send: the channel is closed",
       [] {
         const manta::channel<int> c(1);
         c.close();
         c.send(1);
       }},
      {"no permits", errc::invalid_argument, "semaphore: asked for 0 permits, allowed 1 or more",
       [] { const manta::semaphore s(0); }},
      {"more permits than there are", errc::invalid_argument, "allowed 1 to 1, which is all",
       [] { static_cast<void>(manta::semaphore(1).acquire(2)); }},
      {"an empty semaphore", errc::invalid_argument, "an empty semaphore handle was used",
       [] { static_cast<void>(manta::semaphore().acquire()); }},
      {"nobody to meet", errc::invalid_argument, "barrier: asked for 0 parties, allowed 1 or more",
       [] { const manta::barrier b(0); }},
      {"an empty barrier", errc::invalid_argument, "an empty barrier handle was used",
       [] { manta::barrier().arrive_and_wait(); }},
      {"an array of none", errc::invalid_argument, "asked an array of the shape {2, 0}",
       [] {
         static_cast<void>(manta::make_array<int>({2, 0}));
       }},
      {"an array beyond all memory", errc::invalid_argument, "which is more than 2^60 bytes",
       [] { static_cast<void>(manta::make_array<double>({std::size_t{1} << 58U})); }},
      {"an array of nine directions", errc::invalid_argument, "a shape of 9 directions, allowed",
       [] {
         static_cast<void>(manta::make_array<int>({1, 1, 1, 1, 1, 1, 1, 1, 1}));
       }},
  };
}

refusals of_groups() {
  using manta::strategy;
  const auto by_group = [](const char* asked, errc code, const char* says,
                           std::vector<manta::bundle> all, strategy how = strategy::pack) {
    return refusal{asked, code, says, [all, how] { group_of(all, how); }};
  };
  return {
      by_group("no bundles", errc::invalid_argument, "asked 0 bundles, allowed 1 to 1000", {}),
      by_group("many bundles", errc::invalid_argument, "asked 1001 bundles, allowed 1 to 1000",
               std::vector<manta::bundle>(1001)),
      by_group("a bundle of nothing", errc::invalid_argument, "bundle 1 asks for nothing",
               {{.cpus = 1}, {}}),
      by_group("a bundle that can't be", errc::invalid_argument, "bundle 1, gpus: asked 1.5",
               {{.cpus = 1}, {.gpus = 1.5}}),
      by_group("a strategy", errc::invalid_argument, "make_placement_group: asked strategy 9",
               {{.cpus = 1}}, static_cast<strategy>(9)),
      by_group("what nobody has", errc::infeasible, "which can never fit at once",
               {{.cpus = 1}, {.resources = {{"unobtainium", 1}}}}),
      by_group("more nodes than there are", errc::infeasible, "asked a strict_spread placement",
               std::vector<manta::bundle>(99, {.cpus = 1}), strategy::strict_spread),
      {"a bundle that it has not", errc::invalid_argument, "asked bundle 1, the placement group",
       [] {
         const auto g = manta::make_placement_group({{.cpus = 1}});
         manta::remove_placement_group(g);
         static_cast<void>(manta::in_group(g, 1));
       }},
      {"a bundle before the first", errc::invalid_argument, "asked bundle -2, the placement group",
       [] {
         const auto g = manta::make_placement_group({{.cpus = 1}});
         manta::remove_placement_group(g);
         static_cast<void>(manta::in_group(g, -2));
       }},
      {"a group that is removed", errc::group_removed, "which was removed; make a new one",
       [] {
         const auto g = manta::make_placement_group({{.cpus = 1}});
         manta::remove_placement_group(g);
         call_with({.cpus = 1, .where = manta::in_group(g)});
       }},
      {"an empty group", errc::invalid_argument, "an empty placement group was used",
       [] { static_cast<void>(manta::placement_group().ready()); }},
  };
}

refusals of_keys() {
  return {
      {"no key", errc::invalid_argument, "kv::put: asked a key of 0 bytes, allowed are 1 to 1000",
       [] { static_cast<void>(manta::kv::put("", 1)); }},
      {"a long key", errc::invalid_argument, "kv::get: asked a key of 1001 bytes, allowed are 1",
       [] { static_cast<void>(manta::kv::get<int>(std::string(1001, 'k'))); }},
      {"no life", errc::invalid_argument, "kv::put: asked a ttl of 0 ms, allowed are 1 ms to",
       [] { static_cast<void>(manta::kv::put("k", 1, {.ttl = 0ms})); }},
      {"a long life", errc::invalid_argument, "allowed are 1 ms to 10 years",
       [] { static_cast<void>(manta::kv::put("k", 1, {.ttl = std::chrono::hours(100'000)})); }},
      {"a value of 17 MiB", errc::invalid_argument, "allowed are 0 to 16777216; keep it in parts",
       [] {
         const std::string large(std::size_t{17} << 20U, 'v');
         static_cast<void>(manta::kv::put("k", large).get(test::patience));
       }},
      {"a page of none", errc::invalid_argument,
       "asked 0, allowed are 1 to 65536; ask for the rest",
       [] { static_cast<void>(manta::kv::list<int>("", "", 0).get(test::patience)); }},
      {"a page of all", errc::invalid_argument, "asked 65537, allowed are 1 to 65536",
       [] { static_cast<void>(manta::kv::list<int>("", "", 65'537).get(test::patience)); }},
      {"another type", errc::decode_failed, "the value of \"refused\"",
       [] {
         static_cast<void>(manta::kv::put("refused", 1).get(test::patience));
         static_cast<void>(manta::kv::get<std::string>("refused").get(test::patience));
       }},
      {"a future under a key", errc::encode_failed, "which can't be kept",
       [] { static_cast<void>(manta::kv::put("k", std::vector{manta::put(1)})); }},
  };
}

// What is not as it has to be, of each.
std::vector<std::string> complaints(const refusals& all) {
  std::vector<std::string> out;
  for (const refusal& each : all) {
    std::string wrong = "it was not refused";
    try {
      each.ask();
    } catch (const manta::exception& e) {
      const std::string said = e.what();
      const bool is_one_line = said.find('\n') == std::string::npos;
      const bool is_right =
          e.code() == each.code && said.find(each.says) != std::string::npos && is_one_line;
      wrong = is_right ? "" : std::string(manta::to_string(e.code())) + ": " + said;
    } catch (const std::exception& e) {
      wrong = std::string("no error of manta's: ") + e.what();
    }
    if (!wrong.empty()) out.push_back(std::string(each.asked) + ": " + wrong);
  }
  return out;
}

std::vector<std::string> complaints_of_all(int /*unused*/) {
  std::vector<std::string> out;
  for (const auto& some :
       {of_calls(), of_actors(), of_waits(), of_things(), of_groups(), of_keys()}) {
    for (std::string& one_more : complaints(some)) out.push_back(std::move(one_more));
  }
  return out;
}

}  // namespace

TEST_CASE("what nobody can ask for is refused with its type and in one line, whoever asks",
          "[refusals][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(complaints_of_all(0) == std::vector<std::string>());
  CHECK(manta::remote<complaints_of_all>(0).get(test::patience) == std::vector<std::string>());
}

}  // namespace refusals_test
