// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "life/seat.hpp"
#include "node/cluster_mail.hpp"
#include "spec/cluster.hpp"
#include "wire/frame.hpp"
#include "wire/link.hpp"

// A process in its cluster: life/seat.hpp with a connection to the head.
//
// Whoever calls pump() when messages have come (link::on_arrival) or due() is over is its loop; all
// time comes from there. Threads: one at a time.

namespace manta::inline v0::node {

class cluster_member {
 public:
  /// Who wants to know; may call all but pump.
  class visitor {
   public:
    virtual void on_joined(std::uint64_t epoch) = 0;
    virtual void on_changed(const spec::node_member& one) = 0;
    /// Only its load is another: often, and of no consequence to who does not choose by it.
    virtual void on_load(const spec::node_member& /*one*/) {}
    /// The head has said something.
    virtual void on_heard() {}
    /// A connection to the head has ended, or there was none.
    virtual void on_lost(const error& /*why*/) {}
    /// The last one. `why`: nothing, when it left as it wished, or the work is done.
    virtual void on_over(const std::optional<error>& why) = 0;

   protected:
    ~visitor() = default;
  };
  /// Begins a connection to the head; null: it can't be made now. Must not block.
  using dialer = std::function<std::unique_ptr<wire::link>()>;

  /// `with` lives longer than this.
  cluster_member(const life::membership_settings& how, const base::id& process,
                 spec::node_introduction who, dialer dial, visitor& with, base::time_point now)
      : seat_(how, process, std::move(who), now),
        post_(process),
        dial_(std::move(dial)),
        visitor_(with) {}

  void pump(base::time_point now);
  base::time_point due() const noexcept { return seat_.due(); }

  void set_load(const spec::node_load& load) noexcept { seat_.set_load(load); }
  /// See life::seat.
  void drain(duration limit, base::time_point now);
  void idle(base::time_point now);
  const life::seat& seat() const noexcept { return seat_; }
  /// The cluster, when its head has said that; zero: not yet.
  const base::id& cluster() const noexcept { return cluster_; }
  /// The process that has the head, likewise.
  const base::id& head_process() const noexcept { return head_process_; }

 private:
  enum class got : std::uint8_t { nothing, bulletin, ended };

  void hear(base::time_point now);
  bool hear_older(base::time_point now);
  got read(wire::link& from);
  void take(base::time_point now);
  void act(base::time_point now);

  life::seat seat_;
  cluster_post post_;
  const dialer dial_;
  visitor& visitor_;
  std::unique_ptr<wire::link> head_;
  // Older ones, until something comes over the newest: the end of one would tell on us.
  std::vector<std::unique_ptr<wire::link>> before_;
  wire::frame_buffer frame_;
  life::bulletin answer_;  // the last one
  base::id cluster_;
  base::id head_process_;
};

}  // namespace manta::inline v0::node
