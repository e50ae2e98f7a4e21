// SPDX-License-Identifier: Apache-2.0
//
// Large arrays over blocking TCP sockets between processes of this machine: what the bytes alone
// cost, from one process to another and from one to many.
#include <memory>
#include <thread>
#include <vector>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"
#include "rivals/tcp.hpp"

namespace bench {
namespace {

constexpr char written = 7;

// Another process that has an array, and gives all of it for each byte that it is sent.
class giver {
 public:
  explicit giver(std::size_t size) {
    tcp_pair(ends_);
    process_ = std::make_unique<forked>([&] {
      close(ends_[0]);
      const std::vector<char> all(size, written);
      for (char asked = 0; read_all(ends_[1], &asked, 1);) {
        if (!write_all(ends_[1], all.data(), size)) return;
      }
    });
    close(ends_[1]);
  }
  ~giver() { close(ends_[0]); }
  giver(const giver&) = delete;
  giver& operator=(const giver&) = delete;

  void ask(char* to, std::size_t size) const {
    const char asked = 1;
    check(write_all(ends_[0], &asked, 1) && read_all(ends_[0], to, size), "an array that came");
    check(to[0] == written && to[size - 1] == written, "what was written");
  }

 private:
  int ends_[2] = {-1, -1};
  std::unique_ptr<forked> process_;
};

contestant asked(const char* name, bool is_fresh) {
  contestant c{cluster_array, name, side::reference};
  c.start = [=](const plan& p) -> body {
    const std::size_t size = bulk_bytes(p);
    const int rounds = p.quick ? 2 : 20;
    const auto from = std::make_shared<giver>(size);
    const auto kept = std::make_shared<std::vector<char>>(size);
    return [=](const turn&) {
      return median_ms(rounds, [&] {
        const double before = now_s();
        // The C library takes so large a block from the kernel each time, as zeros.
        const std::unique_ptr<char[]> fresh(is_fresh ? new char[size] : nullptr);
        from->ask(is_fresh ? fresh.get() : kept->data(), size);
        return now_s() - before;
      });
    };
  };
  return c;
}

// Other processes that read so many bytes each time, and say when they have them.
class readers {
 public:
  readers(std::size_t count, std::size_t size) {
    for (std::size_t i = 0; i < count; ++i) {
      int ends[2];
      tcp_pair(ends);
      processes_.push_back(std::make_unique<forked>([&] {
        for (const int other : ends_) close(other);
        close(ends[0]);
        std::vector<char> all(size);
        while (read_all(ends[1], all.data(), size)) {
          if (!write_all(ends[1], &all[size - 1], 1)) return;
        }
      }));
      close(ends[1]);
      ends_.push_back(ends[0]);
    }
  }
  ~readers() {
    for (const int end : ends_) close(end);
  }
  readers(const readers&) = delete;
  readers& operator=(const readers&) = delete;

  // To all of them at the same time, by a thread for each.
  void give(const std::vector<char>& all) const {
    std::vector<std::thread> threads;
    for (const int end : ends_) {
      threads.emplace_back([&all, end] {
        char last = 0;
        check(write_all(end, all.data(), all.size()) && read_all(end, &last, 1), "its word");
        check(last == written, "what was written");
      });
    }
    for (std::thread& one : threads) one.join();
  }

 private:
  std::vector<int> ends_;
  std::vector<std::unique_ptr<forked>> processes_;
};

contestant given_to_many() {
  contestant c{cluster_broadcast, "raw TCP", side::reference};
  c.start = [](const plan& p) -> body {
    const std::size_t size = bulk_bytes(p);
    const int rounds = p.quick ? 1 : 5;
    const auto to = std::make_shared<readers>(broadcast_nodes, size);
    return [=](const turn&) {
      const std::vector<char> all(size, written);
      return median_ms(rounds, [&] {
        const double before = now_s();
        to->give(all);
        return now_s() - before;
      });
    };
  };
  return c;
}

}  // namespace

void add_raw_bulk(suite& s) {
  s.add(asked("raw TCP", false));
  s.add(asked("raw TCP, into fresh memory", true));
  s.add(given_to_many());
}

}  // namespace bench
