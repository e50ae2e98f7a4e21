// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "wire/message.hpp"

namespace wire_test {

namespace wire = manta::wire;
using bytes_view = std::span<const std::byte>;

// Every field of a message as text, so that two messages are compared, and shown, as a whole.
inline std::string show(const manta::base::id& id) { return fmt::format("{}-{}", id.high, id.low); }
inline std::string show(const manta::spec::function_id& id) {
  return fmt::format("{}+{}", id.module, id.offset);
}
inline std::string show(bytes_view bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::string show(const std::optional<manta::duration>& timeout) {
  return timeout ? fmt::format("{} ns", timeout->count()) : "none";
}
inline std::string show(const manta::spec::parcel_view& payload) {
  std::string out = fmt::format("\npayload {}", show(payload.head));
  for (const auto& one : payload.segments) {
    out += fmt::format("\nsegment {} {} {}", show(one.bytes), one.type, one.element_bytes);
  }
  for (const auto& one : payload.references) {
    out += fmt::format("\nreference {} {} {} {} {}", show(one.what), show(one.owner), one.type,
                       one.local, static_cast<int>(one.kind));
  }
  return out;
}
inline std::string show(const wire::options_view* options) {
  if (options == nullptr) return "\nno options";
  const auto& o = *options;
  const auto& where = o.where;
  std::string out =
      fmt::format("\noptions {} {} {} {} {} {} {} {} {} {} {} where {} {} {} {} {}", o.cpus, o.gpus,
                  o.memory_bytes, o.enforce_memory, o.losable, static_cast<int>(o.priority),
                  o.max_retries, show(o.retry_filter), show(o.timeout), o.stream_credits, o.name,
                  static_cast<int>(where.by), where.is_soft, where.node, where.group, where.bundle);
  for (const auto& one : o.resources) out += fmt::format("\namount {} {}", one.key, one.amount);
  for (const auto& one : where.labels) out += fmt::format("\nlabel {} {}", one.key, one.value);
  return out;
}
inline std::string show(const wire::error_view& failed) {
  std::string out;
  for (const auto& one : failed.chain) {
    out +=
        fmt::format("\ncause {} {} {} {} {} {} {} {}", static_cast<int>(one.code), one.message,
                    one.has_failure, one.attempt, one.type_name, one.text, one.function, one.node);
  }
  return out;
}
inline std::string show(const wire::held_view& held) {
  return fmt::format("held {} {}", show(held.node), held.bytes);
}
inline std::string show(const wire::alias_view& alias) { return "alias " + show(alias.task); }
inline std::string show(const wire::task_view& t) {
  return fmt::format("task {} {} {} {} {} {} {}{}{} {}", show(t.id), show(t.parent), t.call_index,
                     show(t.function), show(t.digest), t.attempt, t.name, show(t.options),
                     show(t.arguments), fmt::join(t.gpus, " "));
}
inline std::string show(const wire::result_view& r) {
  return fmt::format("result {} {} {} {} {} {} {}", show(r.task), r.attempt, r.execution,
                     r.ran.count(), r.may_repeat, static_cast<int>(r.back),
                     std::visit([](const auto& one) { return show(one); }, r.outcome));
}
inline std::string show(const wire::call_view& c) {
  return fmt::format("call {} {} {} {} {} {} {} {} {} {} {}{}", show(c.actor), c.incarnation,
                     show(c.caller), c.call_number, show(c.method), show(c.timeout),
                     c.stream_credits, c.group, c.name, show(c.parent), c.call_index,
                     show(c.arguments));
}
inline std::string show(const wire::spawn_view& s) {
  std::string groups;
  for (const auto& one : s.groups) groups += fmt::format("\ngroup {} {}", one.name, one.limit);
  return fmt::format("spawn {} {} {} {} {} {} {} {} {} {} {}{}{}{} {}", show(s.actor),
                     show(s.parent), s.call_index, show(s.function), s.type_name, s.name_space,
                     s.mailbox_cap, s.refuses_when_full, s.max_restarts, s.reserves, s.may_exist,
                     groups, show(s.options), show(s.arguments), fmt::join(s.gpus, " "));
}
inline std::string show(const wire::ask_view& a) {
  return fmt::format("ask {}{}", static_cast<int>(a.what), show(a.with));
}
inline std::string show(const wire::item_view& i) { return "item" + show(i.value); }
inline std::string show(const wire::flow_view& f) {
  return fmt::format("flow {} {}", f.taken, f.credits);
}
inline std::string show(const wire::introduction_view& w) {
  return fmt::format(
      "{} at {} on {}, pid {}, role {}, functions {}, workers {}, gpus {}, memory {}, {}, {}, "
      "machine {}, bulk {}",
      w.name, w.address, w.host, w.pid, static_cast<int>(w.as), w.functions, w.workers, w.gpus,
      w.memory_bytes, w.resources, w.labels, w.machine, w.bulk);
}
inline std::string show(const manta::spec::node_load& l) {
  return fmt::format("{} queued, {} running of {}", l.queued, l.running, l.task_time.count());
}
inline std::string show(const wire::heartbeat_view& h) {
  return fmt::format("heartbeat {} {} {} {} {} {} {}", show(h.process), static_cast<int>(h.wish),
                     show(h.load), h.head_epoch, h.revision, show(h.who), h.loads);
}
inline std::string show(const wire::bulletin_view& b) {
  std::string out =
      fmt::format("bulletin {} {} {} {} {} {}", show(b.process), static_cast<int>(b.verdict),
                  b.member, b.reason, b.since, b.revision);
  for (const auto& one : b.changed) {
    out += fmt::format("\n{} {} {} {} {} {}", show(one.process), one.epoch,
                       static_cast<int>(one.is), show(one.load), one.cause, show(one.who));
  }
  out += fmt::format("\nloads up to {}, {}", b.loads_revision, b.ends_with_driver);
  for (const auto& one : b.loads) out += fmt::format("\n{} {}", one.epoch, show(one.load));
  return out;
}
inline std::string show(const wire::actor_end_view& e) {
  return fmt::format("end {} {} {}", show(e.actor), static_cast<int>(e.reason), e.message);
}
inline std::string show(const wire::put_view& p) {
  return fmt::format("put {} {} {}{}", show(p.object), show(p.owner), p.is_primary, show(p.value));
}
inline std::string show(const wire::changes_view& changes) {
  std::string out = "changes";
  for (const auto& one : changes.changes) {
    out += fmt::format("\n{} {} {} {}", show(one.object), show(one.peer), one.count,
                       static_cast<int>(one.kind));
  }
  return out;
}
inline std::string show(const wire::message_view& m) {
  return fmt::format("{} {} {}\n{}", show(m.head.request), m.head.epoch, m.head.sending,
                     std::visit([](const auto& one) { return show(one); }, m.body));
}

}  // namespace wire_test
