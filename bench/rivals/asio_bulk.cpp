// SPDX-License-Identifier: Apache-2.0
//
// A large array over TCP by standalone Asio: a loop in each of two processes, which write and read
// all of it by one asynchronous operation.
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <memory>
#include <vector>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"
#include "rivals/tcp.hpp"

namespace bench {
namespace {

constexpr char written = 7;

// One end, and the loop that serves it.
class end_of_line {
 public:
  explicit end_of_line(int file) : socket_(loop_, asio::ip::tcp::v4(), file) {}

  template <class Done>
  void read(char* to, std::size_t size, Done done) {
    asio::async_read(socket_, asio::buffer(to, size),
                     [done](const std::error_code& error, std::size_t) { done(!error); });
  }
  template <class Done>
  void write(const char* from, std::size_t size, Done done) {
    asio::async_write(socket_, asio::buffer(from, size),
                      [done](const std::error_code& error, std::size_t) { done(!error); });
  }
  // Until nothing is under way.
  void run() {
    loop_.restart();
    loop_.run();
  }

 private:
  asio::io_context loop_{1};
  asio::ip::tcp::socket socket_;
};

void give(int file, std::size_t size) {
  end_of_line line(file);
  const std::vector<char> all(size, written);
  char asked = 0;
  bool is_open = true;
  while (is_open) {
    line.read(&asked, 1, [&](bool came) {
      is_open = came;
      if (came) line.write(all.data(), size, [&](bool went) { is_open = went; });
    });
    line.run();
  }
}

class asked_process {
 public:
  explicit asked_process(std::size_t size) {
    int ends[2];
    tcp_pair(ends);
    process_ = std::make_unique<forked>([&] {
      close(ends[0]);
      give(ends[1], size);
    });
    close(ends[1]);
    line_ = std::make_unique<end_of_line>(ends[0]);
  }

  void ask(std::vector<char>& to) {
    const char asked = 1;
    bool is_there = false;
    line_->write(&asked, 1, [](bool went) { check(went, "a question"); });
    line_->read(to.data(), to.size(), [&](bool came) { is_there = came; });
    line_->run();
    check(is_there && to.front() == written && to.back() == written, "what was written");
  }

 private:
  std::unique_ptr<forked> process_;
  std::unique_ptr<end_of_line> line_;
};

}  // namespace

void add_asio_bulk(suite& s) {
  contestant c{cluster_array, "Asio", side::rival};
  c.start = [](const plan& p) -> body {
    const int rounds = p.quick ? 2 : 20;
    const auto from = std::make_shared<asked_process>(bulk_bytes(p));
    const auto to = std::make_shared<std::vector<char>>(bulk_bytes(p));
    return [=](const turn&) {
      return median_ms(rounds, [&] {
        const double before = now_s();
        from->ask(*to);
        return now_s() - before;
      });
    };
  };
  s.add(c);
}

}  // namespace bench
