// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "control/rocks_folder.hpp"

// How rocks_tools.hpp says a store is copied while it is written.

namespace manta::inline v0::control {

namespace fs = std::filesystem;

namespace {

// A table that the manifest names is gone only if a compaction ended within the few system calls
// between listing and linking; on another disk, within the time that one table's copy takes.
constexpr int most_attempts = 50;

struct open_log {
  std::string name;
  std::ifstream bytes;
};

/// One attempt: copies into a folder that may have tables of the attempt before.
class moment_copy {
 public:
  moment_copy(fs::path from, fs::path to) : from_(std::move(from)), to_(std::move(to)) {}
  /// False when a file went away meanwhile.
  result<bool> take();

 private:
  result<bool> hold_logs();
  result<bool> take_tables();
  result<bool> take_manifest();
  result<bool> take_logs();
  error failed(const std::string& name, const std::string& why) const;

  const fs::path from_;
  const fs::path to_;
  std::vector<open_log> logs_;
};

error moment_copy::failed(const std::string& name, const std::string& why) const {
  return refused(from_.string(), fmt::format("can't copy {} to {}: {}; see that the disk has room",
                                             name, to_.string(), why));
}

result<bool> moment_copy::take() {
  // The second look at the logs is the first one's proof: what both lists have was there between.
  using step = result<bool> (moment_copy::*)();
  for (const step next :
       {&moment_copy::take_tables, &moment_copy::hold_logs, &moment_copy::take_manifest,
        &moment_copy::take_tables, &moment_copy::take_logs}) {
    result<bool> done = (this->*next)();
    if (!done || !*done) return done;
  }
  return true;
}

result<bool> moment_copy::hold_logs() {
  const result<folder_listing> first = folder_listing::of(from_.string());
  const result<folder_listing> second = folder_listing::of(from_.string());
  if (!first) return first.error();
  if (!second) return second.error();
  if (first->logs != second->logs) return false;
  for (const std::string& name : second->logs) {
    logs_.push_back({name, std::ifstream(from_ / name, std::ios::binary)});
    if (!logs_.back().bytes) return false;
  }
  return true;
}

result<bool> moment_copy::take_tables() {
  const result<folder_listing> listed = folder_listing::of(from_.string());
  if (!listed) return listed.error();
  for (const std::string& name : listed->tables) {
    std::error_code why;
    const auto whole = fs::file_size(from_ / name, why);
    if (why) continue;  // deleted; what was taken of it before stays
    if (whole == fs::file_size(to_ / name, why)) continue;
    fs::remove(to_ / name, why);
    fs::create_hard_link(from_ / name, to_ / name, why);
    if (why) fs::copy_file(from_ / name, to_ / name, why);
    if (why && why != std::errc::no_such_file_or_directory) return failed(name, why.message());
  }
  return true;
}

result<bool> moment_copy::take_manifest() {
  std::ifstream current(from_ / "CURRENT", std::ios::binary);
  std::string name;
  if (!std::getline(current, name)) return false;
  std::ofstream(to_ / "CURRENT", std::ios::binary) << name << '\n';
  std::ifstream from(from_ / name, std::ios::binary);
  if (!from) return false;
  std::ofstream to(to_ / name, std::ios::binary);
  to << from.rdbuf();
  if (!to.flush()) return failed(name, "not all bytes were written");
  return true;
}

result<bool> moment_copy::take_logs() {
  for (open_log& one : logs_) {
    std::ofstream to(to_ / one.name, std::ios::binary);
    if (one.bytes.peek() != std::ifstream::traits_type::eof()) to << one.bytes.rdbuf();
    if (!to.flush()) return failed(one.name, "not all bytes were written");
  }
  return true;
}

// Leaves tables, which an attempt after this one need not copy again.
void remove_all_but_tables(const std::string& path) {
  std::error_code ignored;
  for (const auto& one : fs::directory_iterator(path, ignored)) {
    if (one.path().extension() != ".sst") fs::remove(one.path(), ignored);
  }
}

// A table beside those of the manifest is a danger where it is a link: a store that is opened here
// may make one of that number, and would write over the one that both have.
void remove_other_tables(rocks_files& files, const std::string& path) {
  std::vector<rocksdb::LiveFileMetaData> named;
  files.db->GetLiveFilesMetaData(&named);
  std::error_code ignored;
  for (const auto& one : fs::directory_iterator(path, ignored)) {
    if (one.path().extension() != ".sst") continue;
    std::string name = "/";  // as RocksDB names it; added to, since GCC 12 warns of a sum
    name += one.path().filename().string();
    const bool is_named = std::any_of(named.begin(), named.end(),
                                      [&name](const auto& table) { return table.name == name; });
    if (!is_named) fs::remove(one.path(), ignored);
  }
}

result<store_facts> check_copy(const std::string& path) {
  result<rocks_files> files = rocks_files::open_existing(path, access::read_only);
  if (!files) return files.error();
  rocks_files store = *std::move(files);
  remove_other_tables(store, path);
  return look_through(store, path);
}

}  // namespace

result<store_facts> backup_rocks_store(const std::string& path, const std::string& to) {
  if (const auto listed = folder_listing::of(path); !listed) return listed.error();
  result<new_folder> place = new_folder::at(to);
  if (!place) return place.error();
  new_folder made = *std::move(place);
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const result<folder_listing> before = folder_listing::of(path);
    remove_all_but_tables(made.path());
    const result<bool> taken = moment_copy(path, made.path()).take();
    if (!taken) return taken.error();
    if (!*taken) continue;
    result<store_facts> facts = check_copy(made.path());
    if (facts) {
      if (result<void> good = made.finish(); !good) return good.error();
      return facts;
    }
    const result<folder_listing> after = folder_listing::of(path);
    if (!before || !after || *before == *after)
      return about_source(facts.error(), made.path(), path);
  }
  return refused(path,
                 fmt::format("asked for a copy, its files changed in each of {} attempts; try "
                             "when less is written",
                             most_attempts));
}

result<store_facts> restore_rocks_store(const std::string& backup, const std::string& to) {
  const result<store_facts> good = check_rocks_store(backup);
  if (!good) return good.error();
  const result<folder_lock> lock = folder_lock::take(backup);
  if (!lock) return lock.error();
  const result<folder_listing> listed = folder_listing::of(backup);
  if (!listed) return listed.error();
  result<new_folder> place = new_folder::at(to);
  if (!place) return place.error();
  new_folder made = *std::move(place);
  std::vector<std::string> names = {"CURRENT"};
  for (const auto* const some : {&listed->tables, &listed->logs, &listed->manifests}) {
    names.insert(names.end(), some->begin(), some->end());
  }
  for (const std::string& name : names) {
    std::error_code why;
    fs::copy_file(fs::path(backup) / name, fs::path(made.path()) / name, why);
    if (why) return refused(to, fmt::format("can't copy {}: {}", name, why.message()));
  }
  result<store_facts> facts = look_through(made.path());
  if (!facts) return facts.error();
  if (result<void> done = made.finish(); !done) return done.error();
  return facts;
}

}  // namespace manta::inline v0::control
