// SPDX-License-Identifier: Apache-2.0
#include "wire/check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace manta::inline v0::wire {

namespace {

// Collects the first breach, so that a list of checks reads as a list. A pass costs a comparison:
// what words the breach is called, not inlined.
class checker {
 public:
  explicit checker(side who) noexcept : who_(who) {}

  void named(const char* field, const base::id& id) {
    if (id == base::id{}) breach(field, "zero", "every id but zero");
  }

  template <class Number>
  void within(const char* field, Number found, Number low, Number high) {
    if (found >= low && found <= high) return;
    is_outside(field, fmt::format("{}", found), fmt::format("{}", low), fmt::format("{}", high));
  }

  void text(const char* field, std::string_view found, std::size_t low, std::size_t high) {
    if (found.size() < low || found.size() > high)
      has_size(field, found.size(), "bytes ", low, high);
  }

  void count(const char* field, std::size_t found, std::size_t limit) {
    if (found > limit) has_size(field, found, "", 0, limit);
  }

  void timeout(const char* field, const std::optional<duration>& found) {
    if (found.has_value() && found->count() <= 0) is_over(field, *found);
  }

  template <class Enum>
  void one_of(const char* field, Enum found, Enum last) {
    if (found > last) is_unknown(field, static_cast<unsigned>(found), static_cast<unsigned>(last));
  }

  [[gnu::noinline, gnu::cold]] void breach(const char* field, std::string_view found,
                                           std::string_view allowed) {
    if (!first_.has_value()) first_ = refusal(who_, field, found, allowed);
  }

  bool is_clean() const noexcept { return !first_.has_value(); }
  result<void> done() && {
    if (is_clean()) return {};
    return *std::move(first_);
  }

 private:
  [[gnu::noinline, gnu::cold]] void is_outside(const char* field, const std::string& found,
                                               const std::string& low, const std::string& high) {
    breach(field, found, fmt::format("{} to {}", low, high));
  }
  [[gnu::noinline, gnu::cold]] void has_size(const char* field, std::size_t found, const char* unit,
                                             std::size_t low, std::size_t high) {
    breach(field, fmt::format("{} {}long", found, unit), fmt::format("{} to {}", low, high));
  }
  [[gnu::noinline, gnu::cold]] void is_over(const char* field, duration found) {
    breach(field, fmt::format("{} ns", found.count()), "more than 0, or none");
  }
  [[gnu::noinline, gnu::cold]] void is_unknown(const char* field, unsigned found, unsigned last) {
    breach(field, fmt::format("number {}", found), fmt::format("0 to {}", last));
  }

  side who_;
  std::optional<error> first_;
};

void check_payload(checker& check, const spec::parcel_view& payload) {
  check.count("payload's segments", payload.segments.size(), limits::segments);
  if (payload.segments.size() > limits::own_segments) {
    const auto own = std::ranges::count_if(
        payload.segments, [](const spec::segment_view& one) { return !one.bytes.empty(); });
    // As users know them: those that codec/out_buffer.hpp gives a segment of their own.
    if (static_cast<std::size_t>(own) > limits::own_segments) {
      check.breach("value", fmt::format("made of {} vectors and strings of 4 KiB and more", own),
                   fmt::format("{} of them", limits::own_segments));
    }
  }
  check.count("payload's references", payload.references.size(), limits::references);
  if (!check.is_clean()) return;
  for (const spec::segment_view& segment : payload.segments) {
    if (segment.element_bytes == 0 || segment.bytes.size() % segment.element_bytes != 0) {
      check.breach("segment", fmt::format("{} bytes", segment.bytes.size()),
                   fmt::format("multiples of its elements' size, {}", segment.element_bytes));
    }
  }
  for (const spec::reference& reference : payload.references) {
    check.one_of("kind of a reference", reference.kind, spec::reference_kind::array);
  }
}

void check_granted(checker& check, std::span<const int> gpus) {
  check.count("gpus that were granted", gpus.size(), limits::gpus);
  if (!check.is_clean()) return;
  for (const int one : gpus) check.within("index of a gpu", one, 0, limits::gpu_index);
}

void check_placement(checker& check, const placement_view& where) {
  using rule = placement::rule;
  check.one_of("placement's rule", where.by, rule::group);
  if (where.by == rule::node) check.text("placement's node", where.node, 1, limits::key_bytes);
  if (where.by == rule::group) check.within("placement's bundle", where.bundle, -1, INT32_MAX);
  if (where.by != rule::labels) return;
  check.count("placement's number of labels", where.labels.size(), limits::labels);
  if (!check.is_clean()) return;
  for (const label_view& label : where.labels) {
    check.text("label's key", label.key, 1, limits::key_bytes);
    check.text("label's value", label.value, 1, limits::key_bytes);
  }
}

void check_gpus(checker& check, std::int64_t gpus) {
  check.within<std::int64_t>("gpus", gpus, 0, limits::amount);
  if (gpus <= 1000 || gpus % 1000 == 0) return;
  check.breach("gpus", fmt::format("{} thousandths", gpus), "a part of one, or whole ones");
}

void check_options(checker& check, const options_view& options) {
  check.within<std::int64_t>("cpus", options.cpus, 0, limits::amount);
  check_gpus(check, options.gpus);
  check.within<std::int64_t>("memory_bytes", options.memory_bytes, 0, INT64_MAX);
  check.one_of("priority", options.priority, priority::high);
  check.within<std::uint32_t>("max_retries", options.max_retries, 0, limits::count);
  check.timeout("timeout", options.timeout);
  check.within<std::uint32_t>("stream_credits", options.stream_credits, 1, limits::credits);
  check.count("resources", options.resources.size(), limits::amounts);
  if (!check.is_clean()) return;
  for (const amount_view& amount : options.resources) {
    check.text("resource's key", amount.key, 1, limits::key_bytes);
    check.within<std::int64_t>("resource's amount", amount.amount, 1, limits::amount);
  }
  check_placement(check, options.where);
}

void check_error(checker& check, const error_view& failed) {
  check.within<std::size_t>("length of the error's chain", failed.chain.size(), 1,
                            limits::error_chain);
  if (!check.is_clean()) return;
  for (const cause_view& cause : failed.chain) {
    check.one_of("error's code", cause.code, errc::storage_failed);
    if (cause.has_failure) check.within("error's attempt", cause.attempt, 0, INT32_MAX);
  }
}

}  // namespace

error refusal(side who, std::string_view field, std::string_view found, std::string_view allowed) {
  if (who == side::writer) {
    return error(
        errc::invalid_argument,
        fmt::format("wire: a message was to be written whose {} is {}, allowed: {}; change "
                    "it before it is sent",
                    field, found, allowed));
  }
  return error(errc::decode_failed,
               fmt::format("wire: a message came whose {} is {}, allowed: {}; the message is "
                           "dropped: compare the builds of both processes",
                           field, found, allowed));
}

result<void> check_count(side who, const char* field, std::size_t count, std::size_t limit) {
  checker check(who);
  check.count(field, count, limit);
  return std::move(check).done();
}

result<void> check(side who, const envelope& head) {
  checker check(who);
  check.named("request id", head.request);
  return std::move(check).done();
}

result<void> check(side who, const task_view& task) {
  checker check(who);
  check.named("task id", task.id);
  if (task.options != nullptr) check_options(check, *task.options);
  check_payload(check, task.arguments);
  check_granted(check, task.gpus);
  return std::move(check).done();
}

result<void> check(side who, const result_view& done) {
  checker check(who);
  check.named("task id", done.task);
  check.within<std::int64_t>("run time", done.ran.count(), 0, INT64_MAX);
  if (const auto* value = std::get_if<spec::parcel_view>(&done.outcome)) {
    check_payload(check, *value);
  } else if (const auto* failed = std::get_if<error_view>(&done.outcome)) {
    check_error(check, *failed);
  } else if (const auto* held = std::get_if<held_view>(&done.outcome)) {
    check.named("holding node", held->node);
  } else if (const auto* alias = std::get_if<alias_view>(&done.outcome)) {
    check.named("alias", alias->task);
    if (alias->task == done.task) check.breach("alias", "the task itself", "another task");
  }
  return std::move(check).done();
}

result<void> check(side who, const call_view& call) {
  checker check(who);
  check.named("actor id", call.actor);
  check.named("caller id", call.caller);
  check.within<std::uint64_t>("call number", call.call_number, 1, UINT64_MAX);
  check.timeout("timeout", call.timeout);
  check.within<std::uint32_t>("stream_credits", call.stream_credits, 1, limits::credits);
  check.text("group", call.group, 0, limits::name_bytes);
  check_payload(check, call.arguments);
  return std::move(check).done();
}

result<void> check(side who, const put_view& put) {
  checker check(who);
  check.named("object id", put.object);
  check.named("owner id", put.owner);
  check_payload(check, put.value);
  return std::move(check).done();
}

result<void> check(side who, const changes_view& changes) {
  checker check(who);
  check.count("reference changes", changes.changes.size(), limits::changes);
  if (!check.is_clean()) return std::move(check).done();
  for (const reference_change& change : changes.changes) {
    check.named("object id", change.object);
    check.named("peer id", change.peer);
    check.within<std::uint32_t>("count", change.count, 1, limits::count);
    check.one_of("kind of a change", change.kind, change_kind::release);
  }
  return std::move(check).done();
}

result<void> check(side who, const spawn_view& spawn) {
  checker check(who);
  check.named("actor id", spawn.actor);
  check.text("type's name", spawn.type_name, 1, limits::name_bytes);
  if (spawn.options != nullptr) check_options(check, *spawn.options);
  check.text("namespace", spawn.name_space, 0, limits::name_bytes);
  check.count("groups", spawn.groups.size(), limits::groups);
  check.within<std::uint32_t>("max_restarts", spawn.max_restarts, 0, limits::count);
  if (!check.is_clean()) return std::move(check).done();
  for (const group_view& group : spawn.groups) {
    check.text("group's name", group.name, 0, limits::name_bytes);
    check.within<std::uint32_t>("group's limit", group.limit, 1, limits::group_limit);
  }
  check_payload(check, spawn.arguments);
  check_granted(check, spawn.gpus);
  const bool has_name = spawn.options != nullptr && !spawn.options->name.empty();
  if (spawn.reserves && !has_name) check.breach("reserved name", "empty", "1 byte or more");
  return std::move(check).done();
}

result<void> check(side who, const ask_view& asked) {
  checker check(who);
  check.one_of("question", asked.what, question::transfer_time);
  check_payload(check, asked.with);
  if (asked.what != question::thing) {
    check.count("references of a question", asked.with.references.size(), 0);
  }
  return std::move(check).done();
}

result<void> check(side who, const item_view& item) {
  checker check(who);
  check_payload(check, item.value);
  return std::move(check).done();
}

result<void> check(side who, const flow_view& flow) {
  checker check(who);
  check.within<std::uint32_t>("stream credits", flow.credits, 1, limits::credits);
  return std::move(check).done();
}

namespace {

void check_who(checker& check, const introduction_view& who) {
  check.text("process's address", who.address, 0, limits::name_bytes);
  check.text("process's host", who.host, 0, limits::name_bytes);
  check.one_of("role of a process", who.as, spec::node_role::observer);
}

void check_load(checker& check, const spec::node_load& load) {
  if (load.task_time.count() < 0) check.breach("time of a task", "less than 0", "0 or more");
}

}  // namespace

result<void> check(side who, const heartbeat_view& said) {
  checker check(who);
  check.named("process id", said.process);
  check.one_of("wish of a process", said.wish, spec::node_wish::leave);
  check_load(check, said.load);
  check_who(check, said.who);
  return std::move(check).done();
}

result<void> check(side who, const bulletin_view& said) {
  checker check(who);
  check.named("process id", said.process);
  check.one_of("verdict of a head", said.verdict, spec::node_verdict::dissolved);
  if (said.since > said.revision) check.breach("since", "after its revision", "0 to revision");
  check.count("members", said.changed.size(), limits::members);
  check.count("loads", said.loads.size(), limits::members);
  if (!check.is_clean()) return std::move(check).done();
  for (const member_view& one : said.changed) {
    check.named("process id", one.process);
    check.within<std::uint64_t>("epoch of a member", one.epoch, 1, UINT64_MAX);
    check.one_of("state of a member", one.is, spec::node_state::ended);
    check_load(check, one.load);
    check.text("member's name", one.who.name, 1, limits::key_bytes);
    check_who(check, one.who);
  }
  for (const spec::node_share& one : said.loads) {
    check.within<std::uint64_t>("epoch of a member", one.epoch, 1, UINT64_MAX);
    check_load(check, one.load);
  }
  return std::move(check).done();
}

result<void> check(side who, const actor_end_view& end) {
  checker check(who);
  check.named("actor id", end.actor);
  check.one_of("reason of an end", end.reason, end_reason::process_lost);
  return std::move(check).done();
}

}  // namespace manta::inline v0::wire
