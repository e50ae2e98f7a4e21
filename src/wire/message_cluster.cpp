// SPDX-License-Identifier: Apache-2.0
#include "wire/message_cluster.hpp"

#include <cstddef>

#include "wire/message_parts.hpp"

namespace manta::inline v0::wire {

namespace schema = ::manta_wire_schema;

namespace {

void put_who(schema::Introduction::Builder to, const introduction_view& who) {
  put_text(who.name, limits::name_bytes, [&](std::size_t n) { return to.initName(kj::uint(n)); });
  put_text(who.address, limits::name_bytes,
           [&](std::size_t n) { return to.initAddress(kj::uint(n)); });
  put_text(who.host, limits::name_bytes, [&](std::size_t n) { return to.initHost(kj::uint(n)); });
  to.setPid(who.pid);
  to.setRole(static_cast<schema::Introduction::Role>(who.as));
  to.setFunctions(who.functions);
  to.setWorkers(who.workers);
  to.setGpus(who.gpus);
  to.setMemoryBytes(who.memory_bytes);
  put_text(who.resources, limits::offer_bytes,
           [&](std::size_t n) { return to.initResources(kj::uint(n)); });
  put_text(who.labels, limits::offer_bytes,
           [&](std::size_t n) { return to.initLabels(kj::uint(n)); });
  to.setMachine(who.machine);
  put_text(who.bulk, limits::name_bytes, [&](std::size_t n) { return to.initBulk(kj::uint(n)); });
}

template <class Builder>
void put_load(Builder to, const spec::node_load& load) {
  to.setQueued(load.queued);
  to.setRunning(load.running);
  to.setTaskNs(load.task_time.count());
}

}  // namespace

void put_heartbeat(schema::Heartbeat::Builder to, const heartbeat_view& said) {
  put_id(to.getProcess(), said.process);
  to.setWish(static_cast<schema::Heartbeat::Wish>(said.wish));
  put_load(to, said.load);
  to.setHeadEpoch(said.head_epoch);
  to.setRevision(said.revision);
  put_who(to.initWho(), said.who);
  to.setLoads(said.loads);
}

void put_bulletin(schema::Bulletin::Builder to, const bulletin_view& said) {
  put_id(to.getProcess(), said.process);
  to.setVerdict(static_cast<schema::Bulletin::Verdict>(said.verdict));
  to.setMember(said.member);
  put_text(said.reason, limits::error_text_bytes,
           [&](std::size_t n) { return to.initReason(kj::uint(n)); });
  to.setSince(said.since);
  to.setRevision(said.revision);
  auto list = to.initChanged(static_cast<kj::uint>(said.changed.size()));
  for (kj::uint i = 0; i < list.size(); ++i) {
    const member_view& one = said.changed[i];
    auto at = list[i];
    put_id(at.getProcess(), one.process);
    at.setEpoch(one.epoch);
    at.setState(static_cast<schema::Member::State>(one.is));
    put_load(at, one.load);
    put_text(one.cause, limits::error_text_bytes,
             [&](std::size_t n) { return at.initCause(kj::uint(n)); });
    put_who(at.initWho(), one.who);
  }
  to.setLoadsRevision(said.loads_revision);
  to.setEndsWithDriver(said.ends_with_driver);
  if (said.loads.empty()) return;
  auto loads = to.initLoads(static_cast<kj::uint>(said.loads.size()));
  for (kj::uint i = 0; i < loads.size(); ++i) {
    loads[i].setMember(said.loads[i].epoch);
    put_load(loads[i], said.loads[i].load);
  }
}

}  // namespace manta::inline v0::wire
