// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include "exec/support.hpp"

// Real files whose disk may be full, and whose machine may die: between two operations, with all
// that was not synced at the mercy of chance.
//
// What is remembered of a file: how much was written and how much of that was synced, and whether
// its folder was synced after it was made. `lose_unsynced` then cuts each file somewhere between
// the two, or removes it. Renames and deletions are kept: a file system has them in its journal, in
// order, so that a rename keeps all entries made before it.
//
// Threads: any.

namespace test_control {

class fault_files final : public rocksdb::FileSystemWrapper {
 public:
  fault_files() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "fault_files"; }

  /// The next `more` operations that change something are the last ones. Not before a crash.
  void crash_after(std::size_t more);
  bool is_crashed() const;
  /// Works again, with what survived the crash. Nobody may have a file open.
  void lose_unsynced(manta_test::dice& d);
  /// A full disk takes half of what is written to it and says so.
  void set_room(bool has_room);
  /// While it holds, what RocksDB does to write a table waits: it begins with syncing the log.
  void hold_tables(bool is_held);
  /// A disk that takes what is written and fails to sync.
  void fail_syncs(bool is_failing);
  /// A disk that says it has synced and has not: for tests of the tests.
  void set_sync(bool is_done);

  // What RocksDB calls.
  using status = rocksdb::IOStatus;
  using context = rocksdb::IODebugContext*;
  using options = const rocksdb::IOOptions&;
  status NewWritableFile(const std::string& name, const rocksdb::FileOptions& how,
                         std::unique_ptr<rocksdb::FSWritableFile>* made, context at) override;
  status ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& how,
                            std::unique_ptr<rocksdb::FSWritableFile>* made, context at) override;
  status NewDirectory(const std::string& name, options how,
                      std::unique_ptr<rocksdb::FSDirectory>* made, context at) override;
  status DeleteFile(const std::string& name, options how, context at) override;
  status RenameFile(const std::string& from, const std::string& to, options how,
                    context at) override;
  status LinkFile(const std::string& from, const std::string& to, options how, context at) override;
  status Truncate(const std::string& name, std::size_t size, options how, context at) override;
  status GetFreeSpace(const std::string& path, options how, std::uint64_t* free,
                      context at) override;

 private:
  class file;
  class directory;
  struct state {
    std::uint64_t written = 0;
    std::uint64_t synced = 0;
    bool has_entry = false;
  };

  /// What every operation that changes something asks first.
  status may_go_on();
  bool has_room() const;
  void wait_while_held();
  bool is_sync_failing() const;
  void wrote(const std::string& name, std::uint64_t bytes);
  std::uint64_t written(const std::string& name) const;
  void synced(const std::string& name, std::uint64_t bytes);
  void entries_synced(const std::string& folder);

  mutable std::mutex mutex_;
  std::map<std::string, state> files_;
  std::size_t left_ = std::numeric_limits<std::size_t>::max();
  bool has_room_ = true;
  bool is_sync_done_ = true;
  bool is_held_ = false;
  bool is_sync_failing_ = false;
  std::condition_variable released_;
};

/// RocksDB's view of such files. It sleeps a second after each failure in the background; here it
/// need not.
class fault_env final : public rocksdb::EnvWrapper {
 public:
  explicit fault_env(const std::shared_ptr<fault_files>& files)
      : EnvWrapper(rocksdb::NewCompositeEnv(files)) {
    file_system_ = files;
    system_clock_ = std::make_shared<impatient>();
  }
  const char* Name() const override { return "fault_env"; }

 private:
  struct impatient final : rocksdb::SystemClockWrapper {
    impatient() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
    const char* Name() const override { return "impatient"; }
    void SleepForMicroseconds(int) override { std::this_thread::yield(); }
  };
};

class fault_files::file final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  file(fault_files& of, std::string name, std::unique_ptr<rocksdb::FSWritableFile>&& real)
      : FSWritableFileOwnerWrapper(std::move(real)), of_(of), name_(std::move(name)) {}

  // A dead machine says nothing: what is written to a file of it is lost without an error. RocksDB
  // 7.8 with assertions, as Debian builds it, ends the process when it syncs a log in the
  // background whose last write or sync failed.
  status Append(const rocksdb::Slice& data, options how, context at) override {
    if (!of_.may_go_on().ok()) return status::OK();
    const bool has_room = of_.has_room();
    const rocksdb::Slice part(data.data(), has_room ? data.size() : data.size() / 2);
    status done = target()->Append(part, how, at);
    if (done.ok()) of_.wrote(name_, part.size());
    writer_ = std::this_thread::get_id();
    return has_room ? done : status::NoSpace("the test's disk is full");
  }
  status Append(const rocksdb::Slice& data, options how, const rocksdb::DataVerificationInfo&,
                context at) override {
    return Append(data, how, at);
  }
  status Truncate(std::uint64_t size, options how, context at) override {
    if (!of_.may_go_on().ok()) return status::OK();
    return target()->Truncate(size, how, at);
  }
  status Sync(options, context) override { return sync(); }
  status Fsync(options, context) override { return sync(); }

 private:
  // The real disk is not asked: the machine that dies is the test's.
  status sync() {
    if (std::this_thread::get_id() != writer_) of_.wait_while_held();
    const bool is_alive = of_.may_go_on().ok();
    if (of_.is_sync_failing()) return status::IOError("the test's disk fails to sync");
    if (!is_alive) return status::OK();
    of_.synced(name_, of_.written(name_));
    return status::OK();
  }

  fault_files& of_;
  const std::string name_;
  std::atomic<std::thread::id> writer_;
};

class fault_files::directory final : public rocksdb::FSDirectoryWrapper {
 public:
  directory(fault_files& of, std::string name, std::unique_ptr<rocksdb::FSDirectory>&& real)
      : FSDirectoryWrapper(std::move(real)), of_(of), name_(std::move(name)) {}

  status Fsync(options, context) override {
    if (status good = of_.may_go_on(); !good.ok()) return good;
    of_.entries_synced(name_);
    return status::OK();
  }
  status FsyncWithDirOptions(options how, context at, const rocksdb::DirFsyncOptions&) override {
    return Fsync(how, at);
  }

 private:
  fault_files& of_;
  const std::string name_;
};

inline void fault_files::crash_after(std::size_t more) {
  const std::lock_guard lock(mutex_);
  left_ = more;
}

inline bool fault_files::is_crashed() const {
  const std::lock_guard lock(mutex_);
  return left_ == 0;
}

inline void fault_files::set_room(bool has_room) {
  const std::lock_guard lock(mutex_);
  has_room_ = has_room;
}

inline void fault_files::hold_tables(bool is_held) {
  const std::lock_guard lock(mutex_);
  is_held_ = is_held;
  released_.notify_all();
}

inline void fault_files::fail_syncs(bool is_failing) {
  const std::lock_guard lock(mutex_);
  is_sync_failing_ = is_failing;
}

inline bool fault_files::is_sync_failing() const {
  const std::lock_guard lock(mutex_);
  return is_sync_failing_;
}

inline void fault_files::wait_while_held() {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [this] { return !is_held_; });
}

inline void fault_files::set_sync(bool is_done) {
  const std::lock_guard lock(mutex_);
  is_sync_done_ = is_done;
}

inline bool fault_files::has_room() const {
  const std::lock_guard lock(mutex_);
  return has_room_;
}

inline fault_files::status fault_files::may_go_on() {
  const std::lock_guard lock(mutex_);
  if (left_ == 0) return status::IOError("the test's machine died");
  if (left_ != std::numeric_limits<std::size_t>::max()) --left_;
  return status::OK();
}

inline void fault_files::wrote(const std::string& name, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  files_[name].written += bytes;
}

inline std::uint64_t fault_files::written(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto at = files_.find(name);
  return at == files_.end() ? 0 : at->second.written;
}

inline void fault_files::synced(const std::string& name, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!is_sync_done_) return;
  const auto at = files_.find(name);
  if (at != files_.end()) at->second.synced = bytes;
}

inline void fault_files::entries_synced(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, one] : files_) {
    if (std::filesystem::path(name).parent_path() == folder) one.has_entry = true;
  }
}

inline void fault_files::lose_unsynced(manta_test::dice& d) {
  const std::lock_guard lock(mutex_);
  left_ = std::numeric_limits<std::size_t>::max();
  // All of it, none of it, or each file's own part: pages reach a disk in any order.
  const std::size_t way = d.below(3);
  for (const auto& [name, one] : files_) {
    std::error_code gone;
    if (!std::filesystem::exists(name, gone) || way == 0) continue;
    const std::uint64_t loose = one.written - one.synced;
    const std::uint64_t kept = one.synced + (way == 1 || loose == 0 ? 0 : d.below(loose + 1));
    if (!one.has_entry && (way == 1 || d.one_in(2))) {
      std::filesystem::remove(name, gone);
    } else if (kept < one.written) {
      std::filesystem::resize_file(name, kept, gone);
    }
  }
  files_.clear();  // what is there now is on the disk
}

inline fault_files::status fault_files::NewWritableFile(
    const std::string& name, const rocksdb::FileOptions& how,
    std::unique_ptr<rocksdb::FSWritableFile>* made, context at) {
  if (status good = may_go_on(); !good.ok()) return good;
  if (!has_room()) return status::NoSpace("the test's disk is full");
  std::unique_ptr<rocksdb::FSWritableFile> real;
  status done = target()->NewWritableFile(name, how, &real, at);
  if (!done.ok()) return done;
  const std::lock_guard lock(mutex_);
  files_[name] = {};
  *made = std::make_unique<file>(*this, name, std::move(real));
  return done;
}

inline fault_files::status fault_files::ReopenWritableFile(
    const std::string& name, const rocksdb::FileOptions& how,
    std::unique_ptr<rocksdb::FSWritableFile>* made, context at) {
  if (status good = may_go_on(); !good.ok()) return good;
  std::unique_ptr<rocksdb::FSWritableFile> real;
  status done = target()->ReopenWritableFile(name, how, &real, at);
  if (!done.ok()) return done;
  std::error_code none;
  const std::uintmax_t size = std::filesystem::file_size(name, none);
  const std::lock_guard lock(mutex_);
  if (!files_.contains(name)) files_[name] = {size, size, true};
  *made = std::make_unique<file>(*this, name, std::move(real));
  return done;
}

inline fault_files::status fault_files::NewDirectory(const std::string& name, options how,
                                                     std::unique_ptr<rocksdb::FSDirectory>* made,
                                                     context at) {
  std::unique_ptr<rocksdb::FSDirectory> real;
  status done = target()->NewDirectory(name, how, &real, at);
  if (done.ok()) *made = std::make_unique<directory>(*this, name, std::move(real));
  return done;
}

inline fault_files::status fault_files::DeleteFile(const std::string& name, options how,
                                                   context at) {
  if (status good = may_go_on(); !good.ok()) return good;
  status done = target()->DeleteFile(name, how, at);
  const std::lock_guard lock(mutex_);
  if (done.ok()) files_.erase(name);
  return done;
}

inline fault_files::status fault_files::RenameFile(const std::string& from, const std::string& to,
                                                   options how, context at) {
  if (status good = may_go_on(); !good.ok()) return good;
  status done = target()->RenameFile(from, to, how, at);
  if (!done.ok()) return done;
  const std::lock_guard lock(mutex_);
  const auto moved = files_.find(from);
  if (moved == files_.end()) return done;
  const state was = moved->second;
  files_.erase(moved);
  files_[to] = was;
  for (auto& [name, one] : files_) one.has_entry = true;
  return done;
}

inline fault_files::status fault_files::LinkFile(const std::string& from, const std::string& to,
                                                 options how, context at) {
  if (status good = may_go_on(); !good.ok()) return good;
  return target()->LinkFile(from, to, how, at);
}

inline fault_files::status fault_files::Truncate(const std::string& name, std::size_t size,
                                                 options how, context at) {
  if (status good = may_go_on(); !good.ok()) return good;
  return target()->Truncate(name, size, how, at);
}

inline fault_files::status fault_files::GetFreeSpace(const std::string& path, options how,
                                                     std::uint64_t* free, context at) {
  status done = target()->GetFreeSpace(path, how, free, at);
  if (!has_room()) *free = 0;
  return done;
}

}  // namespace test_control
