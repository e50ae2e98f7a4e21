// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <control/records.capnp.h>
#include <fmt/format.h>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/history.hpp>

#include "control/store.hpp"

// How rows become the messages of records.capnp, for the sources that have rows.

namespace manta::inline v0::control {

namespace schema = manta_control_schema;

inline std::uint64_t micros(wall_time at) noexcept {
  return static_cast<std::uint64_t>(at.time_since_epoch().count());
}
inline wall_time to_time(std::uint64_t us) noexcept {
  return wall_time(std::chrono::microseconds(static_cast<std::int64_t>(us)));
}

inline kj::StringPtr text(const std::string& from) { return {from.c_str(), from.size()}; }
inline std::string text(capnp::Text::Reader from) { return {from.cStr(), from.size()}; }

inline std::string flat(capnp::MallocMessageBuilder& message) {
  const auto segments = message.getSegmentsForOutput();
  std::string out(capnp::computeSerializedSizeInWords(segments) * sizeof(capnp::word), '\0');
  kj::ArrayOutputStream to({reinterpret_cast<kj::byte*>(out.data()), out.size()});
  capnp::writeMessage(to, segments);
  return out;
}

// Calls `read` with the message in `bytes`.
template <class Row, class Read>
auto with_message(std::string_view key, std::string_view bytes, Read read)
    -> result<decltype(read(std::declval<typename Row::Reader>()))> {
  try {
    // A value lies anywhere in memory, a message begins at a word.
    const std::size_t words = bytes.size() / sizeof(capnp::word);
    auto aligned = kj::heapArray<capnp::word>(words);
    if (words != 0) std::memcpy(aligned.asBytes().begin(), bytes.data(), aligned.asBytes().size());
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = std::max<std::uint64_t>(64 * words, 1024);
    capnp::FlatArrayMessageReader message(aligned, limits);
    return read(message.getRoot<Row>());
  } catch (const kj::Exception& wrong) {
    return error(
        errc::decode_failed,
        fmt::format("control: the record {} can't be read ({}); it is damaged or of a newer "
                    "version of manta",
                    key, wrong.getDescription().cStr()));
  }
}

inline kj::ArrayPtr<const kj::byte> data(const std::string& from) {
  return {reinterpret_cast<const kj::byte*>(from.data()), from.size()};
}
inline std::string data(capnp::Data::Reader from) {
  return {reinterpret_cast<const char*>(from.begin()), from.size()};
}

// The part of a key after its table's name.
inline std::string_view own_part(std::string_view key, std::string_view table) {
  return key.substr(std::min(key.size(), table.size()));
}

// Adds a change to the last of some batches, or to a new one when that would be too large. `bytes`
// counts the last one's, `most` is what one has.
inline void add_change(std::vector<batch>& to, std::size_t& bytes, change what,
                       std::size_t most = limits::batch_bytes / 2) {
  const std::size_t more = what.key.size() + what.value.size();
  if (to.empty() || bytes + more > most || to.back().changes.size() == limits::batch_changes) {
    to.emplace_back();
    bytes = 0;
  }
  bytes += more;
  to.back().changes.push_back(std::move(what));
}

}  // namespace manta::inline v0::control
