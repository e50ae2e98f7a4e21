// SPDX-License-Identifier: Apache-2.0
#include "wire/socket_link.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <kj/timer.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/socket_connection.hpp"
#include "wire/socket_greeter.hpp"
#include "wire/socket_place.hpp"

namespace manta::inline v0::wire {

namespace {

// A link on its way to its peer: connects, greets, and becomes a connection.
class caller final : public resident, private kj::TaskSet::ErrorHandler {
 public:
  caller(std::shared_ptr<socket_state> state, std::vector<socket_address> to, const greeting& self)
      : state_(std::move(state)),
        at_(state_->at()),
        to_(std::move(to)),
        self_(self),
        limit_(state_->settings().greeting_limit / static_cast<int>(to_.size())),
        until_(base::now() + limit_),
        tasks_(*this) {
    connect();
  }
  virtual ~caller() noexcept(false) = default;
  void end() override {
    give_up(error(errc::cancelled, "wire: a connection was to be made, its loop has ended"));
  }

 private:
  const socket_address& address() const { return to_[next_]; }

  void connect() {
    kj::AutoCloseFd file(socket(address().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (file.get() < 0) return failed(errno);
    if (!address().is_unix()) set_prompt(file);
    const bool is_there = ::connect(file, address().get(), address().size()) == 0;
    const int why = errno;
    auto watched = kj::heap<watched_socket>(at_.port(), kj::mv(file));
    if (is_there) return greet(kj::mv(watched));
    if (why == EINPROGRESS) return wait(kj::mv(watched));
    // A full queue of the listener; the kernel tells nobody when that has room.
    if (why != EAGAIN && why != EINTR) return failed(why);
    if (base::now() > until_) return failed(ETIMEDOUT);
    tasks_.add(at_.port().getTimer().afterDelay(1 * kj::MILLISECONDS).then([this] { connect(); }));
  }

  // Over TCP the kernel needs a while.
  void wait(kj::Own<watched_socket> socket) {
    auto& timer = at_.port().getTimer();
    auto is_late =
        timer.afterDelay(limit_.count() * kj::MILLISECONDS).then([] { return ETIMEDOUT; });
    const int file = socket->file();
    auto is_made = socket->has_room().then([file] {
      int why = 0;
      socklen_t size = sizeof why;
      return getsockopt(file, SOL_SOCKET, SO_ERROR, &why, &size) == 0 ? why : errno;
    });
    tasks_.add(is_made.exclusiveJoin(kj::mv(is_late))
                   .then([this, socket = kj::mv(socket)](int why) mutable {
                     if (why == 0) return greet(kj::mv(socket));
                     failed(why);
                   }));
  }

  void failed(int why) {
    if (next_ + 1 < to_.size() && !is_over_) {
      ++next_;
      until_ = base::now() + limit_;
      return connect();
    }
    const bool is_own_limit = why == EMFILE || why == ENFILE;
    give_up(error(errc::node_lost,
                  fmt::format("wire: asked a connection to {}, found: {}; {}", address().text(),
                              std::strerror(why),
                              is_own_limit ? "raise the limit of open files"
                                           : "look whether the other process lives and listens "
                                             "there")));
  }

  void greet(kj::Own<watched_socket> socket) {
    if (is_over_) return;
    const socket_settings& how = state_->settings();
    socket_greeter::way way{.at = end_of_link::dialler, .limit = how.greeting_limit};
    if (!address().is_unix()) {
      way.proves = how.trusts;
      way.encrypts = how.encrypts(address());
    } else if (const result<void> is = check_user(socket->file(), how.user); !is) {
      return give_up(is.error());
    }
    is_over_ = true;
    at_.keep(std::make_unique<socket_greeter>(
        at_, kj::mv(socket), self_, std::move(way),
        [state = state_](kj::Own<watched_socket> greeted_at, const result<greeting>& is) {
          greeted(state, kj::mv(greeted_at), is);
        }));
    at_.drop(this);
  }

  static void greeted(const std::shared_ptr<socket_state>& state, kj::Own<watched_socket> socket,
                      const result<greeting>& is) {
    if (!is) return state->end(is.error());
    if (state->state().ended.has_value()) return;  // closed meanwhile
    auto connection = std::make_unique<socket_connection>(state, kj::mv(socket), *is);
    state->connection = connection.get();
    state->at().keep(std::move(connection));
    state->connection->send_batch();
  }

  void give_up(error why) {
    if (std::exchange(is_over_, true)) return;
    state_->end(std::move(why));
    at_.drop(this);
  }
  void taskFailed(kj::Exception&&) override { failed(EIO); }

  const std::shared_ptr<socket_state> state_;
  loop_core& at_;
  const std::vector<socket_address> to_;
  std::size_t next_ = 0;
  const greeting self_;
  const std::chrono::milliseconds limit_;  // for each of to_
  base::time_point until_;
  bool is_over_ = false;
  kj::TaskSet tasks_;
};

}  // namespace

socket_settings::socket_settings() : user(geteuid()) {}

result<std::unique_ptr<link>> connect(loop& at, std::vector<socket_address> to,
                                      const greeting& self, const socket_settings& how) {
  const bool has_tcp = std::ranges::any_of(to, [](const auto& one) { return !one.is_unix(); });
  if (to.empty() || (has_tcp && how.trusts == nullptr)) {
    return error(errc::invalid_argument,
                 to.empty() ? "wire: asked a connection to no address; give one"
                            : "wire: asked a connection over TCP without a token; nothing is said "
                              "there to who can't prove that it has one");
  }
  greeting mine = self;
  mine.credit_messages = how.credit_messages;
  mine.credit_bytes = how.credit_bytes;
  auto state = std::make_shared<socket_state>(at.core(), how);
  const bool will_run = at.core()->post([state, to = std::move(to), mine]() mutable {
    state->at().keep(std::make_unique<caller>(state, std::move(to), mine));
  });
  if (!will_run) {
    state->end(error(errc::cancelled, "wire: a connection was to be made, its loop has ended"));
  }
  return std::unique_ptr<link>(std::make_unique<socket_link>(std::move(state)));
}

result<std::unique_ptr<link>> connect(loop& at, const std::string& path, const greeting& self,
                                      const socket_settings& how) {
  const result<sockaddr_un> to = address_of(path);
  if (!to) return to.error();
  return connect(at, {socket_address(reinterpret_cast<const sockaddr*>(&*to), sizeof *to)}, self,
                 how);
}

}  // namespace manta::inline v0::wire
