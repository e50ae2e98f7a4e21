// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <kj/async.h>

#include <manta/spec/error.hpp>

#include "wire/greeting.hpp"
#include "wire/loop_core.hpp"
#include "wire/proof.hpp"
#include "wire/watched_socket.hpp"

// A connection before its peer has said who it is: TLS where that is due, then our greeting and
// exactly one of the peer's, then both proofs where it is over TCP (proof.hpp); all within a time.
// Lives on the loop until it is done, or is dropped there.
//
//   TLS -> greetings -> proofs -> done      whatever is wrong: closed, and nothing is said
//
// Threads: the loop's only.

namespace manta::inline v0::wire {

/// Who the kernel says is at the other end is not `user`: unsupported. Else nothing.
result<void> check_user(int socket, std::uint32_t user);

class socket_greeter final : public resident, private kj::TaskSet::ErrorHandler {
 public:
  /// Called once, with the socket and the peer's greeting, or why there is none. It is over then,
  /// but for abandon(), after which nothing is called.
  using done = std::function<void(kj::Own<watched_socket>, result<greeting>)>;
  struct way {
    end_of_link at = end_of_link::dialler;
    std::chrono::milliseconds limit{3000};
    std::shared_ptr<const trust> proves = {};  ///< null: no proofs
    bool encrypts = false;
  };

  /// Draws the nonce of `self`.
  socket_greeter(loop_core& at, kj::Own<watched_socket> socket, const greeting& self, way how,
                 done then);
  virtual ~socket_greeter() noexcept(false) = default;
  /// The loop ends: said as cancelled, unless it is over.
  void end() override;
  /// Nobody is told any more.
  void abandon();

 private:
  enum class stage { negotiating, greeting, proving };

  void begin();
  void go();
  bool negotiate();
  bool send();
  bool receive();
  bool advance();
  bool hear_greeting();
  bool hear_proof();
  void append_proof();
  void wait_for_data();
  void wait_for_room();
  void lose(std::string_view found);
  void finish(result<greeting> is);
  void taskFailed(kj::Exception&& thrown) override;

  loop_core& at_;
  kj::Own<watched_socket> socket_;
  greeting self_;
  const way how_;
  done then_;
  stage stage_ = stage::greeting;
  std::vector<std::byte> out_;  // greeting, proof
  std::size_t sent_ = 0;
  std::vector<std::byte> in_;  // the same of the peer, as far as it is awaited
  std::size_t read_ = 0;
  greeting peer_;
  bool waits_for_data_ = false;
  bool waits_for_room_ = false;
  bool is_over_ = false;
  kj::TaskSet tasks_;
};

}  // namespace manta::inline v0::wire
