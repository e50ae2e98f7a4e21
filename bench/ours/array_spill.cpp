// SPDX-License-Identifier: Apache-2.0
//
// More of bench_arrays: arrays put by many threads, the first one after the start, small ones
// inside of a worker, and more arrays than memory has room for, beside the disk they go to.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <manta/manta.hpp>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using bytes = manta::array<std::uint8_t>;
using many = std::vector<manta::future<bytes>>;

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr const char* folder = "/tmp";

int ends_of(const bytes& a) { return a.valid() ? a[0] + a[a.size() - 1] : 0; }

// Seconds of one of `n` puts of that size in the process that is asked.
double put_some(std::size_t size, std::size_t n) {
  const std::vector<std::uint8_t> from(size, 1);
  const double begin = now_s();
  for (std::size_t i = 0; i < n; ++i) {
    const manta::future<bytes> f = manta::put(manta::make_array(from));
    check(f.get().size() == size, "size");
  }
  return (now_s() - begin) / static_cast<double>(n);
}

manta::config on(manta::isolation_mode how) {
  manta::config c;
  c.workers = 2;
  c.isolation = how;
  return c;
}

void add_threads(suite& s, int threads) {
  const std::string key = "array_by_" + std::to_string(threads);
  const auto shared = [threads](std::size_t n, const auto& work) {
    return time_per_operation(unit::microseconds, n * static_cast<std::size_t>(threads), [&] {
      std::vector<std::thread> all;
      for (int t = 0; t < threads; ++t) {
        all.emplace_back([&work, n] {
          for (std::size_t i = 0; i < n; ++i) work();
        });
      }
      for (std::thread& one : all) one.join();
    });
  };
  s.add(contestant{key, "memcpy, warm", side::reference, false, [shared](const plan& p) {
                     const std::size_t n = p.count(400);
                     return [=](const turn&) {
                       return shared(n, [] {
                         static thread_local std::vector<std::uint8_t> from(mib, 1), to(mib, 2);
                         std::memcpy(to.data(), from.data(), mib);
                         keep(to);
                       });
                     };
                   }});
  s.add(contestant{key, "manta, put and get", side::ours, false, [shared](const plan& p) {
                     const auto rt = std::make_shared<manta::runtime>();
                     const std::size_t n = p.count(400);
                     return [=](const turn&) {
                       check(rt->workers() > 0, "workers");
                       return shared(n, [] {
                         static thread_local std::vector<std::uint8_t> from(mib, 1);
                         const manta::future<bytes> f = manta::put(manta::make_array(from));
                         check(f.get().size() == mib, "size");
                       });
                     };
                   }});
}

void add_first(suite& s) {
  const std::size_t size = 64 * mib;
  s.add(contestant{"array_first", "memcpy into new memory", side::reference, false,
                   [size](const plan&) {
                     const auto from = std::make_shared<std::vector<std::uint8_t>>(size, 1);
                     return [=](const turn&) {
                       return time_per_operation(unit::microseconds, 1, [&] {
                         void* const to = std::malloc(size);
                         std::memcpy(to, from->data(), size);
                         keep(to);
                         std::free(to);
                       });
                     };
                   }});
  s.add(contestant{"array_first", "manta, put", side::ours, false, [size](const plan&) {
                     const auto rt = std::make_shared<manta::runtime>();
                     const auto from = std::make_shared<std::vector<std::uint8_t>>(size, 1);
                     return [=](const turn&) {
                       check(rt->workers() > 0, "workers");
                       return time_per_operation(unit::microseconds, 1, [&] {
                         check(manta::put(manta::make_array(*from)).valid(), "put");
                       });
                     };
                   }});
}

void add_small(suite& s) {
  for (const std::size_t size :
       {std::size_t{1024}, 16 * std::size_t{1024}, 256 * std::size_t{1024}}) {
    const std::string key = "array_in_worker_" + std::to_string(size / 1024) + "k";
    const auto reading_of = [](double seconds, std::size_t n) {
      return reading{.value = seconds * 1e6, .operations = static_cast<double>(n)};
    };
    s.add(contestant{key, "manta, put and get in the node", side::ours, false, [=](const plan& p) {
                       const auto rt =
                           std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
                       const std::size_t n = p.count(2000);
                       return [=](const turn&) {
                         check(rt->workers() == 2, "workers");
                         return reading_of(put_some(size, n), n);
                       };
                     }});
    s.add(contestant{key, "manta, put and get in a worker", side::ours, false, [=](const plan& p) {
                       const auto rt =
                           std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
                       const std::size_t n = p.count(2000);
                       return [=](const turn&) {
                         check(rt->workers() == 2, "workers");
                         return reading_of(manta::remote<put_some>(size, n).get(), n);
                       };
                     }});
  }
}

// Pieces of 64 MiB, or a 64th of that in a quick run, four times as many as the store has room for.
struct flood {
  std::size_t piece;
  std::size_t count = 64;
  explicit flood(const plan& p) : piece(p.quick ? mib : 64 * mib) {}
  std::shared_ptr<manta::runtime> runtime(manta::isolation_mode how) const {
    manta::config c = on(how);
    c.store_bytes = static_cast<std::int64_t>(piece * count / 4);
    c.spill_folder = folder;
    return std::make_shared<manta::runtime>(c);
  }
  many put_all(const std::vector<std::uint8_t>& from) const {
    many all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(manta::put(manta::make_array(from)));
    return all;
  }
};

/// A file without a name in the same folder.
class raw_file {
 public:
  raw_file() : file_(open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    check(file_ >= 0, "a file without a name");
  }
  ~raw_file() { close(file_); }
  raw_file(const raw_file&) = delete;
  raw_file& operator=(const raw_file&) = delete;
  void write_all(const flood& f, const std::vector<std::uint8_t>& from, bool waits_for_disk) const {
    for (std::size_t i = 0; i < f.count; ++i) {
      const auto n = static_cast<ssize_t>(f.piece);
      check(pwrite(file_, from.data(), f.piece, static_cast<off_t>(i * f.piece)) == n, "write");
    }
    if (waits_for_disk) check(fdatasync(file_) == 0, "fdatasync");
  }
  void read_all(const flood& f, std::vector<std::uint8_t>& to) const {
    for (std::size_t i = 0; i < f.count; ++i) {
      const auto n = static_cast<ssize_t>(f.piece);
      check(pread(file_, to.data(), f.piece, static_cast<off_t>(i * f.piece)) == n, "read");
    }
  }

 private:
  const int file_;
};

void add_raw_disk(suite& s) {
  for (const bool waits : {false, true}) {
    s.add(contestant{"spill_out", waits ? "write(2), fdatasync" : "write(2)", side::reference,
                     false, [waits](const plan& p) {
                       const flood f(p);
                       const auto from = std::make_shared<std::vector<std::uint8_t>>(f.piece, 1);
                       return [=](const turn&) {
                         const raw_file file;
                         return time_per_operation(unit::milliseconds, 1,
                                                   [&] { file.write_all(f, *from, waits); });
                       };
                     }});
  }
  s.add(contestant{"spill_in", "read(2)", side::reference, false, [](const plan& p) {
                     const flood f(p);
                     const auto one = std::make_shared<std::vector<std::uint8_t>>(f.piece, 1);
                     return [=](const turn&) {
                       const raw_file file;
                       file.write_all(f, *one, false);
                       return time_per_operation(unit::milliseconds, 1,
                                                 [&] { file.read_all(f, *one); });
                     };
                   }});
}

void add_flood(suite& s) {
  add_raw_disk(s);
  s.add(contestant{"spill_out", "manta, put", side::ours, false, [](const plan& p) {
                     const flood f(p);
                     const auto rt = f.runtime(manta::isolation_mode::threads);
                     const auto from = std::make_shared<std::vector<std::uint8_t>>(f.piece, 1);
                     return [=](const turn&) {
                       many all;
                       const reading r = time_per_operation(unit::milliseconds, 1,
                                                            [&] { all = f.put_all(*from); });
                       check(rt->store().spilled_bytes >= f.piece * f.count / 2, "spilled");
                       return r;
                     };
                   }});
  for (const auto how : {manta::isolation_mode::threads, manta::isolation_mode::processes}) {
    const bool in_process = how == manta::isolation_mode::processes;
    s.add(contestant{"spill_in", in_process ? "manta, to tasks in processes" : "manta, to tasks",
                     side::ours, false, [how](const plan& p) {
                       const flood f(p);
                       const auto rt = f.runtime(how);
                       const auto from = std::make_shared<std::vector<std::uint8_t>>(f.piece, 1);
                       return [=](const turn&) {
                         check(rt->workers() == 2, "workers");
                         const many all = f.put_all(*from);
                         return time_per_operation(unit::milliseconds, 1, [&] {
                           for (const auto& one : all) {
                             check(manta::remote<ends_of>(one).get() == 2, "ends");
                           }
                         });
                       };
                     }});
  }
}

}  // namespace

void add_our_spills(suite& s) {
  for (const int threads : array_threads) add_threads(s, threads);
  add_first(s);
  add_small(s);
  add_flood(s);
}

}  // namespace bench
