// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <capnp/rpc-twoparty.h>
#include <capnp/rpc.h>
#include <kj/timer.h>
#include <wire/mailbox.capnp.h>

#include "wire/frame_stream.hpp"
#include "wire/greeting.hpp"
#include "wire/loop_core.hpp"
#include "wire/socket_state.hpp"

// A connection as it lives on the loop: it greets, then carries batches both ways until it ends.
// Threads: the loop's only.

namespace manta::inline v0::wire {

class socket_connection final : public resident, private kj::TaskSet::ErrorHandler {
 public:
  socket_connection(std::shared_ptr<socket_state> state, kj::Own<watched_socket> socket,
                    const greeting& peer);
  virtual ~socket_connection() noexcept(false);

  /// Sends what waits, if no batch is under way.
  void send_batch();
  /// Somebody has taken messages: an answer that was held back may go.
  void give_room();
  /// Nobody uses it any more.
  void stop() { finish(std::nullopt); }
  void end() override;

 private:
  class mailbox;
  using deliver_context = capnp::CallContext<manta_mailbox_schema::Mailbox::DeliverParams,
                                             manta_mailbox_schema::Mailbox::DeliverResults>;
  using client = manta_mailbox_schema::Mailbox::Client;

  void finish(std::optional<error> why);
  error reason(const kj::Exception* thrown) const;
  void got_room(std::size_t messages, std::size_t bytes);
  void watch_the_slow();
  using messages_reader = capnp::List<capnp::Data>::Reader;
  result<std::vector<frame_buffer>> accept_batch(messages_reader messages);
  kj::Promise<void> deliver(deliver_context context);
  void answer(deliver_context& context);
  // Where it is, or null: a call that has begun outlives its connection.
  using place = std::shared_ptr<socket_connection*>;
  void taskFailed(kj::Exception&& thrown) override { finish(reason(&thrown)); }

  const std::shared_ptr<socket_state> state_;
  const place place_ = std::make_shared<socket_connection*>(this);
  std::vector<sent_message> batch_;  // under way; outlives the RPC, which refers to it
  // Answered before the RPC had sent all it queued: a peer that answers what it has not read must
  // not make memory go that is still to be sent.
  std::vector<std::vector<sent_message>> answered_;
  frame_stream stream_;
  capnp::TwoPartyVatNetwork network_;
  capnp::RpcSystem<capnp::rpc::twoparty::VatId> rpc_;
  client peer_;
  bool is_sending_ = false;
  bool is_finished_ = false;
  std::uint64_t batches_ = 0;       // answered so far
  std::uint64_t batches_seen_ = 0;  // at the last look for the slow
  // What the peer has room for, and what it was told that there is room for here.
  std::size_t credit_messages_;
  std::size_t credit_bytes_;
  std::size_t given_messages_;
  std::size_t given_bytes_;
  std::optional<error> fault_;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> room_;  // of an answer that is held back
  kj::TaskSet tasks_;                                    // last: refers to all the others
};

}  // namespace manta::inline v0::wire
