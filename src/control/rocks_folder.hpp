// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "control/rocks_files.hpp"
#include "control/rocks_tools.hpp"

// A store's folder as files, for rocks_tools.hpp: what lies in it, who has it, how one is made.

namespace manta::inline v0::control {

/// The names of the files that make a store, each list sorted.
struct folder_listing {
  std::vector<std::string> tables;
  std::vector<std::string> logs;
  std::vector<std::string> manifests;
  bool has_current = false;

  /// Says what is missing for a store, or that there is none.
  static result<folder_listing> of(const std::string& path);
  /// The same, and an empty list for a folder without files of a store.
  static result<folder_listing> of_any(const std::string& path);
  bool operator==(const folder_listing&) const = default;
};

/// Keeps other processes from opening the store. None is needed where nobody can write.
class folder_lock {
 public:
  static result<folder_lock> take(const std::string& path);
  folder_lock(folder_lock&& other) noexcept;
  folder_lock& operator=(folder_lock&&) = delete;
  ~folder_lock();

 private:
  explicit folder_lock(rocksdb::FileLock* held) : held_(held) {}
  rocksdb::FileLock* held_;
};

/// A folder that gets its name when it is whole, and is removed if it never is.
class new_folder {
 public:
  /// Refuses a place where something lies.
  static result<new_folder> at(const std::string& place);
  new_folder(new_folder&& other) noexcept;
  new_folder& operator=(new_folder&&) = delete;
  ~new_folder();
  const std::string& path() const noexcept { return path_; }
  /// Its files are on the disk then.
  result<void> finish();

 private:
  new_folder(std::string place, std::string path);
  std::string place_;
  std::string path_;  // empty: finished, or moved from
};

/// What is wrong with a copy is wrong with what it was made of.
error about_source(const error& why, const std::string& copy, const std::string& path);

/// Refuses a folder in which no store is, and one can't begin: where a store has lost its file
/// CURRENT, RocksDB would make a new one and remove the tables; where files of others lie, the path
/// is wrong.
result<void> check_may_begin(const std::string& path);
/// Refuses a manifest of which RocksDB would pass over a part.
result<void> check_manifest(const std::string& path);
/// Refuses a table whose end RocksDB would believe, and is not as ours are.
result<void> check_footers(const std::string& path);
/// Writes what is known of the ends of tables over them; the names of those that were different.
std::vector<std::string> mend_footers(const std::string& path);

/// Opens read-only, counts, and verifies: the work of check_rocks_store without its lock.
result<store_facts> look_through(const std::string& path);
/// The same with the folder opened already.
result<store_facts> look_through(rocks_files& files, const std::string& path);
/// Records one by one. Stops with the first that can't be read.
result<void> each_record(rocks_files& files, const std::string& path, const std::string& prefix,
                         const std::function<bool(const record&)>& sink);
/// False for what no store writes: an empty or too long key, no revision.
bool is_well_formed(const record& one) noexcept;

}  // namespace manta::inline v0::control
