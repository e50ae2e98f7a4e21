// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/config.hpp>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace {

using manta::config;
using manta::spec::complete;
using manta::spec::setting;
using manta::spec::settings_from_arguments;
using manta::spec::settings_from_environment;

std::vector<setting> arguments(std::vector<const char*> argv) {
  argv.insert(argv.begin(), "app");
  return settings_from_arguments(static_cast<int>(argv.size()), argv.data());
}

// A variable for the length of a scope.
class environment_variable {
 public:
  environment_variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value, 1);
  }
  ~environment_variable() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  environment_variable(const environment_variable&) = delete;
  environment_variable& operator=(const environment_variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace

TEST_CASE("without settings the defaults hold, and workers are the cores", "[config]") {
  const auto done = complete({}, {}, {}, 6);
  REQUIRE(done);
  CHECK(done->workers == 6);
  CHECK(done->spin_us == 50);
  CHECK(done->extra_threads == 256);
}

TEST_CASE("a field beats an argument, an argument a variable, a variable the default", "[config]") {
  const auto in_arguments = arguments({"--manta-workers=3", "--manta-spin-us=7"});
  const std::vector<setting> in_environment = {{"workers", "4", "MANTA_WORKERS"},
                                               {"spin-us", "8", "MANTA_SPIN_US"},
                                               {"extra-threads", "9", "MANTA_EXTRA_THREADS"}};
  config given;
  given.workers = 2;
  const auto done = complete(given, in_arguments, in_environment, 6);
  REQUIRE(done);
  CHECK(done->workers == 2);
  CHECK(done->spin_us == 7);
  CHECK(done->extra_threads == 9);
}

TEST_CASE("the last of several arguments for one key counts", "[config]") {
  const auto done = complete({}, arguments({"--manta-workers=3", "--manta-workers=5"}), {}, 1);
  REQUIRE(done);
  CHECK(done->workers == 5);
}

TEST_CASE("a bad argument is refused even when a later or stronger one is good", "[config]") {
  CHECK_FALSE(complete({}, arguments({"--manta-workers=x", "--manta-workers=5"}), {}, 1));
  config given;
  given.workers = 2;
  CHECK_FALSE(complete(given, arguments({"--manta-workers=0"}), {}, 1));
  CHECK_FALSE(complete(given, {}, {{"workers", "many", "MANTA_WORKERS"}}, 1));
}

TEST_CASE("only --manta- arguments before -- are settings", "[config]") {
  const auto found = arguments({"--workers=9", "manta-workers=9", "-x", "--manta-workers=3",
                                "--manta-spin-us", "--", "--manta-workers=4"});
  REQUIRE(found.size() == 2);
  CHECK(found[0].key == "workers");
  CHECK(found[0].value == "3");
  CHECK(found[0].origin == "--manta-workers");
  CHECK(found[1].key == "spin-us");
  CHECK(found[1].value.empty());
  CHECK(settings_from_arguments(0, nullptr).empty());
  const char* const name_is_skipped[] = {"--manta-workers=3", nullptr};
  CHECK(settings_from_arguments(1, name_is_skipped).empty());
}

TEST_CASE("the environment's known variables are settings", "[config]") {
  const environment_variable workers("MANTA_WORKERS", "3");
  const environment_variable spin("MANTA_SPIN_US", "");
  const environment_variable unknown("MANTA_UNKNOWN_THING", "1");
  bool has_workers = false;
  bool has_spin = false;
  for (const setting& s : settings_from_environment()) {
    if (s.key == "workers") has_workers = s.value == "3" && s.origin == "MANTA_WORKERS";
    if (s.key == "spin-us") has_spin = s.value.empty();
    CHECK(s.origin != "MANTA_UNKNOWN_THING");
  }
  CHECK(has_workers);
  CHECK(has_spin);
}

TEST_CASE("the limits of every key are allowed and one beyond is not", "[config]") {
  struct range {
    const char* key;
    int config::*field;
    int low;
    int high;
  };
  const range ranges[] = {{"workers", &config::workers, 1, 1024},
                          {"spin-us", &config::spin_us, 0, 10000},
                          {"extra-threads", &config::extra_threads, 0, 100000},
                          {"nodes", &config::nodes, 1, 1024},
                          {"rank", &config::rank, 0, 65535},
                          {"world-size", &config::world_size, 1, 65536},
                          {"join-ms", &config::join_ms, 100, 3'600'000},
                          {"dead-after-ms", &config::dead_after_ms, 500, 3'600'000},
                          {"drain-ms", &config::drain_ms, 0, 3'600'000}};
  for (const range& r : ranges) {
    for (const int good : {r.low, r.high}) {
      CAPTURE(r.key, good);
      const auto done = complete({}, {{r.key, std::to_string(good), "here"}}, {}, 1);
      REQUIRE(done);
      CHECK((*done).*(r.field) == good);
      config given;
      given.*(r.field) = good;
      CHECK(complete(given, {}, {}, 1));
    }
    for (const int bad : {r.low - 1, r.high + 1}) {
      CAPTURE(r.key, bad);
      const auto done = complete({}, {{r.key, std::to_string(bad), "here"}}, {}, 1);
      REQUIRE_FALSE(done);
      CHECK(done.error().code() == manta::errc::invalid_config);
      const std::string& text = done.error().message();
      CHECK(text == "here: found \"" + std::to_string(bad) + "\", allowed are whole numbers from " +
                        std::to_string(r.low) + " to " + std::to_string(r.high));
      config given;
      given.*(r.field) = bad;
      if (bad != -1) CHECK_FALSE(complete(given, {}, {}, 1));
    }
  }
}

TEST_CASE("a value that is no whole number is refused with its text", "[config]") {
  for (const char* bad : {"", " ", "two", "2x", " 2", "2 ", "+2", "2.0", "0x2", "1e1",
                          "99999999999999999999", "-1", "--2"}) {
    CAPTURE(bad);
    const auto done =
        complete({}, arguments({(std::string("--manta-workers=") + bad).c_str()}), {}, 1);
    REQUIRE_FALSE(done);
    CHECK(done.error().code() == manta::errc::invalid_config);
    CHECK(done.error().message() == std::string("--manta-workers: found \"") + bad +
                                        "\", allowed are whole numbers from 1 to 1024");
  }
}

TEST_CASE("an unknown key is refused and the known ones are named", "[config]") {
  const auto done = complete({}, arguments({"--manta-wrokers=2"}), {}, 1);
  REQUIRE_FALSE(done);
  CHECK(done.error().message() ==
        "--manta-wrokers: no such setting; known are workers, spin-us, extra-threads, gpus, "
        "store-wait-ms, worker-tasks, nodes, rank, world-size, join-ms, dead-after-ms, drain-ms, "
        "memory, resources, check, labels, control, events, isolation, zygote, worker-output, "
        "store-bytes, spill-folder, spill-bytes, quota-bytes, quota-folder, worker-recycle, "
        "worker-memory, interrupt, role, address, listen, token-file, insecure-plaintext, spmd, "
        "share, share-resources, map-arrays, rendezvous, job, member-name");
}

// A setting with two words: one by default, the other when `argument` asks for it, and what the
// program has given wins.
template <class Mode>
void check_choice(std::optional<Mode> config::*setting, Mode usual, Mode other,
                  const char* argument) {
  CHECK(complete({}, {}, {}, 1).value().*setting == usual);
  CHECK(complete({}, arguments({argument}), {}, 1).value().*setting == other);
  config given;
  given.*setting = usual;
  CHECK(complete(given, arguments({argument}), {}, 1).value().*setting == usual);
}

TEST_CASE("SIGINT is taken unless it is to be left", "[config]") {
  using manta::interrupt_mode;
  check_choice(&config::interrupt, interrupt_mode::end, interrupt_mode::leave,
               "--manta-interrupt=leave");
}

TEST_CASE("what runs tasks is threads, unless processes are asked for", "[config]") {
  using manta::isolation_mode;
  check_choice(&config::isolation, isolation_mode::threads, isolation_mode::processes,
               "--manta-isolation=processes");
  const auto wrong = complete({}, arguments({"--manta-isolation=forks"}), {}, 1);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message() ==
        "--manta-isolation: found \"forks\", allowed are threads and processes");
}

TEST_CASE("what workers print has a prefix unless it is to be plain", "[config]") {
  using manta::output_mode;
  CHECK(complete({}, {}, {}, 1).value().worker_output == output_mode::prefixed);
  const auto asked = complete({}, arguments({"--manta-worker-output=plain"}), {}, 1);
  CHECK(asked.value().worker_output == output_mode::plain);
  const auto wrong = complete({}, arguments({"--manta-worker-output=loud"}), {}, 1);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message() ==
        "--manta-worker-output: found \"loud\", allowed are prefixed and plain");
}

TEST_CASE("workers are kept and grow without limit unless one is set", "[config]") {
  const config none = complete({}, {}, {}, 1).value();
  CHECK(none.worker_tasks == 0);
  CHECK(none.worker_recycle_bytes == 0);
  CHECK(none.worker_memory_bytes == 0);
  const config some = complete({},
                               arguments({"--manta-worker-tasks=7", "--manta-worker-memory=2GiB",
                                          "--manta-worker-recycle=512MiB"}),
                               {}, 1)
                          .value();
  CHECK(some.worker_tasks == 7);
  CHECK(some.worker_recycle_bytes == std::int64_t{512} << 20U);
  CHECK(some.worker_memory_bytes == std::int64_t{2} << 30U);
  config given;
  given.worker_memory_bytes = -2;
  CHECK(complete(given, {}, {}, 1).error().message() ==
        "config worker_memory_bytes: found -2, allowed are 0 to 2^53 - 1");
}

TEST_CASE("a bad field of the struct is named as such", "[config]") {
  config given;
  given.spin_us = 10001;
  const auto done = complete(given, {}, {}, 1);
  REQUIRE_FALSE(done);
  CHECK(done.error().message() ==
        "config spin-us: found \"10001\", allowed are whole numbers from 0 to 10000");
}

TEST_CASE("gpus, memory, resources and labels come from text or from the machine", "[config]") {
  const auto done = complete({}, arguments({"--manta-gpus=2", "--manta-resources=license:3"}),
                             {{"memory", "8GiB", "MANTA_MEMORY"},
                              {"gpus", "7", "MANTA_GPUS"},
                              {"labels", "zone=a", "MANTA_LABELS"}},
                             {1, 5, 100});
  REQUIRE(done);
  CHECK(done->gpus == 2);
  CHECK(done->memory_bytes == std::int64_t{8} << 30U);
  CHECK(*done->resources == manta::resource_list{{"license", 3}});
  CHECK(*done->labels == manta::label_list{{"zone", "a"}});
  const auto plain = complete({}, {}, {}, {1, 5, 100});
  REQUIRE(plain);
  CHECK(plain->gpus == 5);
  CHECK(plain->memory_bytes == 100);
  CHECK(plain->resources->empty());
  CHECK(plain->labels->empty());
  config given;
  given.resources = manta::resource_list{{"own", 1}};
  const auto own = complete(given, arguments({"--manta-resources=license:3"}), {}, 1);
  REQUIRE(own);
  CHECK(*own->resources == manta::resource_list{{"own", 1}});
}

TEST_CASE("bad gpus, memory, resources and labels are one clear line", "[config]") {
  for (const char* text : {"--manta-gpus=-1", "--manta-gpus=1025", "--manta-memory=8G",
                           "--manta-memory=", "--manta-resources=a", "--manta-labels=a:b"}) {
    CAPTURE(text);
    const auto refused = complete({}, arguments({text}), {}, 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == manta::errc::invalid_config);
    const std::string said = refused.error().message();
    CHECK(said.find(std::string(text).substr(0, 9)) == 0);
    CHECK(said.find('\n') == std::string::npos);
  }
  config given;
  given.memory_bytes = -2;
  CHECK_FALSE(complete(given, {}, {}, 1));
  given = {};
  given.resources = manta::resource_list{{"cpus", 1}};
  CHECK_FALSE(complete(given, {}, {}, 1));
  given = {};
  given.labels = manta::label_list{{"zone", "a b"}};
  const auto refused = complete(given, {}, {}, 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == manta::errc::invalid_config);
  CHECK(refused.error().message().find("config labels") == 0);
}

TEST_CASE("without settings of a cluster a config is without, and has the times", "[config]") {
  const config done = complete({}, {}, {}, 1).value();
  CHECK(done.nodes == -1);
  CHECK(done.rank == -1);
  CHECK(done.world_size == -1);
  CHECK_FALSE(done.role);
  CHECK_FALSE(done.address);
  CHECK_FALSE(done.listen);
  CHECK_FALSE(done.token_file);
  CHECK_FALSE(done.rendezvous);
  CHECK_FALSE(done.job);
  CHECK_FALSE(done.member_name);
  CHECK(done.insecure_plaintext == false);
  CHECK(done.spmd == false);
  CHECK(done.share == true);
  CHECK(done.share_resources == true);
  CHECK(done.map_arrays == true);
  CHECK(done.join_ms == 15'000);
  CHECK(done.dead_after_ms == 3000);
  CHECK(done.drain_ms == 30'000);
}

TEST_CASE("the settings of a cluster come from arguments, variables and fields", "[config]") {
  const auto told = arguments({"--manta-role=observer", "--manta-address=a:1", "--manta-spmd=yes"});
  const config done = complete({}, told,
                               {{"role", "head", "MANTA_ROLE"},
                                {"listen", ":0", "MANTA_LISTEN"},
                                {"insecure-plaintext", "yes", "MANTA_INSECURE_PLAINTEXT"},
                                {"token-file", "token", "MANTA_TOKEN_FILE"},
                                {"rendezvous", "/shared", "MANTA_RENDEZVOUS"},
                                {"job", "night.run", "MANTA_JOB"},
                                {"share", "no", "MANTA_SHARE"},
                                {"share-resources", "no", "MANTA_SHARE_RESOURCES"},
                                {"map-arrays", "no", "MANTA_MAP_ARRAYS"},
                                {"member-name", "left hand", "MANTA_MEMBER_NAME"}},
                               1)
                          .value();
  CHECK(done.role == manta::role_mode::observer);
  CHECK(done.address == "a:1");
  CHECK(done.spmd == true);
  CHECK(done.share == false);
  CHECK(done.share_resources == false);
  CHECK(done.map_arrays == false);
  CHECK(done.listen == ":0");
  CHECK(done.insecure_plaintext == true);
  CHECK(done.token_file == "token");
  CHECK(done.rendezvous == "/shared");
  CHECK(done.job == "night.run");
  CHECK(done.member_name == "left hand");
  config given;
  given.address = "b:2";
  given.role = manta::role_mode::driver;
  const config own = complete(given, told, {}, 1).value();
  CHECK(own.address == "b:2");
  CHECK(own.role == manta::role_mode::driver);
  const environment_variable address("MANTA_ADDRESS", "c:3");
  CHECK(complete({}, {}, settings_from_environment(), 1).value().address == "c:3");
}

namespace {

// A text setting from an argument and, where the program can set it as text, from its field.
void check_texts(const std::string& key, std::optional<std::string> config::*field,
                 const std::vector<std::string>& good, const std::vector<std::string>& bad) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '-', '_');
  const auto on_one_line = [](std::string text) {
    std::replace(text.begin(), text.end(), '\n', '?');
    return text;
  };
  for (const std::string& text : good) {
    CAPTURE(key, text);
    CHECK(complete({}, {{key, text, "here"}}, {}, 1).value().*field == text);
    config given;
    given.*field = text;
    CHECK(complete(given, {}, {}, 1).value().*field == text);
  }
  for (const std::string& text : bad) {
    CAPTURE(key, text);
    const auto refused = complete({}, {{key, text, "here"}}, {}, 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == manta::errc::invalid_config);
    const std::string found = ": found \"" + on_one_line(text) + "\", allowed ";
    CHECK(refused.error().message().find("here" + found) == 0);
    config given;
    given.*field = text;
    const auto in_program = complete(given, {}, {}, 1);
    REQUIRE_FALSE(in_program);
    CHECK(in_program.error().message().find("config " + name + found) == 0);
  }
}

}  // namespace

TEST_CASE("places, paths and names are checked wherever they come from", "[config]") {
  const std::string path_107 = "/" + std::string(106, 'p');
  const std::string host_255(255, 'h');
  check_texts("address", &config::address,
              {"a:1", "node-a.cluster_b:65535", "10.0.0.1:7000", "[::1]:7000",
               "[fe80::1%eth0]:7000", "unix:/s", "unix:/a b", "unix:" + path_107, host_255 + ":1"},
              {"",
               "a",
               "a:",
               ":7000",
               "a:0",
               "a:65536",
               "a:-1",
               "a:+1",
               "a:1x",
               "a: 1",
               "a:1 ",
               " a:1",
               "::1:7000",
               "[::1]",
               "[a]:1",
               "[]:1",
               "[::1:1",
               "a/b:1",
               "a\nb:1",
               "unix:",
               "unix:s",
               "unix:/",
               "unix:" + path_107 + "p",
               "unix:/a\nb",
               "http://a:1",
               host_255 + "h:1",
               "a:99999999999999999999"});
  check_texts("listen", &config::listen, {"none", ":0", "a:0", "0.0.0.0:7000", "[::]:0"},
              {"", "yes", "7000", "a", ":", "unix:/s", ":65536", "::0"});
  check_texts("token-file", &config::token_file, {"token", "/run/secret"}, {""});
  check_texts("rendezvous", &config::rendezvous, {"/", "/shared/run"}, {"", "shared", "~/run"});
  check_texts("job", &config::job, {"a", "night.run-1_B", std::string(64, 'j')},
              {"", "a b", "a/b", "\xc3\xa4", std::string(65, 'j')});
  check_texts("member-name", &config::member_name, {"a", "left hand", std::string(64, 'm')},
              {"", "a\nb", "local", std::string(65, 'm')});
  for (const char* bad : {"--manta-role=boss", "--manta-role=", "--manta-spmd=1",
                          "--manta-spmd=", "--manta-insecure-plaintext=true"}) {
    CAPTURE(bad);
    CHECK_FALSE(complete({}, arguments({bad}), {}, 1));
  }
  CHECK(complete({}, arguments({"--manta-role=boss"}), {}, 1).error().message() ==
        "--manta-role: found \"boss\", allowed are driver, node, head and observer");
}

TEST_CASE("whatever a bad setting is, what is said of it is one line that ends", "[config]") {
  const std::string lines = "2\n3" + std::string(100'000, '\n');
  const auto is_short = [](const manta::result<config>& refused) {
    REQUIRE_FALSE(refused);
    const std::string& said = refused.error().message();
    CHECK(said.find('\n') == std::string::npos);
    CHECK(said.size() < 1000);
  };
  for (const char* const key :
       {"workers", "memory", "resources", "check", "labels", "store-bytes", "role", "address",
        "listen", "spmd", "rendezvous", "job", "member-name"}) {
    CAPTURE(key);
    is_short(complete({}, {{key, lines, "here"}}, {}, 1));
  }
  is_short(complete({}, {{"resources", lines + ":1", "here"}}, {}, 1));
  is_short(complete({}, {{"labels", "zone=" + lines, "here"}}, {}, 1));
  is_short(complete({}, {{lines, "1", "--manta-" + lines}}, {}, 1));
}

namespace {

template <class E>
std::string refusal_of(std::optional<E> config::*field, E value) {
  config given;
  given.*field = value;
  const auto refused = complete(given, {}, {}, 1);
  if (refused) return "taken";
  CHECK(refused.error().code() == manta::errc::invalid_config);
  return refused.error().message();
}

// The last one is taken, and what lies behind it is not.
template <class E>
void check_choice(const char* name, std::optional<E> config::*field, E last) {
  CHECK(refusal_of(field, last) == "taken");
  const int number = static_cast<int>(last) + 1;
  const std::string said = refusal_of(field, static_cast<E>(number));
  const std::string found = "config " + std::string(name) + ": found \"" + std::to_string(number);
  CHECK(said.find(found + "\", allowed are ") == 0);
}

}  // namespace

TEST_CASE("a choice that there is none of is refused", "[config]") {
  check_choice("check", &config::check, manta::check_mode::far_tasks);
  check_choice("events", &config::events, manta::event_mode::all);
  check_choice("isolation", &config::isolation, manta::isolation_mode::processes);
  check_choice("zygote", &config::zygote, manta::zygote_mode::early);
  check_choice("worker_output", &config::worker_output, manta::output_mode::plain);
  check_choice("interrupt", &config::interrupt, manta::interrupt_mode::leave);
  check_choice("role", &config::role, manta::role_mode::observer);
}
