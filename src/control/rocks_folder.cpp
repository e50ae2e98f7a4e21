// SPDX-License-Identifier: Apache-2.0
#include "control/rocks_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <rocksdb/env.h>
#include <unistd.h>

#include "spec/texts.hpp"

namespace manta::inline v0::control {

namespace fs = std::filesystem;

namespace {

// On the disk, whatever happens next. RocksDB has synced its own files; copies it knows nothing of.
result<void> sync(const fs::path& what) {
  const int file = ::open(what.c_str(), O_RDONLY | O_CLOEXEC);
  const bool good = file >= 0 && ::fsync(file) == 0;
  const int why = errno;
  if (file >= 0) ::close(file);
  if (good) return {};
  return refused(what.string(), fmt::format("can't bring it to the disk: {}; see that the disk "
                                            "is sound and has room",
                                            std::strerror(why)));
}

bool is_table_or_log(const fs::path& name) {
  const std::string number = name.stem().string();
  return (name.extension() == ".sst" || name.extension() == ".log") && !number.empty() &&
         number.find_first_not_of("0123456789") == std::string::npos;
}

// What a store leaves that had no file CURRENT yet when its process ended, or lost what it had, and
// what a disk has in its root. Hidden files are of who mounts, copies and keeps folders.
bool may_lie_there(const std::string& name) {
  for (const std::string_view begin : {".", "LOG", "MANIFEST-", "OPTIONS-"}) {
    if (name.starts_with(begin)) return true;
  }
  for (const std::string_view whole :
       {"LOCK", "IDENTITY", "room", "archive", "lost", "lost+found"}) {
    if (name == whole) return true;
  }
  return name.ends_with(".dbtmp");
}

// Who opens a pipe waits until somebody writes to it, and what a device gives may have no end. Of
// names that RocksDB opens: what others lie there, as a socket of somebody's, is no matter.
bool is_stream(const fs::directory_entry& one) {
  const fs::path name = one.path().filename();
  const bool is_opened = is_table_or_log(name) || name == "CURRENT" ||
                         (may_lie_there(name.string()) && !name.string().starts_with('.'));
  if (!is_opened) return false;
  std::error_code failed;
  const fs::file_type kind = one.status(failed).type();
  return kind == fs::file_type::fifo || kind == fs::file_type::socket ||
         kind == fs::file_type::character || kind == fs::file_type::block;
}

error refused_stream(const std::string& path, const std::string& name) {
  return refused(path, fmt::format("\"{}\" lies there, which is a pipe, a socket or a device; "
                                   "remove it, or name another folder",
                                   spec::shown(name)));
}

}  // namespace

result<void> check_may_begin(const std::string& path) {
  std::error_code failed;
  std::string other;
  bool has_part = false;
  bool has_store = false;
  for (fs::directory_iterator at(path, failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    const fs::path name = at->path().filename();
    if (is_stream(*at)) return refused_stream(path, name.string());
    if (name == "CURRENT") has_store = true;
    if (is_table_or_log(name)) {
      has_part = true;
    } else if (!may_lie_there(name.string())) {
      other = name.string();
    }
  }
  if (has_store) return {};
  if (has_part) return damaged(path, "its file CURRENT is missing");
  if (other.empty()) return {};  // nor where it can't be read, of which RocksDB tells
  return refused(path,
                 fmt::format("\"{}\" lies there, which is of no store; name a folder that has "
                             "one, is empty or is not there yet",
                             spec::shown(other)));
}

result<folder_listing> folder_listing::of_any(const std::string& path) {
  folder_listing out;
  std::error_code failed;
  for (fs::directory_iterator at(path, failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    std::string name = at->path().filename().string();
    if (is_stream(*at)) return refused_stream(path, name);
    if (is_table_or_log(name)) {
      (name.ends_with(".sst") ? out.tables : out.logs).push_back(std::move(name));
    } else if (name.starts_with("MANIFEST-")) {
      out.manifests.push_back(std::move(name));
    } else if (name == "CURRENT") {
      out.has_current = true;
    }
  }
  if (failed) {
    return refused(path, fmt::format("can't read the folder: {}; name the folder of a store",
                                     failed.message()));
  }
  for (auto* const names : {&out.tables, &out.logs, &out.manifests}) {
    std::sort(names->begin(), names->end());
  }
  return out;
}

result<folder_listing> folder_listing::of(const std::string& path) {
  result<folder_listing> all = of_any(path);
  if (!all || all->has_current) return all;
  if (all->tables.empty() && all->logs.empty()) {
    return refused(path, "there is no store in it; name the folder of one");
  }
  return damaged(path, "its file CURRENT is missing");
}

result<folder_lock> folder_lock::take(const std::string& path) {
  rocksdb::FileLock* held = nullptr;
  if (::access(path.c_str(), W_OK) != 0) return folder_lock(held);
  const rocksdb::Status status = rocksdb::Env::Default()->LockFile(path + "/LOCK", &held);
  if (status.ok()) return folder_lock(held);
  return refused(path,
                 "a process has it open; end that one, or copy the store with `manta control "
                 "backup` and use the copy");
}

folder_lock::folder_lock(folder_lock&& other) noexcept
    : held_(std::exchange(other.held_, nullptr)) {}

folder_lock::~folder_lock() {
  if (held_ != nullptr) static_cast<void>(rocksdb::Env::Default()->UnlockFile(held_));
}

new_folder::new_folder(std::string place, std::string path)
    : place_(std::move(place)), path_(std::move(path)) {}

new_folder::new_folder(new_folder&& other) noexcept
    : place_(std::move(other.place_)), path_(std::exchange(other.path_, {})) {}

new_folder::~new_folder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

result<new_folder> new_folder::at(const std::string& place) {
  if (place.empty()) return refused("\"\"", "asked for an empty path; name a folder");
  std::error_code failed;
  if (fs::exists(place, failed) &&
      !(fs::is_directory(place, failed) && fs::is_empty(place, failed))) {
    return refused(place,
                   "it is to be made anew and something lies there; name a folder that is "
                   "not there, or an empty one");
  }
  fs::path beside = fs::absolute(place, failed).lexically_normal();
  if (!beside.has_filename()) beside = beside.parent_path();  // "name/"
  const std::string path = beside.string() + ".partial";
  if (!failed) fs::create_directories(beside.parent_path(), failed);
  if (failed || !fs::create_directory(path, failed)) {
    return refused(place, fmt::format("can't make {}: {}; remove what an earlier run left there, "
                                      "or name another place",
                                      path, failed ? failed.message() : "it is there already"));
  }
  return new_folder(beside.string(), path);
}

result<void> new_folder::finish() {
  std::error_code failed;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(path_, failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    files.push_back(at->path());
  }
  files.emplace_back(path_);
  for (const fs::path& one : files) {
    if (result<void> good = sync(one); !good) return good;
  }
  fs::rename(path_, place_, failed);
  if (failed) return refused(place_, fmt::format("can't rename {}: {}", path_, failed.message()));
  path_.clear();
  return sync(fs::path(place_).parent_path());
}

error about_source(const error& why, const std::string& copy, const std::string& path) {
  std::string said = why.message();
  for (auto at = said.find(copy); at != std::string::npos; at = said.find(copy, at + path.size())) {
    said.replace(at, copy.size(), path);
  }
  return {why.code(), said};
}

}  // namespace manta::inline v0::control
