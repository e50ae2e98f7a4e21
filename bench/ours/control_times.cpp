// SPDX-License-Identifier: Apache-2.0
//
// What manta's control store does in time: a durable write beside an fsync, a long run, and what a
// crash leaves.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine.hpp"
#include "harness/measure.hpp"
#include "ours/control.hpp"
#include "ours/task_writer.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

// A file that grows by a small piece at a time, each on the disk before the next.
class synced_file {
 public:
  explicit synced_file(const std::string& path)
      : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  synced_file(const synced_file&) = delete;
  synced_file& operator=(const synced_file&) = delete;
  ~synced_file() { close(file_); }
  void append() {
    constexpr ssize_t size = key_bytes + value_bytes + 48;  // as a batch in RocksDB's log, about
    const char bytes[size] = {};
    check(write(file_, bytes, size) == size && fdatasync(file_) == 0, "a file is written");
  }

 private:
  const int file_;
};

void commit_durable(opened& s, std::size_t n) {
  control::batch one{.changes = {}, .how = control::durability::durable};
  one.changes.push_back(put(key_of(scatter(n) % control_keys), value_of(n)));
  commit(*s.store, s.all, std::move(one));
  s.all.wait();
}

contestant one_durable() {
  contestant c{durable_alone, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto s = on_disk();
    const std::size_t count = how.count(500);
    return [=](const turn&) {
      return latency(unit::microseconds, count, [&](std::size_t i) { commit_durable(*s, i); });
    };
  };
  return c;
}

contestant one_fdatasync() {
  contestant c{durable_alone, "write + fdatasync", side::reference};
  c.start = [](const plan& how) -> body {
    auto where = std::make_shared<temporary_folder>();
    auto file = std::make_shared<synced_file>(where->file("log"));
    const std::size_t count = how.count(500);
    return [=](const turn&) {
      keep(*where);
      return latency(unit::microseconds, count, [&](std::size_t) { file->append(); });
    };
  };
  return c;
}

// In turns, so that a disk that is busy for a while is so for both.
contestant durable_beside_fsync() {
  contestant c{durable_extra, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto s = on_disk();
    auto file = std::make_shared<synced_file>(s->where.file("log"));
    const std::size_t count = how.count(500);
    return [=](const turn&) {
      std::vector<double> extra;
      for (std::size_t i = 0; i < count; ++i) {
        const double start = now_s();
        file->append();
        const double middle = now_s();
        commit_durable(*s, i);
        extra.push_back((now_s() - middle - (middle - start)) * 1e6);
      }
      reading got{.value = quantile(extra, 0.5), .operations = static_cast<double>(count)};
      got.p50 = got.value;
      got.p99 = quantile(extra, 0.99);
      return got;
    };
  };
  return c;
}

contestant written_long() {
  contestant c{long_store, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    const std::size_t count = how.count(50'000'000);
    return [=](const turn&) {
      reset_peak();
      const double before = resident_bytes();
      const double start = now_s();
      opened s;
      s.all.allow(64);
      s.store = open_store(s.where.file("store"));
      task_writer writer(s, count / 50, control::durability::buffered);
      writer.write(count);
      const auto n = static_cast<double>(count);
      reading got{.value = 0, .operations = n};
      got.n = n / (now_s() - start);
      got.bytes = peak_resident_bytes() - before;
      writer.check_last();
      check(s.store->close().has_value(), "the store closes");
      got.value = folder_bytes(s.where.file("store"));
      return got;
    };
  };
  return c;
}

void leave_crashed(const std::string& path) {
  const char* const argv[] = {"/proc/self/exe", fill_option, path.c_str(), nullptr};
  pid_t pid = 0;
  check(posix_spawn(&pid, argv[0], nullptr, nullptr, const_cast<char* const*>(argv), environ) == 0,
        "a process that fills a store");
  int status = 0;
  waitpid(pid, &status, 0);
  check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "it was killed");
  check(folder_bytes(path, ".log") > static_cast<double>(control_keys * value_bytes),
        "all records are in the log");
}

contestant reopen() {
  contestant c{reopened, "manta", side::ours};
  c.start = [](const plan&) -> body {
    return [](const turn&) {
      const temporary_folder where;
      const std::string path = where.file("store");
      leave_crashed(path);
      std::unique_ptr<control::store> s;
      const reading got = time_per_operation(unit::milliseconds, 1, [&] { s = open_store(path); });
      check(s->measure().at == control_keys, "every batch is found");
      return got;
    };
  };
  return c;
}

}  // namespace

// With so much memory that no table is written meanwhile.
int fill_and_die(const char* path) {
  auto opened = control::open_rocks_store({.path = path, .memory_bytes = std::size_t{512} << 20U});
  check(opened.has_value(), "the store opens");
  in_flight all;
  fill(**opened, all, control_keys, 1);
  raise(SIGKILL);
  return 1;
}

void add_our_control_times(suite& s) {
  s.add(one_durable());
  s.add(one_fdatasync());
  s.add(durable_beside_fsync());
  s.add(written_long());
  s.add(reopen());
}

}  // namespace bench
