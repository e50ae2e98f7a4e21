// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <manta/base/clock.hpp>

#include "bulk/guard.hpp"
#include "bulk/message.hpp"
#include "bulk/reactor.hpp"

// One connection, from its socket to where requests may be said on it.
//
//   connecting -> encrypting -> hello -> proof -> open       anything wrong: over, without a word
//   dialler only   as the guard   both     as the guard
//
// Each end says which process the listener is: another one may have the place of one that has
// ended, and its objects' ids mean something else. The dialler proves itself first, so that nobody
// learns anything who has no key.
//
// Threads: the bulk thread only. Who says that it is over may destroy it.

namespace manta::inline v0::bulk {

class connection {
 public:
  /// `file` is a socket that never waits; it is taken over. A dialler's may still be connecting.
  /// `listener`: the process which that end is, or is to be.
  connection(reactor& at, guard& by, int file, line_end as, const base::id& listener);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  virtual ~connection();

  /// Once: from here on it moves by itself.
  void begin();
  /// Soon, without waiting for its socket.
  void kick();
  bool is_open() const noexcept { return stage_ == stage::open; }
  /// When it was made, or bytes went or came last.
  base::time_point moved() const noexcept { return moved_; }
  /// Whether bytes have come that are not read; fewer than what is awaited lie until one looks.
  bool has_unread() const noexcept;

 protected:
  enum class turn : std::uint8_t {
    waits,  ///< all is said and heard for now, as far as the socket allows
    again,  ///< there is more to do, after others had their turn
    over    ///< why_ says why
  };
  /// It is open, and moves as far as it can.
  virtual turn advance() = 0;
  virtual void on_open() {}
  /// Once, last.
  virtual void on_over(const std::string& why) = 0;

  /// done: 1 byte or more. Else what is wanted is waited for.
  io_step read(std::span<std::byte> to, std::size_t& got);
  /// The same; the pieces are one behind the other.
  io_step write(std::span<const std::span<const std::byte>> pieces, std::size_t& put);
  /// So many bytes more are to come of what comes now: who waits for them need not be woken for
  /// each few. Only by TCP within a machine, and as they are: of other sockets the kernel does not
  /// count them, of what is encrypted some have been read by then, and a buffer that is still small
  /// would keep a far sender waiting for each way there and back.
  void await(std::size_t bytes) noexcept;
  /// Queued in front of what is written next: for what is short.
  void say(std::span<const std::byte> what) { out_.insert(out_.end(), what.begin(), what.end()); }
  /// Writes what was queued; done: all of it.
  io_step flush();
  turn end(std::string why) {
    why_ = std::move(why);
    return turn::over;
  }
  std::string why_;

 private:
  enum class stage : std::uint8_t { connecting, encrypting, hello, proof, open };

  void pump() noexcept;
  void wait();
  turn go();
  turn greet();
  turn finish_connecting();
  turn finish_encrypting();
  turn hear_hello();
  turn hear_proof();
  turn enter();
  io_step read_plain(std::span<std::byte> to, std::size_t& got);
  io_step write_plain(std::span<const std::span<const std::byte>> pieces, std::size_t& put);
  io_step note(io_step is, std::size_t moved);

  reactor& reactor_;
  guard& guard_;
  const line_end as_;
  const base::id listener_;
  reactor::watched socket_;
  std::unique_ptr<cipher> cipher_;
  stage stage_;
  base::time_point moved_ = base::now();
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;  // of out_
  hello_block own_{};
  hello_block other_{};
  proof_block proof_{};
  std::size_t read_ = 0;  // of the hello or the proof
  bool wants_read_ = false;
  bool wants_write_ = false;
  bool waits_for_data_ = false;
  bool waits_for_room_ = false;
  bool is_near_tcp_ = false;
  int low_water_ = 1;  // the socket's: bytes for which it wakes who waits to read
  bool is_kicked_ = false;
  bool is_pumping_ = false;
  std::shared_ptr<const int> alive_ = std::make_shared<const int>(0);
};

}  // namespace manta::inline v0::bulk
