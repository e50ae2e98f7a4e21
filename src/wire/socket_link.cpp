// SPDX-License-Identifier: Apache-2.0
#include "wire/socket_link.hpp"

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
  caller(std::shared_ptr<socket_state> state, const sockaddr_un& to, const greeting& self)
      : state_(std::move(state)),
        at_(state_->at()),
        to_(to),
        self_(self),
        until_(base::now() + state_->settings().greeting_limit),
        tasks_(*this) {
    connect();
  }
  virtual ~caller() noexcept(false) = default;
  void end() override {
    give_up(error(errc::cancelled, "wire: a connection was to be made, its loop has ended"));
  }

 private:
  void connect() {
    kj::AutoCloseFd file(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (file.get() < 0) return failed(errno);
    const auto* const at = reinterpret_cast<const sockaddr*>(&to_);
    if (::connect(file, at, sizeof to_) == 0) return greet(kj::mv(file));
    // A full queue of the listener; the kernel tells nobody when that has room.
    if (errno != EAGAIN && errno != EINTR) return failed(errno);
    if (base::now() > until_) return failed(ETIMEDOUT);
    tasks_.add(at_.port().getTimer().afterDelay(1 * kj::MILLISECONDS).then([this] { connect(); }));
  }

  void failed(int why) {
    give_up(error(errc::node_lost,
                  fmt::format("wire: asked a connection to {}, found: {}; look whether the other "
                              "process lives and listens there",
                              to_.sun_path, std::strerror(why))));
  }

  void greet(kj::AutoCloseFd file) {
    if (const result<void> is = check_user(file, state_->settings().user); !is) {
      return give_up(is.error());
    }
    is_over_ = true;
    at_.keep(std::make_unique<socket_greeter>(
        at_, kj::heap<watched_socket>(at_.port(), kj::mv(file)), self_,
        state_->settings().greeting_limit,
        [state = state_](kj::Own<watched_socket> socket, const result<greeting>& is) {
          greeted(state, kj::mv(socket), is);
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
  const sockaddr_un to_;
  const greeting self_;
  const base::time_point until_;
  bool is_over_ = false;
  kj::TaskSet tasks_;
};

}  // namespace

socket_settings::socket_settings() : user(geteuid()) {}

result<std::unique_ptr<link>> connect(loop& at, const std::string& path, const greeting& self,
                                      const socket_settings& how) {
  const result<sockaddr_un> to = address_of(path);
  if (!to) return to.error();
  greeting mine = self;
  mine.credit_messages = how.credit_messages;
  mine.credit_bytes = how.credit_bytes;
  auto state = std::make_shared<socket_state>(at.core(), how);
  const bool will_run = at.core()->post(
      [state, to = *to, mine] { state->at().keep(std::make_unique<caller>(state, to, mine)); });
  if (!will_run) {
    state->end(error(errc::cancelled, "wire: a connection was to be made, its loop has ended"));
  }
  return std::unique_ptr<link>(std::make_unique<socket_link>(std::move(state)));
}

}  // namespace manta::inline v0::wire
