// SPDX-License-Identifier: Apache-2.0
// `manta control` through the program itself: what it prints, how it exits, what it leaves.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/disk.hpp"

namespace {

using namespace test_control;  // NOLINT: the calls are the subject here
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

struct ran {
  int code = -1;
  std::string out;  // and errors
};

ran shell(const std::string& command) {
  ran got;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) FAIL("the program does not start");
  std::array<char, 4096> some{};
  for (std::size_t n = 1; n != 0; got.out.append(some.data(), n)) {
    n = fread(some.data(), 1, some.size(), pipe);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) got.code = WEXITSTATUS(status);
  return got;
}

ran tool(const std::string& arguments) { return shell(std::string(MANTA_TOOL) + " " + arguments); }

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// One line that begins as all errors do.
void check_problem(const std::string& arguments, int code, const std::string& said) {
  CAPTURE(arguments);
  const ran got = tool(arguments);
  CHECK(got.code == code);
  CHECK(lines(got.out) == 1);
  CHECK_THAT(got.out, StartsWith("manta: "));
  CHECK_THAT(got.out, Contains(said));
}

void fill(const std::string& path, std::size_t first, std::size_t last) {
  const auto s = open_on_disk(path);
  for (std::size_t n = first; n <= last; ++n) REQUIRE(commit(*s, batch_of(n)));
}

}  // namespace

TEST_CASE("control check and dump show what a store has", "[tool][control]") {
  const folder where;
  const std::string store = where.store();
  {
    const auto s = open_on_disk(store);
    REQUIRE(commit(*s, {.changes = {put("a", "one"), put("b\n\"", std::string("\0\xff", 2))}}));
    REQUIRE(commit(*s, {.changes = {put("b/c", "")}}));
  }
  const ran checked = tool("control check " + store);
  CHECK(checked.code == 0);
  CHECK_THAT(checked.out, Contains("is sound\nformat 1, cluster local, revision 2\n3 records, 12 "
                                   "bytes"));
  CHECK(tool("control dump " + store).out == "a\t1\t3\nb\\n\"\t1\t2\nb/c\t2\t0\n");
  CHECK(tool("control dump --values --prefix b " + store).out ==
        "b\\n\"\t1\t2\t\\x00\\xff\nb/c\t2\t0\t\n");
  CHECK(tool("control dump --json --values --prefix b " + store).out ==
        "{\"key\":\"b\\u000a\\\"\",\"revision\":1,\"size\":2,\"value\":\"\\u0000\\u00ff\"}\n"
        "{\"key\":\"b/c\",\"revision\":2,\"size\":0,\"value\":\"\"}\n");
  // Looking changed nothing.
  CHECK(open_on_disk(store)->measure().at == 2);
}

TEST_CASE("control says in one line what it was asked wrongly", "[tool][control]") {
  const folder where;
  const std::string nothing = (where.path() / "nothing").string();
  const std::string other = (where.path() / "other").string();
  fs::create_directory(other);
  std::ofstream(fs::path(other) / "file") << "x";
  check_problem("", 2, "see manta --help");
  check_problem("control", 2, "see manta --help");
  check_problem("control mend x", 2, "see manta --help");
  check_problem("control backup " + other, 2, "to is required");
  check_problem("control check " + nothing, 1, "can't read the folder");
  check_problem("control check " + other, 1, "there is no store in it");
  check_problem("control dump " + other, 1, "there is no store in it");
  check_problem("control backup " + other + " " + nothing, 1, "there is no store in it");
  check_problem("control restore " + other + " " + nothing, 1, "there is no store in it");
  check_problem("control repair " + other + " " + nothing, 1, "neither tables nor logs");
  // Nor is one that has files which are called nearly so.
  for (const char* const name : {"app.log", "table.sst"}) {
    std::ofstream(fs::path(other) / name) << "x";
  }
  check_problem("control check " + other, 1, "there is no store in it");
  check_problem("control repair " + other + " " + nothing, 1, "neither tables nor logs");
  CHECK(std::distance(fs::directory_iterator(other), {}) == 3);
  fill(where.store(), 1, 3);
  check_problem("control backup " + where.store() + " " + other, 1, "something lies there");
  check_problem("control restore " + where.store() + " " + other, 1, "something lies there");
  check_problem("control repair " + where.store() + " " + other, 1, "something lies there");
  const auto s = open_on_disk(where.store());
  check_problem("control check " + where.store(), 1, "a process has it open");
  check_problem("control repair " + where.store() + " " + nothing, 1, "a process has it open");
  CHECK_FALSE(fs::exists(nothing));
  CHECK(lines(tool("--version").out) == 1);
  CHECK(tool("control check --help").code == 0);
}

TEST_CASE("control backup of a store that is written is one moment of it",
          "[tool][control][repeats]") {
  // A log deleted between the copy of the manifest and of the logs would show as a missing batch.
  const folder where;
  const std::string log = (where.path() / "log").string();
  std::size_t before = 0;
  {
    const writer_process writer(where.store(), log);
    for (int round = 0; round < std::max(1, manta_test::repeats(4, 20)); ++round) {
      CAPTURE(round);
      REQUIRE(manta_test::happens([&] { return last_in_log(log) > before; }));
      before = last_in_log(log);
      const std::string copy = (where.path() / "copy").string();
      const std::string restored = (where.path() / "restored").string();
      const ran taken = tool("control backup " + where.store() + " " + copy);
      CAPTURE(taken.out);
      REQUIRE(taken.code == 0);
      REQUIRE(tool("control check " + copy).code == 0);
      REQUIRE(tool("control restore " + copy + " " + restored).code == 0);
      const int found = prefix_length(*open_on_disk(restored));
      REQUIRE(found >= static_cast<int>(before));
      fs::remove_all(copy);
      fs::remove_all(restored);
    }
  }
  // What the copies shared with it was not touched.
  CHECK(tool("control check " + where.store()).code == 0);
}

TEST_CASE("control backup to another file system copies", "[tool][control]") {
  // Elsewhere it links tables, which is not possible from one file system to another.
  struct stat here {};
  struct stat there {};
  const folder where;
  fill(where.store(), 1, 300);
  fill(where.store(), 301, 310);
  if (stat(where.path().c_str(), &here) != 0 || stat("/dev/shm", &there) != 0 ||
      here.st_dev == there.st_dev) {
    WARN("not tested: /dev/shm is no other file system here");
    return;
  }
  const folder far("/dev/shm");
  const std::string copy = far.store();
  REQUIRE(tool("control backup " + where.store() + " " + copy).code == 0);
  REQUIRE(tool("control check " + copy).code == 0);
  const std::string back = (where.path() / "back").string();
  REQUIRE(tool("control restore " + copy + " " + back).code == 0);
  CHECK(prefix_length(*open_on_disk(back)) == 310);
}

TEST_CASE("a folder that can't be written is refused, and can be looked at", "[tool][control]") {
  // The programs run as somebody else: root may write everywhere.
  const folder where;
  fill(where.store(), 1, 30);
  fs::permissions(where.path(), fs::perms(0755));
  fs::permissions(where.store(), fs::perms(0555));
  for (const auto& one : fs::directory_iterator(where.store())) {
    fs::permissions(one, fs::perms(0444));
  }
  const std::string as =
      geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
  if (shell(as + "test -r " + where.store() + " -a -x " MANTA_STORE_WRITER).code != 0) {
    WARN("not tested: nobody else may run the programs here");
    return;
  }
  const ran wrote = shell(as + MANTA_STORE_WRITER + " " + where.store() + " /dev/null");
  CHECK(wrote.code == 1);
  CHECK(lines(wrote.out) == 1);
  CHECK_THAT(wrote.out, Contains("control: the store in " + where.store()));
  CHECK_THAT(wrote.out, Contains("see that the folder is ours"));
  const ran checked = shell(as + MANTA_TOOL + " control check " + where.store());
  CHECK_THAT(checked.out, Contains("is sound"));
  CHECK(checked.code == 0);
  fs::permissions(where.store(), fs::perms(0755));
}

TEST_CASE("control repair saves what can be read, elsewhere", "[tool][control]") {
  const folder where;
  const std::string damaged = (where.path() / "damaged").string();
  const std::string saved = (where.path() / "saved").string();
  fill(where.store(), 1, 3000);
  fill(where.store(), 3001, 3300);  // these are in the log
  const std::string whole = tool("control dump --values " + where.store()).out;
  for (const char* const kind : {".sst", ".log", "MANIFEST", "CURRENT"}) {
    CAPTURE(kind);
    copy_as_after_a_crash(where.store(), damaged);
    fs::path file;
    for (const auto& one : fs::directory_iterator(damaged)) {
      const bool is_meant =
          one.path().extension() == kind || one.path().filename().string().starts_with(kind);
      // The largest: the other tables have nothing but the last revision.
      if (is_meant && (file.empty() || fs::file_size(one) > fs::file_size(file))) file = one;
    }
    flip_bit(file, fs::file_size(file) / 2, 0);
    const ran checked = tool("control check " + damaged);
    CHECK(checked.code == 1);
    CHECK_THAT(checked.out, Contains("manta control repair " + damaged));
    const ran repaired = tool("control repair " + damaged + " " + saved);
    CAPTURE(repaired.out);
    REQUIRE(repaired.code == 0);
    CHECK_THAT(repaired.out, StartsWith("skipped: "));
    REQUIRE(tool("control check " + saved).code == 0);
    const std::string rest = tool("control dump --values " + saved).out;
    std::istringstream each(rest);
    std::size_t found = 0;
    for (std::string line; std::getline(each, line); ++found) {
      // The counter may be that of an earlier batch.
      if (!line.starts_with("last")) CHECK(whole.find(line + "\n") != std::string::npos);
    }
    CHECK(found > 2500);
    const auto s = open_on_disk(saved);
    CHECK(commit(*s, {.changes = {put("more", "")}})->at > 3300);
    CHECK(tool("control check " + damaged).code == 1);
    fs::remove_all(saved);
  }
}
