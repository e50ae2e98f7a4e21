// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>

#include <manta/base/id.hpp>

#include "sim/timer.hpp"
#include "sim/work.hpp"
#include "wire/bundle.hpp"
#include "wire/courier.hpp"
#include "wire/frame.hpp"
#include "wire/message.hpp"

namespace sim::work {

using manta::base::id;

/// A node's couriers to the others, as node/peers.cpp has them: the later member dials; what is
/// said until the next turn is one request; what came of one that is no member any more is not
/// heard.
class post {
 public:
  using on_message =
      std::function<void(node_number from, const id& request, std::span<const std::byte> message)>;
  post(stage& in, node_number self, on_message tell);
  post(const post&) = delete;
  post& operator=(const post&) = delete;

  void joined(node_number who);
  void gone(node_number who);
  bool has(node_number who) const { return peers_.contains(who); }
  /// What was written last, in its order; nothing when that one is none of them.
  void send(node_number to, const id& request, const manta::wire::message_writer& what);
  std::size_t unanswered() const;

  pump_timer timer;

 private:
  struct peer final : manta::wire::courier::visitor {
    void on_request(const manta::wire::arrival& came) override;
    void on_answer(const id& /*request*/, std::span<const std::byte> /*answer*/) override {}
    void flush();

    post* of = nullptr;
    node_number node = 0;
    manta::wire::bundle leaving;
    std::uint64_t bundles = 0;
    std::unique_ptr<manta::wire::courier> mail;
  };
  time_point pump();
  void accept(network::link_ptr from, node_number by);

  stage& in_;
  const node_number self_;
  const on_message tell_;
  std::map<node_number, std::unique_ptr<peer>> peers_;
  std::map<node_number, network::link_ptr> early_;  // of whom the head has not told yet
  std::set<node_number> dead_;
};

}  // namespace sim::work
