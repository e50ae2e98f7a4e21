// SPDX-License-Identifier: Apache-2.0
#include "node/cluster_mail.hpp"

#include <chrono>
#include <string>

namespace manta::inline v0::node {

namespace {

wire::introduction_view view_of(const spec::node_introduction& who) {
  return {.name = who.name,
          .address = who.address,
          .host = who.host,
          .pid = who.pid,
          .as = who.as,
          .functions = who.functions,
          .workers = who.workers,
          .gpus = who.gpus,
          .memory_bytes = who.memory_bytes,
          .resources = who.resources,
          .labels = who.labels,
          .machine = who.machine,
          .bulk = who.bulk};
}

spec::node_introduction who_is(const wire::introduction_view& said) {
  return {.name = std::string(said.name),
          .address = std::string(said.address),
          .host = std::string(said.host),
          .pid = said.pid,
          .as = said.as,
          .functions = said.functions,
          .workers = said.workers,
          .gpus = said.gpus,
          .memory_bytes = said.memory_bytes,
          .resources = std::string(said.resources),
          .labels = std::string(said.labels),
          .machine = said.machine,
          .bulk = std::string(said.bulk)};
}

}  // namespace

template <class Body>
result<void> cluster_post::send_body(wire::link& to, std::uint64_t epoch, const Body& body) {
  result<void> written = writer_.write({{self_.low, ++last_}, epoch, 0}, body);
  if (!written) return written;
  return to.send(writer_.pieces(), writer_.size_bytes());
}

result<void> cluster_post::send(wire::link& to, const life::heartbeat& said) {
  return send_body(to, said.epoch,
                   wire::heartbeat_view{.process = said.process,
                                        .wish = said.wish,
                                        .load = said.load,
                                        .head_epoch = said.head_epoch,
                                        .revision = said.revision,
                                        .who = view_of(said.who),
                                        .loads = said.loads});
}

result<void> cluster_post::send(wire::link& to, const life::bulletin& said) {
  members_.clear();
  members_.reserve(said.changed.size());
  for (const spec::node_member& one : said.changed) {
    members_.push_back({one.process, one.epoch, one.is, one.load, one.cause, view_of(one.who)});
  }
  return send_body(to, said.head_epoch,
                   wire::bulletin_view{.process = said.process,
                                       .verdict = said.verdict,
                                       .member = said.epoch,
                                       .reason = said.reason,
                                       .since = said.since,
                                       .revision = said.revision,
                                       .changed = members_,
                                       .loads_revision = said.loads_revision,
                                       .ends_with_driver = said.ends_with_driver,
                                       .loads = said.loads});
}

life::heartbeat to_heartbeat(const wire::envelope& head, const wire::heartbeat_view& said) {
  return {.process = said.process,
          .epoch = head.epoch,
          .wish = said.wish,
          .load = said.load,
          .head_epoch = said.head_epoch,
          .revision = said.revision,
          .who = who_is(said.who),
          .loads = said.loads};
}

life::bulletin to_bulletin(const wire::envelope& head, const wire::bulletin_view& said) {
  life::bulletin out{.process = said.process,
                     .head_epoch = head.epoch,
                     .verdict = said.verdict,
                     .epoch = said.member,
                     .reason = std::string(said.reason),
                     .since = said.since,
                     .revision = said.revision,
                     .loads_revision = said.loads_revision,
                     .ends_with_driver = said.ends_with_driver,
                     .loads = {said.loads.begin(), said.loads.end()}};
  out.changed.reserve(said.changed.size());
  for (const wire::member_view& one : said.changed) {
    out.changed.push_back({.who = who_is(one.who),
                           .process = one.process,
                           .epoch = one.epoch,
                           .is = one.is,
                           .load = one.load,
                           .cause = std::string(one.cause)});
  }
  return out;
}

control::node_row to_row(const spec::node_member& member) {
  using state = control::node_row::state;
  const bool is_ended = member.is == spec::node_state::ended;
  control::node_row out;
  out.name = member.who.name;
  out.epoch = member.epoch;
  out.is = is_ended                                  ? state::ended
           : member.is == spec::node_state::draining ? state::draining
                                                     : state::alive;
  out.address = member.who.address;
  out.host = member.who.host;
  out.pid = member.who.pid;
  out.cause = member.cause;
  out.process = member.process;
  out.as = member.who.as;
  if (is_ended) {
    out.ended = std::chrono::time_point_cast<wall_time::duration>(std::chrono::system_clock::now());
  }
  return out;
}

spec::node_member to_member(const control::node_row& row) {
  using state = control::node_row::state;
  return {.who = {.name = row.name,
                  .address = row.address,
                  .host = row.host,
                  .pid = row.pid,
                  .as = row.as},
          .process = row.process,
          .epoch = row.epoch,
          .is = row.is == state::ended      ? spec::node_state::ended
                : row.is == state::draining ? spec::node_state::draining
                                            : spec::node_state::alive,
          .load = {},
          .cause = row.cause};
}

}  // namespace manta::inline v0::node
