// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/spec/error.hpp>

// What manta::kv (kv.hpp) does, without types: keys and values are bytes of the control store.
//
// Answers come once, on any thread, maybe before the call returns; they must not block or throw.
// Threads: any.

namespace manta::inline v0::node {

/// Which part of the store: values under keys, or the last word on topics.
enum class kv_part : std::uint8_t { values, topics };

/// A write. `at`: only if the key was written last by this revision; 0: only if it is not there.
struct kv_write {
  kv_part part = kv_part::values;
  std::string key;
  std::optional<std::string> value;  ///< none: erase
  std::optional<std::uint64_t> at;
  bool is_durable = false;
  std::optional<std::chrono::milliseconds> ttl = std::nullopt;  ///< how long it is kept
};

struct kv_record {
  std::string key;
  std::string value;
  std::uint64_t revision = 0;
};

/// A change that a watcher is told.
struct kv_change {
  enum class kind : std::uint8_t { put, erased, missed };
  kind what = kind::put;
  kv_record of;
};

template <class T>
using kv_answer = std::function<void(result<T>)>;

/// Throws invalid_argument for a key that is empty, or longer than 1,000 bytes; `what` names the
/// call.
MANTA_API void check_key(const char* what, const std::string& key, bool may_be_empty = false);

/// Throws invalid_argument for a time that is below 1 ms or beyond 10 years.
MANTA_API void check_ttl(const char* what, std::optional<std::chrono::milliseconds> ttl);

/// Answers the write's revision; 0 when `at` did not hold.
MANTA_API void kv_commit(kv_write what, kv_answer<std::uint64_t> then);
MANTA_API void kv_read(const std::string& key, kv_answer<std::optional<kv_record>> then);
/// Those with the prefix after the key `after` (empty: from the first), in the order of keys, at
/// most `most` (1 to 65,536) and 16 MiB.
MANTA_API void kv_list(const std::string& prefix, const std::string& after, std::size_t most,
                       kv_answer<std::vector<kv_record>> then);

/// Changes of keys with a prefix, or of one topic.
class MANTA_API kv_watch {
 public:
  /// Of what comes after `from`; none: after now. Throws no_runtime, what the store says.
  kv_watch(kv_part part, const std::string& prefix, std::optional<std::uint64_t> from);
  /// Asks for the next change; in the order of calls. Fails with cancelled when the watch or the
  /// runtime ends first.
  void next(kv_answer<kv_change> then);

 private:
  struct state;
  struct owner;
  std::shared_ptr<owner> owner_;
};

}  // namespace manta::inline v0::node
