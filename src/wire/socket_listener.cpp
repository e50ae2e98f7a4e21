// SPDX-License-Identifier: Apache-2.0
#include "wire/socket_listener.hpp"

#include <cerrno>
#include <cstring>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <kj/timer.h>
#include <sys/socket.h>

#include "wire/socket_connection.hpp"
#include "wire/socket_greeter.hpp"
#include "wire/socket_place.hpp"

namespace manta::inline v0::wire {

namespace {

constexpr auto wait_for_descriptor = 20 * kj::MILLISECONDS;
constexpr int most_at_once = 64;

greeting with_credits(greeting self, const socket_settings& how) {
  self.credit_messages = how.credit_messages;
  self.credit_bytes = how.credit_bytes;
  return self;
}

bool is_short_of_descriptors(int why) {
  return why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM;
}

}  // namespace

// What the listener's owner sees of its part on the loop.
struct socket_listener::shared {
  explicit shared(std::shared_ptr<loop_core> loop) : at(std::move(loop)) {}

  std::shared_ptr<loop_core> at;
  socket_address address;  // set once, before anybody sees this
  std::mutex mutex;
  listener_counts counts;   // guarded by mutex
  part* on_loop = nullptr;  // the loop's thread only

  void count(std::uint64_t listener_counts::*what) {
    const std::lock_guard lock(mutex);
    ++(counts.*what);
  }
};

class socket_listener::part final : public resident, private kj::TaskSet::ErrorHandler {
 public:
  part(std::shared_ptr<shared> with, socket_place place, const greeting& self, taker take,
       const socket_settings& how)
      : shared_(std::move(with)),
        at_(*shared_->at),
        place_(std::move(place)),
        self_(with_credits(self, how)),
        take_(std::move(take)),
        how_(how),
        observer_(at_.port(), place_.file(), kj::UnixEventPort::FdObserver::OBSERVE_READ),
        tasks_(*this) {
    shared_->on_loop = this;
    tasks_.add(accept());
  }
  virtual ~part() noexcept(false) = default;

  void end() override {
    if (std::exchange(shared_->on_loop, nullptr) == nullptr) return;
    for (socket_greeter* one : unknown_) one->abandon();
    unknown_.clear();
    at_.drop(this);
  }

 private:
  // Again when there is something to accept, or a descriptor to accept it with.
  kj::Promise<void> accept() {
    for (int i = 0; i < most_at_once; ++i) {
      const int file = accept4(place_.file(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      const int why = errno;
      if (file >= 0) {
        greet(kj::AutoCloseFd(file));
      } else if (why == EAGAIN || why == EWOULDBLOCK) {
        return observer_.whenBecomesReadable().then([this] { return accept(); });
      } else if (is_short_of_descriptors(why)) {
        shared_->count(&listener_counts::no_descriptor);
        return pause();
      } else if (why != EINTR && why != ECONNABORTED) {
        return pause();
      }
    }
    return kj::evalLater([this] { return accept(); });
  }
  kj::Promise<void> pause() {
    return at_.port().getTimer().afterDelay(wait_for_descriptor).then([this] { return accept(); });
  }

  void greet(kj::AutoCloseFd file) {
    const socket_address& own = shared_->address;
    if (own.is_unix() && !check_user(file, how_.user)) {
      shared_->count(&listener_counts::other_user);
      return;
    }
    socket_greeter::way way{.at = end_of_link::listener, .limit = how_.greeting_limit};
    if (!own.is_unix()) {
      way.proves = how_.trusts;
      way.encrypts = how_.encrypts(socket_address::peer_of(file));
      set_prompt(file);
    }
    if (unknown_.size() >= most_unknown) {
      shared_->count(&listener_counts::crowded_out);
      unknown_.front()->abandon();
      unknown_.pop_front();
    }
    const auto place = unknown_.insert(unknown_.end(), nullptr);
    auto one = std::make_unique<socket_greeter>(
        at_, kj::heap<watched_socket>(at_.port(), kj::mv(file)), self_, std::move(way),
        [this, place, since = base::now()](kj::Own<watched_socket> socket,
                                           const result<greeting>& is) {
          unknown_.erase(place);
          greeted(kj::mv(socket), is, base::now() - since);
        });
    *place = one.get();
    at_.keep(std::move(one));
  }

  void greeted(kj::Own<watched_socket> socket, const result<greeting>& is, duration took) {
    if (!is) {
      const bool was_silent = is.error().code() == errc::timed_out;
      shared_->count(was_silent ? &listener_counts::silent : &listener_counts::bad_greeting);
      return;
    }
    shared_->count(&listener_counts::accepted);
    auto state = std::make_shared<socket_state>(shared_->at, how_, took);
    auto connection = std::make_unique<socket_connection>(state, kj::mv(socket), *is);
    state->connection = connection.get();
    at_.keep(std::move(connection));
    take_(std::make_unique<socket_link>(std::move(state)), *is);
  }

  void taskFailed(kj::Exception&&) override { tasks_.add(pause()); }

  std::shared_ptr<shared> shared_;
  loop_core& at_;
  socket_place place_;
  const greeting self_;
  taker take_;
  const socket_settings how_;
  std::list<socket_greeter*> unknown_;  // the oldest first
  kj::UnixEventPort::FdObserver observer_;
  kj::TaskSet tasks_;
};

namespace {

result<socket_place> place_at(const endpoint& where, const socket_settings& how) {
  if (where.is_unix()) {
    const std::size_t slash = where.path.rfind('/');
    if (slash == std::string::npos || slash == 0) {
      return error(errc::invalid_argument,
                   fmt::format("wire: asked a socket at {}, which names no folder for it; name one "
                               "that is the user's alone",
                               where.path));
    }
    if (const result<void> is = prepare_folder(where.path.substr(0, slash)); !is) return is.error();
    return socket_place::bind(where.path);
  }
  if (how.trusts == nullptr) {
    return error(errc::invalid_argument,
                 fmt::format("wire: asked to listen at {} without a token; nobody is heard over "
                             "TCP who can't prove that it has one",
                             where.text()));
  }
  const result<std::vector<socket_address>> to = resolve(where, how.greeting_limit);
  if (!to) return to.error();
  return socket_place::bind(to->front());
}

}  // namespace

result<std::unique_ptr<socket_listener>> socket_listener::open(loop& at, const endpoint& where,
                                                               const greeting& self, taker take,
                                                               const socket_settings& how) {
  result<socket_place> place = place_at(where, how);
  if (!place) return place.error();
  auto with = std::make_shared<shared>(at.core());
  with->address = socket_address::of(place->file());
  std::unique_ptr<socket_listener> made(new socket_listener(with));
  auto kept = std::make_shared<socket_place>(*std::move(place));
  const bool will_run = at.core()->post([with, kept, self, how, take = std::move(take)] {
    with->at->keep(std::make_unique<part>(with, std::move(*kept), self, take, how));
  });
  if (will_run) return made;
  return error(errc::cancelled,
               fmt::format("wire: asked a socket at {}, but the loop it was to live on has ended",
                           where.text()));
}

socket_listener::~socket_listener() {
  auto gone = std::make_shared<std::promise<void>>();
  std::future<void> is_gone = gone->get_future();
  const bool will_run = shared_->at->post([with = shared_, gone] {
    if (with->on_loop != nullptr) with->on_loop->end();
    with->at->later([gone] { gone->set_value(); });
  });
  if (will_run) is_gone.wait();
}

const socket_address& socket_listener::address() const noexcept { return shared_->address; }

listener_counts socket_listener::counts() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->counts;
}

}  // namespace manta::inline v0::wire
