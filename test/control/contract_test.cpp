// SPDX-License-Identifier: Apache-2.0
// What store.hpp promises, asked of every backend.
#include "control/store.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control/backends.hpp"

namespace {

using namespace test_control;  // NOLINT: the calls are the subject here
using Catch::Matchers::Contains;
using control::batch;
using control::durability;
using control::event;
using control::outcome;
using control::record;
using control::revision;
using control::store;
using control::taken;
using control::watcher;
using manta::errc;
using manta_test::dice;
using manta_test::happens;
using manta_test::scaled;

/// Runs `test(store)` for a new store of every kind.
template <class Test>
void for_each_backend(Test test) {
  for (const backend& one : backends()) {
    INFO(one.name);
    const folder where;
    const auto s = one.make(where);
    test(*s);
  }
}

revision put_one(store& s, const std::string& key, const std::string& value) {
  const auto done = commit(s, {.changes = {put(key, value)}});
  return done ? done->at : 0;
}

std::optional<record> get_one(store& s, const std::string& key) {
  auto got = read(s, {key});
  if (!got) FAIL(got.error().message());
  return (*std::move(got)).records.at(0);
}

std::unique_ptr<watcher> watch(
    store& s, const std::string& prefix, revision from, std::function<void()> bell = [] {}) {
  auto made = s.watch(prefix, from, std::move(bell));
  if (!made) FAIL(made.error().message());
  return *std::move(made);
}

/// Takes until there is no more.
taken take_all(watcher& w, std::size_t most) {
  taken all;
  for (;;) {
    taken some = w.take(most);
    for (event& one : some.events) all.events.push_back(std::move(one));
    all.has_gap = some.has_gap;
    if (!some.has_more) return all;
  }
}

std::string text_of(const std::vector<event>& events) {
  std::string out;
  for (const event& one : events) {
    out += std::to_string(one.at) + ":" + one.what.key;
    out += one.what.what == control::change::kind::put ? "=" + one.what.value + " " : "- ";
  }
  return out;
}

std::string refusal(const manta::result<outcome>& r) {
  return r ? "not refused"
           : std::string(manta::to_string(r.error().code())) + ": " + r.error().message();
}

}  // namespace

TEST_CASE("what is put is found, replaced and deleted", "[control]") {
  for_each_backend([](store& s) {
    CHECK_FALSE(get_one(s, "k"));
    CHECK(put_one(s, "k", "1") == 1);
    CHECK(put_one(s, "l", "") == 2);
    CHECK(get_one(s, "k")->value == "1");
    CHECK(get_one(s, "k")->at == 1);
    CHECK(get_one(s, "l")->value.empty());
    CHECK(put_one(s, "k", "2") == 3);
    CHECK(get_one(s, "k")->value == "2");
    CHECK(get_one(s, "k")->at == 3);
    REQUIRE(commit(s, {.changes = {del("k"), del("never there")}}));
    CHECK_FALSE(get_one(s, "k"));
    const auto several = read(s, {"l", "k", "l"});
    REQUIRE(several);
    CHECK(several->at == 4);
    CHECK(several->records.at(0)->key == "l");
    CHECK_FALSE(several->records.at(1));
    CHECK(several->records.at(2)->at == 2);
    CHECK(s.measure().at == 4);
  });
}

TEST_CASE("a batch is applied whole, or not at all", "[control]") {
  for_each_backend([](store& s) {
    // Created once.
    const batch create{.conditions = {{"a", 0}}, .changes = {put("a", "1"), put("b", "1")}};
    const auto first = commit(s, create);
    REQUIRE(first);
    CHECK(first->at == 1);
    CHECK_FALSE(first->refused);
    const auto again = commit(s, create);
    REQUIRE(again);
    CHECK(again->at == 0);
    REQUIRE(again->refused);
    CHECK(again->refused->condition == 0);
    CHECK(again->refused->found == 1);
    // The second condition is the one that fails.
    const auto half = commit(s, {.conditions = {{"a", 1}, {"c", 7}, {"b", 9}},
                                 .changes = {put("a", "2"), del("b"), put("c", "2")}});
    REQUIRE(half);
    REQUIRE(half->refused);
    CHECK(half->refused->condition == 1);
    CHECK(half->refused->found == 0);
    CHECK(get_one(s, "a")->value == "1");
    CHECK(get_one(s, "b")->value == "1");
    CHECK_FALSE(get_one(s, "c"));
    CHECK(s.measure().at == 1);
    // Of several changes of one key the last one stands.
    REQUIRE(
        commit(s, {.conditions = {{"a", 1}},
                   .changes = {put("a", "x"), del("a"), put("a", "y"), put("b", "x"), del("b")}}));
    CHECK(get_one(s, "a")->value == "y");
    CHECK(get_one(s, "a")->at == 2);
    CHECK_FALSE(get_one(s, "b"));
    // A key that was deleted can be created again.
    CHECK(commit(s, {.conditions = {{"b", 0}}, .changes = {put("b", "3")}})->at == 3);
  });
}

TEST_CASE("what is too large or too small is refused and leaves nothing", "[control]") {
  namespace limits = control::limits;
  for_each_backend([](store& s) {
    const auto tries = [&s](std::size_t key_bytes, std::size_t value_bytes) {
      return refusal(commit(
          s, {.changes = {put("good", "x"),
                          put(std::string(key_bytes, 'k'), std::string(value_bytes, 'v'))}}));
    };
    CHECK_THAT(tries(0, 1), Contains("invalid_argument") && Contains("bytes of a key: asked 0"));
    CHECK_THAT(tries(limits::key_bytes + 1, 1), Contains("allowed are 1 to 1024"));
    CHECK_THAT(tries(1, limits::value_bytes + 1), Contains("bytes of a value"));
    CHECK_FALSE(get_one(s, "good"));
    CHECK(tries(1, 0) == "not refused");
    CHECK(tries(limits::key_bytes, 1) == "not refused");
    CHECK(tries(1, limits::value_bytes) == "not refused");
    CHECK(get_one(s, "good"));

    const auto changes = [&s](std::size_t n) {
      return refusal(commit(s, {.changes = std::vector(n, put("same", "x"))}));
    };
    CHECK_THAT(changes(0), Contains("changes of a batch: asked 0"));
    CHECK_THAT(changes(limits::batch_changes + 1), Contains("changes of a batch: asked 65537"));
    CHECK(changes(limits::batch_changes) == "not refused");
    const auto conditions = [&s](std::size_t n, const std::string& key) {
      const control::condition same{key, 0};
      return refusal(commit(s, {.conditions = std::vector(n, same), .changes = {put("x", "x")}}));
    };
    CHECK_THAT(conditions(limits::batch_conditions + 1, "no"), Contains("asked 65537"));
    CHECK(conditions(limits::batch_conditions, "no") == "not refused");
    CHECK_THAT(conditions(1, ""), Contains("bytes of a key"));
    const std::vector four(4, put("large", std::string(limits::value_bytes, 'v')));
    CHECK_THAT(refusal(commit(s, {.changes = four})), Contains("bytes of a batch"));
    CHECK_THAT(refusal(commit(s, {.changes = {put("r", "x")}, .how = durability::replicated})),
               Contains("unsupported") && Contains("ask for durable"));
    CHECK(refusal(commit(s, {.changes = {put("d", "x")}, .how = durability::durable})) ==
          "not refused");
  });
}

TEST_CASE("reads and pages have limits, too", "[control]") {
  namespace limits = control::limits;
  for_each_backend([](store& s) {
    CHECK_FALSE(read(s, {}));
    CHECK_FALSE(read(s, {""}));
    CHECK_FALSE(read(s, std::vector<std::string>(limits::read_keys + 1, "k")));
    CHECK(read(s, std::vector<std::string>(limits::read_keys, "k")));
    CHECK_FALSE(scan(s, {.most = 0}));
    CHECK_FALSE(scan(s, {.most = limits::page_records + 1}));
    CHECK(scan(s, {.most = limits::page_records}));
    CHECK_FALSE(scan(s, {.prefix = std::string(limits::key_bytes + 1, 'k')}));
    CHECK_FALSE(scan(s, {.after = std::string(limits::key_bytes + 1, 'k')}));
    CHECK_FALSE(s.watch(std::string(limits::key_bytes + 1, 'k'), 0, [] {}));
    // Four large values are all that one read may find.
    put_one(s, "large", std::string(limits::value_bytes, 'v'));
    CHECK(read(s, std::vector<std::string>(3, "large")));
    const auto five = read(s, std::vector<std::string>(5, "large"));
    REQUIRE_FALSE(five);
    CHECK_THAT(five.error().message(), Contains("read in parts"));
    // A page ends when it has enough bytes, and goes on.
    put_one(s, "larger", std::string(limits::value_bytes, 'w'));
    const auto one = scan(s, {.prefix = "large"});
    REQUIRE(one);
    CHECK(one->records.size() == 1);
    CHECK(one->has_more);
    CHECK(scan_all(s, "large", 10).size() == 2);
  });
}

TEST_CASE("a scan gives the keys with a prefix in order, in pages", "[control]") {
  for_each_backend([](store& s) {
    const std::string low(1, '\0');
    const std::string high(3, '\xff');
    std::vector<std::string> keys = {
        low,         low + low,          "a",  "a" + low, "a/" + high, "a0",  "b/1",
        "b/" + high, "b/" + high + high, "b0", high,      "\xff",      "a/1", "a/10",
        "a/2"};
    for (const std::string& key : keys) put_one(s, key, "of " + key);
    std::ranges::sort(keys);
    for (const std::string& prefix :
         {std::string(), std::string("a"), std::string("a/"), std::string("b/"),
          std::string("\xff"), high, low, std::string("none")}) {
      std::vector<std::string> wanted;
      for (const std::string& key : keys) {
        if (key.starts_with(prefix)) wanted.push_back(key);
      }
      for (const std::size_t most : {1U, 2U, 3U, 100U}) {
        std::vector<std::string> got;
        for (const record& one : scan_all(s, prefix, most)) {
          got.push_back(one.key);
          CHECK(one.value == "of " + one.key);
        }
        CHECK(got == wanted);
      }
    }
    // From any key on, also one that is not there, or before or behind all with the prefix.
    CHECK(scan(s, {.prefix = "a/", .after = "a/11"})->records.at(0).key == "a/2");
    CHECK(scan(s, {.prefix = "a/", .after = "A"})->records.at(0).key == "a/1");
    CHECK(scan(s, {.prefix = "a/", .after = "b"})->records.empty());
    CHECK_FALSE(scan(s, {.prefix = "a/", .after = "b"})->has_more);
  });
}

TEST_CASE("a store does what a map would do", "[control]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  for_each_backend([seed](store& s) {
    dice d(seed);
    std::map<std::string, std::pair<std::string, revision>> model;
    std::vector<event> told;
    revision at = 0;
    const auto some_key = [&d] {
      return std::string(1 + d.below(2), static_cast<char>('a' + d.below(6)));
    };
    const auto model_revision = [&model](const std::string& key) {
      const auto found = model.find(key);
      return found == model.end() ? revision{0} : found->second.second;
    };
    const auto everything = watch(s, "", 0);
    for (int round = 0; round < scaled(5000); ++round) {
      batch b;
      for (std::size_t i = d.below(3); i > 0; --i) {
        const std::string key = some_key();
        b.conditions.push_back({key, d.one_in(4) ? d.below(at + 2) : model_revision(key)});
      }
      for (std::size_t i = 1 + d.below(4); i > 0; --i) {
        b.changes.push_back(d.one_in(3) ? del(some_key())
                                        : put(some_key(), std::to_string(d.next())));
      }
      if (d.one_in(8)) b.how = durability::durable;
      const auto broken = std::ranges::find_if(
          b.conditions, [&](const control::condition& c) { return model_revision(c.key) != c.at; });
      const auto done = commit(s, b);
      REQUIRE(done);
      if (broken != b.conditions.end()) {
        REQUIRE(done->refused);
        REQUIRE(done->refused->condition ==
                static_cast<std::size_t>(broken - b.conditions.begin()));
        REQUIRE(done->refused->found == model_revision(broken->key));
      } else {
        REQUIRE(done->at == ++at);
        for (const control::change& one : b.changes) {
          if (one.what == control::change::kind::put) model[one.key] = {one.value, at};
          if (one.what == control::change::kind::del) model.erase(one.key);
          told.push_back({at, one});
        }
      }
      const std::string key = some_key();
      const auto got = get_one(s, key);
      REQUIRE((got ? got->at : 0) == model_revision(key));
      if (got) REQUIRE(got->value == model[key].first);
      if (round % 100 != 0) continue;
      const auto all = scan_all(s, "", 1 + d.below(20));
      REQUIRE(all.size() == model.size());
      auto next = model.begin();
      for (const record& one : all) {
        REQUIRE((one.key == next->first && one.value == next->second.first &&
                 one.at == next->second.second));
        ++next;
      }
      // Somebody who watches from an old revision, and sees a part.
      const revision from = d.below(at + 1);
      const std::string prefix = d.one_in(3) ? "" : some_key();
      std::vector<event> wanted;
      for (const event& one : told) {
        if (one.at > from && one.what.key.starts_with(prefix)) wanted.push_back(one);
      }
      REQUIRE(text_of(take_all(*watch(s, prefix, from), 1 + d.below(50)).events) ==
              text_of(wanted));
    }
    CHECK(text_of(take_all(*everything, 100).events) == text_of(told));
  });
}

TEST_CASE("a bell rings once for who had taken all", "[control]") {
  for_each_backend([](store& s) {
    put_one(s, "a/0", "before");
    std::atomic<int> rings{0};
    const auto w = watch(s, "a/", 1, [&rings] { ++rings; });
    CHECK(w->take(10).events.empty());
    put_one(s, "b/1", "not asked for");
    CHECK(w->take(10).events.empty());
    CHECK(rings == 0);
    put_one(s, "a/1", "1");
    put_one(s, "a/2", "2");
    CHECK(happens([&rings] { return rings == 1; }));
    const taken first = w->take(1);
    CHECK(text_of(first.events) == "3:a/1=1 ");
    CHECK(first.has_more);
    put_one(s, "a/3", "3");
    const taken rest = w->take(10);
    CHECK(text_of(rest.events) == "4:a/2=2 5:a/3=3 ");
    CHECK_FALSE(rest.has_more);
    CHECK(rings == 1);
    REQUIRE(commit(s, {.changes = {del("a/1"), put("c", "x"), put("a/2", "4")}}));
    CHECK(happens([&rings] { return rings == 2; }));
    CHECK(text_of(w->take(10).events) == "6:a/1- 6:a/2=4 ");
    // Who begins later, and who begins now.
    CHECK(text_of(take_all(*watch(s, "a/", 3), 1).events) == "4:a/2=2 5:a/3=3 6:a/1- 6:a/2=4 ");
    CHECK(take_all(*watch(s, "a/", 6), 1).events.empty());
  });
}

TEST_CASE("a bell may call the store, and its watcher hears of that", "[control]") {
  for_each_backend([](store& s) {
    std::atomic<int> rings{0};
    std::unique_ptr<watcher> w;
    w = watch(s, "a", 0, [&] {
      if (++rings == 1) s.commit({.changes = {put("a2", "from the bell")}}, [](const auto&) {});
    });
    CHECK(w->take(1).events.empty());
    put_one(s, "a1", "");
    CHECK(happens([&s] { return get_one(s, "a2").has_value(); }));
    CHECK(text_of(take_all(*w, 10).events) == "1:a1= 2:a2=from the bell ");
  });
}

TEST_CASE("watchers do not hear of batches that say so, and readers see them", "[control]") {
  namespace limits = control::limits;
  for_each_backend([](store& s) {
    const auto w = watch(s, "", 0);
    put_one(s, "a", "1");
    // More than the history would have room for.
    const std::string large(limits::history_bytes / 4, 'x');
    for (int i = 0; i < 8; ++i) {
      const batch unseen{.changes = {put("b", large), put("c", std::to_string(i))},
                         .is_watched = false};
      REQUIRE(commit(s, unseen));
    }
    put_one(s, "d", "2");
    CHECK(text_of(take_all(*w, 10).events) == "1:a=1 10:d=2 ");
    CHECK(get_one(s, "c")->value == "7");
    // Conditions see them, in one write with them, too.
    const auto is = commit(s, {.conditions = {{"c", 9}}, .changes = {put("c", "")}});
    CHECK((is && !is->refused));
  });
}

TEST_CASE("who is too slow is told that something is missing", "[control]") {
  namespace limits = control::limits;
  for_each_backend([](store& s) {
    const auto slow = watch(s, "", 0);
    batch many;
    for (std::size_t i = 0; i < limits::history_events; ++i) many.changes.push_back(put("k", "v"));
    REQUIRE(commit(s, many));
    CHECK_FALSE(watch(s, "", 0)->take(1).has_gap);
    put_one(s, "k", "one too many");
    const taken missed = slow->take(10);
    CHECK(missed.has_gap);
    CHECK(missed.events.empty());
    put_one(s, "k", "later");
    CHECK(slow->take(10).has_gap);  // it stays so
    // The way on: the state, and what comes after it.
    const auto now = scan(s, {});
    REQUIRE(now);
    const auto fresh = watch(s, "", now->at);
    put_one(s, "k", "news");
    CHECK(text_of(fresh->take(10).events) == "4:k=news ");
    // A batch of which a part is gone can't be seen whole.
    CHECK(watch(s, "", 0)->take(1).has_gap);
    CHECK_FALSE(watch(s, "", 1)->take(1).has_gap);
  });
}

TEST_CASE("threads that compare and swap lose nothing", "[control]") {
  for_each_backend([](store& s) {
    constexpr int threads = 4;
    constexpr int each = scaled(500);
    std::atomic<int> failures{0};
    const auto counts = [&s, &failures] {
      for (int done = 0; done < each;) {
        const auto now = read(s, {"counter"});
        if (!now) return static_cast<void>(++failures);
        const auto& one = now->records[0];
        const int value = one ? std::stoi(one->value) : 0;
        const auto next = commit(s, {.conditions = {{"counter", one ? one->at : 0}},
                                     .changes = {put("counter", std::to_string(value + 1))}});
        if (!next) return static_cast<void>(++failures);
        if (!next->refused) ++done;
      }
    };
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) all.emplace_back(counts);
    for (std::thread& one : all) one.join();
    CHECK(failures == 0);
    CHECK(get_one(s, "counter")->value == std::to_string(threads * each));
  });
}

TEST_CASE("a read tells the moment that it is of, whatever is written meanwhile", "[control]") {
  // Every batch writes "k", so another moment than the one told would show as another revision; the
  // odd ones put "odd" and the even ones delete it, which shows where nothing is found.
  for_each_backend([](store& s) {
    const std::uint64_t batches = static_cast<std::uint64_t>(scaled(2000));
    std::atomic<bool> is_over{false};
    std::atomic<int> wrong{0};
    std::atomic<int> reads{0};
    const auto looks = [&] {
      for (revision before = 0; !is_over;) {
        const auto k = read(s, {"k"});
        const auto odd = read(s, {"odd"});
        const auto both = read(s, {"k", "odd"});
        if (!k || !odd || !both || k->at < before || odd->at < k->at || both->at < odd->at) {
          return static_cast<void>(++wrong);
        }
        before = both->at;
        if (k->records[0] && k->records[0]->at != k->at) ++wrong;
        if (odd->records[0].has_value() != (odd->at % 2 == 1)) ++wrong;
        if (both->records[1].has_value() != (both->at % 2 == 1)) ++wrong;
        if (both->records[0] && both->records[0]->at != both->at) ++wrong;
        ++reads;
      }
    };
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i) readers.emplace_back(looks);
    while (reads == 0 && wrong == 0) std::this_thread::yield();  // they may come late
    for (std::uint64_t n = 1; n <= batches; ++n) {
      batch next{.changes = {put("k", "v"), n % 2 == 1 ? put("odd", "") : del("odd")}};
      // Some alone, so that the store rests in between, some together.
      if (n % 8 < 4 || n == batches) {
        CHECK(commit(s, std::move(next))->at == n);
      } else {
        s.commit(std::move(next), [](const auto&) {});
      }
    }
    is_over = true;
    for (std::thread& one : readers) one.join();
    CHECK(wrong == 0);
    CHECK(reads > 0);
  });
}

TEST_CASE("watchers come and go while others write", "[control]") {
  // A bell that rang into a watcher that is gone would touch freed memory.
  for_each_backend([](store& s) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (int i = 0; i < 2; ++i) {
      writers.emplace_back([&s, &stop, i] {
        while (!stop)
          s.commit({.changes = {put("k" + std::to_string(i), "v")}}, [](const auto&) {});
      });
    }
    bool in_order = true;
    for (int round = 0; round < scaled(300); ++round) {
      std::atomic<int> rings{0};
      const auto from = scan(s, {});
      const auto w =
          watch(s, round % 2 == 0 ? "k0" : "", from ? from->at : 0, [&rings] { ++rings; });
      revision last = 0;
      for (int i = 0; i < 5; ++i) {
        for (const event& one : w->take(100).events) {
          in_order = in_order && one.at >= last;
          last = one.at;
        }
      }
    }
    stop = true;
    for (std::thread& one : writers) one.join();
    CHECK(in_order);
  });
}

TEST_CASE("a closed store says so, to everybody, once each", "[control]") {
  for_each_backend([](store& s) {
    put_one(s, "k", "v");
    const auto w = watch(s, "", 0);
    CHECK(s.close());
    CHECK(s.close());
    const auto written = commit(s, {.changes = {put("k", "late")}});
    REQUIRE_FALSE(written);
    CHECK(written.error().code() == errc::cancelled);
    CHECK_THAT(written.error().message(), Contains("was closed"));
    CHECK(read(s, {"k"}).error().code() == errc::cancelled);
    CHECK(scan(s, {}).error().code() == errc::cancelled);
    CHECK(s.watch("", 0, [] {}).error().code() == errc::cancelled);
    CHECK(text_of(take_all(*w, 10).events) == "1:k=v ");  // what was told can still be taken
  });
}

TEST_CASE("a memory store has a limit, and goes on when there is room", "[control]") {
  // Each record takes 64 bytes beside its key and value.
  const auto s = control::make_memory_store(1000);
  CHECK(put_one(*s, "a", std::string(1000 - 65, 'x')) == 1);
  CHECK(s->measure().bytes == 1000);
  CHECK_THAT(refusal(commit(*s, {.changes = {put("b", "")}})),
             Contains("store_full") && Contains("65 bytes, 1000 of 1000 are in use"));
  CHECK(put_one(*s, "a", std::string(1000 - 65, 'y')) == 2);  // in the place of the old one
  CHECK_THAT(refusal(commit(*s, {.changes = {put("a", std::string(1000 - 64, 'z'))}})),
             Contains("store_full"));
  CHECK(get_one(*s, "a")->value.front() == 'y');
  // What a batch gives back counts.
  CHECK(commit(*s, {.changes = {del("a"), put("b", std::string(900, 'x'))}})->at == 3);
  CHECK(s->measure().bytes == 965);
  CHECK(s->measure().records == 1);
  CHECK(commit(*s, {.changes = {del("b")}})->at == 4);
  CHECK(s->measure().bytes == 0);
}
