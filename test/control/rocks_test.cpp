// SPDX-License-Identifier: Apache-2.0
// What the store on a disk promises beyond the contract: what is found again, and what is refused.
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <manta/base/sanitizers.hpp>

#include "control/disk.hpp"
#include "control/rocks_files.hpp"
#include "control/rocks_tools.hpp"

namespace {

using namespace test_control;  // NOLINT: the calls are the subject here
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using control::durability;
using control::revision;
using control::store;
using manta::errc;
using manta_test::dice;

std::string refusal_of(const control::rocks_options& how) {
  const auto opened = control::open_rocks_store(how);
  if (opened) return "opened";
  CHECK(opened.error().code() == errc::storage_failed);
  return opened.error().message();
}

}  // namespace

TEST_CASE("what was committed is found again, and revisions go on", "[control][disk]") {
  const folder where;
  {
    const auto s = open_on_disk(where.store());
    REQUIRE(commit(*s, {.changes = {put("a", "1"), put("b", std::string(300, 'b'))}}));
    REQUIRE(commit(*s, {.changes = {put("c", "1"), del("a")}, .how = durability::durable}));
  }
  for (revision round = 3; round < 6; ++round) {
    const auto s = open_on_disk(where.store());
    CHECK(s->measure().at == round - 1);
    const auto got = read(*s, {"a", "b", "c"});
    REQUIRE(got);
    CHECK(got->at == round - 1);
    CHECK_FALSE(got->records[0]);
    CHECK(got->records[1]->at == 1);
    CHECK(got->records[1]->value == std::string(300, 'b'));
    CHECK(got->records[2]->at == 2);
    // What happened before it was opened is told to nobody; what comes, to everybody.
    CHECK((*s->watch("", 0, [] {}))->take(1).has_gap);
    const auto w = *s->watch("", round - 1, [] {});
    CHECK(commit(*s, {.conditions = {{"a", 0}, {"c", 2}}, .changes = {put("d", "x")}})->at ==
          round);
    CHECK(w->take(10).events.size() == 1);
  }
}

TEST_CASE("conditions see what the group before them in the queue does", "[control][disk]") {
  const folder where;
  const auto s = open_on_disk(where.store());
  // All at once, so that they are written together.
  std::vector<std::unique_ptr<mailbox<control::outcome>>> boxes;
  for (revision i = 0; i < 1000; ++i) {
    boxes.push_back(std::make_unique<mailbox<control::outcome>>());
    const auto how = i % 3 == 0 ? durability::durable : durability::buffered;
    s->commit({.conditions = {{"k", i}}, .changes = {put("k", std::to_string(i))}, .how = how},
              boxes.back()->answer());
    if (i % 10 != 9) continue;
    // One that comes too late, and one that needs the key gone.
    boxes.push_back(std::make_unique<mailbox<control::outcome>>());
    s->commit({.conditions = {{"k", i}}, .changes = {put("k", "late")}}, boxes.back()->answer());
  }
  revision next = 1;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto got = boxes[i]->wait();
    REQUIRE(got);
    if (i % 11 == 10) {
      REQUIRE(got->refused);
      REQUIRE(got->refused->found == next - 1);
    } else {
      REQUIRE(got->at == next++);
    }
  }
}

TEST_CASE("a condition sees batches of its group that have none", "[control][disk]") {
  const folder where;
  const auto s = open_on_disk(where.store());
  std::vector<std::unique_ptr<mailbox<control::outcome>>> boxes;
  const auto commit_to_box = [&](control::batch what) {
    boxes.push_back(std::make_unique<mailbox<control::outcome>>());
    s->commit(std::move(what), boxes.back()->answer());
  };
  for (revision i = 0; i < 300; ++i) {
    const revision first = 3 * i + 1;
    commit_to_box({.changes = {put("a long key that is not in place " + std::to_string(i), "1")}});
    commit_to_box({.changes = {put("k", "1"), del("gone")}});
    commit_to_box({.conditions = {{"k", first + 1}, {"gone", 0}}, .changes = {put("gone", "1")}});
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) REQUIRE(boxes[i]->wait()->at == i + 1);
}

namespace {

/// No file of this process can be longer.
class file_limit {
 public:
  explicit file_limit(std::uintmax_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit now = before_;
    now.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~file_limit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  file_limit(const file_limit&) = delete;
  file_limit& operator=(const file_limit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("a write that fails answers nobody with what it would have done", "[control][disk]") {
  // A condition that is refused for an earlier batch of the group would tell a revision that never
  // came to be, and that another batch gets.
  const folder where;
  auto s = open_on_disk(where.store());
  REQUIRE(commit(*s, {.changes = {put("k", "1")}}));
  mailbox<control::outcome> lost;
  mailbox<control::outcome> refused;
  mailbox<control::outcome> first;
  std::mutex gate;
  std::unique_lock closed(gate);
  const auto answer = first.answer();
  s->commit({.changes = {put("k", "2")}}, [&](const auto& got) {
    answer(got);
    const std::lock_guard wait_for_the_rest(gate);
  });
  REQUIRE(first.wait());
  {
    const file_limit full(fs::file_size(files_of(where.store(), ".log").at(0)));
    s->commit({.changes = {put("k", "3")}}, lost.answer());
    s->commit({.conditions = {{"k", 2}}, .changes = {put("k", "4")}}, refused.answer());
    closed.unlock();
    CHECK_FALSE(lost.wait());
    CHECK_FALSE(refused.wait());
  }
  for (int opened = 0; opened < 2; ++opened) {
    const auto now = read(*s, {"k"});
    REQUIRE(now);
    CHECK(now->at == 2);
    CHECK(now->records[0]->at == 2);
    s.reset();
    s = open_on_disk(where.store());
  }
}

TEST_CASE("a read that is interrupted does not tell an older moment", "[control][disk]") {
  // One key is read without a snapshot. A reader that loses its core between the revision and the
  // key would find more than it tells; with more readers than cores that happens often.
  const folder where;
  const auto s = open_on_disk(where.store());
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::atomic<int> told{0};
  const auto looks = [&] {
    while (!is_over) {
      s->read({"k"}, [&](const manta::result<control::found>& got) {
        ++told;
        if (!got || (got->records[0] && got->records[0]->at != got->at)) ++wrong;
      });
    }
  };
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency() + 2; ++i) {
    readers.emplace_back(looks);
  }
  for (int n = 0; n < manta_test::scaled(4000); ++n)
    REQUIRE(commit(*s, {.changes = {put("k", "v")}}));
  is_over = true;
  for (std::thread& one : readers) one.join();
  CHECK(told > 0);
  CHECK(wrong == 0);
}

TEST_CASE("a folder that is not this store's is refused", "[control][disk]") {
  const folder where;
  { open_on_disk(where.store()); }
  CHECK_THAT(refusal_of({.path = where.store(), .cluster = "other"}),
             Contains("belongs to cluster \"local\", this is \"other\""));
  CHECK_THAT(refusal_of({.path = ""}), Contains("name a folder"));
  const auto file = where.path() / "file";
  std::ofstream(file) << "x";
  CHECK_THAT(refusal_of({.path = (file / "below").string()}), Contains("can't make it"));
  {
    const auto first = open_on_disk(where.store());
    CHECK_THAT(refusal_of({.path = where.store()}), Contains("another process has it"));
  }
  // A newer version's, and one that has records and says nothing about itself.
  const auto change_about = [&where](const char* key, const char* value) {
    auto files = control::rocks_files::open({.path = where.store()});
    REQUIRE(files);
    const auto status = value == nullptr ? files->db->Delete({}, files->about, key)
                                         : files->db->Put({}, files->about, key, value);
    REQUIRE(status.ok());
    REQUIRE(files->db->Put({}, files->records, "some", "record").ok());
  };
  change_about("format", "2");
  CHECK_THAT(refusal_of({.path = where.store()}), Contains("its format is 2, this version of manta "
                                                           "reads 1"));
  fs::remove_all(where.store());
  change_about("format", nullptr);
  CHECK_THAT(refusal_of({.path = where.store()}), Contains("was not made by manta"));
}

TEST_CASE("a folder with files of others is no new store's, and stays as it is",
          "[control][disk]") {
  const folder where;
  for (const char* const name : {"notes.txt", "app.log", "table.sst", "src/"}) {
    CAPTURE(name);
    fs::remove_all(where.store());
    fs::create_directories(fs::path(where.store()) / name);
    CHECK_THAT(refusal_of({.path = where.store()}),
               Contains("\" lies there, which is of no store; name a folder that"));
    CHECK(names_in(where.store()).size() == 1);
  }
}

TEST_CASE("a store begins where an earlier one has not, and goes on beside what comes later",
          "[control][disk]") {
  const folder where;
  fs::create_directories(where.store());
  for (const char* const name : {"LOCK", "IDENTITY", "LOG", "LOG.old.17", "000001.dbtmp", "room",
                                 "MANIFEST-000001", "OPTIONS-000005", ".nfs0001"}) {
    std::ofstream(fs::path(where.store()) / name) << "";
  }
  fs::create_directories(fs::path(where.store()) / "lost+found");
  { REQUIRE(commit(*open_on_disk(where.store()), batch_of(1))); }
  std::ofstream(fs::path(where.store()) / "notes.txt") << "x";
  CHECK(prefix_length(*open_on_disk(where.store())) == 1);
}

TEST_CASE("a file of a store that is missing is no new store", "[control][disk]") {
  // RocksDB would begin anew where CURRENT is missing, and remove the tables.
  const folder where;
  const std::string damaged = (where.path() / "damaged").string();
  for (int part = 0; part < 2; ++part) {
    const auto s = open_on_disk(where.store());
    REQUIRE(commit(*s, batch_of(static_cast<std::size_t>(part) + 1)));
  }
  for (const char* const kind : {"CURRENT", "MANIFEST", ".sst"}) {
    CAPTURE(kind);
    copy_as_after_a_crash(where.store(), damaged);
    for (const auto& one : fs::directory_iterator(damaged)) {
      if (one.path().extension() == kind || one.path().filename().string().starts_with(kind)) {
        fs::remove(one.path());
      }
    }
    const auto before = std::distance(fs::directory_iterator(damaged), fs::directory_iterator());
    CHECK_THAT(refusal_of({.path = damaged}), Contains("manta control repair"));
    CHECK(files_of(damaged, ".log").size() + files_of(damaged, ".sst").size() > 0);
    CHECK(std::distance(fs::directory_iterator(damaged), fs::directory_iterator()) >= before);
  }
}

namespace {

// What may lie in the place of a store's file: `path` is that of a table or the manifest's.
void make_longer(const fs::path& path) { std::ofstream(path, std::ios::app) << "more"; }
void make_pipe(const fs::path& path) {
  fs::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
}
void make_folder(const fs::path& path) {
  fs::remove(path);
  fs::create_directory(path);
}
void name_nothing(const fs::path& path) {
  std::ofstream(path.parent_path() / "CURRENT") << std::string(16, '\0');
}

fs::path manifest_in(const std::string& path) {
  for (const auto& one : fs::directory_iterator(path)) {
    if (one.path().filename().string().starts_with("MANIFEST-")) return one.path();
  }
  return {};
}

}  // namespace

TEST_CASE("whatever lies in the place of a store's file is refused in one line",
          "[control][disk]") {
  const folder where;
  const std::string odd = (where.path() / "odd").string();
  for (std::size_t part = 0; part < 2; ++part) {  // the second one puts the first into a table
    REQUIRE(commit(*open_on_disk(where.store()), batch_of(part + 1)));
  }
  for (auto* const spoil : {make_longer, make_pipe, make_folder, name_nothing}) {
    for (const bool is_table : {true, false}) {
      if (!is_table && spoil == make_longer) continue;  // a crash leaves such a manifest
      copy_as_after_a_crash(where.store(), odd);
      spoil(is_table ? files_of(odd, ".sst").at(0) : manifest_in(odd));
      const std::string said = refusal_of({.path = odd});
      CHECK(said != "opened");
      CHECK(said.find('\n') == std::string::npos);
      const auto seen = control::check_rocks_store(odd);
      REQUIRE_FALSE(seen);
      CHECK(seen.error().code() == errc::storage_failed);
      CHECK(seen.error().message().find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("a log that lies twice in its file is saved once", "[control][disk]") {
  const folder where;
  const std::string twice = (where.path() / "twice").string();
  {
    const auto s = open_on_disk(where.store());
    for (std::size_t n = 1; n <= 20; ++n) REQUIRE(commit(*s, batch_of(n)));
    copy_as_after_a_crash(where.store(), twice);
  }
  const fs::path log = files_of(twice, ".log").at(0);
  std::ifstream from(log, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(from), {}};
  std::ofstream(log, std::ios::binary | std::ios::app) << all;
  CHECK(prefix_length(*open_on_disk(twice)) == 20);

  copy_as_after_a_crash(where.store(), twice);
  std::ofstream(files_of(twice, ".log").at(0), std::ios::binary) << all << all;
  const std::string saved = (where.path() / "saved").string();
  REQUIRE(control::repair_rocks_store(twice, saved, "local"));
  CHECK(scan_all(*open_on_disk(saved), "log/", 100).size() == 20);
}

TEST_CASE("a log that ends anywhere gives back the batches before", "[control][disk][repeats]") {
  // Later records without earlier ones, or half a batch, would show as no prefix.
  const folder where;
  const std::string crashed = (where.path() / "crashed").string();
  {
    const auto s = open_on_disk(where.store());
    for (std::size_t n = 1; n <= 200; ++n) REQUIRE(commit(*s, batch_of(n)));
    copy_as_after_a_crash(where.store(), crashed);
  }
  const auto logs = files_of(crashed, ".log");
  REQUIRE(logs.size() == 1);
  const std::string name = logs[0].filename().string();
  const auto whole = fs::file_size(logs[0]);
  REQUIRE(whole > 4096);
  const std::string cut = (where.path() / "cut").string();
  int shorter = 0;
  dice d(manta_test::run_seed());
  // Each opens a store, which takes a sanitizer half a second, or three on a busy disk.
  const int longest = manta::base::is_sanitized ? 300 : 100;
  const auto most_skipped = static_cast<std::size_t>(manta_test::repeats(longest, 1));
  for (std::uintmax_t less = 0; less < 4096; less += 1 + d.below(most_skipped)) {
    CAPTURE(less);
    copy_as_after_a_crash(crashed, cut);
    fs::resize_file(fs::path(cut) / name, whole - less);
    const auto s = open_on_disk(cut);
    const int found = prefix_length(*s);
    REQUIRE(found >= 0);
    REQUIRE(found <= 200);
    if (less == 0) REQUIRE(found == 200);
    shorter += found < 200 ? 1 : 0;
    REQUIRE(commit(*s, batch_of(static_cast<std::size_t>(found) + 1)));
    REQUIRE(prefix_length(*s) == found + 1);
  }
  CHECK(shorter > 10);
}

TEST_CASE("damage is refused with the command that repairs, or changes nothing",
          "[control][disk][repeats]") {
  const folder where;
  const std::string whole = (where.path() / "whole").string();
  const std::string damaged = (where.path() / "damaged").string();
  for (int part = 0; part < 2; ++part) {  // some of it in tables, some in the log
    const auto s = open_on_disk(where.store());
    for (std::size_t n = 1; n <= 300; ++n) {
      REQUIRE(commit(*s, batch_of(static_cast<std::size_t>(part) * 300 + n)));
    }
    if (part == 1) copy_as_after_a_crash(where.store(), whole);
  }
  std::vector<fs::path> files;
  for (const auto& one : fs::directory_iterator(whole)) {
    const std::string name = one.path().filename().string();
    if (one.path().extension() == ".log" || one.path().extension() == ".sst" ||
        name.starts_with("MANIFEST") || name == "CURRENT") {
      files.push_back(one.path());
    }
  }
  REQUIRE(files.size() >= 4);
  dice d(manta_test::run_seed());
  int refused = 0;
  int shorter = 0;
  int harmless = 0;
  for (int round = 0; round < manta_test::repeats(40, 10000); ++round) {
    copy_as_after_a_crash(whole, damaged);
    const fs::path file = fs::path(damaged) / files[d.below(files.size())].filename();
    const std::size_t at = d.below(fs::file_size(file));
    CAPTURE(file.string(), at);
    flip_bit(file, at, d.below(8));
    auto opened = control::open_rocks_store({.path = damaged});
    if (!opened) {
      ++refused;
      REQUIRE(opened.error().code() == errc::storage_failed);
      REQUIRE_THAT(opened.error().message(), Contains("manta control repair"));
      continue;
    }
    const auto s = *std::move(opened);
    const auto page = scan(*s, {.prefix = "log/", .most = 1000});
    if (!page) {
      ++refused;
      REQUIRE(page.error().code() == errc::storage_failed);
      REQUIRE_THAT(page.error().message(), Contains("manta control repair"));
      continue;
    }
    // In the end of the log damage looks like a crash: a prefix.
    const int found = prefix_length(*s);
    REQUIRE(found >= 300);
    if (found < 600) REQUIRE(file.extension() == ".log");
    ++(found < 600 ? shorter : harmless);
  }
  CHECK(refused > 0);
  if (std::getenv("MANTA_TEST_FULL") == nullptr) return;
  WARN("refused: " << refused << ", without effect: " << harmless
                   << ", a shorter log: " << shorter);
}

TEST_CASE("a writer that is killed loses nothing that was durable", "[control][disk][repeats]") {
  const folder where;
  const std::string log = (where.path() / "log").string();
  std::size_t before = 0;
  dice d(manta_test::run_seed());
  for (int round = 0; round < manta_test::repeats(10, 100); ++round) {
    CAPTURE(round);
    const std::size_t enough = before + 20 + d.below(400);
    {
      writer_process writer(where.store(), log);
      REQUIRE(manta_test::happens([&] { return last_in_log(log) >= enough; }));
      const int status = writer.end_by(SIGKILL);
      REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    }
    const std::size_t durable = last_in_log(log);
    const auto s = open_on_disk(where.store());
    const int found = prefix_length(*s);
    REQUIRE(found >= 0);
    REQUIRE(static_cast<std::size_t>(found) >= durable);
    before = static_cast<std::size_t>(found);
  }
}

TEST_CASE("a manifest with a damaged bit is refused, and no table is lost",
          "[control][disk][repeats]") {
  // RocksDB takes a record that is too long for the end after a crash, and forgets the tables that
  // come after it.
  const folder where;
  const std::string damaged = (where.path() / "damaged").string();
  for (std::size_t n = 1; n <= 3; ++n) REQUIRE(commit(*open_on_disk(where.store()), batch_of(n)));
  fs::path manifest;
  for (const auto& one : fs::directory_iterator(where.store())) {
    if (one.path().filename().string().starts_with("MANIFEST")) manifest = one.path();
  }
  const std::size_t size = fs::file_size(manifest);
  dice d(manta_test::run_seed());
  // Every bit in the slow run; before that the first record's length, so that it is always among
  // them.
  const std::size_t step = manta_test::repeats(0, 1) == 1 ? 1 : 1 + d.below(size / 4);
  for (std::size_t place = 4 * 8; place < size * 8; place += step) {
    const std::size_t at = place / 8;
    const std::size_t bit = place % 8;
    CAPTURE(at, bit);
    copy_as_after_a_crash(where.store(), damaged);
    flip_bit(fs::path(damaged) / manifest.filename(), at, bit);
    REQUIRE_THAT(refusal_of({.path = damaged}), Contains("manta control repair"));
    REQUIRE(files_of(damaged, ".sst").size() == files_of(where.store(), ".sst").size());
  }
}

TEST_CASE("a table's end with a damaged bit is refused or changes nothing",
          "[control][disk][repeats]") {
  // It has no checksum, and says how all others are made.
  const folder where;
  const std::string damaged = (where.path() / "damaged").string();
  for (std::size_t n = 1; n <= 3; ++n) REQUIRE(commit(*open_on_disk(where.store()), batch_of(n)));
  const fs::path table = files_of(where.store(), ".sst").at(0);
  const std::size_t end = fs::file_size(table) * 8;
  constexpr std::size_t footer_bits = 53UL * 8;
  dice d(manta_test::run_seed());
  const std::size_t step = manta_test::repeats(0, 1) == 1 ? 1 : 1 + d.below(12);
  int refused = 0;
  for (std::size_t place = end - footer_bits; place < end; place += step) {
    CAPTURE(place);
    copy_as_after_a_crash(where.store(), damaged);
    flip_bit(fs::path(damaged) / table.filename(), place / 8, place % 8);
    auto opened = control::open_rocks_store({.path = damaged});
    if (opened) {
      REQUIRE(prefix_length(**opened) == 3);
      continue;
    }
    ++refused;
    REQUIRE_THAT(opened.error().message(), Contains("manta control repair"));
    // The method, the format and the magic; what is between has checksums where it leads to.
    const std::size_t at = place / 8 - (end - footer_bits) / 8;
    if (at == 0 || at > 40) REQUIRE_THAT(opened.error().message(), Contains("the end of"));
  }
  CHECK(refused > 10);
}
