// SPDX-License-Identifier: Apache-2.0
#include "wire/rpc_gate.hpp"

#include <fmt/format.h>

namespace manta::inline v0::wire {

namespace {

error stop(std::string_view found) {
  return error(errc::decode_failed,
               fmt::format("wire: a call of the mailbox was to come, found {}; the connection is "
                           "closed: compare the builds of both processes",
                           found));
}

}  // namespace

result<void> rpc_gate::pass(capnp::rpc::Message::Reader message) {
  using capnp::rpc::Message;
  switch (message.which()) {
    case Message::BOOTSTRAP:
      if (was_bootstrapped_) return stop("a second bootstrap");
      was_bootstrapped_ = true;
      ++open_;
      return {};
    case Message::CALL:
      if (++open_ > most_open) return stop("a call while others are not answered");
      return {};
    case Message::FINISH:
      if (--open_ < 0) return stop("the end of a call that was not made");
      return {};
    case Message::RETURN:
    case Message::RELEASE:
    case Message::ABORT:
    case Message::UNIMPLEMENTED:
      return {};
    default:
      return stop(fmt::format("message {} of its RPC", static_cast<unsigned>(message.which())));
  }
}

}  // namespace manta::inline v0::wire
