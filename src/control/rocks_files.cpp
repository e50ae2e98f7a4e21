// SPDX-License-Identifier: Apache-2.0
#include "control/rocks_files.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include "control/rocks_folder.hpp"
#include "spec/texts.hpp"

namespace manta::inline v0::control {

namespace {

constexpr std::string_view format_key = "format";
constexpr std::string_view cluster_key = "cluster";
constexpr std::string_view our_format = "1";
constexpr const char* about_family = "manta";
constexpr std::size_t least_memory = std::size_t{8} << 20U;
constexpr std::size_t tool_memory = std::size_t{64} << 20U;
constexpr std::uint64_t log_bytes = std::uint64_t{64} << 20U;

rocksdb::Slice slice(std::string_view text) noexcept { return {text.data(), text.size()}; }

// A quarter of the memory is for what is not on the disk yet, in two tables of which one is being
// written to it; as much for indexes and blocks that were read.
rocksdb::ColumnFamilyOptions family_options(std::size_t memory,
                                            std::shared_ptr<rocksdb::Cache> cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = std::move(cache);
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  // In parts: that of a whole table is larger than the cache's share for it, and would be read and
  // checked for each record.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.format_version = 5;  // this and the next line: see rocks_footer.cpp
  table.checksum = rocksdb::kXXH3;
  rocksdb::ColumnFamilyOptions out;
  out.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // No table is written for this limit, which is out of reach, but for db_write_buffer_size. What
  // RocksDB 7.8 does for this one loses count of the families when a log can't be made on a full
  // disk, and ends the process when the store is closed.
  out.write_buffer_size = memory;
  out.arena_block_size = memory / 64;
  out.max_write_buffer_number = 2;
  out.target_file_size_base = std::max<std::uint64_t>(memory / 8, std::uint64_t{4} << 20U);
  out.max_bytes_for_level_base = 4 * out.target_file_size_base;
  out.level_compaction_dynamic_level_bytes = true;
  out.compression = rocksdb::kLZ4Compression;
  return out;
}

// RocksDB's own log of events, which nobody keeps: what fails is said by a status as well. In its
// file a line that found no room makes the next one abort the process, where RocksDB is built with
// assertions, as Debian's is.
class no_events final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*of*/) override {}
};

// Sees each batch of the log before it is applied, and ends where one is missing: RocksDB tolerates
// a log that ends early and goes on with the next log, which after a crash may have later batches
// that happened to reach the disk. Also where a write failed: it may be in the log all the same.
class unbroken final : public rocksdb::WalFilter {
 public:
  explicit unbroken(rocksdb::SequenceNumber last) : last_(last) {}
  const char* Name() const override { return "manta.unbroken"; }
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                     bool*) override {
    const std::string& bytes = batch.Data();  // begins with its number, 8 bytes little-endian
    const rocksdb::SequenceNumber first = revision_of_bytes(bytes);
    const rocksdb::SequenceNumber after = first + batch.Count();
    if (after == first) return WalProcessingOption::kContinueProcessing;
    if ((next_ != 0 && first != next_) || after - 1 > last_) {
      return WalProcessingOption::kStopReplay;
    }
    next_ = after;
    return WalProcessingOption::kContinueProcessing;
  }

 private:
  const rocksdb::SequenceNumber last_;
  rocksdb::SequenceNumber next_ = 0;
};

// Passes over batches of the log that were there before, as in a file that was put behind itself:
// RocksDB, where it is built with assertions, aborts at the second put of a key with one number.
class each_once final : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "manta.each_once"; }
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                     bool*) override {
    const rocksdb::SequenceNumber first = revision_of_bytes(batch.Data());
    if (first < next_) return WalProcessingOption::kIgnoreCurrentRecord;
    next_ = first + batch.Count();
    return WalProcessingOption::kContinueProcessing;
  }

 private:
  rocksdb::SequenceNumber next_ = 0;
};

// After a failure the writer opens the folder again, when there is room; RocksDB's own thread would
// look for room every five seconds and try to go on with the same log.
struct no_recovery_by_itself final : rocksdb::EventListener {
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* is_tried) override {
    *is_tried = false;
  }
};

// The log is read to its last whole record, which a crash may leave, and anything else that is
// wrong in it is refused. RocksDB's default would stop at the first damage and call that good.
rocksdb::DBOptions database_options(std::size_t memory) {
  rocksdb::DBOptions out;
  out.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  out.paranoid_checks = true;
  out.track_and_verify_wals_in_manifest = true;
  out.max_total_wal_size = log_bytes;
  out.db_write_buffer_size = memory / 4;
  out.max_background_jobs = 2;
  out.max_open_files = 256;
  out.info_log = std::make_shared<no_events>();
  out.max_manifest_file_size = std::uint64_t{16} << 20U;
  out.stats_dump_period_sec = 0;
  out.stats_persist_period_sec = 0;
  out.max_bgerror_resume_count = 0;
  out.listeners.push_back(std::make_shared<no_recovery_by_itself>());
  out.atomic_flush = true;  // a record and the revision that it has are found together
  out.create_if_missing = true;
  out.create_missing_column_families = true;
  return out;
}

result<std::string> value_of(rocks_files& files, std::string_view key, const std::string& path) {
  std::string found;
  const rocksdb::Status status = files.db->Get({}, files.about, slice(key), &found);
  if (status.IsNotFound()) return std::string();
  if (!status.ok()) return to_error(status, path);
  return found;
}

// A folder that says nothing about itself and has records was not made by us.
result<bool> is_new(rocks_files& files, const std::string& path) {
  const std::unique_ptr<rocksdb::Iterator> at(files.db->NewIterator({}, files.records));
  at->SeekToFirst();
  if (!at->status().ok()) return to_error(at->status(), path);
  return !at->Valid();
}

result<void> introduce(rocks_files& files, const rocks_options& how) {
  const result<bool> fresh = is_new(files, how.path);
  if (!fresh) return fresh.error();
  if (!*fresh) return refused(how.path, "it was not made by manta; give another path");
  rocksdb::WriteBatch about;
  about.Put(files.about, slice(format_key), slice(our_format));
  about.Put(files.about, slice(cluster_key), slice(how.cluster));
  rocksdb::WriteOptions now;
  now.sync = true;
  const rocksdb::Status status = files.db->Write(now, &about);
  if (!status.ok()) return to_error(status, how.path);
  return {};
}

result<void> read_about(rocks_files& files, const std::string& path) {
  result<std::string> format = value_of(files, format_key, path);
  if (!format) return format.error();
  if (format->empty()) return refused(path, "it was not made by manta; give another path");
  files.format = *std::move(format);
  if (files.format != our_format) {
    return refused(path, fmt::format("its format is {}, this version of manta reads {}; use the "
                                     "version that made it, or another path",
                                     files.format, our_format));
  }
  result<std::string> cluster = value_of(files, cluster_key, path);
  if (!cluster) return cluster.error();
  files.cluster = *std::move(cluster);
  const result<std::string> last = value_of(files, revision_key, path);
  if (!last) return last.error();
  files.at = revision_of_bytes(*last);
  return {};
}

result<void> check_about(rocks_files& files, const rocks_options& how) {
  const result<std::string> format = value_of(files, format_key, how.path);
  if (!format) return format.error();
  if (format->empty()) {
    if (result<void> good = introduce(files, how); !good) return good;
  }
  if (result<void> good = read_about(files, how.path); !good) return good;
  if (files.cluster == how.cluster) return {};
  return refused(how.path, fmt::format("it belongs to cluster \"{}\", this is \"{}\"; give "
                                       "another path",
                                       files.cluster, how.cluster));
}

std::vector<rocksdb::ColumnFamilyDescriptor> families_with(std::size_t memory_bytes) {
  const auto cache = rocksdb::NewLRUCache(memory_bytes / 4, 0);
  const rocksdb::ColumnFamilyOptions family = family_options(memory_bytes, cache);
  return {{rocksdb::kDefaultColumnFamilyName, family}, {about_family, family}};
}

rocksdb::DBOptions tool_options(access how) {
  rocksdb::DBOptions out = database_options(tool_memory);
  out.create_if_missing = false;
  out.create_missing_column_families = how == access::salvage;
  if (how == access::read_only) return out;
  out.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  out.paranoid_checks = false;
  out.track_and_verify_wals_in_manifest = false;
  return out;
}

}  // namespace

error refused(const std::string& path, const std::string& why) {
  return {errc::storage_failed, fmt::format("control: the store in {}: {}", path, why)};
}

error damaged(const std::string& path, const std::string& how) {
  return refused(path, fmt::format("it is damaged ({}); restore a backup, or save what can be read "
                                   "with `manta control repair {}`",
                                   how, path));
}

error to_error(const rocksdb::Status& status, const std::string& path) {
  std::string said = status.ToString();
  while (said.ends_with('\n')) said.pop_back();
  said = spec::shown(said, said.size());  // within it are line feeds, too
  if (status.IsNoSpace()) {
    return {errc::store_full,
            fmt::format("control: no room on the disk of {} ({}); it goes on when there is some",
                        path, said)};
  }
  const bool is_missing = said.find("No such file") != std::string::npos;
  if (status.IsCorruption() || is_missing) return damaged(path, said);
  if (said.find("lock ") != std::string::npos) {
    return refused(path, fmt::format("another process has it ({}); end that one, or give another "
                                     "path",
                                     said));
  }
  return refused(path, fmt::format("it can't be read or written ({}); see that the folder is ours "
                                   "and the disk is sound",
                                   said));
}

record to_record(std::string key, std::string_view stored) {
  const revision at = revision_of_bytes(stored);
  stored.remove_prefix(std::min(stored.size(), revision_bytes));
  return {std::move(key), std::string(stored), at};
}

std::string bytes_of_revision(revision at) {
  std::string out(revision_bytes, '\0');
  std::memcpy(out.data(), &at, revision_bytes);
  return out;
}

revision revision_of_bytes(std::string_view bytes) noexcept {
  revision at = 0;
  if (bytes.size() >= revision_bytes) std::memcpy(&at, bytes.data(), revision_bytes);
  return at;
}

rocks_files::rocks_files(rocksdb::DB* opened,
                         const std::vector<rocksdb::ColumnFamilyHandle*>& families)
    : db(opened), records(families.at(0)), about(families.at(1)) {}

rocks_files::~rocks_files() {
  if (db != nullptr) static_cast<void>(close());
}

// The old database ends before its filter does.
rocks_files& rocks_files::operator=(rocks_files&& other) noexcept {
  if (db != nullptr) static_cast<void>(close());
  db = std::move(other.db);
  filter = std::move(other.filter);
  records = other.records;
  about = other.about;
  at = other.at;
  format = std::move(other.format);
  cluster = std::move(other.cluster);
  return *this;
}

rocksdb::Status rocks_files::close() {
  if (db == nullptr) return rocksdb::Status::OK();
  for (rocksdb::ColumnFamilyHandle* const one : {records, about}) {
    if (one != nullptr) static_cast<void>(db->DestroyColumnFamilyHandle(one));
  }
  rocksdb::Status status = db->Close();
  db.reset();
  return status;
}

rocksdb::Status rocks_files::check_room(const std::string& path) const {
  // What is in memory has to fit into tables.
  std::uint64_t needed = std::uint64_t{4} << 20U;
  std::uint64_t some = 0;
  if (db->GetAggregatedIntProperty("rocksdb.size-all-mem-tables", &some)) needed += some;
  rocksdb::Env& env = *db->GetEnv();
  const std::string probe = path + "/room";
  std::uint64_t free = needed;
  rocksdb::Status status = env.GetFreeSpace(path, &free);
  if (status.IsNotSupported()) status = rocksdb::Status::OK();
  if (status.ok() && free < needed) {
    return rocksdb::Status::NoSpace(fmt::format("{} bytes are free, {} needed", free, needed));
  }
  if (status.ok()) status = rocksdb::WriteStringToFile(&env, std::string(4096, '\0'), probe, true);
  const rocksdb::Status removed = env.DeleteFile(probe);
  return status.ok() ? removed : status;
}

result<rocks_files> rocks_files::open(const rocks_options& how, rocksdb::Env* on,
                                      rocksdb::SequenceNumber last) {
  if (how.path.empty()) return refused("\"\"", "asked for an empty path; name a folder");
  std::error_code failed;
  std::filesystem::create_directories(how.path, failed);
  if (failed) {
    return refused(how.path, fmt::format("can't make it: {}; name a folder that is there, or where "
                                         "one may be made",
                                         failed.message()));
  }
  if (result<void> good = check_may_begin(how.path); !good) return good.error();
  if (result<void> good = check_manifest(how.path); !good) return good.error();
  if (result<void> good = check_footers(how.path); !good) return good.error();
  const std::size_t memory = std::max(how.memory_bytes, least_memory);
  rocksdb::DBOptions database = database_options(memory);
  if (on != nullptr) database.env = on;
  auto filter = std::make_unique<unbroken>(last);
  database.wal_filter = filter.get();
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::Open(database, how.path, families_with(memory), &handles, &opened);
  if (!status.ok()) return to_error(status, how.path);
  rocks_files out(opened, handles);
  out.filter = std::move(filter);
  if (result<void> good = check_about(out, how); !good) return good.error();
  return out;
}

rocksdb::Status rebuild(const std::string& path) {
  return rocksdb::RepairDB(path, tool_options(access::salvage), families_with(tool_memory));
}

result<rocks_files> rocks_files::open_existing(const std::string& path, access how,
                                               rocksdb::Env* on, rocksdb::SequenceNumber last) {
  rocksdb::DBOptions database = tool_options(how);
  if (on != nullptr) database.env = on;
  std::unique_ptr<rocksdb::WalFilter> filter = std::make_unique<each_once>();
  if (how == access::read_only) filter = std::make_unique<unbroken>(last);
  database.wal_filter = filter.get();
  if (how == access::read_only) {
    if (result<void> good = check_manifest(path); !good) return good.error();
    if (result<void> good = check_footers(path); !good) return good.error();
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const auto families = families_with(tool_memory);
  const rocksdb::Status status =
      how == access::read_only
          ? rocksdb::DB::OpenForReadOnly(database, path, families, &handles, &opened)
          : rocksdb::DB::Open(database, path, families, &handles, &opened);
  if (!status.ok()) return to_error(status, path);
  rocks_files out(opened, handles);
  out.filter = std::move(filter);
  const result<void> good = read_about(out, path);
  const bool is_strange = !out.format.empty() && out.format != our_format;
  if (!good && (how == access::read_only || is_strange)) return good.error();
  return out;
}

}  // namespace manta::inline v0::control
