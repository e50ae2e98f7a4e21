// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/history.hpp>

// What the store's values mean: its tables, and the rows that the runtime itself writes, to bytes
// and back.
//
//     table        key                                 value (records.capnp)
//     jobs         job/<time><pid>                     Job
//     functions    functions/<hash of all>             Functions, all of a program in one
//     names        name/<namespace>\0<name>            Name, while the actor lives; where that
//                  name/hash/<hash of both>            is too long for a key
//     events       event/<job>/<number>                Events, up to 1,024 rows in one
//     users'       kv/<key>, topic/<name>\0            what manta::kv wrote
//     ends         ttl/<time><key>                     when a key goes (expiry.hpp)
//     epochs       epoch/last                          the largest that a head has given, 16 digits
//     nodes        node/<name>\0<epoch>                Node            (cluster_rows.hpp)
//     actors       actor/<id>                          Actor           (the same)
//     groups       group/<id>                          Group           (the same)
//     owners       owner/<node>\0<epoch>               Owner           (the same)
//     places       place/<node>\0<epoch>/<id>          Place           (the same)
//     tasks        task/<node>\0<epoch>/<number>       Tasks           (task_table.hpp)
//     calls        call/<actor>/<number>               Calls           (call_log.hpp)
//     checkpoints  checkpoint/<actor>/<number>[/<part>] Checkpoint, bytes (checkpoints.hpp)
//
// Times and numbers in keys are hexadecimal digits, so that their order is the keys'. How many rows
// a table has at most, and what goes then: table.hpp, and where the rows are.
//
// Threads: any. Errors of reading: decode_failed, for bytes that are no such row.

namespace manta::inline v0::control {

/// An event that is about to be written: an event_record whose texts lie elsewhere, or a start with
/// its end.
struct event_row {
  wall_time at{};
  base::id task;
  base::id parent;
  std::string_view name;
  std::string_view text;
  std::uint32_t attempt = 0;
  event_kind kind = event_kind::start;
  std::optional<std::uint32_t> lasted = {};  ///< microseconds until the end
};

namespace keys {
inline constexpr std::string_view jobs = "job/";
inline constexpr std::string_view functions = "functions/";
inline constexpr std::string_view names = "name/";
inline constexpr std::string_view events = "event/";
inline constexpr std::string_view users = "kv/";
inline constexpr std::string_view topics = "topic/";
inline constexpr std::string_view ends = "ttl/";
inline constexpr std::string_view last_epoch = "epoch/last";
inline constexpr std::string_view nodes = "node/";
inline constexpr std::string_view actors = "actor/";
inline constexpr std::string_view groups = "group/";
inline constexpr std::string_view owners = "owner/";
inline constexpr std::string_view places = "place/";
inline constexpr std::string_view tasks = "task/";
inline constexpr std::string_view calls = "call/";
inline constexpr std::string_view checkpoints = "checkpoint/";
inline constexpr std::string_view claims = "claim/";
}  // namespace keys

/// `n` as 16 digits, and the number that digits at the front of a text are: 0 when there are none.
std::string digits(std::uint64_t n);
std::uint64_t number_of(std::string_view text, std::size_t most_digits = 16) noexcept;
/// hash/<128 bits of a hash as digits>, for what is too long for a key.
std::string hash_part(std::string_view text);
/// events/<job>/, and that with a number.
std::string events_of(std::string_view job);
/// Where that would be longer than a key may be, name/hash/<its hash>.
std::string name_key(std::string_view name_space, std::string_view name);

std::string to_bytes(const job_record& row);
/// Of functions.
std::string to_bytes(const std::vector<std::string>& names);
std::string to_bytes(const actor_record& row);
std::string to_bytes(std::span<const event_row> rows);

// `key` names what the bytes belong to, for messages; a row takes its own part of it.
template <class Row>
result<Row> read_row(std::string_view key, std::string_view bytes);
template <>
result<job_record> read_row(std::string_view key, std::string_view bytes);
template <>
result<actor_record> read_row(std::string_view key, std::string_view bytes);
template <>
result<std::vector<std::string>> read_row(std::string_view key, std::string_view bytes);
template <>
result<std::vector<event_record>> read_row(std::string_view key, std::string_view bytes);

}  // namespace manta::inline v0::control
