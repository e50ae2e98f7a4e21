// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <manta/future.hpp>
#include <manta/node/kept_value.hpp>
#include <manta/node/kv_bytes.hpp>
#include <manta/object.hpp>
#include <manta/pending.hpp>
#include <manta/travel.hpp>

// manta::kv: small facts under keys, kept in the control store (the setting `control`): in memory
// for as long as the runtime, or in a folder, where a later run finds them. In an isolated worker
// each call is a question to its node; in one worker at most 65,536 of them with 64 MiB may be
// without an answer, and 1,024 watches open: beyond it store_full.

namespace manta::inline v0::kv {

/// Names a write: grows with each write of the store, whoever makes it; 0 is before the first.
using revision = std::uint64_t;

/// A value that was found.
template <class T>
struct entry {
  std::string key;  ///< as it was given to put
  T value;          ///< what was written last
  revision at = 0;  ///< by this write
};

/// What happened to a key.
enum class change_kind : std::uint8_t {
  put,     ///< it was written
  erased,  ///< it was erased
  missed,  ///< changes came faster than they were taken, and some are gone: read what there is now
};

/// A change that a watch tells.
template <class T>
struct change {
  change_kind kind = change_kind::put;  ///< what happened
  std::string key;                      ///< to this key; empty for missed
  std::optional<T> value;               ///< of a put
  revision at = 0;                      ///< by this write
};

/// How a write is made.
struct write_options {
  /// The future is ready when the write is on the disk, and a crash can't lose it: an fsync, shared
  /// by the writes of its moment. Else it is ready when the write can be read. In memory there is
  /// no difference.
  bool durable = false;
  /// How long the value is kept: 1 ms to 10 years of the time of day. Then it is erased, which
  /// watchers see, within about 50 ms (later when very many end at once), or when the next runtime
  /// opens the folder. Another write of the key ends that. None: until it is erased.
  std::optional<std::chrono::milliseconds> ttl = std::nullopt;
};

}  // namespace manta::inline v0::kv

namespace manta::inline v0::detail {

/// An answer that pays a future with what `make` makes of it.
template <class T, class From, class Make>
node::kv_answer<From> paying(future<T>& out, Make make) {
  exec::executor::require();
  auto owed = std::make_shared<promise<T>>(out);
  return [owed, make = std::move(make)](result<From> got) {
    if (!got) {
      owed->fail(got.error());
      return;
    }
    try {
      owed->set(make(*std::move(got)));
    } catch (...) {
      owed->fail(describe_current_exception("manta::kv"));
    }
  };
}

template <class T>
kv::change<T> typed_change(node::kv_change&& from) {
  kv::change<T> out{static_cast<kv::change_kind>(from.what), std::move(from.of.key), std::nullopt,
                    from.of.revision};
  if (out.kind == kv::change_kind::put) {
    out.value.emplace(node::read_kept<T>(from.of.value, out.key));
  }
  return out;
}

inline future<kv::revision> write_kv(node::kv_write what) {
  future<kv::revision> out;
  node::kv_commit(std::move(what),
                  paying<kv::revision, std::uint64_t>(out, [](std::uint64_t at) { return at; }));
  return out;
}

}  // namespace manta::inline v0::detail

namespace manta::inline v0::kv {

/// Writes `value` under `key`, 1 to 1,000 bytes of anything. Types as for remote calls, without
/// handles (futures, actors); at most 16 MiB. Gives the write's revision. Throws invalid_argument,
/// encode_failed, no_runtime; the future: store_full, storage_failed. Any thread. About 1 us in
/// memory, 4 us in a folder.
template <class T>
future<revision> put(std::string key, const T& value, write_options how = {}) {
  using kept = detail::put_t<T>;
  static_assert(detail::check_travel<kept>());
  node::check_key("kv::put", key);
  node::check_ttl("kv::put", how.ttl);
  return detail::write_kv({.key = std::move(key),
                           .value = node::keep_value<kept>(value),
                           .at = std::nullopt,
                           .is_durable = how.durable,
                           .ttl = how.ttl});
}

/// What was written under `key`; nothing when nothing was, or it was erased. The future fails with
/// decode_failed when it was written as another type. Else as put.
template <class T>
future<std::optional<entry<T>>> get(const std::string& key) {
  node::check_key("kv::get", key);
  future<std::optional<entry<T>>> out;
  node::kv_read(key,
                detail::paying<std::optional<entry<T>>, std::optional<node::kv_record>>(
                    out, [](std::optional<node::kv_record> found) {
                      std::optional<entry<T>> made;
                      if (found) {
                        T value = node::read_kept<T>(found->value, found->key);
                        made = entry<T>{std::move(found->key), std::move(value), found->revision};
                      }
                      return made;
                    }));
  return out;
}

/// Compare and swap: writes `value` if `key` was written last by `expected`; 0: if it is not there.
/// Nothing when that did not hold: get it again, and decide anew. Else as put.
template <class T>
future<std::optional<revision>> cas(std::string key, revision expected, const T& value,
                                    write_options how = {}) {
  using kept = detail::put_t<T>;
  static_assert(detail::check_travel<kept>());
  node::check_key("kv::cas", key);
  node::check_ttl("kv::cas", how.ttl);
  future<std::optional<revision>> out;
  node::kv_commit({.key = std::move(key),
                   .value = node::keep_value<kept>(value),
                   .at = expected,
                   .is_durable = how.durable,
                   .ttl = how.ttl},
                  detail::paying<std::optional<revision>, std::uint64_t>(out, [](std::uint64_t at) {
                    return at == 0 ? std::nullopt : std::optional<revision>(at);
                  }));
  return out;
}

/// Erases what is under `key`, if anything is; `ttl` means nothing here. Else as put.
inline future<revision> erase(std::string key, write_options how = {}) {
  node::check_key("kv::erase", key);
  return detail::write_kv({.key = std::move(key),
                           .value = std::nullopt,
                           .at = std::nullopt,
                           .is_durable = how.durable,
                           .ttl = std::nullopt});
}

/// What is under the keys that begin with `prefix` and come after the key `after`, in their order:
/// at most `most`, 1 to 65,536, and 16 MiB; the last one's key is where the next call goes on. Else
/// as get.
template <class T>
future<std::vector<entry<T>>> list(const std::string& prefix, const std::string& after = {},
                                   std::size_t most = 1000) {
  node::check_key("kv::list", prefix, true);
  future<std::vector<entry<T>>> out;
  node::kv_list(prefix, after, most,
                detail::paying<std::vector<entry<T>>, std::vector<node::kv_record>>(
                    out, [](std::vector<node::kv_record> found) {
                      std::vector<entry<T>> made;
                      made.reserve(found.size());
                      for (node::kv_record& one : found) {
                        T value = node::read_kept<T>(one.value, one.key);
                        made.push_back({std::move(one.key), std::move(value), one.revision});
                      }
                      return made;
                    }));
  return out;
}

/// Changes as they happen. Handles are copied; together they take each change once. Any thread.
template <class T>
class watcher {
 public:
  /// The next change, in the order of writes; several may be asked for. It fails with cancelled
  /// when the last handle goes or the runtime ends, with decode_failed when another type was
  /// written. About 8 MiB of changes wait to be taken; beyond it some are missed, and said to be.
  future<change<T>> next() {
    future<change<T>> out;
    of_.next(detail::paying<change<T>, node::kv_change>(
        out, [](node::kv_change got) { return detail::typed_change<T>(std::move(got)); }));
    return out;
  }

 private:
  template <class U>
  friend watcher<U> watch(const std::string& prefix, std::optional<revision> after);
  template <class U>
  friend watcher<U> subscribe(const std::string& topic);

  explicit watcher(node::kv_watch of) : of_(std::move(of)) {}

  node::kv_watch of_;
};

/// Watches the keys that begin with `prefix`: what is written after the revision `after`, or from
/// now on. Throws invalid_argument, no_runtime.
template <class T>
watcher<T> watch(const std::string& prefix, std::optional<revision> after = std::nullopt) {
  node::check_key("kv::watch", prefix, true);
  return watcher<T>(node::kv_watch(node::kv_part::values, prefix, after));
}

/// Tells all who have subscribed to `topic`. Else as put.
template <class T>
future<revision> publish(std::string topic, const T& value, write_options how = {}) {
  using kept = detail::put_t<T>;
  static_assert(detail::check_travel<kept>());
  node::check_key("kv::publish", topic);
  node::check_ttl("kv::publish", how.ttl);
  return detail::write_kv({.part = node::kv_part::topics,
                           .key = std::move(topic),
                           .value = node::keep_value<kept>(value),
                           .at = std::nullopt,
                           .is_durable = how.durable,
                           .ttl = how.ttl});
}

/// Hears what is published under `topic` from now on. Throws invalid_argument, no_runtime.
template <class T>
watcher<T> subscribe(const std::string& topic) {
  node::check_key("kv::subscribe", topic);
  return watcher<T>(node::kv_watch(node::kv_part::topics, topic, std::nullopt));
}

}  // namespace manta::inline v0::kv
