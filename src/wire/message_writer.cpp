// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <capnp/message.h>
#include <capnp/orphan.h>
#include <fmt/format.h>
#include <kj/exception.h>
#include <wire/protocol.capnp.h>

#include <manta/base/check.hpp>

#include "wire/check.hpp"
#include "wire/message.hpp"
#include "wire/message_cluster.hpp"
#include "wire/message_parts.hpp"

namespace manta::inline v0::wire {

namespace schema = ::manta_wire_schema;

namespace {

using bytes_view = std::span<const std::byte>;

// What fills segments up: never more than to the next multiple of 64.
constexpr std::array<std::byte, segment_alignment + 8> zeros{};

constexpr std::size_t up_to(std::size_t multiple, std::size_t at) noexcept {
  return (at + multiple - 1) / multiple * multiple;
}

template <class Group>
void put_function(Group group, const spec::function_id& id) {
  group.setModule(id.module);
  group.setOffset(id.offset);
}

std::int64_t nanoseconds(const std::optional<duration>& timeout) noexcept {
  return timeout.has_value() ? timeout->count() : 0;
}

// The builder's memory: the writer's first, zeroed again as far as it was used, then its own. The
// one that comes with Cap'n Proto does the same and asks twice for the list of segments.
class scratch_builder final : public capnp::MessageBuilder {
 public:
  explicit scratch_builder(std::span<std::uint64_t> scratch) noexcept
      : scratch_(scratch), dirty_words_(scratch.size()) {}
  ~scratch_builder() noexcept(false) override {
    std::memset(scratch_.data(), 0, dirty_words_ * sizeof(std::uint64_t));
  }
  scratch_builder(const scratch_builder&) = delete;
  scratch_builder& operator=(const scratch_builder&) = delete;

  kj::ArrayPtr<capnp::word> allocateSegment(kj::uint least) override {
    if (!is_scratch_given_ && least <= scratch_.size()) {
      is_scratch_given_ = true;
      return {reinterpret_cast<capnp::word*>(scratch_.data()), scratch_.size()};
    }
    const std::size_t words = std::max<std::size_t>(least, next_words_);
    next_words_ = std::min(2 * words, most_words);
    more_.push_back(std::make_unique<std::uint64_t[]>(words));
    return {reinterpret_cast<capnp::word*>(more_.back().get()), words};
  }

  // Nothing is built any more, and this is how far the first segment goes.
  void finished(std::size_t used_words) noexcept { dirty_words_ = used_words; }

 private:
  // Segments grow up to this: then a message of the largest frame has few of them.
  static constexpr std::size_t most_words = std::size_t{1} << 20U;

  std::span<std::uint64_t> scratch_;
  std::size_t dirty_words_;
  bool is_scratch_given_ = false;
  std::size_t next_words_ = 1024;
  std::vector<std::unique_ptr<std::uint64_t[]>> more_;
};

capnp::Data::Reader data_of(bytes_view bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

struct message_writer::state {
  state(std::size_t scratch_bytes, std::size_t limit)
      : scratch_words(std::max(up_to(8, scratch_bytes) / 8, std::size_t{16})),
        // One word more in front, for the table of a frame with a single segment.
        scratch(std::make_unique<std::uint64_t[]>(scratch_words + 1)),
        frame_limit(std::min(limit, largest_frame)) {}

  void clear() noexcept;
  void begin();
  result<void> finish();
  void lay_out(kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments);

  template <class Builder>
  void put_payload(Builder to, const spec::parcel_view& payload);
  capnp::Orphan<capnp::Data> refer_to(bytes_view bytes);
  void put_options(schema::Options::Builder to, const options_view& options);
  void put_error(schema::Error::Builder to, const error_view& failed);

  void put(schema::Message::Builder message, const task_view& task);
  void put(schema::Message::Builder message, const result_view& done);
  void put(schema::Message::Builder message, const call_view& call);
  void put(schema::Message::Builder message, const put_view& object);
  void put(schema::Message::Builder message, const changes_view& changes);
  void put(schema::Message::Builder message, const spawn_view& spawn);
  void put(schema::Message::Builder message, const actor_end_view& end);
  void put(schema::Message::Builder message, const ask_view& asked);
  void put(schema::Message::Builder message, const item_view& item);
  static void put(schema::Message::Builder message, const flow_view& flow);
  static void put(schema::Message::Builder message, const heartbeat_view& said) {
    put_heartbeat(message.initHeartbeat(), said);
  }
  static void put(schema::Message::Builder message, const bulletin_view& said) {
    put_bulletin(message.initBulletin(), said);
  }

  std::size_t scratch_words;
  std::unique_ptr<std::uint64_t[]> scratch;
  std::size_t frame_limit;
  std::vector<bytes_view> outside;  // referred to, in the order of their segments
  std::vector<std::unique_ptr<std::uint64_t[]>> copies;  // of what began at an odd place
  std::vector<std::uint32_t> table;
  std::vector<bytes_view> pieces;
  std::size_t size_bytes = 0;
  std::optional<scratch_builder> builder;  // last, as it refers to the others
};

void message_writer::state::clear() noexcept {
  builder.reset();  // zeroes what it used of the scratch memory
  pieces.clear();
  outside.clear();
  copies.clear();
  size_bytes = 0;
}

void message_writer::state::begin() {
  clear();
  builder.emplace(std::span(scratch.get() + 1, scratch_words));
}

capnp::Orphan<capnp::Data> message_writer::state::refer_to(bytes_view bytes) {
  // The format's segments begin at words. Arrays do; a span into the middle of one may not.
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % sizeof(std::uint64_t) != 0) {
    auto copy = std::make_unique<std::uint64_t[]>(up_to(8, bytes.size()) / 8);
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    bytes = {reinterpret_cast<const std::byte*>(copy.get()), bytes.size()};
    copies.push_back(std::move(copy));
  }
  outside.push_back(bytes);
  return builder->getOrphanage().referenceExternalData(data_of(bytes));
}

template <class Builder>
void message_writer::state::put_payload(Builder to, const spec::parcel_view& payload) {
  if (!payload.head.empty()) to.setHead(data_of(payload.head));
  if (!payload.segments.empty()) {
    auto list = to.initSegments(static_cast<kj::uint>(payload.segments.size()));
    for (kj::uint i = 0; i < list.size(); ++i) {
      const spec::segment_view& segment = payload.segments[i];
      if (!segment.bytes.empty()) list[i].adoptBytes(refer_to(segment.bytes));
      list[i].setType(segment.type);
      list[i].setElementBytes(segment.element_bytes);
    }
  }
  if (payload.references.empty()) return;
  auto list = to.initReferences(static_cast<kj::uint>(payload.references.size()));
  for (kj::uint i = 0; i < list.size(); ++i) {
    const spec::reference& reference = payload.references[i];
    put_id(list[i].getWhat(), reference.what);
    put_id(list[i].getOwner(), reference.owner);
    list[i].setType(reference.type);
    list[i].setKind(static_cast<schema::Reference::Kind>(reference.kind));
    if (reference.place == spec::array_place{}) continue;
    auto place = list[i].initPlace();
    place.setSegment(reference.place.segment);
    place.setAt(reference.place.at);
    place.setBytes(reference.place.bytes);
  }
}

namespace {

void put_placement(schema::Placement::Builder to, const placement_view& where) {
  using rule = placement::rule;
  to.setRule(static_cast<schema::Placement::Rule>(where.by));
  to.setIsSoft(where.is_soft);
  if (where.by == rule::node) {
    put_text(where.node, limits::key_bytes,
             [&](std::size_t n) { return to.initNode(kj::uint(n)); });
  } else if (where.by == rule::group) {
    to.setGroup(where.group);
    to.setBundle(where.bundle);
  } else if (where.by == rule::labels) {
    auto list = to.initLabels(static_cast<kj::uint>(where.labels.size()));
    for (kj::uint i = 0; i < list.size(); ++i) {
      put_text(where.labels[i].key, limits::key_bytes,
               [&](std::size_t n) { return list[i].initKey(kj::uint(n)); });
      put_text(where.labels[i].value, limits::key_bytes,
               [&](std::size_t n) { return list[i].initValue(kj::uint(n)); });
    }
  }
}

template <class Builder>
void put_granted(Builder to, std::span<const int> gpus) {
  if (gpus.empty()) return;
  auto list = to.initGpus(static_cast<kj::uint>(gpus.size()));
  for (kj::uint i = 0; i < list.size(); ++i) list.set(i, gpus[i]);
}

void put_cause(schema::Cause::Builder to, const cause_view& cause) {
  constexpr std::size_t most = limits::error_text_bytes;
  to.setCode(static_cast<schema::Cause::Code>(cause.code));
  put_text(cause.message, most, [&](std::size_t n) { return to.initMessage(kj::uint(n)); });
  if (!cause.has_failure) return;
  to.setHasFailure(true);
  to.setAttempt(cause.attempt);
  put_text(cause.type_name, most, [&](std::size_t n) { return to.initTypeName(kj::uint(n)); });
  put_text(cause.text, most, [&](std::size_t n) { return to.initText(kj::uint(n)); });
  put_text(cause.function, most, [&](std::size_t n) { return to.initFunction(kj::uint(n)); });
  put_text(cause.node, most, [&](std::size_t n) { return to.initNode(kj::uint(n)); });
}

}  // namespace

void message_writer::state::put_options(schema::Options::Builder to, const options_view& options) {
  to.setCpus(options.cpus);
  to.setGpus(options.gpus);
  to.setMemoryBytes(options.memory_bytes);
  to.setEnforceMemory(options.enforce_memory);
  to.setLosable(options.losable);
  to.setPriority(static_cast<schema::Priority>(options.priority));
  to.setMaxRetries(options.max_retries);
  put_function(to.getRetryFilter(), options.retry_filter);
  to.setTimeoutNs(nanoseconds(options.timeout));
  to.setStreamCredits(options.stream_credits);
  put_text(options.name, limits::name_bytes,
           [&](std::size_t n) { return to.initName(kj::uint(n)); });
  if (!options.resources.empty()) {
    auto list = to.initResources(static_cast<kj::uint>(options.resources.size()));
    for (kj::uint i = 0; i < list.size(); ++i) {
      put_text(options.resources[i].key, limits::key_bytes,
               [&](std::size_t n) { return list[i].initKey(kj::uint(n)); });
      list[i].setAmount(options.resources[i].amount);
    }
  }
  to.setIsolation(static_cast<schema::Isolation>(options.isolation));
  const placement_view& where = options.where;
  if (where.by != placement::rule::anywhere || where.is_soft) {
    put_placement(to.initWhere(), where);
  }
}

void message_writer::state::put_error(schema::Error::Builder to, const error_view& failed) {
  auto list = to.initChain(static_cast<kj::uint>(failed.chain.size()));
  for (kj::uint i = 0; i < list.size(); ++i) put_cause(list[i], failed.chain[i]);
}

void message_writer::state::put(schema::Message::Builder message, const task_view& task) {
  auto to = message.initTask();
  put_id(to.getId(), task.id);
  put_id(to.getParent(), task.parent);
  to.setCallIndex(task.call_index);
  put_function(to.getFunction(), task.function);
  put_id(to.getDigest(), task.digest);
  to.setAttempt(task.attempt);
  put_text(task.name, limits::name_bytes, [&](std::size_t n) { return to.initName(kj::uint(n)); });
  if (task.options != nullptr) put_options(to.initOptions(), *task.options);
  put_payload(to.initArguments(), task.arguments);
  put_granted(to, task.gpus);
  put_id(to.getUnder(), task.under);
}

void message_writer::state::put(schema::Message::Builder message, const result_view& done) {
  auto to = message.initResult();
  put_id(to.getTask(), done.task);
  to.setAttempt(done.attempt);
  to.setExecution(done.execution);
  to.setRanNs(done.ran.count());
  to.setMayRepeat(done.may_repeat);
  to.setSentBack(static_cast<std::uint8_t>(done.back));
  if (const auto* value = std::get_if<spec::parcel_view>(&done.outcome)) {
    put_payload(to.initValue(), *value);
  } else if (const auto* failed = std::get_if<error_view>(&done.outcome)) {
    put_error(to.initError(), *failed);
  } else if (const auto* held = std::get_if<held_view>(&done.outcome)) {
    auto place = to.initHeld();
    put_id(place.getNode(), held->node);
    place.setBytes(held->bytes);
  } else if (const auto* alias = std::get_if<alias_view>(&done.outcome)) {
    put_id(to.initAlias(), alias->task);
  }
}

void message_writer::state::put(schema::Message::Builder message, const call_view& call) {
  auto to = message.initCall();
  put_id(to.getActor(), call.actor);
  to.setIncarnation(call.incarnation);
  put_id(to.getCaller(), call.caller);
  to.setCallNumber(call.call_number);
  put_function(to.getMethod(), call.method);
  to.setTimeoutNs(nanoseconds(call.timeout));
  to.setStreamCredits(call.stream_credits);
  put_text(call.group, limits::name_bytes,
           [&](std::size_t n) { return to.initGroup(kj::uint(n)); });
  put_text(call.name, limits::name_bytes, [&](std::size_t n) { return to.initName(kj::uint(n)); });
  put_payload(to.initArguments(), call.arguments);
  put_id(to.getParent(), call.parent);
  to.setCallIndex(call.call_index);
}

void message_writer::state::put(schema::Message::Builder message, const spawn_view& spawn) {
  auto to = message.initSpawn();
  put_id(to.getActor(), spawn.actor);
  put_id(to.getParent(), spawn.parent);
  to.setCallIndex(spawn.call_index);
  put_function(to.getFunction(), spawn.function);
  put_text(spawn.type_name, limits::name_bytes,
           [&](std::size_t n) { return to.initTypeName(kj::uint(n)); });
  if (spawn.options != nullptr) put_options(to.initOptions(), *spawn.options);
  put_text(spawn.name_space, limits::name_bytes,
           [&](std::size_t n) { return to.initNameSpace(kj::uint(n)); });
  if (!spawn.groups.empty()) {
    auto list = to.initGroups(static_cast<kj::uint>(spawn.groups.size()));
    for (kj::uint i = 0; i < list.size(); ++i) {
      put_text(spawn.groups[i].name, limits::name_bytes,
               [&](std::size_t n) { return list[i].initName(kj::uint(n)); });
      list[i].setLimit(spawn.groups[i].limit);
    }
  }
  to.setMailboxCap(spawn.mailbox_cap);
  to.setRefusesWhenFull(spawn.refuses_when_full);
  to.setMaxRestarts(spawn.max_restarts);
  put_payload(to.initArguments(), spawn.arguments);
  to.setReserves(spawn.reserves);
  to.setMayExist(spawn.may_exist);
  to.setDetached(spawn.detached);
  put_granted(to, spawn.gpus);
}

void message_writer::state::put(schema::Message::Builder message, const ask_view& asked) {
  auto to = message.initAsk();
  to.setWhat(static_cast<schema::Ask::What>(asked.what));
  put_payload(to.initWith(), asked.with);
}

void message_writer::state::put(schema::Message::Builder message, const item_view& item) {
  put_payload(message.initItem().initValue(), item.value);
}

void message_writer::state::put(schema::Message::Builder message, const flow_view& flow) {
  auto to = message.initFlow();
  to.setTaken(flow.taken);
  to.setCredits(flow.credits);
}

void message_writer::state::put(schema::Message::Builder message, const actor_end_view& end) {
  auto to = message.initActorEnd();
  put_id(to.getActor(), end.actor);
  to.setReason(static_cast<schema::ActorEnd::Reason>(end.reason));
  put_text(end.message, limits::error_text_bytes,
           [&](std::size_t n) { return to.initMessage(kj::uint(n)); });
}

void message_writer::state::put(schema::Message::Builder message, const put_view& object) {
  auto to = message.initPut();
  put_id(to.getObject(), object.object);
  put_id(to.getOwner(), object.owner);
  to.setIsPrimary(object.is_primary);
  put_payload(to.initValue(), object.value);
}

void message_writer::state::put(schema::Message::Builder message, const changes_view& changes) {
  auto list = message.initReferences(static_cast<kj::uint>(changes.changes.size()));
  for (kj::uint i = 0; i < list.size(); ++i) {
    const reference_change& change = changes.changes[i];
    put_id(list[i].getObject(), change.object);
    put_id(list[i].getPeer(), change.peer);
    list[i].setCount(change.count);
    list[i].setKind(static_cast<schema::ReferenceChange::Kind>(change.kind));
  }
}

// The list of pieces for any number of segments: table, then each segment and what fills it up.
void message_writer::state::lay_out(kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) {
  const std::size_t count = segments.size();
  table.assign(table_bytes(count) / 4, 0);
  table[0] = static_cast<std::uint32_t>(count - 1);
  size_bytes = table_bytes(count);
  pieces.emplace_back(std::as_bytes(std::span(table)));
  std::size_t next_outside = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* start = reinterpret_cast<const std::byte*>(segments[i].begin());
    std::size_t used = segments[i].size() * sizeof(capnp::word);
    // Of the caller's memory exactly what was given, not what the last word has more.
    if (next_outside < outside.size() && outside[next_outside].data() == start) {
      used = outside[next_outside++].size();
    }
    const bool is_last = i + 1 == count;
    const std::size_t end = up_to(outside.empty() || is_last ? 8 : 64, size_bytes + used);
    if (used > 0) pieces.emplace_back(start, used);
    if (end > size_bytes + used) pieces.emplace_back(zeros.data(), end - size_bytes - used);
    table[1 + i] = static_cast<std::uint32_t>((end - size_bytes) / 8);
    size_bytes = end;
  }
}

result<void> message_writer::state::finish() {
  const auto segments = builder->getSegmentsForOutput();
  builder->finished(segments[0].size());  // the first is the scratch memory: a root always fits it
  if (segments.size() == 1) {
    const std::size_t words = segments[0].size();
    scratch[0] = static_cast<std::uint64_t>(words) << 32U;  // count - 1 is 0
    size_bytes = (words + 1) * sizeof(capnp::word);
    pieces.emplace_back(reinterpret_cast<const std::byte*>(scratch.get()), size_bytes);
  } else {
    lay_out(segments);
  }
  const std::size_t size = size_bytes;
  if (size <= frame_limit) return {};
  clear();
  return refusal(side::writer, "frame", fmt::format("{} bytes long", size),
                 fmt::format("0 to {}", frame_limit));
}

template <class Body>
result<void> message_writer::make(const envelope& head, const Body& body) {
  state_->clear();
  if (result<void> fine = check(side::writer, head); !fine) return fine;
  if (result<void> fine = check(side::writer, body); !fine) return fine;
  try {
    state_->begin();
    auto message = state_->builder->initRoot<schema::Message>();
    put_id(message.getRequest(), head.request);
    message.setEpoch(head.epoch);
    message.setSending(head.sending);
    state_->put(message, body);
    return state_->finish();
  } catch (const kj::Exception& thrown) {
    const std::string reason = thrown.getDescription().cStr();
    state_->clear();
    return refusal(side::writer, "content", "refused by Cap'n Proto (" + reason + ")",
                   "what fits the format");
  } catch (...) {
    state_->clear();
    throw;
  }
}

message_writer::message_writer(std::size_t scratch_bytes, std::size_t frame_limit)
    : state_(std::make_unique<state>(scratch_bytes, frame_limit)) {}
message_writer::~message_writer() = default;

void message_writer::limit(std::size_t frame_limit) noexcept {
  state_->frame_limit = std::min(frame_limit, largest_frame);
}

result<void> message_writer::write(const envelope& head, const task_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const result_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const call_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const put_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const changes_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const spawn_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const ask_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const actor_end_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const item_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const flow_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const heartbeat_view& body) {
  return make(head, body);
}
result<void> message_writer::write(const envelope& head, const bulletin_view& body) {
  return make(head, body);
}

std::span<const bytes_view> message_writer::pieces() const noexcept { return state_->pieces; }
std::size_t message_writer::size_bytes() const noexcept { return state_->size_bytes; }
void message_writer::clear() noexcept { state_->clear(); }

void message_writer::flatten(std::span<std::byte> to) const noexcept {
  MANTA_CHECK_VALUE(to.size() == state_->size_bytes, to.size());
  std::byte* at = to.data();
  for (const bytes_view piece : state_->pieces) {
    at = std::copy(piece.begin(), piece.end(), at);
  }
}

}  // namespace manta::inline v0::wire
