// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/spec/error.hpp>

// Small facts that outlive who wrote them: the interface that every backend has.
//
// Problem. Jobs, actors, names, owners, lineage and events have to be found again after the process
// that knew them is gone, in memory for tests, on disk, later on other machines; and whoever writes
// them must not wait.
//
// Idea. Keys and values are bytes, in one order. Every change is a batch: conditions, then puts and
// deletions, all or nothing. A batch that was applied has a revision, one more than the batch
// before it; a record has that of the batch that wrote it, and a key that is not there has
// revision 0. So
//
//     put, del               a batch of one change
//     compare-and-swap       a batch with a condition on the key: its revision is still r
//     create                 the same with r = 0
//     get, multi_get         read
//     publish                any change; who watches the key's prefix is told
//
// Contract, which test/control/contract_test.cpp asks of every backend
// 1. A batch is applied whole or not at all, for readers, for watchers and after a crash.
// 2. Batches of one thread take effect in its order. What was answered is seen by every read that
//    begins afterwards.
// 3. How durable a batch is, it says itself. After a crash the store is as it was after some batch:
//    no earlier one is missing, and every one that was answered as durable is there.
// 4. Every answer is given once, on any thread, maybe before the call returns, with no lock held:
//    it may call the store. It must neither block nor throw.
// 5. A read, or a page of a scan, is of one moment: of the revision that it tells.
// 6. A watcher gets the changes after its revision in order, each once, or is told that it has
//    missed some; but for batches that say they are not watched.
// 7. After close every call is answered with errc::cancelled.
//
// Limits: below; what breaks one is answered with errc::invalid_argument, what finds no room with
// errc::store_full, and nothing of it is applied.
//
// Threads: any, all calls.

namespace manta::inline v0::control {

namespace limits {
inline constexpr std::size_t key_bytes = 1024;                       ///< 1 at least
inline constexpr std::size_t value_bytes = std::size_t{16} << 20U;   ///< 0 at least
inline constexpr std::size_t batch_changes = 65536;                  ///< 1 at least
inline constexpr std::size_t batch_conditions = 65536;               ///< 0 at least
inline constexpr std::size_t batch_bytes = std::size_t{64} << 20U;   ///< keys and values together
inline constexpr std::size_t read_keys = 65536;                      ///< of one read
inline constexpr std::size_t read_bytes = std::size_t{64} << 20U;    ///< of what one read finds
inline constexpr std::size_t page_records = 65536;                   ///< of one page; 1 at least
inline constexpr std::size_t page_bytes = std::size_t{16} << 20U;    ///< one record may be more
inline constexpr std::size_t taken_events = 65536;                   ///< of one take; 1 at least
inline constexpr std::size_t history_events = 65536;                 ///< kept for watchers
inline constexpr std::size_t history_bytes = std::size_t{8} << 20U;  ///< the same
}  // namespace limits

/// Number of an applied batch; the first is 1.
using revision = std::uint64_t;

/// When a batch is answered.
enum class durability : std::uint8_t {
  buffered,    ///< when it can be read; a crash may lose it and what came after it
  durable,     ///< when it is on the disk
  replicated,  ///< when other machines have it; errc::unsupported where there are none
};

/// What a batch does to one key.
struct change {
  enum class kind : std::uint8_t { put, del };
  kind what = kind::put;
  std::string key;
  std::string value = {};  ///< of a put
};

/// The batch is applied only if `key` was written last by batch `at`; 0: if it is not there.
struct condition {
  std::string key;
  revision at = 0;
};

/// What is applied together. Of several changes of one key the last one stands.
struct batch {
  std::vector<condition> conditions = {};
  std::vector<change> changes = {};
  durability how = durability::buffered;
  /// Watchers hear of it. False: rows that nobody watches, and so many that the history would have
  /// room for nothing else.
  bool is_watched = true;
};

/// What became of a batch.
struct outcome {
  revision at = 0;  ///< of the batch; 0 when a condition did not hold
  /// The first condition that did not hold, and what was found instead.
  struct conflict {
    std::size_t condition = 0;
    revision found = 0;
  };
  std::optional<conflict> refused = std::nullopt;
};

/// A key with its value.
struct record {
  std::string key;
  std::string value;
  revision at = 0;  ///< of the batch that wrote it
};

/// The records that a read asked for, in its order; none for keys that are not there.
struct found {
  std::vector<std::optional<record>> records;
  revision at = 0;  ///< of the moment
};

/// Which records a page has: those with the prefix whose keys come after `after`, in the order of
/// keys, `most` of them and about page_bytes.
struct range {
  std::string prefix = {};
  std::string after = {};
  std::size_t most = 1000;
};

/// A page of a scan.
struct page {
  std::vector<record> records;
  bool has_more = false;  ///< ask again after the last key
  revision at = 0;        ///< of the moment
};

/// A change that was applied.
struct event {
  revision at = 0;
  change what;
};

/// What a watcher has for its owner.
struct taken {
  std::vector<event> events;
  bool has_more = false;
  /// Some were dropped before they were taken, or before the watch began. Nothing more comes: scan,
  /// and watch from the revision of the page.
  bool has_gap = false;
};

/// Sees the changes of all keys with a prefix. Ends with its destructor, which waits for a bell
/// that rings. One thread at a time.
class watcher {
 public:
  watcher() = default;
  watcher(const watcher&) = delete;
  watcher& operator=(const watcher&) = delete;
  virtual ~watcher() = default;
  /// The next `most` changes at most, oldest first. Copies keys and values.
  virtual taken take(std::size_t most) = 0;
};

/// How much a store has.
struct usage {
  std::uint64_t records = 0;  ///< exact in memory, an estimate on disk
  std::uint64_t bytes = 0;    ///< keys and values; on disk, of the files
  revision at = 0;            ///< the last one
};

template <class T>
using answer = std::function<void(result<T>)>;

class store {
 public:
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  /// Closes it.
  virtual ~store() = default;

  virtual void commit(batch what, answer<outcome> then) = 0;
  virtual void read(std::vector<std::string> keys, answer<found> then) = 0;
  virtual void scan(range of, answer<page> then) = 0;
  /// Changes of keys that begin with `prefix`, after revision `from`. `bell` rings when there is
  /// something for who had taken all; as an answer, and it must not end the watcher.
  virtual result<std::unique_ptr<watcher>> watch(std::string prefix, revision from,
                                                 std::function<void()> bell) = 0;
  virtual usage measure() const = 0;
  /// Returns when all that was called before is answered and what was buffered is on the disk.
  virtual result<void> close() = 0;
};

/// In this process and gone with it: durable is as much as buffered. `most_bytes`: keys, values and
/// 64 bytes for each record.
std::unique_ptr<store> make_memory_store(std::size_t most_bytes = std::size_t{256} << 20U);

struct rocks_options {
  /// The folder; made when it is not there.
  std::string path;
  /// Whose it is: written down when the folder is made, asked for afterwards.
  std::string cluster = "local";
  /// For what is not on the disk yet and what was read from it, about; 8 MiB at least.
  std::size_t memory_bytes = std::size_t{64} << 20U;
};

/// On a disk, by RocksDB; the log of what is not in its tables yet takes 64 MiB at most. One
/// process at a time. A log that ends within a record is the end of a crash and loses what was not
/// answered as durable; all else that is damaged is errc::storage_failed, as are a folder of
/// another cluster or of a newer version, one that another process has, and one that can't be
/// written.
result<std::unique_ptr<store>> open_rocks_store(const rocks_options& how);

}  // namespace manta::inline v0::control
