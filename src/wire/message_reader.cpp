// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <capnp/message.h>
#include <fmt/format.h>
#include <kj/exception.h>
#include <wire/protocol.capnp.h>

#include "wire/check.hpp"
#include "wire/message.hpp"

namespace manta::inline v0::wire {

namespace schema = ::manta_wire_schema;

namespace {

using bytes_view = std::span<const std::byte>;

// The numbers of the schema are those of our enums: here it is noticed when one list changes.
using code = schema::Cause::Code;
constexpr std::array<code, 24> codes = {
    code::TASK_ERROR,  code::WORKER_LOST,   code::NODE_LOST,        code::OBJECT_LOST,
    code::ACTOR_LOST,  code::TIMED_OUT,     code::CANCELLED,        code::STORE_FULL,
    code::INFEASIBLE,  code::DECODE_FAILED, code::INVALID_ARGUMENT, code::INVALID_CONFIG,
    code::NO_RUNTIME,  code::NOT_UNIQUE,    code::SELF_WAIT,        code::OUT_OF_MEMORY,
    code::NAME_TAKEN,  code::MAILBOX_FULL,  code::CHANNEL_CLOSED,   code::GROUP_REMOVED,
    code::UNSUPPORTED, code::ENCODE_FAILED, code::UNKNOWN_FUNCTION, code::STORAGE_FAILED};
constexpr std::array<errc, 24> errcs = {
    errc::task_error,  errc::worker_lost,   errc::node_lost,        errc::object_lost,
    errc::actor_lost,  errc::timed_out,     errc::cancelled,        errc::store_full,
    errc::infeasible,  errc::decode_failed, errc::invalid_argument, errc::invalid_config,
    errc::no_runtime,  errc::not_unique,    errc::self_wait,        errc::out_of_memory,
    errc::name_taken,  errc::mailbox_full,  errc::channel_closed,   errc::group_removed,
    errc::unsupported, errc::encode_failed, errc::unknown_function, errc::storage_failed};
constexpr bool codes_agree() {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (static_cast<std::size_t>(codes[i]) != i || static_cast<std::size_t>(errcs[i]) != i) {
      return false;
    }
  }
  return true;
}
static_assert(codes_agree());
static_assert(int(schema::Priority::HIGH) == int(priority::high));
static_assert(int(schema::Isolation::PROCESSES) == int(asked_isolation::processes));
static_assert(int(schema::Placement::Rule::GROUP) == int(placement::rule::group));
static_assert(int(schema::Reference::Kind::ARRAY) == int(spec::reference_kind::array));
static_assert(int(schema::ReferenceChange::Kind::RELEASE) == int(change_kind::release));
static_assert(int(schema::Introduction::Role::OBSERVER) == int(spec::node_role::observer));
static_assert(int(schema::Heartbeat::Wish::LEAVE) == int(spec::node_wish::leave));
static_assert(int(schema::Bulletin::Verdict::DISSOLVED) == int(spec::node_verdict::dissolved));
static_assert(int(schema::Member::State::ENDED) == int(spec::node_state::ended));
static_assert(int(schema::Ask::What::DELEGATION) == int(question::delegation));
static_assert(int(schema::Ask::What::REFERENCES) == int(question::references));
static_assert(int(schema::Ask::What::ARRAY_BYTES) == int(question::array_bytes));
static_assert(int(schema::Ask::What::TAKE_ARRAYS) == int(question::take_arrays));
static_assert(int(schema::Ask::What::TASK_RECORDS) == int(question::task_records));
static_assert(int(schema::Ask::What::TRANSFER_TIME) == int(question::transfer_time));

// Structs within lists within structs: the deepest is a label's text.
constexpr int deepest_nesting = 12;

template <class Group>
base::id get_id(Group group) {
  return {group.getHigh(), group.getLow()};
}

template <class Group>
spec::function_id get_function(Group group) {
  return {group.getModule(), group.getOffset()};
}

std::optional<duration> get_timeout(std::int64_t nanoseconds) {
  if (nanoseconds == 0) return std::nullopt;
  return duration(nanoseconds);  // a negative one is found by check()
}

bytes_view get_bytes(capnp::Data::Reader data) {
  return {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
}

// A reader over segments that split_frame found to lie within the frame.
class frame_reader final : public capnp::MessageReader {
 public:
  frame_reader(const std::vector<bytes_view>& segments, capnp::ReaderOptions bounds)
      : MessageReader(bounds), segments_(segments) {}

  kj::ArrayPtr<const capnp::word> getSegment(kj::uint id) override {
    if (id >= segments_.size()) return nullptr;
    const bytes_view bytes = segments_[id];
    return {reinterpret_cast<const capnp::word*>(bytes.data()), bytes.size() / sizeof(capnp::word)};
  }

 private:
  const std::vector<bytes_view>& segments_;
};

}  // namespace

// What each get finds wrong first is kept in `found`; the rest of that message is not looked at.
struct message_reader::state {
  explicit state(std::size_t limit) : frame_limit(limit) {}

  result<void> read(bytes_view frame);

  std::string_view text(capnp::Text::Reader from, std::string_view field, std::size_t most);
  template <class Enum>
  Enum one_of(std::uint16_t number, std::string_view field, Enum last);
  bool is_few(const char* field, std::size_t count, std::size_t most);

  spec::parcel_view payload(schema::Payload::Reader from);
  spec::segment_view segment(schema::Segment::Reader from);
  placement_view where(schema::Placement::Reader from);
  const options_view* take_options(schema::Options::Reader from);
  cause_view cause(schema::Cause::Reader from);
  error_view failed(schema::Error::Reader from);

  void take(capnp::List<schema::Segment>::Reader from);
  void take(capnp::List<schema::Reference>::Reader from);
  static spec::array_place place(schema::Reference::Reader from);
  void take(schema::Message::Reader from);
  void take(schema::Task::Reader from, task_view& to);
  void take(schema::Result::Reader from, result_view& to);
  void take(schema::ActorCall::Reader from, call_view& to);
  void take(schema::Put::Reader from, put_view& to);
  void take(capnp::List<schema::ReferenceChange>::Reader from, changes_view& to);
  void take(schema::Spawn::Reader from, spawn_view& to);
  void take(schema::Ask::Reader from, ask_view& to);
  void take(schema::Item::Reader from, item_view& to);
  static void take(schema::Flow::Reader from, flow_view& to);
  introduction_view who(schema::Introduction::Reader from);
  void take(schema::Heartbeat::Reader from, heartbeat_view& to);
  void take(schema::Bulletin::Reader from, bulletin_view& to);
  std::span<const int> granted(capnp::List<std::int32_t>::Reader from);
  void take(schema::ActorEnd::Reader from, actor_end_view& to);

  void breach(std::string_view field, std::string_view what, std::string_view allowed) {
    if (found) found = refusal(side::reader, field, what, allowed);
  }

  std::size_t frame_limit;
  result<void> found;
  message_view message;
  std::vector<bytes_view> frame_segments;
  // What the views refer to, as far as it is not the frame.
  options_view options;
  std::vector<amount_view> amounts;
  std::vector<label_view> labels;
  std::vector<spec::segment_view> segments;
  std::vector<spec::reference> references;
  std::vector<cause_view> causes;
  std::vector<group_view> groups;
  std::vector<reference_change> changes;
  std::vector<int> gpus;
  std::vector<member_view> members;
  std::vector<spec::node_share> shares;
};

std::string_view message_reader::state::text(capnp::Text::Reader from, std::string_view field,
                                             std::size_t most) {
  if (from.size() > most) {
    breach(field, fmt::format("{} bytes long", from.size()), fmt::format("0 to {}", most));
  }
  return {from.begin(), from.size()};
}

template <class Enum>
Enum message_reader::state::one_of(std::uint16_t number, std::string_view field, Enum last) {
  const auto most = static_cast<std::uint16_t>(last);
  if (number <= most) return static_cast<Enum>(number);
  breach(field, fmt::format("number {}", number), fmt::format("0 to {}", most));
  return Enum{};
}

bool message_reader::state::is_few(const char* field, std::size_t count, std::size_t most) {
  if (count > most && found) found = check_count(side::reader, field, count, most);
  return found.has_value();
}

spec::segment_view message_reader::state::segment(schema::Segment::Reader from) {
  const spec::segment_view out{get_bytes(from.getBytes()), from.getType(), from.getElementBytes()};
  const auto place = reinterpret_cast<std::uintptr_t>(out.bytes.data()) % segment_alignment;
  if (!out.bytes.empty() && place != 0) {
    breach("segment's place", fmt::format("{} bytes behind a multiple of 64", place),
           "multiples of 64, for which the frame has to begin at one");
  }
  return out;
}

spec::parcel_view message_reader::state::payload(schema::Payload::Reader from) {
  segments.clear();
  references.clear();
  // Most payloads have neither, and asking is cheaper than getting an empty list.
  if (from.hasSegments()) take(from.getSegments());
  if (from.hasReferences()) take(from.getReferences());
  return {get_bytes(from.getHead()), segments, references};
}

void message_reader::state::take(capnp::List<schema::Segment>::Reader from) {
  if (!is_few("payload's segments", from.size(), limits::segments)) return;
  for (const auto one : from) segments.push_back(segment(one));
}

void message_reader::state::take(capnp::List<schema::Reference>::Reader from) {
  if (!is_few("payload's references", from.size(), limits::references)) return;
  references.reserve(from.size());
  for (const auto one : from) {
    const auto kind = one_of(static_cast<std::uint16_t>(one.getKind()), "kind of a reference",
                             spec::reference_kind::array);
    references.push_back(
        {get_id(one.getWhat()), get_id(one.getOwner()), one.getType(), 0, kind, place(one)});
  }
}

spec::array_place message_reader::state::place(schema::Reference::Reader from) {
  if (!from.hasPlace()) return {};
  const schema::Place::Reader found = from.getPlace();
  return {found.getSegment(), found.getAt(), found.getBytes()};
}

placement_view message_reader::state::where(schema::Placement::Reader from) {
  placement_view out;
  out.by = one_of(static_cast<std::uint16_t>(from.getRule()), "placement's rule",
                  placement::rule::group);
  out.is_soft = from.getIsSoft();
  out.node = text(from.getNode(), "placement's node", limits::key_bytes);
  out.group = from.getGroup();
  out.bundle = from.getBundle();
  labels.clear();
  const auto list = from.getLabels();
  if (!is_few("placement's number of labels", list.size(), limits::labels)) return out;
  for (const auto one : list) {
    labels.push_back({text(one.getKey(), "label's key", limits::key_bytes),
                      text(one.getValue(), "label's value", limits::key_bytes)});
  }
  out.labels = labels;
  return out;
}

const options_view* message_reader::state::take_options(schema::Options::Reader from) {
  options = {};
  options.cpus = from.getCpus();
  options.gpus = from.getGpus();
  options.memory_bytes = from.getMemoryBytes();
  options.enforce_memory = from.getEnforceMemory();
  options.losable = from.getLosable();
  options.priority =
      one_of(static_cast<std::uint16_t>(from.getPriority()), "priority", priority::high);
  options.max_retries = from.getMaxRetries();
  options.retry_filter = get_function(from.getRetryFilter());
  options.timeout = get_timeout(from.getTimeoutNs());
  options.stream_credits = from.getStreamCredits();
  options.name = text(from.getName(), "call's name", limits::name_bytes);
  amounts.clear();
  const auto list = from.getResources();
  if (is_few("resources", list.size(), limits::amounts)) {
    for (const auto one : list) {
      amounts.push_back({text(one.getKey(), "resource's key", limits::key_bytes), one.getAmount()});
    }
  }
  options.resources = amounts;
  if (from.hasWhere()) options.where = where(from.getWhere());
  options.isolation = one_of(static_cast<std::uint16_t>(from.getIsolation()), "isolation",
                             asked_isolation::processes);
  return &options;
}

cause_view message_reader::state::cause(schema::Cause::Reader from) {
  constexpr std::size_t most = limits::error_text_bytes;
  cause_view out;
  out.code =
      one_of(static_cast<std::uint16_t>(from.getCode()), "error's code", errc::storage_failed);
  out.message = text(from.getMessage(), "error's message", most);
  out.has_failure = from.getHasFailure();
  if (!out.has_failure) return out;
  out.attempt = from.getAttempt();
  out.type_name = text(from.getTypeName(), "error's type name", most);
  out.text = text(from.getText(), "error's text", most);
  out.function = text(from.getFunction(), "error's function", most);
  out.node = text(from.getNode(), "error's node", most);
  return out;
}

error_view message_reader::state::failed(schema::Error::Reader from) {
  causes.clear();
  const auto list = from.getChain();
  if (!is_few("length of the error's chain", list.size(), limits::error_chain)) return {};
  for (const auto one : list) causes.push_back(cause(one));
  return {causes};
}

void message_reader::state::take(schema::Task::Reader from, task_view& to) {
  to.id = get_id(from.getId());
  to.parent = get_id(from.getParent());
  to.call_index = from.getCallIndex();
  to.function = get_function(from.getFunction());
  to.digest = get_id(from.getDigest());
  to.attempt = from.getAttempt();
  to.name = text(from.getName(), "function's name", limits::name_bytes);
  if (from.hasOptions()) to.options = take_options(from.getOptions());
  to.arguments = payload(from.getArguments());
  if (from.hasGpus()) to.gpus = granted(from.getGpus());
  to.under = get_id(from.getUnder());
}

std::span<const int> message_reader::state::granted(capnp::List<std::int32_t>::Reader from) {
  gpus.clear();
  if (!is_few("gpus that were granted", from.size(), limits::gpus)) return {};
  for (const std::int32_t one : from) gpus.push_back(one);
  return gpus;
}

void message_reader::state::take(schema::Result::Reader from, result_view& to) {
  to.task = get_id(from.getTask());
  to.attempt = from.getAttempt();
  to.execution = from.getExecution();
  to.ran = duration(from.getRanNs());
  to.may_repeat = from.getMayRepeat();
  to.back = one_of(from.getSentBack(), "why a task is sent back", result_view::sent_back::begun);
  switch (from.which()) {
    case schema::Result::VALUE:
      to.outcome = payload(from.getValue());
      return;
    case schema::Result::ERROR:
      to.outcome = failed(from.getError());
      return;
    case schema::Result::HELD: {
      const auto held = from.getHeld();
      to.outcome = held_view{get_id(held.getNode()), held.getBytes()};
      return;
    }
    case schema::Result::ALIAS:
      to.outcome = alias_view{get_id(from.getAlias())};
      return;
  }
  breach("outcome", fmt::format("number {}", static_cast<unsigned>(from.which())), "0 to 3");
}

void message_reader::state::take(schema::ActorCall::Reader from, call_view& to) {
  to.actor = get_id(from.getActor());
  to.incarnation = from.getIncarnation();
  to.caller = get_id(from.getCaller());
  to.call_number = from.getCallNumber();
  to.method = get_function(from.getMethod());
  to.timeout = get_timeout(from.getTimeoutNs());
  to.stream_credits = from.getStreamCredits();
  to.group = text(from.getGroup(), "group", limits::name_bytes);
  to.name = text(from.getName(), "call's name", limits::name_bytes);
  to.arguments = payload(from.getArguments());
  to.parent = get_id(from.getParent());
  to.call_index = from.getCallIndex();
}

void message_reader::state::take(schema::Spawn::Reader from, spawn_view& to) {
  to.actor = get_id(from.getActor());
  to.parent = get_id(from.getParent());
  to.call_index = from.getCallIndex();
  to.function = get_function(from.getFunction());
  to.type_name = text(from.getTypeName(), "type's name", limits::name_bytes);
  if (from.hasOptions()) to.options = take_options(from.getOptions());
  to.name_space = text(from.getNameSpace(), "namespace", limits::name_bytes);
  groups.clear();
  const auto list = from.getGroups();
  if (is_few("groups", list.size(), limits::groups)) {
    for (const auto one : list) {
      groups.push_back({text(one.getName(), "group's name", limits::name_bytes), one.getLimit()});
    }
  }
  to.groups = groups;
  to.mailbox_cap = from.getMailboxCap();
  to.refuses_when_full = from.getRefusesWhenFull();
  to.max_restarts = from.getMaxRestarts();
  to.arguments = payload(from.getArguments());
  to.reserves = from.getReserves();
  to.may_exist = from.getMayExist();
  to.detached = from.getDetached();
  if (from.hasGpus()) to.gpus = granted(from.getGpus());
}

void message_reader::state::take(schema::Ask::Reader from, ask_view& to) {
  to.what = one_of(static_cast<std::uint16_t>(from.getWhat()), "question", question::transfer_time);
  to.with = payload(from.getWith());
}

void message_reader::state::take(schema::Item::Reader from, item_view& to) {
  to.value = payload(from.getValue());
}

void message_reader::state::take(schema::Flow::Reader from, flow_view& to) {
  to.taken = from.getTaken();
  to.credits = from.getCredits();
}

introduction_view message_reader::state::who(schema::Introduction::Reader from) {
  const auto role = one_of(static_cast<std::uint16_t>(from.getRole()), "role of a process",
                           spec::node_role::observer);
  return {text(from.getName(), "process's name", limits::name_bytes),
          text(from.getAddress(), "process's address", limits::name_bytes),
          text(from.getHost(), "process's host", limits::name_bytes),
          from.getPid(),
          role,
          from.getFunctions(),
          from.getWorkers(),
          from.getGpus(),
          from.getMemoryBytes(),
          text(from.getResources(), "process's resources", limits::offer_bytes),
          text(from.getLabels(), "process's labels", limits::offer_bytes),
          from.getMachine(),
          text(from.getBulk(), "process's place for bulk", limits::name_bytes)};
}

namespace {

template <class Reader>
spec::node_load load_of(Reader from) {
  return {from.getQueued(), from.getRunning(), duration(from.getTaskNs())};
}

}  // namespace

void message_reader::state::take(schema::Heartbeat::Reader from, heartbeat_view& to) {
  to.process = get_id(from.getProcess());
  to.wish = one_of(static_cast<std::uint16_t>(from.getWish()), "wish of a process",
                   spec::node_wish::leave);
  to.load = load_of(from);
  to.head_epoch = from.getHeadEpoch();
  to.revision = from.getRevision();
  to.who = who(from.getWho());
  to.loads = from.getLoads();
}

void message_reader::state::take(schema::Bulletin::Reader from, bulletin_view& to) {
  to.process = get_id(from.getProcess());
  to.verdict = one_of(static_cast<std::uint16_t>(from.getVerdict()), "verdict of a head",
                      spec::node_verdict::dissolved);
  to.member = from.getMember();
  to.reason = text(from.getReason(), "head's reason", limits::error_text_bytes);
  to.since = from.getSince();
  to.revision = from.getRevision();
  members.clear();
  const auto changed = from.getChanged();
  if (!is_few("members", changed.size(), limits::members)) return;
  members.reserve(changed.size());
  for (const auto one : changed) {
    const auto is = one_of(static_cast<std::uint16_t>(one.getState()), "state of a member",
                           spec::node_state::ended);
    members.push_back({get_id(one.getProcess()), one.getEpoch(), is, load_of(one),
                       text(one.getCause(), "member's end", limits::error_text_bytes),
                       who(one.getWho())});
  }
  to.changed = members;
  to.loads_revision = from.getLoadsRevision();
  to.ends_with_driver = from.getEndsWithDriver();
  shares.clear();
  const auto loads = from.getLoads();
  if (!is_few("loads", loads.size(), limits::members)) return;
  shares.reserve(loads.size());
  for (const auto one : loads) shares.push_back({one.getMember(), load_of(one)});
  to.loads = shares;
}

void message_reader::state::take(schema::ActorEnd::Reader from, actor_end_view& to) {
  to.actor = get_id(from.getActor());
  to.reason = one_of(static_cast<std::uint16_t>(from.getReason()), "reason of an end",
                     end_reason::process_lost);
  to.message = text(from.getMessage(), "end's message", limits::error_text_bytes);
}

void message_reader::state::take(schema::Put::Reader from, put_view& to) {
  to.object = get_id(from.getObject());
  to.owner = get_id(from.getOwner());
  to.is_primary = from.getIsPrimary();
  to.value = payload(from.getValue());
}

void message_reader::state::take(capnp::List<schema::ReferenceChange>::Reader from,
                                 changes_view& to) {
  changes.clear();
  if (!is_few("reference changes", from.size(), limits::changes)) return;
  changes.reserve(from.size());
  for (const auto one : from) {
    const auto kind =
        one_of(static_cast<std::uint16_t>(one.getKind()), "kind of a change", change_kind::release);
    changes.push_back({get_id(one.getObject()), get_id(one.getPeer()), one.getCount(), kind});
  }
  to.changes = changes;
}

void message_reader::state::take(schema::Message::Reader from) {
  message.head = {get_id(from.getRequest()), from.getEpoch(), from.getSending()};
  switch (from.which()) {
    case schema::Message::TASK:
      return take(from.getTask(), message.body.emplace<task_view>());
    case schema::Message::RESULT:
      return take(from.getResult(), message.body.emplace<result_view>());
    case schema::Message::CALL:
      return take(from.getCall(), message.body.emplace<call_view>());
    case schema::Message::PUT:
      return take(from.getPut(), message.body.emplace<put_view>());
    case schema::Message::REFERENCES:
      return take(from.getReferences(), message.body.emplace<changes_view>());
    case schema::Message::SPAWN:
      return take(from.getSpawn(), message.body.emplace<spawn_view>());
    case schema::Message::ACTOR_END:
      return take(from.getActorEnd(), message.body.emplace<actor_end_view>());
    case schema::Message::ASK:
      return take(from.getAsk(), message.body.emplace<ask_view>());
    case schema::Message::ITEM:
      return take(from.getItem(), message.body.emplace<item_view>());
    case schema::Message::FLOW:
      return take(from.getFlow(), message.body.emplace<flow_view>());
    case schema::Message::HEARTBEAT:
      return take(from.getHeartbeat(), message.body.emplace<heartbeat_view>());
    case schema::Message::BULLETIN:
      return take(from.getBulletin(), message.body.emplace<bulletin_view>());
  }
  breach("kind", fmt::format("number {}", static_cast<unsigned>(from.which())), "0 to 11");
}

result<void> message_reader::state::read(bytes_view frame) {
  found = {};
  if (result<void> fine = split_frame(frame, frame_limit, frame_segments); !fine) return fine;
  // An honest message is walked over once, and Cap'n Proto counts pointers from one segment to
  // another beside; what points again and again at one place runs into the limit.
  const std::size_t words = frame.size() / sizeof(capnp::word);
  try {
    frame_reader reader(frame_segments, {2 * words + 64, deepest_nesting});
    take(reader.getRoot<schema::Message>());
  } catch (const kj::Exception& thrown) {
    return error(errc::decode_failed,
                 fmt::format("wire: a frame of {} bytes was to be read and is no message ({}); it "
                             "is dropped: compare the builds of both processes",
                             frame.size(), thrown.getDescription().cStr()));
  }
  if (!found) return std::move(found);
  if (result<void> fine = check(side::reader, message.head); !fine) return fine;
  return std::visit([](const auto& body) { return check(side::reader, body); }, message.body);
}

message_reader::message_reader(std::size_t frame_limit)
    : state_(std::make_unique<state>(frame_limit)) {}
message_reader::~message_reader() = default;

result<const message_view&> message_reader::read(std::span<const std::byte> frame) {
  if (result<void> fine = state_->read(frame); !fine) return fine.error();
  return state_->message;
}

}  // namespace manta::inline v0::wire
