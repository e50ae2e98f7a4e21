// SPDX-License-Identifier: Apache-2.0
//
// A Redis of our own on a socket in a folder, and as much of its protocol as the rows need.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "harness/measure.hpp"
#include "rivals/control_rows.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

std::string redis_program() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/redis-server";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

class redis {
 public:
  explicit redis(bool has_log) {
    const std::string path = where_.file("socket");
    pid_ = fork();
    if (pid_ == 0) become_server(path, has_log);
    check(pid_ > 0, "a process for Redis");
    // It says nowhere that it listens: asked until it answers, for 5 s at most.
    for (int tries = 0; tries < 500 && !connect_to(path); ++tries) usleep(10'000);
    check(socket_ >= 0, "Redis listens");
  }
  redis(const redis&) = delete;
  redis& operator=(const redis&) = delete;
  ~redis() {
    close(socket_);
    kill(pid_, SIGTERM);  // it ends the process that rewrites its log, too
    waitpid(pid_, nullptr, 0);
  }

  void send(const std::string& all) {
    for (std::size_t done = 0; done < all.size();) {
      const ssize_t n = write(socket_, all.data() + done, all.size() - done);
      check(n > 0, "Redis is told");
      done += static_cast<std::size_t>(n);
    }
  }
  // Reads `count` answers of `size` bytes each, which begin with `kind`.
  void await(std::size_t count, std::size_t size, char kind) {
    char buffer[65536];
    for (std::size_t left = count * size; left > 0;) {
      const ssize_t n = read(socket_, buffer, std::min(left, sizeof buffer));
      check(n > 0, "Redis answers");
      if (left % size == 0) check(buffer[0] == kind, "Redis did it");
      left -= static_cast<std::size_t>(n);
    }
  }

 private:
  [[noreturn]] void become_server(const std::string& socket_path, bool has_log) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    const std::string program = redis_program();
    const std::string folder = where_.file("");
    execl(program.c_str(), program.c_str(), "--port", "0", "--unixsocket", socket_path.c_str(),
          "--save", "", "--dir", folder.c_str(), "--appendonly", has_log ? "yes" : "no",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  bool connect_to(const std::string& path) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    check(path.size() < sizeof to.sun_path, "the path of the socket is short");
    path.copy(to.sun_path, path.size());
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(made, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
      socket_ = made;
      return true;
    }
    close(made);
    return false;
  }

  temporary_folder where_;
  pid_t pid_ = -1;
  int socket_ = -1;
};

void add_text(std::string& to, std::string_view text) {
  to += '$';
  to += std::to_string(text.size());
  to += "\r\n";
  to += text;
  to += "\r\n";
}
void begin_command(std::string& to, std::size_t words, std::string_view name) {
  to += '*';
  to += std::to_string(words);
  to += "\r\n";
  add_text(to, name);
}

constexpr std::size_t ok_bytes = 5;  // +OK\r\n

// Two halves of what may be in flight: one is made while the other is worked at.
void write_batches(redis& to, std::size_t count, std::size_t size) {
  char key[key_bytes];
  char value[value_bytes];
  std::string commands;
  std::size_t waiting = 0;
  for (std::size_t n = 0; n < count;) {
    commands.clear();
    std::size_t made = 0;
    for (; n < count && made * size < changes_in_flight / 2; ++made) {
      begin_command(commands, 1 + 2 * size, size == 1 ? "SET" : "MSET");
      for (std::size_t i = 0; i < size; ++i, ++n) {
        write_key(key, scatter(n) % control_keys);
        write_value(value, n);
        add_text(commands, {key, key_bytes});
        add_text(commands, {value, value_bytes});
      }
    }
    to.send(commands);
    to.await(waiting, ok_bytes, '+');
    waiting = made;
  }
  to.await(waiting, ok_bytes, '+');
}

struct kind {
  const char* name;
  bool has_log;
};
constexpr kind kinds[] = {{"Redis", false}, {"Redis with its log", true}};

contestant batches(const batch_row& of, const kind& who) {
  contestant c{of.key, who.name, side::rival};
  c.start = [of, who](const plan& how) -> body {
    auto s = std::make_shared<redis>(who.has_log);
    const std::size_t count = (how.count(400'000) + of.changes - 1) / of.changes * of.changes;
    return [=](const turn&) {
      const double start = now_s();
      write_batches(*s, count, of.changes);
      const auto n = static_cast<double>(count);
      return reading{.value = n / (now_s() - start), .operations = n};
    };
  };
  return c;
}

contestant gets() {
  contestant c{get_one, "Redis, one after the other", side::rival};
  c.start = [](const plan& how) -> body {
    auto s = std::make_shared<redis>(false);
    for (std::size_t n = 0; n < control_keys; ++n) {
      std::string command;
      begin_command(command, 3, "SET");
      add_text(command, key_of(n));
      add_text(command, value_of(n));
      s->send(command);
      s->await(1, ok_bytes, '+');
    }
    const std::size_t count = how.count(20'000);
    return [=](const turn&) {
      return latency(unit::nanoseconds, count, [&](std::size_t i) {
        std::string command;
        begin_command(command, 2, "GET");
        add_text(command, key_of(scatter(i) % control_keys));
        s->send(command);
        s->await(1, value_bytes + 8, '$');  // $100\r\n before, \r\n behind
      });
    };
  };
  return c;
}

}  // namespace

void add_redis(suite& s) {
  if (redis_program().empty()) {
    s.absent("Redis", "no redis-server in PATH; install it, it need not run");
    return;
  }
  for (const kind& who : kinds) {
    for (const batch_row& of : batch_rows) s.add(batches(of, who));
  }
  s.add(gets());
}

}  // namespace bench
