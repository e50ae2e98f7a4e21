// SPDX-License-Identifier: Apache-2.0
#include "control/checkpoints.hpp"

#include <algorithm>
#include <utility>

#include "control/ask.hpp"
#include "control/cluster_rows.hpp"
#include "control/row_bytes.hpp"

namespace manta::inline v0::control {

namespace {

constexpr std::size_t bytes_of_a_part = std::size_t{4} << 20U;
constexpr std::size_t parts_of_a_batch = 8;
constexpr std::size_t most_bytes = std::size_t{1} << 30U;

// checkpoint/<actor>/<number>, and behind it /<part>
std::string prefix_of(const base::id& actor) {
  return std::string(keys::checkpoints) + digits(actor) + '/';
}
std::string part_key(const std::string& row, std::uint64_t part) {
  return row + '/' + digits(part);
}

struct named {
  checkpoint_row what;
  std::uint64_t bytes = 0;
  std::uint32_t parts = 0;
};

std::string to_bytes(const named& row) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<schema::Checkpoint>();
  to.setIncarnation(row.what.incarnation);
  to.setExecution(row.what.execution);
  to.setAt(micros(row.what.at));
  to.setBytes(row.bytes);
  to.setParts(row.parts);
  return flat(message);
}

result<named> read_named(const std::string& key, const std::string& bytes) {
  return with_message<schema::Checkpoint>(key, bytes, [](schema::Checkpoint::Reader from) {
    named row;
    row.what = {from.getIncarnation(), from.getExecution(), to_time(from.getAt())};
    row.bytes = from.getBytes();
    row.parts = from.getParts();
    return row;
  });
}

// The row's key, which is shorter than its parts'.
bool is_row(const std::string& key, const std::string& prefix) {
  return key.size() == prefix.size() + digits(0).size();
}

// All keys with a prefix, without their values at once.
result<std::vector<std::string>> keys_with(store& in, const std::string& prefix) {
  std::vector<std::string> keys;
  range next{.prefix = prefix, .most = parts_of_a_batch};
  for (;;) {
    const auto got = answer_of<page>([&](answer<page> then) { in.scan(next, std::move(then)); });
    if (!got) return got.error();
    for (const record& one : got->records) keys.push_back(one.key);
    if (!got->has_more) return keys;
    next.after = keys.back();
  }
}

// None: it has gone meanwhile, since a newer one is there.
result<std::optional<kept_checkpoint>> read_state(store& in, const std::string& key) {
  const auto found = read_one(in, key);
  if (!found) return found.error();
  if (!*found) return std::optional<kept_checkpoint>();
  const result<named> row = read_named(key, (*found)->value);
  if (!row) return row.error();
  std::string state;
  for (std::uint64_t part = 0; part < row->parts; ++part) {
    const auto got = read_one(in, part_key(key, part));
    if (!got) return got.error();
    if (*got) state += (*got)->value;
  }
  if (state.size() == row->bytes)
    return std::optional(kept_checkpoint{row->what, std::move(state)});
  const auto again = read_one(in, key);
  if (!again) return again.error();
  if (!*again) return std::optional<kept_checkpoint>();
  return error(errc::decode_failed,
               fmt::format("control: the state {} has {} bytes, its row says {}; it is damaged",
                           key, state.size(), row->bytes));
}

}  // namespace

checkpoints::checkpoints(const base::id& actor) : prefix_(prefix_of(actor)) {}

result<void> checkpoints::load(store& in) {
  auto found = keys_with(in, prefix_);
  if (!found) return found.error();
  const std::vector<std::string> keys = *std::move(found);
  whole_.clear();
  unfinished_.clear();
  next_ = 0;
  if (keys.empty()) return {};
  next_ = number_of(own_part(keys.back(), prefix_));
  ++next_;
  const auto row = std::find_if(keys.rbegin(), keys.rend(),
                                [this](const std::string& key) { return is_row(key, prefix_); });
  for (const std::string& key : keys) {
    const bool is_whole = row != keys.rend() && key.starts_with(*row);
    (is_whole ? whole_ : unfinished_).push_back(key);
  }
  return {};
}

result<std::vector<batch>> checkpoints::write(const checkpoint_row& what, std::string_view state) {
  if (state.size() > most_bytes) {
    return error(errc::invalid_argument,
                 fmt::format("control: asked to keep an actor's state of {} bytes, allowed are {}",
                             state.size(), most_bytes));
  }
  const std::string row = prefix_ + digits(next_++);
  const std::vector<std::string> older = std::exchange(whole_, {row});
  std::vector<batch> out(1);
  for (const std::string& key : unfinished_) out[0].changes.push_back({change::kind::del, key, {}});
  unfinished_.clear();
  std::uint32_t parts = 0;
  for (std::size_t at = 0; at < state.size(); at += bytes_of_a_part, ++parts) {
    if (parts != 0 && parts % parts_of_a_batch == 0) out.emplace_back();
    whole_.push_back(part_key(row, parts));
    out.back().changes.push_back(
        {change::kind::put, whole_.back(), std::string(state.substr(at, bytes_of_a_part))});
  }
  batch& last = out.back();
  last.how = durability::durable;
  last.changes.push_back({change::kind::put, row, to_bytes(named{what, state.size(), parts})});
  for (const std::string& key : older) last.changes.push_back({change::kind::del, key, {}});
  return out;
}

result<std::optional<kept_checkpoint>> read_checkpoint(store& in, const base::id& actor) {
  const std::string prefix = prefix_of(actor);
  for (;;) {
    const auto keys = keys_with(in, prefix);
    if (!keys) return keys.error();
    // What comes after the last row are parts of a state that is not finished.
    const auto row = std::find_if(keys->rbegin(), keys->rend(),
                                  [&](const std::string& key) { return is_row(key, prefix); });
    if (row == keys->rend()) return std::optional<kept_checkpoint>();
    auto state = read_state(in, *row);
    if (!state) return state.error();
    if (*state) return state;
  }
}

}  // namespace manta::inline v0::control
