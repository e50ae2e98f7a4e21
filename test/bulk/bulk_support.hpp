// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "bulk/station.hpp"
#include "exec/support.hpp"
#include "folder.hpp"
#include "node/bulk_guard.hpp"
#include "wire/proof.hpp"
#include "wire/socket_link.hpp"
#include "wire/socket_place.hpp"

// What the tests of bulk/ share: objects in memory, stations, and a path between two of them that
// cuts and changes what goes through it.

namespace bulk_support {

namespace bulk = manta::bulk;
namespace wire = manta::wire;
using manta::errc;
using manta_test::dice;
using bytes = std::vector<std::byte>;

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr auto long_enough = std::chrono::seconds(60);

enum class path_kind { unix_socket, tcp, tls };

inline wire::socket_settings settings_of(path_kind of, int token = 1) {
  wire::socket_settings out;
  if (of == path_kind::unix_socket) return out;
  std::array<std::byte, wire::secret::bytes> all;
  all.fill(static_cast<std::byte>(token));
  out.trusts = *wire::trust::from(wire::secret(all), of == path_kind::tcp);
  out.encrypts_loopback = of == path_kind::tls;
  return out;
}

inline bytes random_bytes(std::size_t size, std::uint64_t seed) {
  bytes out(size);
  dice random(seed);
  for (std::size_t at = 0; at < size; at += 8) {
    const std::uint64_t some = random.next();
    std::memcpy(out.data() + at, &some, std::min<std::size_t>(8, size - at));
  }
  return out;
}

class memory_source final : public bulk::source {
 public:
  void put(const manta::base::id& as, bytes what) {
    const std::lock_guard lock(mutex_);
    all_[as.low] = std::make_shared<const bytes>(std::move(what));
  }
  std::optional<bulk::pinned_bytes> find(const manta::base::id& object, std::uint64_t at,
                                         std::uint32_t size) override {
    const int number = ++asked;
    if (on_find) on_find(number);
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(object.low);
    if (found == all_.end()) return std::nullopt;
    const auto& is = found->second;
    if (at > is->size() || size > is->size() - at) return std::nullopt;
    return bulk::pinned_bytes{std::span(*is).subspan(static_cast<std::size_t>(at), size), is};
  }
  std::atomic<int> asked{0};
  /// Set before anybody asks; the station's thread waits for it.
  std::function<void(int number)> on_find;

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<const bytes>> all_;
};

inline bulk::place_of_holder place_of(const wire::socket_address& at) {
  bulk::place_of_holder out;
  std::memcpy(&out.at, at.get(), at.size());
  out.size = at.size();
  return out;
}

/// A listening socket of that kind.
inline wire::socket_place listen_at(path_kind of, const std::string& path) {
  if (of == path_kind::unix_socket) return *wire::socket_place::bind(path);
  const auto to = wire::resolve({.host = "127.0.0.1"}, std::chrono::seconds(3));
  return *wire::socket_place::bind(to.value().front());
}

class house {
 public:
  explicit house(path_kind of, int token = 1,
                 const std::function<void(bulk::station_settings&)>& change = {})
      : guard_(settings_of(of, token)), place_(listen_at(of, (folder_.path() / "b").string())) {
    // A machine that stands still for seconds ends no connection.
    bulk::station_settings with{
        .by = &guard_, .from = &have, .greeting_limit = long_enough, .slow_limit = long_enough};
    if (change) change(with);
    auto made = bulk::station::start(with);
    if (!made) FAIL(made.error().message());
    is = *std::move(made);
    is->listen(dup(place_.file()));
  }
  bulk::place_of_holder place() const { return place_of(wire::socket_address::of(place_.file())); }
  bulk::holder as_holder(bulk::holder_id number = 1) const { return {number, {}, {place()}}; }

  /// How it ended; nothing: all of it is in `to`.
  std::optional<manta::error> fetch(std::uint64_t object, bytes& to,
                                    std::vector<bulk::holder> from) {
    return begin_fetch(object, to, std::move(from)).get();
  }
  struct wait {
    std::shared_ptr<std::promise<std::optional<manta::error>>> said;
    std::future<std::optional<manta::error>> is;
    std::uint64_t number = 0;
    std::optional<manta::error> get() {
      if (is.wait_for(long_enough) != std::future_status::ready) FAIL("a fetch that does not end");
      return is.get();
    }
  };
  wait begin_fetch(std::uint64_t object, bytes& to, std::vector<bulk::holder> from,
                   std::shared_ptr<void> keeps = {}) {
    wait out;
    out.said = std::make_shared<std::promise<std::optional<manta::error>>>();
    out.is = out.said->get_future();
    out.number = ++last_;
    is->fetch({.number = out.number,
               .object = {0, object},
               .to = to,
               .holders = std::move(from),
               .reader = reader,
               .find = find_reader,
               .unreached = unreached,
               .begins = begins,
               .came = came,
               .keeps = std::move(keeps),
               .done = [said = out.said](const manta::error* why) {
                 said->set_value(why == nullptr ? std::nullopt : std::optional(*why));
               }});
    return out;
  }

  memory_source have;
  /// What others know it by, and how it finds them; set before it fetches.
  std::uint64_t reader = 0;
  std::function<bulk::holder(std::uint64_t)> find_reader;
  std::function<void(std::uint64_t)> unreached;
  /// On its bulk thread; set before it fetches.
  std::function<void()> begins;
  std::function<void(std::uint64_t)> came;

 private:
  manta_test::folder folder_;
  manta::node::bulk_guard guard_;
  wire::socket_place place_;
  std::atomic<std::uint64_t> last_{0};

 public:
  std::unique_ptr<bulk::station> is;  // last: it uses the others
};

/// Stops what goes through a path after so many bytes, until it is let through.
class gate {
 public:
  explicit gate(std::uint64_t after) : after_(after) {}
  bool operator()(std::uint64_t before, std::span<std::byte> piece) {
    if (before + piece.size() > after_) open_.wait_for(long_enough);
    return true;
  }
  void open() { said_.set_value(); }

 private:
  std::uint64_t after_;
  std::promise<void> said_;
  std::shared_future<void> open_ = said_.get_future().share();
};

/// Passes on what goes through its socket, but for what `change` does to what comes back.
class path_between {
 public:
  /// Of that many bytes that came back on all connections together before; false: cut it here.
  using changer = std::function<bool(std::uint64_t before, std::span<std::byte> piece)>;
  /// In pieces of `most` bytes at most.
  path_between(const bulk::place_of_holder& to, changer change, std::size_t most = 256U << 10U,
               path_kind of = path_kind::unix_socket)
      : to_(to),
        change_(std::move(change)),
        room_(most),
        place_(listen_at(of, (folder_.path() / "p").string())),
        thread_([this] { run(); }) {}
  ~path_between() {
    ends_.store(true);
    thread_.join();
  }
  path_between(const path_between&) = delete;
  path_between& operator=(const path_between&) = delete;
  bulk::holder as_holder(bulk::holder_id number = 1) const {
    return {number, {}, {place_of(wire::socket_address::of(place_.file()))}};
  }
  /// Bytes that lie where they came back to.
  std::uint64_t passed_back() const noexcept { return passed_back_.load(); }

 private:
  struct pair {
    int near = -1;
    int far = -1;
  };
  static void send_all(int to, std::span<const std::byte> what) {
    while (!what.empty()) {
      const ssize_t went = send(to, what.data(), what.size(), MSG_NOSIGNAL);
      if (went <= 0) return;
      what = what.subspan(static_cast<std::size_t>(went));
    }
  }
  void take() {
    const int near = accept4(place_.file(), nullptr, nullptr, SOCK_CLOEXEC);
    if (near < 0) return;
    const int far = socket(to_.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(far, reinterpret_cast<const sockaddr*>(&to_.at), to_.size) == 0) {
      return all_.push_back({near, far});
    }
    close(far);
    close(near);
  }
  // False: it has ended.
  bool pass(const pair& one, bool back) {
    const ssize_t came = recv(back ? one.far : one.near, room_.data(), room_.size(), MSG_DONTWAIT);
    if (came == 0) return false;
    if (came < 0) return errno == EAGAIN;
    const auto piece = std::span(room_).first(static_cast<std::size_t>(came));
    if (back && !change_(std::exchange(back_, back_ + piece.size()), piece)) return false;
    send_all(back ? one.near : one.far, piece);
    if (back) passed_back_ += piece.size();
    return true;
  }
  void run() {
    while (!ends_.load()) {
      std::vector<pollfd> files{{place_.file(), POLLIN, 0}};
      for (const pair& one : all_) {
        files.push_back({one.near, POLLIN, 0});
        files.push_back({one.far, POLLIN, 0});
      }
      if (poll(files.data(), files.size(), 20) <= 0) continue;
      if (files[0].revents != 0) take();
      std::erase_if(all_, [this](const pair& one) {
        if (pass(one, false) && pass(one, true)) return false;
        close(one.near);
        close(one.far);
        return true;
      });
    }
    for (const pair& one : all_) {
      close(one.near);
      close(one.far);
    }
  }

  const bulk::place_of_holder to_;
  const changer change_;
  bytes room_;
  manta_test::folder folder_;
  wire::socket_place place_;
  std::vector<pair> all_;
  std::uint64_t back_ = 0;
  std::atomic<std::uint64_t> passed_back_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace bulk_support
