// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "wire/message.hpp"
#include "wire/show_message.hpp"

// What tests of messages share: messages at random, and frames as bytes that begin at a multiple of
// 64.

namespace wire_test {

namespace wire = manta::wire;
using bytes_view = std::span<const std::byte>;

// Bytes at a multiple of 64, or so many behind one.
class frame {
 public:
  explicit frame(const wire::message_writer& writer, std::size_t behind = 0)
      : frame(writer.size_bytes(), behind) {
    writer.flatten(bytes());
  }
  explicit frame(bytes_view from) : frame(from.size(), 0) {
    if (!from.empty()) std::memcpy(bytes().data(), from.data(), from.size());
  }
  std::span<std::byte> bytes() { return {memory_[0].bytes + behind_, size_}; }
  bytes_view bytes() const { return {memory_[0].bytes + behind_, size_}; }

 private:
  struct alignas(64) line {
    std::byte bytes[64];
  };
  frame(std::size_t size, std::size_t behind)
      : memory_((size + behind) / 64 + 1), size_(size), behind_(behind) {}
  std::vector<line> memory_;
  std::size_t size_;
  std::size_t behind_;
};

// Makes messages and owns what they refer to.
class maker {
 public:
  explicit maker(std::uint64_t seed) : random_(seed) {}

  std::uint64_t number(std::uint64_t low, std::uint64_t high) {
    return std::uniform_int_distribution<std::uint64_t>(low, high)(random_);
  }
  bool coin() { return number(0, 1) == 1; }
  manta::base::id id() { return {number(1, UINT64_MAX), random_()}; }
  std::string_view text(std::size_t least, std::size_t most) {
    std::string& made = texts_.emplace_back(number(least, most), ' ');
    for (char& c : made) c = static_cast<char>(number(0, 255));
    return made;
  }
  bytes_view bytes(std::size_t most) {
    auto& made = blocks_.emplace_back(number(0, most));
    for (std::byte& b : made) b = static_cast<std::byte>(random_());
    return made;
  }

  manta::spec::parcel_view payload() {
    auto& segments = segments_.emplace_back(number(0, 3));
    for (auto& segment : segments) {
      const auto size = static_cast<std::uint32_t>(number(1, 9));
      const bytes_view all = bytes(700);
      segment = {all.first(all.size() / size * size), random_(), size};
      // Some of them begin at odd places.
      if (coin() && segment.bytes.size() > size) segment.bytes = segment.bytes.subspan(size);
    }
    auto& references = references_.emplace_back(number(0, 3));
    for (auto& one : references) {
      one = {id(), id(), random_(), 0, static_cast<manta::spec::reference_kind>(number(0, 10))};
    }
    return {bytes(300), segments, references};
  }

  wire::placement_view placement() {
    wire::placement_view out;
    out.by = static_cast<manta::placement::rule>(number(0, 4));
    out.is_soft = coin();
    if (out.by == manta::placement::rule::node) out.node = text(1, 64);
    if (out.by == manta::placement::rule::group) {
      out.group = random_();
      out.bundle = static_cast<std::int32_t>(number(0, 100)) - 1;
    }
    if (out.by == manta::placement::rule::labels) {
      auto& labels = labels_.emplace_back(number(1, 4));
      for (auto& label : labels) label = {text(1, 64), text(1, 64)};
      out.labels = labels;
    }
    return out;
  }

  std::optional<manta::duration> timeout() {
    if (coin()) return std::nullopt;
    return manta::duration(number(1, INT64_MAX));
  }
  std::uint32_t credits() { return static_cast<std::uint32_t>(number(1, wire::limits::credits)); }

  const wire::options_view* options() {
    if (coin()) return nullptr;
    wire::options_view& out = options_.emplace_back();
    out.cpus = static_cast<std::int64_t>(number(0, 1'000'000'000'000));
    out.gpus = static_cast<std::int64_t>(coin() ? number(0, 999) : 1000 * number(0, 1000));
    out.memory_bytes = static_cast<std::int64_t>(number(0, INT64_MAX));
    out.enforce_memory = coin();
    out.losable = coin();
    out.priority = static_cast<manta::priority>(number(0, 2));
    out.max_retries = static_cast<std::uint32_t>(number(0, wire::limits::count));
    out.retry_filter = {random_(), random_()};
    out.timeout = timeout();
    out.stream_credits = credits();
    out.name = text(0, 1024);
    auto& amounts = amounts_.emplace_back(number(0, 3));
    for (auto& one : amounts) {
      one = {text(1, 64), static_cast<std::int64_t>(number(1, 1'000'000'000'000))};
    }
    out.resources = amounts;
    out.where = placement();
    return &out;
  }

  wire::task_view task() {
    return {id(),      id(),       random_(),     {random_(), random_()},
            id(),      number32(), text(0, 1024), options(),
            payload(), gpus()};
  }
  wire::call_view call() {
    return {id(),      number(0, 9), id(),          number(1, 99), {random_(), random_()},
            timeout(), credits(),    text(0, 1024), text(0, 1024), payload(),
            id(),      random_()};
  }
  wire::spawn_view spawn() {
    auto& groups = groups_.emplace_back(number(0, 4));
    for (auto& one : groups) {
      one = {text(0, 1024), static_cast<std::uint32_t>(number(1, wire::limits::group_limit))};
    }
    wire::spawn_view out{id(), id(), random_(), {random_(), random_()}, text(1, 1024), options()};
    out.name_space = text(0, 1024);
    out.groups = groups;
    out.mailbox_cap = number32();
    out.refuses_when_full = coin();
    out.max_restarts = static_cast<std::uint32_t>(number(0, wire::limits::count));
    out.arguments = payload();
    out.reserves = out.options != nullptr && !out.options->name.empty() && coin();
    out.may_exist = coin();
    out.gpus = gpus();
    return out;
  }
  std::span<const int> gpus() {
    return gpus_.emplace_back(number(0, 4), static_cast<int>(number(0, wire::limits::gpu_index)));
  }
  wire::ask_view ask() { return {wire::question(number(0, 12)), {bytes(300), {}, {}}}; }
  wire::flow_view flow() {
    return {random_(), static_cast<std::uint32_t>(number(1, wire::limits::credits))};
  }
  wire::actor_end_view actor_end() {
    return {id(), static_cast<manta::end_reason>(number(0, 5)), text(0, 4096)};
  }
  wire::introduction_view who() {
    return {text(1, 64),
            text(0, 1024),
            text(0, 1024),
            number32(),
            static_cast<manta::spec::node_role>(number(0, 3)),
            random_(),
            number32(),
            number32(),
            random_(),
            text(0, 2000),
            text(0, 2000),
            random_(),
            text(0, 1024)};
  }
  manta::spec::node_load load() {
    return {number32(), number32(), manta::duration(number(0, std::uint64_t{1} << 62U))};
  }
  wire::heartbeat_view heartbeat() {
    return {id(),      static_cast<manta::spec::node_wish>(number(0, 2)),
            load(),    random_(),
            random_(), who(),
            random_()};
  }
  wire::bulletin_view bulletin() {
    auto& list = members_.emplace_back(number(0, 5));
    for (auto& one : list) {
      one = {id(),
             number(1, UINT64_MAX - 1),
             static_cast<manta::spec::node_state>(number(0, 3)),
             load(),
             text(0, 4096),
             who()};
    }
    auto& loads = shares_.emplace_back(number(0, 5));
    for (auto& one : loads) one = {number(1, UINT64_MAX - 1), load()};
    const std::uint64_t revision = random_();
    return {id(),
            static_cast<manta::spec::node_verdict>(number(0, 4)),
            random_(),
            text(0, 4096),
            number(0, revision),
            revision,
            list,
            random_(),
            number(0, 1) == 1,
            loads};
  }
  wire::put_view put() { return {id(), id(), coin(), payload()}; }

  wire::error_view failed() {
    auto& chain = causes_.emplace_back(number(1, 16));
    for (auto& cause : chain) {
      cause.code = static_cast<manta::errc>(number(0, 23));
      cause.message = text(0, 200);
      cause.has_failure = coin();
      if (!cause.has_failure) continue;
      cause.attempt = static_cast<std::int32_t>(number(0, INT32_MAX));
      cause.type_name = text(0, 200);
      cause.text = text(0, 4096);
      cause.function = text(0, 200);
      cause.node = text(0, 200);
    }
    return {chain};
  }

  wire::result_view done() {
    wire::result_view out;
    out.task = id();
    out.attempt = number32();
    out.execution = random_();
    out.ran = manta::duration(number(0, INT64_MAX));
    out.may_repeat = number(0, 1) == 1;
    out.back = static_cast<wire::result_view::sent_back>(number(0, 3));
    const auto kind = number(0, 3);
    if (kind == 0) out.outcome = payload();
    if (kind == 1) out.outcome = failed();
    if (kind == 2) out.outcome = wire::held_view{id(), random_()};
    if (kind == 3) out.outcome = wire::alias_view{id()};
    return out;
  }

  wire::changes_view changes() {
    auto& list = changes_.emplace_back(number(0, 5));
    for (auto& one : list) {
      one = {id(), id(), static_cast<std::uint32_t>(number(1, wire::limits::count)),
             static_cast<wire::change_kind>(number(0, 2))};
    }
    return {list};
  }

  wire::message_view message() {
    const wire::envelope head{id(), random_(), number32()};
    const auto kind = number(0, 11);
    if (kind == 0) return {head, task()};
    if (kind == 1) return {head, done()};
    if (kind == 2) return {head, call()};
    if (kind == 3) return {head, put()};
    if (kind == 4) return {head, spawn()};
    if (kind == 5) return {head, actor_end()};
    if (kind == 6) return {head, ask()};
    if (kind == 7) return {head, wire::item_view{payload()}};
    if (kind == 8) return {head, flow()};
    if (kind == 9) return {head, heartbeat()};
    if (kind == 10) return {head, bulletin()};
    return {head, changes()};
  }

 private:
  std::uint32_t number32() { return static_cast<std::uint32_t>(random_()); }

  std::mt19937_64 random_;
  std::deque<std::string> texts_;
  std::deque<std::vector<std::byte>> blocks_;
  std::deque<std::vector<manta::spec::segment_view>> segments_;
  std::deque<std::vector<manta::spec::reference>> references_;
  std::deque<std::vector<wire::label_view>> labels_;
  std::deque<std::vector<wire::amount_view>> amounts_;
  std::deque<std::vector<wire::cause_view>> causes_;
  std::deque<std::vector<wire::member_view>> members_;
  std::deque<std::vector<manta::spec::node_share>> shares_;
  std::deque<std::vector<wire::reference_change>> changes_;
  std::deque<std::vector<wire::group_view>> groups_;
  std::deque<wire::options_view> options_;
  std::deque<std::vector<int>> gpus_;
};

inline manta::result<void> write(wire::message_writer& writer, const wire::message_view& message) {
  return std::visit([&](const auto& body) { return writer.write(message.head, body); },
                    message.body);
}

// Messages with nothing in them but what must be.
inline constexpr wire::envelope head{{1, 2}, 3, 4};

inline wire::task_view small_task() {
  wire::task_view task;
  task.id = {5, 6};
  return task;
}

inline wire::result_view small_result() {
  wire::result_view done;
  done.task = {5, 6};
  return done;
}

inline wire::call_view small_call() {
  wire::call_view call;
  call.actor = {5, 6};
  call.caller = {7, 8};
  call.call_number = 1;
  return call;
}

inline wire::spawn_view small_spawn() {
  wire::spawn_view spawn;
  spawn.actor = {5, 6};
  spawn.type_name = "t";
  return spawn;
}

template <class Body>
frame written(const Body& body) {
  wire::message_writer writer;
  const auto out = writer.write(head, body);
  if (!out) FAIL(out.error().message());
  return frame(writer);
}

inline std::string refused_to_read(bytes_view bytes) {
  wire::message_reader reader;
  const auto out = reader.read(bytes);
  if (out) return "accepted";
  CHECK(out.error().code() == manta::errc::decode_failed);
  return out.error().message();
}

}  // namespace wire_test
