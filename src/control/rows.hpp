// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/history.hpp>

// What the store's values mean: the rows of its tables, to bytes and back.
//
//     table      key                                  value (records.capnp)
//     jobs       job/<time><pid>                      Job
//     functions  functions/<hash of all>              Functions, all of a program in one
//     actors     actor/<namespace>\0<name>            Actor, while it lives
//     events     event/<job>/<number>                 Events, up to 1,024 in one
//     users'     kv/<key>, topic/<name>\0             what manta::kv wrote
//
// Times and numbers in keys are hexadecimal digits, so that their order is the keys'.
//
// Threads: any. Errors of reading: decode_failed, for bytes that are no such row.

namespace manta::inline v0::control {

/// An event that is about to be written: an event_record whose texts lie elsewhere.
struct event_row {
  wall_time at{};
  base::id task;
  base::id parent;
  std::string_view name;
  std::string_view text;
  std::uint32_t attempt = 0;
  event_kind kind = event_kind::start;
};

namespace keys {
inline constexpr std::string_view jobs = "job/";
inline constexpr std::string_view functions = "functions/";
inline constexpr std::string_view actors = "actor/";
inline constexpr std::string_view events = "event/";
inline constexpr std::string_view users = "kv/";
inline constexpr std::string_view topics = "topic/";
}  // namespace keys

/// `n` as 16 digits.
std::string digits(std::uint64_t n);
/// events/<job>/, and that with a number.
std::string events_of(std::string_view job);
std::string actor_key(std::string_view name_space, std::string_view name);

std::string to_bytes(const job_record& row);
/// Of functions.
std::string to_bytes(const std::vector<std::string>& names);
std::string to_bytes(const actor_record& row);
std::string to_bytes(std::span<const event_row> rows);

// `key` names what the bytes belong to, for messages; a row takes its own part of it.
result<job_record> read_job(std::string_view key, std::string_view bytes);
result<std::vector<std::string>> read_functions(std::string_view key, std::string_view bytes);
result<actor_record> read_actor(std::string_view key, std::string_view bytes);
result<std::vector<event_record>> read_events(std::string_view key, std::string_view bytes);

}  // namespace manta::inline v0::control
