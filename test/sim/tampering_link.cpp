// SPDX-License-Identifier: Apache-2.0
#include "sim/tampering_link.hpp"

#include <algorithm>
#include <chrono>
#include <variant>

#include "spec/cluster.hpp"

namespace sim {

using manta::spec::node_state;
using manta::wire::bulletin_view;
using manta::wire::frame_buffer;
using manta::wire::heartbeat_view;
using manta::wire::link;
using manta::wire::member_view;

manta::result<void> tampering_link::send(std::span<const std::span<const std::byte>> pieces,
                                         std::size_t size) {
  frame_buffer frame;
  std::byte* to = frame.reset(size).data();
  for (const auto piece : pieces) to = std::copy(piece.begin(), piece.end(), to);
  const auto read = reader_.read(frame.bytes());
  auto said = std::get<heartbeat_view>(read->body);
  if (how_ == plant::news_not_repeated) said.revision = UINT64_MAX;
  static_cast<void>(writer_.write(read->head, said));
  return inner_->send(writer_.pieces(), writer_.size_bytes());
}

link::got tampering_link::take(frame_buffer& to) {
  for (;;) {
    const got came = inner_->take(to);
    if (came != got::message) return came;
    const auto read = reader_.read(to.bytes());
    auto said = std::get<bulletin_view>(read->body);
    if (!change(said)) continue;
    static_cast<void>(writer_.write(read->head, said));
    writer_.flatten(to.reset(writer_.size_bytes()));
    return came;
  }
}

// False: it is not heard at all.
bool tampering_link::change(bulletin_view& said) {
  if (how_ == plant::end_not_heard) return said.verdict != manta::spec::node_verdict::ended;
  if (how_ == plant::loads_not_told) said.loads = {};
  rows_.assign(said.changed.begin(), said.changed.end());
  for (member_view& one : rows_) {
    if (how_ == plant::loads_not_told) one.load = {};
    if (how_ != plant::suspects_kept) continue;
    if (one.is == node_state::suspected) keeps_.suspected.insert(one.epoch);
    if (one.is == node_state::alive && keeps_.suspected.contains(one.epoch)) {
      one.is = node_state::suspected;
    }
  }
  if (how_ == plant::ends_late) {
    for (const member_view& one : rows_) {
      if (one.is != node_state::ended) continue;
      const time_point first = keeps_.end_came.try_emplace(one.epoch, world::clock()).first->second;
      if (world::clock() - first < std::chrono::seconds(4)) return false;
    }
  }
  said.changed = rows_;
  return true;
}

}  // namespace sim
