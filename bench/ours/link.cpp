// SPDX-License-Identifier: Apache-2.0
//
// Both bodies of the wire's link between two processes on two cores.
#include "wire/link.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/folder.hpp"
#include "harness/measure.hpp"
#include "rivals/pinned.hpp"
#include "wire/ring_link.hpp"
#include "wire/socket_link.hpp"
#include "wire/socket_listener.hpp"

namespace bench {
namespace {

namespace wire = manta::wire;
constexpr std::size_t message_bytes = 128;
constexpr std::chrono::seconds long_time{10};

void send_back_all(wire::link& over) {
  wire::frame_buffer frame;
  while (over.take(frame) == wire::link::got::message) {
    const std::span<const std::byte> piece = frame.bytes();
    (void)over.send({&piece, 1}, piece.size());
  }
}

/// The end that sends and waits for what comes back.
class asking_end {
 public:
  virtual ~asking_end() = default;
  void round_trip(std::size_t messages) {
    const std::span<const std::byte> piece(bytes_);
    for (std::size_t i = 0; i < messages; ++i) {
      check(static_cast<bool>(link_->send({&piece, 1}, piece.size())), "a message that leaves");
    }
    for (std::size_t left = messages; left > 0;) {
      if (link_->take(frame_) == wire::link::got::message) {
        --left;
      } else {
        check(link_->wait(long_time), "a message that comes back");
      }
    }
    check(frame_.bytes().size() == message_bytes, "bytes that came back");
  }

 protected:
  std::unique_ptr<wire::link> link_;

 private:
  std::array<std::byte, message_bytes> bytes_{};
  wire::frame_buffer frame_;
};

class over_rings final : public asking_end {
 public:
  over_rings() : pid_(fork()) {
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pin_to(1);
      wire::ring_link mine(there_, back_, -1);
      for (;;) {
        mine.wait(long_time);
        send_back_all(mine);
      }
    }
    pin_to(0);
    link_ = std::make_unique<wire::ring_link>(back_, there_, -1);
  }
  ~over_rings() override {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    link_.reset();
  }

 private:
  wire::ring_memory there_{*wire::ring_memory::make(std::size_t{1} << 20U)};
  wire::ring_memory back_{*wire::ring_memory::make(std::size_t{1} << 20U)};
  pid_t pid_;
};

wire::greeting somebody(std::uint64_t who) {
  wire::greeting out;
  out.cluster = {1, 1};
  out.sender = {who, 1};
  return out;
}

/// How the two ends of a link of sockets meet.
enum class way { unix_socket, tcp, tls };

class over_sockets : public asking_end {
 public:
  explicit over_sockets(way by) : by_(by) {
    if (by_ != way::unix_socket) {
      how_.trusts = *wire::trust::from(wire::secret(), by_ == way::tcp);
      how_.encrypts_loopback = by_ == way::tls;
    }
    int ready[2] = {-1, -1};
    check(pipe(ready) == 0, "a pipe");
    pid_ = fork();
    if (pid_ == 0) serve(ready[1]);
    check(read(ready[0], &at_, sizeof at_) == sizeof at_, "the other process");
    for (const int file : ready) close(file);
    pin_to(0);
    loop_ = *wire::loop::start({});
    link_ = *wire::connect(*loop_, {at_}, somebody(1), how_);
  }
  ~over_sockets() override {
    link_.reset();
    loop_.reset();
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 protected:
  const wire::socket_address& address() const { return at_; }
  pid_t other() const { return pid_; }

 private:
  [[noreturn]] void serve(int ready) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin_to(1);
    const auto at = *wire::loop::start({});
    std::vector<std::unique_ptr<wire::link>> links;
    const auto listener = *wire::socket_listener::open(
        *at, place(), somebody(2),
        [&](std::unique_ptr<wire::link> one, const wire::greeting&) {
          wire::link* const end = one.get();
          links.push_back(std::move(one));
          end->on_arrival([end] { send_back_all(*end); });
        },
        how_);
    const wire::socket_address where = listener->address();
    check(write(ready, &where, sizeof where) == sizeof where, "who waits for this process");
    for (;;) pause();
  }

  wire::endpoint place() const {
    if (by_ == way::unix_socket) return {.path = path_};
    return {.host = "127.0.0.1"};
  }

  const way by_;
  wire::socket_settings how_;
  const temporary_folder folder_;
  const std::string path_ = folder_.file("a");
  wire::socket_address at_;
  pid_t pid_ = 0;
  std::unique_ptr<wire::loop> loop_;
};

std::size_t resident_kib(pid_t of) {
  std::ifstream file("/proc/" + std::to_string(of) + "/status");
  for (std::string word; file >> word;) {
    std::size_t kib = 0;
    if (word == "VmRSS:" && file >> kib) return kib;
  }
  return 0;
}

/// Beside connections that have said nothing, 10,000 or as many as there are descriptors for: what
/// the listener keeps of them is its affair.
class beside_a_crowd final : public over_sockets {
 public:
  beside_a_crowd() : over_sockets(way::tcp) {
    constexpr std::size_t wanted = 10'000;
    constexpr std::size_t others = 100;  // descriptors
    constexpr std::size_t most_kib = std::size_t{32} << 10U;
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    const std::size_t size = std::min(wanted, static_cast<std::size_t>(files.rlim_cur) - others);
    round_trip(100);
    const std::size_t before = resident_kib(other());
    for (std::size_t i = 0; i < size; ++i) {
      const int file = socket(address().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
      check(file >= 0, "a descriptor");
      check(connect(file, address().get(), address().size()) == 0, "a connection");
      crowd_.push_back(file);
    }
    round_trip(100);
    check(resident_kib(other()) <= before + most_kib, "at most 32 MiB more");
  }
  ~beside_a_crowd() override {
    for (const int file : crowd_) close(file);
  }

 private:
  std::vector<int> crowd_;
};

}  // namespace

void add_our_links(suite& s) {
  add_round_trips(s, "manta, sockets", side::ours,
                  [] { return std::make_shared<over_sockets>(way::unix_socket); });
  add_round_trips(s, "manta, TCP", side::ours,
                  [] { return std::make_shared<over_sockets>(way::tcp); });
  add_round_trips(s, "manta, TCP, 10,000 half-open", side::ours,
                  [] { return std::make_shared<beside_a_crowd>(); });
  add_round_trips(s, "manta, TLS", side::ours,
                  [] { return std::make_shared<over_sockets>(way::tls); });
  add_round_trips(s, "manta, rings", side::ours, [] { return std::make_shared<over_rings>(); });
}

}  // namespace bench
