// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "sim/cluster.hpp"
#include "wire/link.hpp"
#include "wire/message.hpp"

namespace sim {

/// A member's connection to its head that changes what it says and hears, as a broken build of one
/// of the two would.
class tampering_link final : public manta::wire::link {
 public:
  /// What broken builds keep for as long as a process lives.
  struct memory {
    std::set<std::uint64_t> suspected;             // epochs
    std::map<std::uint64_t, time_point> end_came;  // epochs that ended, when that was to be heard
  };
  static bool is_for(plant how) {
    return how == plant::news_not_repeated || how == plant::end_not_heard ||
           how == plant::suspects_kept || how == plant::loads_not_told || how == plant::ends_late;
  }

  tampering_link(std::unique_ptr<link> inner, plant how, memory& keeps)
      : inner_(std::move(inner)), how_(how), keeps_(keeps) {}

  manta::result<void> send(std::span<const std::span<const std::byte>> pieces,
                           std::size_t size) override;
  got take(manta::wire::frame_buffer& to) override;
  bool wait(std::chrono::nanoseconds time) override { return inner_->wait(time); }
  void on_arrival(std::function<void()> tell) override { inner_->on_arrival(std::move(tell)); }
  void close() override { inner_->close(); }
  manta::wire::link_state state() const override { return inner_->state(); }

 private:
  bool change(manta::wire::bulletin_view& said);

  std::unique_ptr<link> inner_;
  const plant how_;
  memory& keeps_;
  std::vector<manta::wire::member_view> rows_;
  manta::wire::message_reader reader_;
  manta::wire::message_writer writer_;
};

}  // namespace sim
