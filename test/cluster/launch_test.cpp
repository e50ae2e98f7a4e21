// SPDX-License-Identifier: Apache-2.0
// How the processes of a job find each other: started by a driver, by `manta run`, by mpirun, by
// hand; what each of them says when it can't.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include <sys/stat.h>

#include "cluster/support.hpp"

namespace cluster_launch_test {

namespace {

using namespace std::chrono_literals;
using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

// Sockets of TCP that the process listens at, by the kernel's tables.
std::size_t listens(pid_t pid) {
  std::set<std::string> own;
  std::error_code ignored;
  const std::string proc = "/proc/" + std::to_string(pid);
  for (const auto& one : std::filesystem::directory_iterator(proc + "/fd", ignored)) {
    const std::string to = std::filesystem::read_symlink(one.path(), ignored).string();
    if (to.starts_with("socket:[")) own.insert(to.substr(8, to.size() - 9));
  }
  std::size_t count = 0;
  for (const char* const table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream file(proc + table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
      if (all.size() > 9 && all[3] == "0A" && own.contains(all[9])) ++count;
    }
  }
  return count;
}

bool is_one_line(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') == 1 && text.back() == '\n';
}

std::string token_file(const site& at, const std::string& name, char digit) {
  const std::string path = at.path() + "/" + name;
  std::ofstream(path) << std::string(64, digit) << "\n";
  chmod(path.c_str(), 0600);
  return path;
}

}  // namespace

TEST_CASE("what comes to stdin is the driver's, and nothing comes to its nodes", "[cluster]") {
  const site here;
  const std::string line = "printf 'one\\ntwo\\n' | " + program + " first-line";
  const outcome o = here.run({"sh", "-c", line}, {"MANTA_NODES=3", "MANTA_SPMD=yes"});
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("rank 0 reads 'one'") && Contains("rank 1 reads ''") &&
                        Contains("rank 2 reads ''"));
}

TEST_CASE("a driver that is killed before its nodes have joined leaves none for long",
          "[cluster]") {
  const site here;
  child job({program, "late"}, here.with({"MANTA_NODES=3"}));
  REQUIRE((job.says("pid rank-1 ") && job.says("pid rank-2 ")));
  kill(job.pid(), SIGKILL);
  for (const auto& node : pids_in(job.so_far().out)) {
    CAPTURE(node.first, node.second);
    CHECK(happens([&] { return !is_there(node.second); }, 30s));
  }
  CHECK(here.jobs().empty());
}

// By a terminal, which tells all of the job, or by somebody who tells the driver.
TEST_CASE("SIGINT while a job starts ends it and leaves nothing", "[cluster]") {
  const bool is_for_all = GENERATE(true, false);
  const site here;
  child job({program, "late"}, here.with({"MANTA_NODES=3"}));
  REQUIRE((job.says("pid rank-1 ") && job.says("pid rank-2 ")));
  REQUIRE(here.jobs().size() == 1);
  kill(is_for_all ? -job.pid() : job.pid(), SIGINT);
  const outcome o = job.finish();  // reads until the last of them has ended
  CAPTURE(is_for_all, o.err);
  CHECK(o.is_killed);
  CHECK(o.status == 130);
  CHECK(here.jobs().empty());
}

TEST_CASE("a signal to a head that waits for its ranks takes the file along that they find it by",
          "[cluster]") {
  const int number = GENERATE(SIGINT, SIGTERM);
  const site here;
  const std::string folder = here.path() + "/meeting";
  child head({program, "hello"},
             here.with({"MANTA_WORLD_SIZE=2", "MANTA_JOB=by-hand", "MANTA_RANK=0",
                        "MANTA_RENDEZVOUS=" + folder, "MANTA_JOIN_MS=3600000"}));
  REQUIRE(happens([&] { return std::filesystem::exists(folder + "/job-by-hand"); }));
  kill(head.pid(), number);
  const outcome o = head.finish();
  CAPTURE(o.err);
  CHECK(o.is_killed);
  CHECK(o.status == 128 + number);
  CHECK(std::filesystem::is_empty(folder));
  CHECK(here.jobs().empty());
}

// Its socket lies in the job's folder by then.
TEST_CASE("a signal to a node that waits for its head ends it and leaves nothing", "[cluster]") {
  const int number = GENERATE(SIGINT, SIGTERM);
  const site here;
  child node({program, "hello"},
             here.with({"MANTA_WORLD_SIZE=2", "MANTA_NODES=2", "MANTA_JOB=no-head", "MANTA_RANK=1",
                        "MANTA_JOIN_MS=3600000"}));
  REQUIRE(node.complains("goes on trying"));
  REQUIRE_FALSE(here.sockets().empty());
  kill(node.pid(), number);
  const outcome o = node.finish();
  CHECK(o.is_killed);
  CHECK(o.status == 128 + number);
  CHECK(here.jobs().empty());
}

TEST_CASE("a driver starts its nodes, which are gone with it", "[cluster]") {
  const site here;
  const outcome o = here.run({program, "hello"}, {"MANTA_NODES=4"});
  CHECK(o.status == 0);
  CHECK(without_waits(o.err).empty());
  CHECK(count_of(o.out, "\n") == 1);  // main goes on in the driver only
  CHECK_THAT(o.out, StartsWith("rank 0 of 4,"));
  CHECK_THAT(o.out, Contains(": rank-0 rank-1 rank-2 rank-3; task 42"));
  CHECK(here.jobs().empty());
}

TEST_CASE("nodes on one machine open no port", "[cluster]") {
  const site here;
  child job({program, "pids"}, here.with({"MANTA_NODES=3"}));
  REQUIRE(job.says("sees rank-0 rank-1 rank-2\n"));
  const auto pids = pids_in(job.so_far().out);
  REQUIRE(pids.size() == 3);
  for (const auto& [name, pid] : pids) CHECK(listens(pid) == 0);
  // Who looks needs no address where there is one job, and a name where there are several.
  const outcome list = here.run({tool, "nodes", "--json"});
  CHECK(list.status == 0);
  CHECK(count_of(list.out, "\n") == 3);
  const std::string name = here.jobs().at(0).substr(4);  // job-
  const outcome named = here.run({tool, "nodes", "--json", "--job", name});
  CHECK(without_loads(named.out) == without_loads(list.out));
  {
    child other({program, "watch"}, here.with({"MANTA_NODES=2"}));
    REQUIRE(other.says("sees rank-0 rank-1\n"));
    const outcome several = here.run({tool, "status"});
    CHECK(several.status == 1);
    CHECK_THAT(several.err, Contains("found 2: ") && Contains(name));
    kill(other.pid(), SIGINT);
    other.finish();
  }
  kill(job.pid(), SIGINT);
  CHECK(job.finish().status == 130);
  CHECK(here.jobs().empty());
  const outcome none = here.run({tool, "status"});
  CHECK(none.status == 1);
  CHECK_THAT(none.err, Contains("found none"));
}

TEST_CASE("many starts one after the other leave nothing", "[cluster]") {
  const site here;
  const int rounds = manta_test::scaled(10);
  for (int i = 0; i < std::max(rounds, 2); ++i) {
    const outcome o = here.run({program, "hello"}, {"MANTA_NODES=8"});
    REQUIRE(o.status == 0);
    REQUIRE_THAT(o.out, Contains("rank-7; task 42"));
  }
  CHECK(here.jobs().empty());
}

TEST_CASE("the command line, too, says how many nodes", "[cluster]") {
  const site here;
  const outcome o = here.run({program, "hello", "--manta-nodes=2"});
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("rank 0 of 2,"));
}

TEST_CASE("a node whose main ends early is told of, and the job does not begin", "[cluster]") {
  const site here;
  const outcome o = here.run({program, "early"}, {"MANTA_NODES=2"});
  CHECK(o.status == 2);
  CHECK_THAT(o.err, Contains("node 1 (pid ") && Contains("ended with exit code 7"));
  CHECK(here.jobs().empty());
}

TEST_CASE("a driver's exit code is the program's, whatever main does", "[cluster]") {
  const site here;
  CHECK(here.run({program, "fail"}, {"MANTA_NODES=2"}).status == 3);
  CHECK(here.run({program, "exit"}, {"MANTA_NODES=2"}).status == 4);
}

TEST_CASE("with spmd main goes on in every rank, and the first waits for the last", "[cluster]") {
  const site here;
  const outcome o = here.run({program, "watch", "0.3"}, {"MANTA_NODES=3", "MANTA_SPMD=yes"});
  CHECK(o.status == 0);
  CHECK(without_waits(o.err).empty());
  for (int rank = 0; rank < 3; ++rank) {
    CHECK_THAT(o.out, Contains("rank " + std::to_string(rank) + " of 3,"));
  }
}

TEST_CASE("with spmd a rank may have ended before another one comes", "[cluster]") {
  const site here;
  const auto rank = [&](int number) {
    return variables{"MANTA_WORLD_SIZE=3",  "MANTA_NODES=3",
                     "MANTA_JOB=short",     "MANTA_SPMD=yes",
                     "MANTA_JOIN_MS=60000", "MANTA_RANK=" + std::to_string(number)};
  };
  child first({program, "hello"}, here.with(rank(0)));
  CHECK(here.run({program, "hello"}, rank(1)).status == 0);
  CHECK(here.run({program, "hello"}, rank(2)).status == 0);
  const outcome o = first.finish();
  CHECK(o.status == 0);
  CHECK(without_waits(o.err).empty());
}

TEST_CASE("with spmd the ranks may go on when their runtime has ended", "[cluster]") {
  const site here;
  const outcome o = here.run({program, "linger"}, {"MANTA_NODES=3", "MANTA_SPMD=yes"});
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("rank 1 has done its work") && Contains("rank 2 has done its work"));
}

TEST_CASE("with spmd the ranks' second runtimes are of one cluster, too", "[cluster]") {
  const site here;
  const int rounds = std::max(manta_test::scaled(10), 2);
  const outcome o =
      here.run({tool, "run", "-n", "3", "--", program, "again", std::to_string(rounds)},
               {"MANTA_SPMD=yes", "MANTA_JOIN_MS=60000"});
  CHECK(o.status == 0);
  CHECK(without_waits(o.err).empty());
  for (int i = 1; i <= rounds; ++i) {
    CHECK(count_of(o.out, ", time " + std::to_string(i) + ": ") == 3);
  }
  CHECK(here.jobs().empty());
}

TEST_CASE("a second runtime whose ranks have ended goes on without, at once", "[cluster]") {
  const site here;
  const outcome o =
      here.run({tool, "run", "-n", "2", "--", program, "again"}, {"MANTA_JOIN_MS=3600000"});
  CHECK(o.status == 0);
  CHECK_THAT(o.out,
             Contains("rank 0, time 1: rank-0 rank-1\n") && Contains("rank 0, time 2: rank-0\n"));
  CHECK_THAT(o.err, Contains("keep one runtime for the whole of main"));
}

TEST_CASE("what a task starts is by itself, in isolated workers, too", "[cluster]") {
  const site here;
  const std::string line = program + " hello";
  for (const char* const where : {"threads", "processes"}) {
    CAPTURE(where);
    const outcome o = here.run({tool, "run", "-n", "2", "--", program, "task", line},
                               {"MANTA_ISOLATION=" + std::string(where)});
    CAPTURE(o.err);
    CHECK_THAT(o.out, Contains("rank 0 of 1,") && Contains("in a task: 0\n"));
  }
}

TEST_CASE("mpirun starts a job", "[cluster]") {
  const site here;
  const outcome o = here.run({"mpirun", "--oversubscribe", "-n", "4", program, "hello"},
                             {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK(count_of(o.out, "\n") == 1);
  CHECK_THAT(o.out, Contains("rank 0 of 4,") && Contains(": rank-0 rank-1 rank-2 rank-3; task"));
  CHECK(here.jobs().empty());
}

TEST_CASE("ranks of mpirun that are there before the first one wait for it", "[cluster][share]") {
  const site here;
  const outcome o =
      here.run({"mpirun", "--oversubscribe", "-n", "3", "sh", "-c",
                "test $OMPI_COMM_WORLD_RANK != 0 || sleep 0.3; exec \"$0\" hello", program},
               {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("rank 0 of 3,"));
  CHECK(here.jobs().empty());
}

TEST_CASE("manta run starts a job", "[cluster]") {
  const site here;
  const outcome o = here.run({tool, "run", "-n", "3", "--", program, "hello"});
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("rank 0 of 3,") && Contains(": rank-0 rank-1 rank-2; task 42"));
  CHECK(here.run({tool, "run", "-n", "2", "--", program, "fail"}).status == 3);
  CHECK(here.run({tool, "run", "-n", "1", "--", program, "hello"}).status == 0);
  const outcome none = here.run({tool, "run", "-n", "3", "--", "/no/such/program"});
  CHECK(none.status == 127);
  CHECK(none.err ==
        "manta: run: asked to start /no/such/program, found: No such file or directory; give the "
        "path of a program that may be run, or a name that is in PATH\n");
  // Which may end so itself.
  const outcome ends = here.run({tool, "run", "-n", "1", "--", "sh", "-c", "exit 127"});
  CHECK(ends.status == 127);
  CHECK(ends.err.empty());
  const outcome alone = here.run({tool, "run", "-n", "2", "--hosts", "a,b", "--ssh",
                                  "/no/such/shell", "--", program, "hello"});
  CHECK(alone.status == 1);
  CHECK(is_one_line(alone.err));
  CHECK_THAT(alone.err, Contains("asked to start /no/such/shell"));
  CHECK(here.jobs().empty());
}

// What starts a command on another machine, but on this one.
TEST_CASE("manta run starts ranks on other machines, over TCP", "[cluster]") {
  const site here;
  const std::string shell = here.path() + "/shell";
  std::ofstream(shell) << "#!/bin/sh\nshift\nexec sh -c \"$*\"\n";
  REQUIRE(chmod(shell.c_str(), 0755) == 0);
  const std::vector<std::string> run{
      tool,    "run", "-n", "3",     "--hosts", "127.0.0.1,127.0.0.2",
      "--ssh", shell, "--", program, "hello"};
  const outcome o = here.run(run);
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("rank 0 of 3,") && Contains(": rank-0 rank-1 rank-2; task 42"));
  CHECK_FALSE(has(o.err, "manta: head at"));
}

TEST_CASE("a signal to manta run ends its ranks", "[cluster]") {
  const site here;
  child job({tool, "run", "-n", "2", "--", program, "pids"}, here.with());
  REQUIRE(job.says("sees rank-0 rank-1\n"));
  const auto pids = pids_in(job.so_far().out);
  kill(job.pid(), SIGTERM);
  CHECK(job.finish().status == 128 + SIGTERM);
  for (const auto& [name, pid] : pids) {
    CHECK(happens([pid = pid] { return !is_there(pid); }));
  }
}

TEST_CASE("a node joins by an address, and the cluster is looked at", "[cluster]") {
  const site here;
  const std::string at = "127.0.0.1:" + free_port();
  child driver({program, "watch"}, here.with({"MANTA_LISTEN=" + at}));
  REQUIRE(driver.says("sees rank-0\n"));
  child node({program, "hello"}, here.with({"MANTA_ADDRESS=" + at, "MANTA_MEMBER_NAME=late"}));
  REQUIRE(driver.says("sees late rank-0\n"));
  const outcome list = here.run({tool, "nodes", "--json", "--address", at});
  CHECK(list.status == 0);
  CHECK(count_of(list.out, "\n") == 2);
  CHECK_THAT(list.out, Contains("{\"name\":\"late\",") && Contains("\"role\":\"driver\""));
  const outcome sum = here.run({tool, "status", "--address", at});
  CHECK_THAT(sum.out, StartsWith("2 members: 1 drivers, 1 nodes; 2 alive,"));
  kill(driver.pid(), SIGINT);
  CHECK(driver.finish().status == 130);
  CHECK(node.finish().status == 0);  // the work is done
  const outcome nobody = here.run({tool, "nodes", "--timeout-ms", "300", "--address", at});
  CHECK(nobody.status == 1);
  CHECK_THAT(nobody.err, StartsWith("manta: ") && Contains("Connection refused"));
}

TEST_CASE("ranks by hand find the first one by a file", "[cluster]") {
  const site here;
  const variables all{"MANTA_WORLD_SIZE=2", "MANTA_JOB=by-hand", "MANTA_RENDEZVOUS=" + here.path()};
  variables second = all;
  second.emplace_back("MANTA_RANK=1");
  child node({program, "hello"}, here.with(second));
  variables first = all;
  first.emplace_back("MANTA_RANK=0");
  const outcome o = here.run({program, "hello"}, first);
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains(": rank-0 rank-1; task 42"));
  CHECK(node.finish().status == 0);
  CHECK_FALSE(std::filesystem::exists(here.path() + "/job-by-hand"));
}

TEST_CASE("a wrong launch ends with one line that says what to do", "[cluster]") {
  const site here;
  const std::string at = "127.0.0.1:" + free_port();
  const std::string ours = token_file(here, "ours", 'a');
  const std::string other = token_file(here, "other", 'b');
  child driver({program, "watch"}, here.with({"MANTA_LISTEN=" + at, "MANTA_TOKEN_FILE=" + ours}));
  REQUIRE(driver.says("sees rank-0\n"));
  const auto refused = [&](const variables& more, const std::string& said) {
    const outcome o = here.run({program, "hello"}, more);
    CAPTURE(o.err);
    CHECK(o.status == 2);
    const std::string err = without_waits(o.err);
    CHECK(is_one_line(err));
    CHECK_THAT(err, StartsWith("manta: ") && Contains(said));
  };
  refused({"MANTA_ADDRESS=" + at, "MANTA_TOKEN_FILE=" + other}, "give both the same token file");
  refused({"MANTA_ADDRESS=" + at, "MANTA_TOKEN_FILE=" + here.path() + "/none"}, "none");
  refused({"MANTA_LISTEN=" + at, "MANTA_TOKEN_FILE=" + ours}, "another process that does");
  refused({"MANTA_ADDRESS=no.such.host.invalid:1", "MANTA_TOKEN_FILE=" + ours},
          "look whether the name is right");
  refused({"MANTA_ADDRESS=127.0.0.1"}, "port");
  refused({"MANTA_RANK=2", "MANTA_WORLD_SIZE=2"}, "ranks are 0 to 1");
  refused({"MANTA_RANK=1"}, "world-size");
  const std::string long_folder = here.path() + "/" + std::string(100, 'x');
  refused({"MANTA_NODES=2", "XDG_RUNTIME_DIR=" + long_folder}, "(it is there by XDG_RUNTIME_DIR)");
  // It has a head by then.
  refused({"MANTA_RANK=0", "MANTA_WORLD_SIZE=2", "MANTA_JOB=x", "MANTA_RENDEZVOUS=" + ours + "/x",
           "MANTA_TOKEN_FILE=" + ours},
          "name a folder that all machines");
  chmod(ours.c_str(), 0644);
  refused({"MANTA_ADDRESS=" + at, "MANTA_TOKEN_FILE=" + ours}, "644");
  kill(driver.pid(), SIGKILL);
}

TEST_CASE("who waits for a head is told why, and for how long", "[cluster]") {
  const site here;
  const std::string at = "127.0.0.1:" + free_port();
  const outcome o =
      here.run({program, "hello"}, {"MANTA_ADDRESS=" + at, "MANTA_JOIN_MS=4000",
                                    "MANTA_TOKEN_FILE=" + token_file(here, "ours", 'a')});
  CHECK(o.status == 2);
  CHECK_THAT(o.err, Contains("not a member of its cluster yet, and goes on trying for 4000 ms") &&
                        Contains("Connection refused") && Contains("within 4000 ms"));
}

// Whose head is not there from the first moment on: it is gone.
TEST_CASE("a node of a driver that is gone says how long it tries", "[cluster]") {
  const site here;
  child node({program, "hello"},
             here.with({"MANTA_NODES=2", "MANTA_WORLD_SIZE=2", "MANTA_RANK=1", "MANTA_JOB=gone",
                        "MANTA_ADDRESS=unix:" + here.path() + "/none/head"}));
  CHECK(node.complains("goes on trying for 6000 ms"));  // twice dead-after-ms
}

namespace {

// A rank of a job of two, started by hand.
variables one_of_two(const std::string& job, int rank) {
  return {"MANTA_WORLD_SIZE=2", "MANTA_NODES=2", "MANTA_JOB=" + job,
          "MANTA_RANK=" + std::to_string(rank)};
}

}  // namespace

TEST_CASE("another program is no node of the job", "[cluster]") {
  const site here;
  const auto with_rank = [](int rank) { return one_of_two("mixed", rank); };
  child driver({program, "watch"}, here.with(with_rank(0)));
  const outcome o = here.run({MANTA_OTHER_PROGRAM, "hello"}, with_rank(1));
  CHECK(o.status == 2);
  CHECK(is_one_line(without_waits(o.err)));
  CHECK_THAT(o.err, Contains("its program has other functions than that of rank-0"));
  kill(driver.pid(), SIGKILL);
}

// It is there first, and asks as soon as there is somebody to ask.
TEST_CASE("another program does not come before the driver", "[cluster]") {
  for (int round = 0; round < 8; ++round) {
    CAPTURE(round);
    const site here;
    const auto with_rank = [](int rank) { return one_of_two("early", rank); };
    child other({MANTA_OTHER_PROGRAM, "hello"}, here.with(with_rank(1)));
    // A schedule: how long it has waited when the driver begins.
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * (round % 4)));
    child driver({program, "watch"}, here.with(with_rank(0)));
    const outcome o = other.finish();
    CHECK(o.status == 2);
    CHECK_THAT(o.err, Contains("its program has other functions than that of rank-0"));
    kill(driver.pid(), SIGKILL);
  }
}

TEST_CASE("two processes with one rank: the second is refused", "[cluster]") {
  const site here;
  const auto with_rank = [](int rank) { return one_of_two("twice", rank); };
  child driver({program, "watch"}, here.with(with_rank(0)));
  child node({program, "hello"}, here.with(with_rank(1)));
  REQUIRE(driver.says("sees rank-0 rank-1\n"));
  const outcome second = here.run({program, "hello"}, with_rank(1));
  CHECK(second.status == 2);
  CHECK_THAT(second.err, Contains("the name rank-1 is that of a living member"));
  const outcome head = here.run({program, "hello"}, with_rank(0));
  CHECK(head.status == 2);
  CHECK_THAT(head.err, Contains("found another one's"));
  kill(driver.pid(), SIGINT);
  CHECK(driver.finish().status == 130);
}

}  // namespace cluster_launch_test
