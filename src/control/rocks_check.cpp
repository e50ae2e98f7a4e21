// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "control/rocks_folder.hpp"

namespace manta::inline v0::control {

bool is_well_formed(const record& one) noexcept {
  return !one.key.empty() && one.key.size() <= limits::key_bytes &&
         one.value.size() <= limits::value_bytes && one.at != 0;
}

result<void> each_record(rocks_files& files, const std::string& path, const std::string& prefix,
                         const std::function<bool(const record&)>& sink) {
  const std::unique_ptr<rocksdb::Iterator> at(files.db->NewIterator({}, files.records));
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    if (!sink(to_record(at->key().ToString(), at->value().ToStringView()))) return {};
  }
  if (!at->status().ok()) return to_error(at->status(), path);
  return {};
}

result<store_facts> look_through(rocks_files& files, const std::string& path) {
  const result<folder_listing> listed = folder_listing::of(path);
  if (!listed) return listed.error();
  store_facts out;
  out.format = files.format;
  out.cluster = files.cluster;
  out.at = files.at;
  out.tables = listed->tables.size();
  out.logs = listed->logs.size();
  if (const auto status = files.db->VerifyChecksum(); !status.ok()) return to_error(status, path);
  std::string bad;
  const result<void> read = each_record(files, path, "", [&out, &bad](const record& one) {
    ++out.records;
    out.bytes += one.key.size() + one.value.size();
    if (is_well_formed(one) && one.at <= out.at) return true;
    bad = fmt::format("record {} has a key of {} bytes and revision {}, the last one is {}",
                      out.records, one.key.size(), one.at, out.at);
    return false;
  });
  if (!read) return read.error();
  if (!bad.empty()) return damaged(path, bad);
  return out;
}

result<store_facts> look_through(const std::string& path) {
  result<rocks_files> files = rocks_files::open_existing(path, access::read_only);
  if (!files) return files.error();
  rocks_files store = *std::move(files);
  return look_through(store, path);
}

result<store_facts> check_rocks_store(const std::string& path) {
  if (const result<folder_listing> listed = folder_listing::of(path); !listed) {
    return listed.error();
  }
  const result<folder_lock> lock = folder_lock::take(path);
  if (!lock) return lock.error();
  return look_through(path);
}

result<void> dump_rocks_store(const std::string& path, const std::string& prefix,
                              const std::function<bool(const record&)>& sink) {
  if (const result<folder_listing> listed = folder_listing::of(path); !listed) {
    return listed.error();
  }
  const result<folder_lock> lock = folder_lock::take(path);
  if (!lock) return lock.error();
  result<rocks_files> files = rocks_files::open_existing(path, access::read_only);
  if (!files) return files.error();
  rocks_files store = *std::move(files);
  return each_record(store, path, prefix, sink);
}

}  // namespace manta::inline v0::control
