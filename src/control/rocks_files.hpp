// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/wal_filter.h>

#include "control/store.hpp"

// A folder of RocksDB's as the control store has it: how it is opened, what it says about itself,
// and how its records look.
//
//     family   key        value
//     default  the key    revision, 8 bytes little-endian, then the value
//     manta    format     "1"
//     manta    cluster    whose it is
//     manta    revision   of the last batch, 8 bytes; written with every batch

namespace manta::inline v0::control {

/// How a folder is opened by what is not the store itself.
enum class access {
  read_only,  ///< changes nothing in the folder
  salvage,    ///< passes over what is damaged; for a copy, since it writes
};

/// No change in the log has a later number.
inline constexpr rocksdb::SequenceNumber all_changes =
    std::numeric_limits<rocksdb::SequenceNumber>::max();

/// An open folder. The families belong to the database.
struct rocks_files {
  std::unique_ptr<rocksdb::WalFilter> filter;  // the database's, which does not own it
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::ColumnFamilyHandle* records = nullptr;
  rocksdb::ColumnFamilyHandle* about = nullptr;
  revision at = 0;
  std::string format;
  std::string cluster;

  rocks_files(rocksdb::DB* opened, const std::vector<rocksdb::ColumnFamilyHandle*>& families);
  rocks_files(rocks_files&&) noexcept = default;
  rocks_files& operator=(rocks_files&& other) noexcept;
  ~rocks_files();

  /// See open_rocks_store. `on`: whose files they are, for tests; null for the machine's. `last`:
  /// of the changes in the log, those that RocksDB has given a later number are dropped.
  static result<rocks_files> open(const rocks_options& how, rocksdb::Env* on = nullptr,
                                  rocksdb::SequenceNumber last = all_changes);
  /// Any cluster's store, which must be there. Nobody else may write it meanwhile.
  static result<rocks_files> open_existing(const std::string& path, access how,
                                           rocksdb::Env* on = nullptr,
                                           rocksdb::SequenceNumber last = all_changes);
  /// Whether the folder could be written, and has room for what is in memory.
  rocksdb::Status check_room(const std::string& path) const;
  /// Gives up the families and closes the database.
  rocksdb::Status close();
};

/// The store of rocks_options on files that a test makes fail.
result<std::unique_ptr<store>> open_rocks_store(const rocks_options& how, rocksdb::Env* on);

/// Has RocksDB make a store of the files that it can read, in place.
rocksdb::Status rebuild(const std::string& path);
/// errc::storage_failed about a store's folder.
error refused(const std::string& path, const std::string& why);
/// The same, with the ways out.
error damaged(const std::string& path, const std::string& how);

/// What RocksDB says, in our words: no room is errc::store_full, all else errc::storage_failed.
error to_error(const rocksdb::Status& status, const std::string& path);

/// A record of the default family. Shorter than a revision: revision 0, which nothing has.
record to_record(std::string key, std::string_view stored);
std::string bytes_of_revision(revision at);
/// 0 when there are not 8 bytes.
revision revision_of_bytes(std::string_view bytes) noexcept;

inline constexpr std::size_t revision_bytes = 8;
inline constexpr std::string_view revision_key = "revision";

}  // namespace manta::inline v0::control
