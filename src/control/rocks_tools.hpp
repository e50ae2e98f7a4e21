// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "control/store.hpp"

// What can be done to a folder of open_rocks_store's from outside: looked through, copied while it
// is written, put back, saved when it is damaged.
//
// A copy of a store that another process writes
//   RocksDB has no way: its lock refuses a second writer, and a reader beside a writer is undefined
//   by its own words: a log that is deleted between the reading of the manifest and of the logs is
//   a hole that nobody sees. So the files are taken as a killed process would leave them:
//
//     1. the tables are linked, so that nothing can delete them (on another disk: copied);
//     2. the logs are opened: what is deleted now can still be read, and all of it is older than
//     3. the manifest, which is copied now; then the tables that were new in it;
//     4. the logs' bytes are copied; the last one may end within a record, as after a crash;
//     5. the copy is opened and checked. If a table is missing that the manifest names, it was
//        deleted between 1 and 3, and all is done again.
//
//   Why no batch is missing between two that are there: a log is deleted after the manifest says
//   that its records are in tables, so a log that 2 did not find is in the tables of 3; and a log
//   made after 2 has only later batches, of which none is taken.
//
// All that is made (a copy, what was saved) is made beside its place under a name that ends in
// ".partial" and renamed when it is whole. Threads: any; one at a time on one folder.

namespace manta::inline v0::control {

/// What a store's folder has in it.
struct store_facts {
  std::string format;
  std::string cluster;
  revision at = 0;            ///< the last one
  std::uint64_t records = 0;  ///< all were read
  std::uint64_t bytes = 0;    ///< of keys and values
  std::size_t tables = 0;     ///< files
  std::size_t logs = 0;       ///< files
};

/// Reads all of it: every block's checksum, the log, every record. Refuses a folder that a process
/// has open, since what it reads may be deleted meanwhile; back that one up and check the copy.
result<store_facts> check_rocks_store(const std::string& path);

/// Gives every record whose key begins with `prefix` to `sink`, in the order of keys, until it
/// answers false. Refuses as check_rocks_store does.
result<void> dump_rocks_store(const std::string& path, const std::string& prefix,
                              const std::function<bool(const record&)>& sink);

/// Copies the store to `to`, a folder that is not there or empty; another process may have it open
/// and write it. All that was answered before the call is in the copy, which was checked. Tables
/// are the same files where both folders are on one disk: they never change.
result<store_facts> backup_rocks_store(const std::string& path, const std::string& to);

/// Copies a backup to `to`, a folder that is not there or empty, and shares no file with it.
result<store_facts> restore_rocks_store(const std::string& backup, const std::string& to);

/// What repair_rocks_store found.
struct repair_report {
  store_facts saved;
  std::uint64_t malformed = 0;       ///< records that no store wrote
  std::vector<std::string> damages;  ///< what could not be read, in RocksDB's words
  bool is_cluster_guessed = false;   ///< its name was not readable
};

/// Saves what can be read of a damaged store in `to`, a folder that is not there or empty; `path`
/// stays as it is. Records keep their keys and revisions. What can't be read is missing, and keys
/// whose deletion can't be read may be there again. New batches get revisions that no lost one
/// had. `cluster`: the name that it gets if its own can't be read.
result<repair_report> repair_rocks_store(const std::string& path, const std::string& to,
                                         const std::string& cluster = "local");

}  // namespace manta::inline v0::control
