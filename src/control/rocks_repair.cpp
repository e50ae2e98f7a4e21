// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "control/rocks_folder.hpp"

// Saving what can be read.
//
// Idea. A copy of the folder is opened leniently, and its records are read from the first one on
// until a block is damaged, then from the last one backward. What lies between is asked of a second
// copy, which RocksDB rebuilds from those tables and logs that it can read whole: that loses whole
// tables, and deletions with them, so it is asked for nothing else, unless the first copy can't be
// opened at all. A new store is filled with both.

namespace manta::inline v0::control {

namespace fs = std::filesystem;

namespace {

// Revisions that the lost batches may have had, and nobody gets again.
constexpr revision leap = revision{1} << 20U;
constexpr std::size_t write_bytes = std::size_t{1} << 20U;

/// The keys after `after` and before `before`, which is no limit if it is empty.
struct key_range {
  std::string after;
  std::string before;
};

/// The new store, while it is filled.
class saver {
 public:
  saver(rocks_files to, repair_report& report) : to_(std::move(to)), report_(report) {}

  /// Takes the records in the range; what lies between the damages is left.
  rocksdb::Status take(rocks_files& from, const key_range& of, std::optional<key_range>& left);
  rocksdb::Status finish(revision at);

 private:
  rocksdb::Status add(const rocksdb::Slice& key, const rocksdb::Slice& value);
  void note(const rocksdb::Status& damage);

  rocks_files to_;
  repair_report& report_;
  rocksdb::WriteBatch waiting_;
  revision last_ = 0;
};

rocksdb::Status saver::add(const rocksdb::Slice& key, const rocksdb::Slice& value) {
  const record one = to_record(key.ToString(), value.ToStringView());
  if (!is_well_formed(one)) {
    ++report_.malformed;
    return rocksdb::Status::OK();
  }
  last_ = std::max(last_, one.at);
  waiting_.Put(to_.records, key, value);
  if (waiting_.GetDataSize() < write_bytes) return rocksdb::Status::OK();
  rocksdb::Status status = to_.db->Write({}, &waiting_);
  waiting_.Clear();
  return status;
}

void saver::note(const rocksdb::Status& damage) {
  const std::string said = damage.ToString();
  auto& all = report_.damages;
  if (std::find(all.begin(), all.end(), said) == all.end()) all.push_back(said);
}

rocksdb::Status saver::take(rocks_files& from, const key_range& of,
                            std::optional<key_range>& left) {
  key_range rest = of;
  const std::unique_ptr<rocksdb::Iterator> up(from.db->NewIterator({}, from.records));
  up->Seek(of.after);
  if (up->Valid() && up->key() == of.after) up->Next();
  for (; up->Valid() && (of.before.empty() || up->key().compare(of.before) < 0); up->Next()) {
    if (auto status = add(up->key(), up->value()); !status.ok()) return status;
    rest.after = up->key().ToString();
  }
  if (up->status().ok()) {
    left.reset();
    return up->status();
  }
  note(up->status());
  const std::unique_ptr<rocksdb::Iterator> down(from.db->NewIterator({}, from.records));
  if (of.before.empty()) down->SeekToLast();
  if (!of.before.empty()) down->SeekForPrev(of.before);
  if (!of.before.empty() && down->Valid() && down->key() == of.before) down->Prev();
  for (; down->Valid() && down->key().compare(rest.after) > 0; down->Prev()) {
    if (auto status = add(down->key(), down->value()); !status.ok()) return status;
    rest.before = down->key().ToString();
  }
  if (!down->status().ok()) note(down->status());
  left = std::move(rest);
  return rocksdb::Status::OK();
}

rocksdb::Status saver::finish(revision at) {
  const std::string last = bytes_of_revision(std::max(at, last_) + leap);
  waiting_.Put(to_.about, {revision_key.data(), revision_key.size()}, last);
  rocksdb::Status status = to_.db->Write({}, &waiting_);
  if (status.ok()) status = to_.db->Flush({}, {to_.records, to_.about});
  rocksdb::Status closed = to_.close();
  return status.ok() ? closed : status;
}

// Once, and without the advice, which is what is being done.
void note(const error& why, repair_report& report) {
  std::string said = why.message().substr(0, why.message().find("; "));
  auto& all = report.damages;
  if (std::find(all.begin(), all.end(), said) == all.end()) all.push_back(std::move(said));
}

// A copy to work on. A file that can't be read is damage like any other.
result<new_folder> copy_of(const std::string& path, const std::string& place,
                           repair_report& report) {
  result<new_folder> made = new_folder::at(place);
  if (!made) return made;
  std::error_code failed;
  for (fs::directory_iterator at(path, failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    std::error_code why;
    const fs::path name = at->path().filename();
    if (!at->is_regular_file(why) || name == "LOCK") continue;
    fs::copy_file(at->path(), fs::path(made->path()) / name, why);
    if (why) report.damages.push_back(fmt::format("{}: {}", name.string(), why.message()));
  }
  if (failed) return refused(path, fmt::format("can't read the folder: {}", failed.message()));
  for (const std::string& name : mend_footers(made->path())) {
    report.damages.push_back(fmt::format("the end of table {}, which was mended", name));
  }
  return made;
}

void note_lost_tables(const std::string& path, repair_report& report) {
  std::error_code ignored;
  for (const auto& one : fs::directory_iterator(fs::path(path) / "lost", ignored)) {
    const std::string name = one.path().filename().string();
    if (one.path().extension() != ".sst") continue;
    report.damages.push_back(fmt::format("table {} can't be read whole", name));
  }
}

/// The two copies, and what they say of the store.
struct sources {
  std::optional<new_folder> lenient_place;
  std::optional<new_folder> rebuilt_place;
  std::optional<rocks_files> lenient;
  std::optional<rocks_files> rebuilt;
  revision at = 0;
  std::string cluster;

  result<void> open_lenient(const std::string& path, const std::string& to, repair_report& report) {
    result<new_folder> copy = copy_of(path, to + ".copy", report);
    if (!copy) return copy.error();
    lenient_place.emplace(*std::move(copy));
    use(lenient, lenient_place->path(), path, report);
    return {};
  }
  result<void> open_rebuilt(const std::string& path, const std::string& to, repair_report& report) {
    repair_report again;  // what can't be copied was reported by the first copy
    result<new_folder> copy = copy_of(path, to + ".rebuilt", again);
    if (!copy) return copy.error();
    rebuilt_place.emplace(*std::move(copy));
    const rocksdb::Status status = rebuild(rebuilt_place->path());
    if (!status.ok()) report.damages.push_back(status.ToString());
    note_lost_tables(rebuilt_place->path(), report);
    use(rebuilt, rebuilt_place->path(), path, report);
    return {};
  }

 private:
  void use(std::optional<rocks_files>& as, const std::string& copy, const std::string& path,
           repair_report& report) {
    result<rocks_files> opened = rocks_files::open_existing(copy, access::salvage);
    if (!opened) return note(about_source(opened.error(), copy, path), report);
    at = std::max(at, opened->at);
    if (cluster.empty()) cluster = opened->cluster;
    as.emplace(*std::move(opened));
  }
};

result<void> check_source(const std::string& path) {
  const result<folder_listing> listed = folder_listing::of_any(path);
  if (!listed) return listed.error();
  if (!listed->tables.empty() || !listed->logs.empty()) return {};
  return refused(path, "it has neither tables nor logs of a store; name the folder of one");
}

}  // namespace

result<repair_report> repair_rocks_store(const std::string& path, const std::string& to,
                                         const std::string& cluster) {
  if (result<void> good = check_source(path); !good) return good.error();
  const result<folder_lock> lock = folder_lock::take(path);
  if (!lock) return lock.error();
  result<new_folder> place = new_folder::at(to);
  if (!place) return place.error();
  new_folder made = *std::move(place);
  repair_report out;
  // What is passed over below without a word, such as a damaged batch in the log, shows here.
  if (const auto seen = look_through(path); !seen) note(seen.error(), out);
  sources from;
  if (result<void> good = from.open_lenient(path, to, out); !good) return good.error();
  if (!from.lenient || from.cluster.empty()) {
    if (result<void> good = from.open_rebuilt(path, to, out); !good) return good.error();
  }
  if (!from.lenient && !from.rebuilt)
    return refused(path, "nothing can be read: " + out.damages.back());
  out.is_cluster_guessed = from.cluster.empty();
  result<rocks_files> fresh = rocks_files::open(
      {.path = made.path(), .cluster = out.is_cluster_guessed ? cluster : from.cluster});
  if (!fresh) return fresh.error();
  saver saved(*std::move(fresh), out);
  std::optional<key_range> left = key_range{};
  rocksdb::Status status;
  if (from.lenient) status = saved.take(*from.lenient, key_range{}, left);
  if (status.ok() && left && !from.rebuilt) {
    if (result<void> good = from.open_rebuilt(path, to, out); !good) return good.error();
  }
  if (status.ok() && left && from.rebuilt)
    status = saved.take(*from.rebuilt, key_range(*left), left);
  if (status.ok()) status = saved.finish(from.at);
  if (!status.ok()) return to_error(status, to);
  result<store_facts> facts = look_through(made.path());
  if (!facts) return facts.error();
  out.saved = *std::move(facts);
  if (result<void> good = made.finish(); !good) return good.error();
  return out;
}

}  // namespace manta::inline v0::control
