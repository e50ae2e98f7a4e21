// SPDX-License-Identifier: Apache-2.0
//
// A large array over a blocking TCP socket between two processes of this machine: what the bytes
// alone cost.
#include <memory>
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

}  // namespace

void add_raw_bulk(suite& s) {
  s.add(asked("raw TCP", false));
  s.add(asked("raw TCP, into fresh memory", true));
}

}  // namespace bench
