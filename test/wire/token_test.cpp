// SPDX-License-Identifier: Apache-2.0
#include "wire/token.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.hpp"

namespace token_test {
namespace {

using Catch::Matchers::Contains;
using manta::errc;
namespace wire = manta::wire;
using wire::secret;

const std::string good_text = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

secret good() {
  std::array<std::byte, secret::bytes> from;
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  return secret(from);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

unsigned mode_of(const std::filesystem::path& path) {
  struct stat is {};
  REQUIRE(lstat(path.c_str(), &is) == 0);
  return is.st_mode & 07777U;
}

std::size_t files_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class token_folder {
 public:
  std::string write(std::string_view text, mode_t mode = 0600) const {
    std::filesystem::remove(path());
    std::ofstream(path()) << text;
    REQUIRE(chmod(path().c_str(), mode) == 0);
    return path();
  }
  std::string path() const { return (place_.path() / "token").string(); }
  const std::filesystem::path& place() const { return place_.path(); }

 private:
  manta_test::folder place_;
};

// What read_token says; make_token must say the same, and change nothing.
std::string refusal(const std::string& path) {
  const auto read = wire::read_token(path);
  const auto made = wire::make_token(path);
  REQUIRE_FALSE(read);
  REQUIRE_FALSE(made);
  CHECK(read.error().code() == errc::storage_failed);
  CHECK(made.error().message() == read.error().message());
  CHECK_THAT(read.error().message(), Catch::StartsWith("wire: asked the cluster's token"));
  CHECK(read.error().message().find('\n') == std::string::npos);
  return read.error().message();
}

// A variable of the environment for as long as this.
class variable {
 public:
  variable(const char* name, const char* value) : name_(name) {
    if (const char* const was = std::getenv(name)) was_ = was;
    set(value);
  }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;
  ~variable() { set(was_.has_value() ? was_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value == nullptr) {
      unsetenv(name_);
    } else {
      setenv(name_, value, 1);
    }
  }

  const char* name_;
  std::optional<std::string> was_;
};

}  // namespace

TEST_CASE("a token is 64 hex digits, with a newline or none", "[wire][token]") {
  const auto plain = wire::parse_token(good_text);
  REQUIRE(plain);
  CHECK(*plain == good());
  const auto line = wire::parse_token(good_text + "\n");
  REQUIRE(line);
  CHECK(*line == good());

  for (const std::string& bad :
       {std::string(), std::string("\n"), good_text.substr(1), good_text + "0", good_text + "\n\n",
        good_text + "\r\n", " " + good_text.substr(1), good_text.substr(0, 63) + "g",
        good_text.substr(0, 63) + std::string(1, '\0'), "0x" + good_text.substr(2),
        std::string(64, '\xff')}) {
    CAPTURE(bad);
    const auto is = wire::parse_token(bad);
    REQUIRE_FALSE(is);
    CHECK(is.error().code() == errc::decode_failed);
    // A token that is almost one must not end in a log.
    CHECK(is.error().message().find("0102030405") == std::string::npos);
  }
}

TEST_CASE("a token is read from a file that only its user can read", "[wire][token]") {
  const token_folder at;
  for (const mode_t mode : {0600U, 0400U}) {
    const auto read = wire::read_token(at.write(good_text + "\n", mode));
    REQUIRE(read);
    CHECK(*read == good());
    const auto again = wire::make_token(at.path());
    REQUIRE(again);
    CHECK(*again == good());
    CHECK(mode_of(at.path()) == mode);
  }
}

TEST_CASE("a token's file with a wrong mode is refused with the mode", "[wire][token]") {
  const token_folder at;
  for (const mode_t mode : {0644U, 0640U, 0604U, 0660U, 0666U, 0601U, 0620U}) {
    CHECK_THAT(refusal(at.write(good_text, mode)),
               Contains("found the mode ") && Contains("others may have it by now"));
  }
  for (const mode_t mode : {0700U, 0200U, 0000U, 04600U}) {
    CHECK_THAT(refusal(at.write(good_text, mode)),
               Contains("found the mode ") && Contains("set its mode to 600"));
  }
  CHECK_THAT(refusal(at.write(good_text, 0644)), Contains("the mode 644"));
}

TEST_CASE("a token's file of another user is refused with the user", "[wire][token]") {
  const token_folder at;
  std::string path = at.write(good_text);
  uid_t owner = 65534;
  // Who may not give a file away, or is that user, finds one of root's.
  if (geteuid() == owner || chown(path.c_str(), owner, static_cast<gid_t>(-1)) != 0) {
    path = "/etc/passwd";
    owner = 0;
  }
  CHECK_THAT(refusal(path), Contains("found a file of user " + std::to_string(owner) + ";") &&
                                Contains("as whom this process runs"));
}

TEST_CASE("what is no plain file is no token, and nobody waits for it", "[wire][token]") {
  const token_folder at;
  const std::string real = at.write(good_text);
  const std::string other = (at.place() / "other").string();

  REQUIRE(symlink(real.c_str(), other.c_str()) == 0);
  CHECK_THAT(refusal(other), Contains("found a symbolic link; name the file that it leads to"));
  std::filesystem::remove(other);
  REQUIRE(symlink((at.place() / "nowhere").c_str(), other.c_str()) == 0);
  CHECK_THAT(refusal(other), Contains("found a symbolic link"));
  CHECK_FALSE(std::filesystem::exists(at.place() / "nowhere"));
  std::filesystem::remove(other);

  REQUIRE(mkdir(other.c_str(), 0700) == 0);
  CHECK_THAT(refusal(other), Contains("found a folder; name a file in MANTA_TOKEN_FILE"));
  std::filesystem::remove(other);
  REQUIRE(mkfifo(other.c_str(), 0600) == 0);
  CHECK_THAT(refusal(other), Contains("found something else than a plain file"));
  CHECK_THAT(refusal("/dev/null"), Contains("found something else than a plain file"));
  CHECK(files_in(at.place()) == 2);
}

TEST_CASE("a token's file that holds something else is refused", "[wire][token]") {
  const token_folder at;
  CHECK_THAT(refusal(at.write("")), Contains("found an empty file; copy it"));
  CHECK_THAT(refusal(at.write(good_text + "\n\n")), Contains("found a file of 66 bytes"));
  CHECK_THAT(refusal(at.write(std::string(std::size_t{1} << 20U, 'a'))),
             Contains("found a file of 1048576 bytes, where a token has 64 hex digits"));
  CHECK_THAT(refusal(at.write(good_text.substr(1))),
             Contains("found 63 bytes that are not 64 hex digits"));
  const std::string almost = refusal(at.write(good_text.substr(0, 63) + "z"));
  CHECK_THAT(almost, Contains("found 64 bytes that are not 64 hex digits"));
  CHECK(almost.find("0102030405") == std::string::npos);
  // A sparse file of a size that no memory has.
  at.write("");
  REQUIRE(truncate(at.path().c_str(), off_t{1} << 40U) == 0);
  CHECK_THAT(refusal(at.path()), Contains("found a file of 1099511627776 bytes"));
}

TEST_CASE("a token that can't be read is refused with the reason", "[wire][token]") {
  const token_folder at;
  const auto none = wire::read_token(at.path());
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message(), Contains("found no file; copy it from a machine"));
  CHECK_FALSE(std::filesystem::exists(at.path()));

  CHECK_THAT(refusal(at.write(good_text) + "/token"), Contains("found Not a directory; see"));
  CHECK_THAT(refusal(""), Contains("no home folder") && Contains("MANTA_TOKEN_FILE"));
  // Ours, with mode 600, and its first bytes can't be read.
  CHECK_THAT(refusal("/proc/self/mem"), Contains("Input/output error"));
}

// In a child, since root may read everything.
TEST_CASE("a token behind a folder that this user may not enter is refused", "[wire][token]") {
  const token_folder at;
  REQUIRE(mkdir((at.place() / "closed").c_str(), 0700) == 0);
  const std::string path = (at.place() / "closed" / "token").string();
  std::ofstream(path) << good_text;
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0) {
      chmod(at.place().c_str(), 0755);
      if (setuid(65534) != 0) _exit(2);
    } else {
      chmod((at.place() / "closed").c_str(), 0);
    }
    const auto read = wire::read_token(path);
    const auto made = wire::make_token(path);
    if (read || made) _exit(3);
    const std::string said = read.error().message() + "|" + made.error().message();
    _exit(write(ends[1], said.data(), said.size()) > 0 ? 0 : 4);
  }
  close(ends[1]);
  std::array<char, 2000> said{};
  CHECK(read(ends[0], said.data(), said.size() - 1) > 0);
  close(ends[0]);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  chmod((at.place() / "closed").c_str(), 0700);
  CHECK_THAT(std::string(said.data()), Contains("found Permission denied; see that this user"));
}

TEST_CASE("a token is made once, with the folders above it", "[wire][token]") {
  const token_folder at;
  const std::string path = (at.place() / "a" / "b" / "token").string();
  const mode_t mask = umask(0077);
  const auto made = wire::make_token(path);
  umask(mask);
  REQUIRE(made);
  CHECK_FALSE(*made == secret());
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of(at.place() / "a") == 0700);
  CHECK(mode_of(at.place() / "a" / "b") == 0700);
  CHECK(files_in(at.place() / "a" / "b") == 1);
  const std::string text = text_of(path);
  CHECK(text.size() == 65);
  const auto parsed = wire::parse_token(text);
  REQUIRE(parsed);
  CHECK(*parsed == *made);
  const auto again = wire::make_token(path);
  REQUIRE(again);
  CHECK(*again == *made);
  CHECK(text_of(path) == text);

  const auto other = wire::make_token((at.place() / "a" / "other").string());
  REQUIRE(other);
  CHECK_FALSE(*other == *made);
}

// The mask takes even what the owner needs: the file's mode is set once more.
TEST_CASE("a token's mode is 600 whatever the process's mask is", "[wire][token]") {
  const token_folder at;
  for (const mode_t mask : {mode_t{0}, mode_t{0777}}) {
    std::filesystem::remove(at.path());
    const mode_t before = umask(mask);
    const auto made = wire::make_token(at.path());
    umask(before);
    REQUIRE(made);
    CHECK(mode_of(at.path()) == 0600);
  }
}

TEST_CASE("a token that can't be made is a typed error, and leaves nothing", "[wire][token]") {
  const token_folder at;
  const auto no_folder = wire::make_token("/proc/manta/token");
  REQUIRE_FALSE(no_folder);
  CHECK(no_folder.error().code() == errc::storage_failed);
  CHECK_THAT(no_folder.error().message(),
             Contains("found none, and making it failed") && Contains("MANTA_TOKEN_FILE"));

  // A disk without room, as far as this process goes.
  const auto was_handled = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit none{10, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
  const auto no_room = wire::make_token(at.path());
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, was_handled);
  REQUIRE_FALSE(no_room);
  CHECK_THAT(no_room.error().message(), Contains("making it failed: File too large"));
  CHECK(files_in(at.place()) == 0);
}

TEST_CASE("threads that make a token at once all have the same one", "[wire][token]") {
  const token_folder at;
  for (int round = 0; round < 20; ++round) {
    const std::string path =
        (at.place() / ("r" + std::to_string(round)) / "manta" / "token").string();
    std::array<std::optional<manta::result<secret>>, 8> made;
    std::atomic<int> there = 0;
    std::vector<std::thread> threads;
    for (auto& mine : made) {
      threads.emplace_back([&mine, &there, &path] {
        there.fetch_add(1);
        while (there.load() < 8) std::this_thread::yield();
        mine.emplace(wire::make_token(path));
      });
    }
    for (std::thread& one : threads) one.join();
    for (const auto& one : made) {
      if (!*one) FAIL(one->error().message());
      CHECK(**one == **made[0]);
    }
    CHECK(files_in(std::filesystem::path(path).parent_path()) == 1);
  }
}

TEST_CASE("processes that make a token at once all have the same one", "[wire][token]") {
  const token_folder at;
  for (int round = 0; round < 20; ++round) {
    const std::string path = (at.place() / ("r" + std::to_string(round)) / "token").string();
    int start[2];
    int answers[2];
    REQUIRE(pipe2(start, O_CLOEXEC) == 0);
    REQUIRE(pipe2(answers, O_CLOEXEC) == 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        // They begin when the parent closes its end.
        close(start[1]);
        char nothing = 0;
        if (read(start[0], &nothing, 1) != 0) _exit(2);
        const auto made = wire::make_token(path);
        if (!made) _exit(3);
        _exit(write(answers[1], made->view().data(), secret::bytes) == secret::bytes ? 0 : 4);
      }
      children.push_back(child);
    }
    close(start[0]);
    close(start[1]);
    close(answers[1]);
    for (const pid_t child : children) {
      int status = -1;
      CHECK(waitpid(child, &status, 0) == child);
      CHECK(status == 0);
    }
    const auto there = wire::read_token(path);
    REQUIRE(there);
    for (int i = 0; i < 8; ++i) {
      std::array<std::byte, secret::bytes> one{};
      CHECK(read(answers[0], one.data(), one.size()) == secret::bytes);
      CHECK(secret(one) == *there);
    }
    close(answers[0]);
    CHECK(files_in(std::filesystem::path(path).parent_path()) == 1);
  }
}

TEST_CASE("the usual token is in the user's folder of settings", "[wire][token]") {
  const variable home("HOME", "/home/somebody");
  {
    const variable settings("XDG_CONFIG_HOME", "/settings");
    CHECK(wire::usual_token_path() == "/settings/manta/token");
  }
  for (const char* const useless : {static_cast<const char*>(nullptr), "", "relative"}) {
    const variable settings("XDG_CONFIG_HOME", useless);
    CHECK(wire::usual_token_path() == "/home/somebody/.config/manta/token");
  }
  const variable settings("XDG_CONFIG_HOME", nullptr);
  const variable no_home("HOME", nullptr);
  const passwd* const entry = getpwuid(geteuid());
  const std::string expected =
      entry == nullptr ? "" : std::string(entry->pw_dir) + "/.config/manta/token";
  CHECK(wire::usual_token_path() == expected);
}

}  // namespace token_test
