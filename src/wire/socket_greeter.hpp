// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>

#include <kj/async.h>

#include <manta/spec/error.hpp>

#include "wire/frame_stream.hpp"
#include "wire/greeting.hpp"
#include "wire/loop_core.hpp"

// A connection before its peer has said who it is: sends our greeting and reads exactly one, within
// a time. Lives on the loop until it is done, or is dropped there.
// Threads: the loop's only.

namespace manta::inline v0::wire {

/// Who the kernel says is at the other end is not `user`: unsupported. Else nothing.
result<void> check_user(int socket, std::uint32_t user);

class socket_greeter final : public resident, private kj::TaskSet::ErrorHandler {
 public:
  /// Called once, with the socket and the peer's greeting, or why there is none. It is over then,
  /// but for end(), after which nothing is called.
  using done = std::function<void(kj::Own<watched_socket>, result<greeting>)>;

  socket_greeter(loop_core& at, kj::Own<watched_socket> socket, const greeting& self,
                 std::chrono::milliseconds limit, done then);
  virtual ~socket_greeter() noexcept(false) = default;
  void end() override;

 private:
  void send();
  void read();
  void finish(result<greeting> is);
  void taskFailed(kj::Exception&& thrown) override;

  loop_core& at_;
  kj::Own<watched_socket> socket_;
  const base::id cluster_;
  done then_;
  std::array<std::byte, greeting_bytes> out_;
  std::array<std::byte, greeting_bytes> in_{};
  std::size_t sent_ = 0;
  std::size_t read_ = 0;
  bool is_over_ = false;
  kj::TaskSet tasks_;
};

}  // namespace manta::inline v0::wire
