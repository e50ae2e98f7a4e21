// SPDX-License-Identifier: Apache-2.0
// The store on a disk that fills up, and on a machine that dies with what it had not synced.
#include <manta/base/sanitizers.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/disk.hpp"
#include "control/fault_files.hpp"
#include "control/rocks_files.hpp"

#if MANTA_HAS_ASAN
// RocksDB 7.8 loses a memtable now and then when its files fail and it is closed while it flushes:
// about one of 30 runs of these tests. All else that leaks is still found, a store that is not
// closed, too.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the sanitizer's name
extern "C" const char* __lsan_default_suppressions() {
  return "leak:rocksdb::DBImpl::SwitchMemtable\n";
}
#endif

namespace {

using namespace test_control;  // NOLINT: the calls are the subject here
using control::batch;
using control::outcome;
using control::revision;
using manta::errc;
using manta_test::dice;

/// Faulty files, and RocksDB's view of them. Outlives the stores on them.
struct faulty {
  std::shared_ptr<fault_files> files = std::make_shared<fault_files>();
  std::unique_ptr<fault_env> env = std::make_unique<fault_env>(files);

  manta::result<std::unique_ptr<store>> open(const std::string& path) const {
    return control::open_rocks_store({.path = path, .memory_bytes = 1}, env.get());
  }
};

/// What a store has after some batches.
using model = std::map<std::string, std::pair<std::string, revision>>;

void apply(model& to, const batch& what, revision at) {
  for (const control::change& one : what.changes) {
    if (one.what == control::change::kind::put) {
      to[one.key] = {one.value, at};
    } else {
      to.erase(one.key);
    }
  }
}

model all_of(store& s) {
  model out;
  for (auto& one : scan_all(s, "", 1000)) out[one.key] = {std::move(one.value), one.at};
  return out;
}

std::size_t size_at_random(dice& d) {
  // A few large ones, so that tables are written while batches come.
  return d.one_in(8) ? d.below(60000) : d.below(200);
}

batch batch_at_random(dice& d) {
  batch out;
  const std::size_t changes = 1 + d.below(4);
  for (std::size_t i = 0; i < changes; ++i) {
    const std::string key = "key/" + std::to_string(d.below(100));
    if (d.one_in(4)) {
      out.changes.push_back(del(key));
    } else {
      out.changes.push_back(put(key, std::string(size_at_random(d), static_cast<char>(d.next()))));
    }
  }
  if (d.one_in(6)) out.how = durability::durable;
  return out;
}

/// Batches on their way, and what became of them.
struct sent_batches {
  std::shared_ptr<fault_files> files;
  std::vector<batch> batches;
  std::deque<mailbox<outcome>> boxes;
  std::deque<std::atomic<bool>> were_alive{};  // the machine, when a batch was answered
  revision durable = 0;                        // the last one that was answered as such

  void send(store& to, batch what) {
    batches.push_back(what);
    auto& was_alive = were_alive.emplace_back(false);
    to.commit(std::move(what), [&was_alive, on = files, answer = boxes.emplace_back().answer()](
                                   const manta::result<outcome>& got) {
      was_alive = !on->is_crashed();
      answer(got);
    });
  }
  /// Waits for all. False when an answer is not the next revision and no failure of the disk.
  bool wait(revision before) {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const auto got = boxes[i].wait();
      if (!got && got.error().code() != errc::storage_failed) return false;
      if (!got) continue;
      if (got->at != before + i + 1) return false;
      if (batches[i].how == durability::durable && were_alive[i]) durable = got->at;
    }
    return true;
  }
};

/// One life of a store: opens it, sends batches, and the machine dies somewhere.
sent_batches live_and_die(const faulty& on, const std::string& path, revision before, dice& d) {
  sent_batches sent{on.files, {}, {}, {}, 0};
  const bool dies_early = d.one_in(4);
  if (dies_early) on.files->crash_after(1 + d.below(60));
  const auto opened = on.open(path);
  if (!opened) return sent;
  if (!dies_early) on.files->crash_after(1 + d.below(150));
  for (int i = 0; i < 2000 && !on.files->is_crashed(); ++i) {
    sent.send(**opened, batch_at_random(d));
    // Some come together, some alone.
    if (d.one_in(30)) static_cast<void>(sent.boxes.back().wait_only());
  }
  if (!sent.wait(before)) FAIL("an answer is wrong");
  return sent;
}

}  // namespace

TEST_CASE("the test's files lose what was not synced", "[control][disk][fault]") {
  const folder where;
  const faulty on;
  const std::string path = (where.path() / "file").string();
  std::unique_ptr<rocksdb::FSWritableFile> file;
  std::unique_ptr<rocksdb::FSDirectory> directory;
  REQUIRE(on.files->NewDirectory(where.path().string(), {}, &directory, nullptr).ok());
  dice d(manta_test::run_seed());
  std::size_t least = 10;
  int gone = 0;
  for (int round = 0; round < 100; ++round) {
    REQUIRE(on.files->NewWritableFile(path, {}, &file, nullptr).ok());
    REQUIRE(file->Append("12345", {}, nullptr).ok());
    REQUIRE(file->Sync({}, nullptr).ok());
    const bool has_entry = round % 2 == 0;
    if (has_entry) REQUIRE(directory->Fsync({}, nullptr).ok());
    on.files->crash_after(1);
    REQUIRE(file->Append("67890", {}, nullptr).ok());
    REQUIRE(on.files->is_crashed());
    REQUIRE(file->Append("never", {}, nullptr).ok());  // and yet nothing is written
    REQUIRE(file->Sync({}, nullptr).ok());
    REQUIRE_FALSE(on.files->DeleteFile(path, {}, nullptr).ok());
    file.reset();
    on.files->lose_unsynced(d);
    REQUIRE((!has_entry || fs::exists(path)));
    if (!fs::exists(path)) {
      ++gone;
      continue;
    }
    REQUIRE(fs::file_size(path) >= 5);
    REQUIRE(fs::file_size(path) <= 10);
    least = std::min<std::size_t>(least, fs::file_size(path));
  }
  CHECK(least == 5);
  CHECK(gone > 0);
  CHECK(gone < 50);
}

TEST_CASE("what was durable survives the machine, and nothing before it is missing",
          "[control][disk][fault][repeats]") {
  const folder where;
  const faulty on;
  const auto seed = manta_test::run_seed();
  CAPTURE(seed);
  dice d(seed);
  model expected;
  revision at = 0;
  int lost = 0;
  for (int round = 0; round < manta_test::repeats(30, 500); ++round) {
    CAPTURE(round, at);
    const sent_batches sent = live_and_die(on, where.store(), at, d);
    on.files->lose_unsynced(d);
    const auto opened = on.open(where.store());
    if (!opened) FAIL(opened.error().message());
    const revision now = (*opened)->measure().at;
    REQUIRE(now >= std::max(at, sent.durable));
    REQUIRE(now <= at + sent.batches.size());
    for (revision next = at; next < now; ++next) apply(expected, sent.batches[next - at], next + 1);
    REQUIRE(all_of(**opened) == expected);
    if (now < at + sent.batches.size()) ++lost;
    at = now;
  }
  if (!manta_test::is_sanitized) CHECK(lost > 0);  // three rounds there may lose nothing
  if (std::getenv("MANTA_TEST_FULL") == nullptr) return;
  WARN(at << " batches, crashes that lost some: " << lost);
}

namespace {

/// What a commit on a full disk must be: answered with store_full, without waiting for room. The
/// limit is for a machine that stands still meanwhile.
void check_full(store& s, durability how) {
  const auto begin = std::chrono::steady_clock::now();
  const auto got = commit(s, {.changes = {put("full", "x"), put("more", "x")}, .how = how});
  REQUIRE_FALSE(got);
  CHECK(got.error().code() == errc::store_full);
  CHECK_THAT(got.error().message(), Catch::Matchers::Contains("no room on the disk"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

}  // namespace

TEST_CASE("a full disk is answered, and when there is room commits go on",
          "[control][disk][fault]") {
  // What failed must not be there later, not even after a crash; what comes after must.
  const folder where;
  const faulty on;
  const std::string crashed = (where.path() / "crashed").string();
  dice d(manta_test::run_seed());
  revision at = 0;
  model expected;
  for (int life = 0; life < 4; ++life) {
    const auto opened = on.open(where.store());
    if (!opened) FAIL(opened.error().message());
    store& s = **opened;
    for (int round = 0; round < 6; ++round) {
      CAPTURE(life, round);
      // Full at once in the first round of a life; later with a table half filled.
      for (std::size_t i = 0; round != 0 && i < 1 + d.below(200); ++i) {
        const batch what = batch_at_random(d);
        REQUIRE(commit(s, what)->at == ++at);
        apply(expected, what, at);
      }
      on.files->set_room(false);
      for (int i = 0; i < 3; ++i)
        check_full(s, i == 1 ? durability::durable : durability::buffered);
      CHECK(all_of(s) == expected);
      const auto refused = commit(s, {.conditions = {{"none", 7}}, .changes = {put("full", "")}});
      CHECK((refused && refused->refused));
      on.files->set_room(true);
      const batch what = batch_at_random(d);
      const auto again = commit(s, what);
      if (!again) FAIL(again.error().message());
      REQUIRE(again->at == ++at);
      apply(expected, what, at);
    }
    copy_as_after_a_crash(where.store(), crashed);
    CHECK(all_of(*open_on_disk(crashed)) == expected);
    // Half of the stores are closed on a full disk.
    if (life % 2 == 1) on.files->set_room(false);
    const auto closed = s.close();
    on.files->set_room(true);
  }
}

TEST_CASE("a log that ended early hides the log after it", "[control][disk][fault]") {
  // A machine that dies may have brought a later log to the disk and not the end of the one before;
  // later batches without earlier ones would show as no prefix.
  const folder where;
  const faulty on;
  const std::string crashed = (where.path() / "crashed").string();
  const std::string cut = (where.path() / "cut").string();
  constexpr std::size_t batches = 110;
  {
    const auto opened = on.open(where.store());
    if (!opened) FAIL(opened.error().message());
    on.files->hold_tables(true);
    for (std::size_t n = 1; n <= batches; ++n) {
      batch what = batch_of(n);
      what.changes.push_back(put("much", std::string(20000, 'm')));
      CHECK(commit(**opened, std::move(what)));
    }
    copy_as_after_a_crash(where.store(), crashed);
    on.files->hold_tables(false);
  }
  auto logs = files_of(crashed, ".log");
  std::sort(logs.begin(), logs.end());
  REQUIRE(logs.size() >= 2);
  CHECK(prefix_length(*open_on_disk((fs::copy(crashed, cut), cut))) == batches);
  const fs::path first = logs[logs.size() - 2];
  const auto whole = fs::file_size(first);
  for (const std::uintmax_t less : {1U, 100U, 19000U, 50000U, 300000U}) {
    CAPTURE(less);
    copy_as_after_a_crash(crashed, cut);
    fs::resize_file(fs::path(cut) / first.filename(), whole - less);
    const auto s = open_on_disk(cut);
    const int found = prefix_length(*s);
    CHECK(found > 0);
    CHECK(found < static_cast<int>(batches));
    REQUIRE(commit(*s, batch_of(static_cast<std::size_t>(found) + 1)));
    CHECK(prefix_length(*s) == found + 1);
  }
}

TEST_CASE("a batch whose sync failed is not there later", "[control][disk][fault]") {
  // It is in the log, whole; what is replayed of the log must end before it.
  const folder where;
  const faulty on;
  const auto opened = on.open(where.store());
  if (!opened) FAIL(opened.error().message());
  store& s = **opened;
  for (revision round = 1; round <= 3; ++round) {
    REQUIRE(commit(s, {.changes = {put("good", std::to_string(round))}})->at == round);
    on.files->fail_syncs(true);
    const auto failed = commit(s, {.changes = {put("bad", "x")}, .how = durability::durable});
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == errc::storage_failed);
    CHECK(scan_all(s, "", 10).size() == 1);
    REQUIRE_FALSE(commit(s, {.changes = {put("bad", "x")}}));
    on.files->fail_syncs(false);
  }
  REQUIRE(commit(s, {.changes = {put("good", "4")}})->at == 4);
  const auto all = scan_all(s, "", 10);
  REQUIRE(all.size() == 1);
  CHECK(all[0].value == "4");
}
