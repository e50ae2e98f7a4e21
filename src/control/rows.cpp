// SPDX-License-Identifier: Apache-2.0
#include "control/rows.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <unordered_map>

#include <manta/base/id.hpp>

#include "control/row_bytes.hpp"
#include "control/store.hpp"

namespace manta::inline v0::control {

std::string digits(std::uint64_t n) { return fmt::format("{:016x}", n); }

std::uint64_t number_of(std::string_view text, std::size_t most_digits) noexcept {
  std::uint64_t n = 0;
  text = text.substr(0, most_digits);
  std::from_chars(text.data(), text.data() + text.size(), n, 16);
  return n;
}

std::string events_of(std::string_view job) { return fmt::format("{}{}/", keys::events, job); }

std::string hash_part(std::string_view text) {
  base::id hash{text.size(), 0};
  for (std::uint64_t at = 0; at < text.size(); at += sizeof at) {
    std::uint64_t word = 0;
    const std::string_view part = text.substr(at, sizeof word);
    std::memcpy(&word, part.data(), part.size());
    hash = base::derive(hash, at, word);
  }
  return "hash/" + digits(hash.high) + digits(hash.low);
}

namespace {

bool fits_in_key(std::string_view name_space, std::string_view name) noexcept {
  return keys::names.size() + name_space.size() + 1 + name.size() <= limits::key_bytes;
}

}  // namespace

std::string name_key(std::string_view name_space, std::string_view name) {
  std::string pair(name_space);
  pair += '\0';
  pair += name;
  std::string key(keys::names);
  if (fits_in_key(name_space, name)) return key.append(pair);
  return key.append(hash_part(pair));  // no other key of this table is without a zero byte
}

std::string to_bytes(const job_record& row) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<schema::Job>();
  to.setProgram(text(row.program));
  to.setHost(text(row.host));
  to.setPid(row.pid);
  to.setVersion(text(row.version));
  to.setWorkers(row.workers);
  to.setStarted(micros(row.started));
  to.setEnded(row.ended ? micros(*row.ended) : 0);
  to.setTasksRun(row.tasks_run);
  to.setEventsDropped(row.events_dropped);
  to.setFunctions(row.functions);
  return flat(message);
}

template <>
result<job_record> read_row(std::string_view key, std::string_view bytes) {
  return with_message<schema::Job>(key, bytes, [key](schema::Job::Reader from) {
    job_record row;
    row.id = own_part(key, keys::jobs);
    row.program = text(from.getProgram());
    row.host = text(from.getHost());
    row.pid = from.getPid();
    row.version = text(from.getVersion());
    row.workers = from.getWorkers();
    row.started = to_time(from.getStarted());
    if (from.getEnded() != 0) row.ended = to_time(from.getEnded());
    row.tasks_run = from.getTasksRun();
    row.events_dropped = from.getEventsDropped();
    row.functions = from.getFunctions();
    return row;
  });
}

std::string to_bytes(const std::vector<std::string>& names) {
  capnp::MallocMessageBuilder message;
  auto all = message.initRoot<schema::Functions>().initNames(static_cast<unsigned>(names.size()));
  for (unsigned i = 0; i < all.size(); ++i) all.set(i, text(names[i]));
  return flat(message);
}

template <>
result<std::vector<std::string>> read_row(std::string_view key, std::string_view bytes) {
  return with_message<schema::Functions>(key, bytes, [](schema::Functions::Reader from) {
    std::vector<std::string> names;
    names.reserve(from.getNames().size());
    for (const auto one : from.getNames()) names.push_back(text(one));
    return names;
  });
}

std::string to_bytes(const actor_record& row) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<schema::Name>();
  to.setType(text(row.type));
  to.setJob(text(row.job));
  to.setSince(micros(row.since));
  if (!fits_in_key(row.name_space, row.name)) {
    to.setNameSpace(text(row.name_space));
    to.setName(text(row.name));
  }
  return flat(message);
}

template <>
result<actor_record> read_row(std::string_view key, std::string_view bytes) {
  return with_message<schema::Name>(key, bytes, [key](schema::Name::Reader from) {
    actor_record row;
    const std::string_view own = own_part(key, keys::names);
    const std::size_t between = std::min(own.find('\0'), own.size());
    row.name_space = own.substr(0, between);
    row.name = own.substr(std::min(between + 1, own.size()));
    if (from.hasName()) {
      row.name_space = text(from.getNameSpace());
      row.name = text(from.getName());
    }
    row.type = text(from.getType());
    row.job = text(from.getJob());
    row.since = to_time(from.getSince());
    return row;
  });
}

namespace {

constexpr std::uint8_t kind_of_whole = 4;  // a start, and its end

}  // namespace

std::string to_bytes(std::span<const event_row> rows) {
  // Names repeat: each is there once. Those of one function lie in one place, mostly.
  std::unordered_map<std::string_view, std::uint32_t> places;
  std::vector<std::string_view> names;
  std::string_view last;
  std::uint32_t place = 0;
  capnp::MallocMessageBuilder message(static_cast<unsigned>(rows.size()) * 8 + 64);
  auto to = message.initRoot<schema::Events>();
  auto all = to.initAll(static_cast<unsigned>(rows.size()));
  for (unsigned i = 0; i < all.size(); ++i) {
    const event_row& row = rows[i];
    auto one = all[i];
    if (i == 0 || row.name.data() != last.data() || row.name.size() != last.size()) {
      const auto [at, is_new] =
          places.try_emplace(row.name, static_cast<std::uint32_t>(names.size()));
      if (is_new) names.push_back(row.name);
      last = row.name;
      place = at->second;
    }
    one.setAt(micros(row.at));
    one.setKind(row.lasted ? kind_of_whole : static_cast<std::uint8_t>(row.kind));
    one.setLasted(row.lasted.value_or(0));
    one.setAttempt(row.attempt);
    one.setName(place);
    one.setTaskHigh(row.task.high);
    one.setTaskLow(row.task.low);
    one.setParentHigh(row.parent.high);
    one.setParentLow(row.parent.low);
    if (!row.text.empty()) one.setText(text(std::string(row.text)));
  }
  auto list = to.initNames(static_cast<unsigned>(names.size()));
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, text(std::string(names[i])));
  return flat(message);
}

template <>
result<std::vector<event_record>> read_row(std::string_view key, std::string_view bytes) {
  return with_message<schema::Events>(key, bytes, [](schema::Events::Reader from) {
    std::vector<event_record> rows;
    rows.reserve(from.getAll().size());
    const auto names = from.getNames();
    for (const auto one : from.getAll()) {
      event_record row;
      row.at = to_time(one.getAt());
      const bool is_whole = one.getKind() == kind_of_whole;
      row.kind = is_whole ? event_kind::start
                          : static_cast<event_kind>(std::min<std::uint8_t>(one.getKind(), 3));
      row.attempt = one.getAttempt();
      row.task = {one.getTaskHigh(), one.getTaskLow()};
      row.parent = {one.getParentHigh(), one.getParentLow()};
      if (one.getName() < names.size()) row.name = text(names[one.getName()]);
      row.text = text(one.getText());
      rows.push_back(row);
      if (!is_whole) continue;
      row.kind = event_kind::end;
      row.at += std::chrono::microseconds(one.getLasted());
      rows.push_back(std::move(row));
    }
    return rows;
  });
}

}  // namespace manta::inline v0::control
