// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "control/checks.hpp"
#include "control/history.hpp"
#include "control/rocks_files.hpp"

// The store on a disk.
//
// Problem. A put costs microseconds and an fsync milliseconds, whatever it carries; conditions have
// to be looked at in one order with the changes.
//
// Idea. One thread writes. While it writes one group of batches, the next ones collect; a group is
// one write of RocksDB's, with one fsync if any batch of it asked to be durable. Conditions are
// looked at by that thread alone, in the table and in what the group has changed so far. Reads are
// made by who calls: of a snapshot, which holds RocksDB's lock twice and has to look up its
// revision, or for one key without, when no write went on meanwhile.
//
//     commit --> [ queue, 64 MiB ] --> writer: check, collect, write, publish, answer
//     read, scan  ---------------------------------------> RocksDB
//
// A failed write fails all batches of its group: nothing of them was applied. Before the next
// group the folder is opened again, if it has room; reads go on meanwhile.
//
// Threads: RocksDB is not built for ThreadSanitizer; what goes to the writer goes through a queue
// of ours.

namespace manta::inline v0::control {

namespace {

constexpr std::size_t most_waiting_bytes = limits::batch_bytes;
constexpr std::size_t most_group_bytes = std::size_t{4} << 20U;

struct pending {
  batch what;
  answer<outcome> then;
  std::size_t bytes = 0;
};

std::size_t room_of(const batch& what) noexcept {
  std::size_t sum = sizeof(pending);
  for (const condition& one : what.conditions) sum += sizeof one + one.key.size();
  for (const change& one : what.changes) sum += sizeof one + one.key.size() + one.value.size();
  return sum;
}

/// Batches on their way to the writer.
class commit_queue {
 public:
  /// Leaves `one` as it is when there is no room. Throws std::bad_alloc, and has it not then.
  result<void> push(pending& one) {
    const std::lock_guard lock(mutex_);
    if (is_ended_) return closed_error();
    if (bytes_ != 0 && bytes_ + one.bytes > most_waiting_bytes) {
      return error(errc::store_full,
                   fmt::format("control: {} bytes of batches wait for the disk; commit more when "
                               "some were answered",
                               bytes_));
    }
    bytes_ += one.bytes;
    waiting_.push_back(std::move(one));
    if (waiting_.size() == 1) changed_.notify_one();
    return {};
  }
  /// Waits for some; empty when the queue has ended and nothing is left. `group`: emptied, for its
  /// memory.
  std::vector<pending> take(std::vector<pending> group) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_ended_ || !waiting_.empty(); });
    std::size_t bytes = 0;
    while (!waiting_.empty() &&
           (group.empty() || bytes + waiting_.front().bytes <= most_group_bytes)) {
      bytes += waiting_.front().bytes;
      group.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    bytes_ -= bytes;
    return group;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<pending> waiting_;
  std::size_t bytes_ = 0;
  bool is_ended_ = false;
};

/// What a group does: one write, and the revisions that its keys have then.
struct group_write {
  group_write(history& told, revision before) : draft(told), at(before) {}

  history::draft draft;
  revision at;
  bool is_durable = false;
  bool has_conditions = false;  // of any batch: else nobody asks for `changed`
  std::unordered_map<std::string_view, revision> changed;  // 0: deleted; the draft has the keys
};

/// The revision that reads see. While a write makes it another one, who reads can't tell which.
class moment {
 public:
  explicit moment(revision at) : at_(at) {}

  revision at() const noexcept { return at_.load(std::memory_order_acquire); }
  /// Even, and the same before and after a read: it has seen `at`, asked in between. Who has seen
  /// anything of a write has synchronised with the writer, so it sees the odd number as well.
  std::uint64_t turns() const noexcept { return turns_.load(std::memory_order_acquire); }

  /// Around a write, by the writer alone.
  class turning {
   public:
    explicit turning(moment& of) : of_(of) { of_.turns_.fetch_add(1, std::memory_order_acq_rel); }
    ~turning() { of_.turns_.fetch_add(1, std::memory_order_acq_rel); }
    turning(const turning&) = delete;
    turning& operator=(const turning&) = delete;
    void to(revision next) noexcept { of_.at_.store(next, std::memory_order_release); }

   private:
    moment& of_;
  };

 private:
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<revision> at_;
};

class rocks_store final : public store {
 public:
  rocks_store(rocks_files files, rocks_options how, rocksdb::Env* on)
      : how_(std::move(how)),
        on_(on),
        path_(how_.path),
        files_(std::move(files)),
        now_(files_.at),
        history_(files_.at) {
    writer_ = std::thread([this] { write_all(); });
  }
  ~rocks_store() override { static_cast<void>(close()); }

  void commit(batch what, answer<outcome> then) override;
  void read(std::vector<std::string> keys, answer<found> then) override {
    then(read_now(std::move(keys)));
  }
  void scan(range of, answer<page> then) override { then(scan_now(of)); }
  result<std::unique_ptr<watcher>> watch(std::string prefix, revision from,
                                         std::function<void()> bell) override;
  usage measure() const override;
  result<void> close() override;

 private:
  class snapshot;

  void write_all() noexcept;
  result<void> revive();
  void write_group(std::vector<pending>& group) noexcept;
  std::vector<result<outcome>> write_answers(std::vector<pending>& group, history::bells& bells);
  result<void> write(const group_write& what);
  result<outcome> add(group_write& to, batch& what);
  void add_to_write(const change& one, const std::string& at);
  result<std::optional<outcome::conflict>> conflict_of(const group_write& in, const batch& what);
  result<revision> revision_now(const std::string& key);
  result<found> read_now(std::vector<std::string> keys);
  std::optional<result<found>> read_unmoved(std::string& key);
  result<void> add_found(found& to, std::string& key, const rocksdb::Status& status,
                         const rocksdb::PinnableSlice& value) const;
  error unreadable() const;
  result<page> scan_now(const range& of);

  const rocks_options how_;
  rocksdb::Env* const on_;
  const std::string path_;
  mutable std::shared_mutex open_;  // shared: RocksDB is in use
  rocks_files files_;
  bool is_closed_ = false;
  bool has_failed_ = false;  // this and the next two are the writer's
  rocksdb::SequenceNumber last_ = 0;
  rocksdb::WriteBatch bytes_;  // of a group, for its memory
  moment now_;
  history history_;
  commit_queue queue_;
  std::mutex closing_;
  std::thread writer_;
};

/// One moment of the records, and its revision.
class rocks_store::snapshot {
 public:
  explicit snapshot(rocks_files& of) : files_(of) { options_.snapshot = of.db->GetSnapshot(); }
  ~snapshot() { files_.db->ReleaseSnapshot(options_.snapshot); }
  snapshot(const snapshot&) = delete;
  snapshot& operator=(const snapshot&) = delete;

  const rocksdb::ReadOptions& options() const noexcept { return options_; }
  rocksdb::Status revision_of(revision& at) const {
    std::string bytes;
    rocksdb::Status status =
        files_.db->Get(options_, files_.about, {revision_key.data(), revision_key.size()}, &bytes);
    if (status.IsNotFound()) return rocksdb::Status::OK();  // none was committed yet
    at = revision_of_bytes(bytes);
    return status;
  }

 private:
  rocks_files& files_;
  rocksdb::ReadOptions options_;
};

void rocks_store::commit(batch what, answer<outcome> then) {
  result<void> good = check(what);
  if (good && what.how == durability::replicated) good = no_replicas();
  if (good) {
    pending one{std::move(what), std::move(then), 0};
    try {
      one.bytes = room_of(one.what);
      good = queue_.push(one);
    } catch (const std::bad_alloc&) {
      good = error::out_of_memory();
    }
    if (good) return;
    then = std::move(one.then);
  }
  then(good.error());
}

void rocks_store::write_all() noexcept {
  std::vector<pending> group;
  for (;;) {
    group = queue_.take(std::move(group));
    if (group.empty()) return;
    write_group(group);
    group.clear();
  }
}

void rocks_store::write_group(std::vector<pending>& group) noexcept {
  std::vector<result<outcome>> answers;
  history::bells bells;
  try {
    answers = write_answers(group, bells);
  } catch (const std::bad_alloc&) {
    for (const pending& one : group) one.then(error::out_of_memory());
    return;
  }
  history::ring(bells);
  for (std::size_t i = 0; i < group.size(); ++i) group[i].then(std::move(answers[i]));
}

std::vector<result<outcome>> rocks_store::write_answers(std::vector<pending>& group,
                                                        history::bells& bells) {
  const revision before = now_.at();
  std::vector<result<outcome>> answers;
  answers.reserve(group.size());
  group_write to(history_, before);
  to.has_conditions = std::any_of(group.begin(), group.end(),
                                  [](const pending& one) { return !one.what.conditions.empty(); });
  if (bytes_.GetDataSize() > 2 * most_group_bytes) bytes_ = rocksdb::WriteBatch();
  bytes_.Clear();
  for (pending& one : group) answers.push_back(add(to, one.what));
  if (to.at == before) return answers;

  if (const result<void> done = write(to); !done) {
    const error& why = done.error();
    for (result<outcome>& one : answers) {
      if (one) one = why;  // also what was refused for a batch before it, which never was
    }
    return answers;
  }
  bells = to.draft.publish();
  return answers;
}

result<void> rocks_store::write(const group_write& what) {
  rocksdb::WriteOptions how;
  how.sync = what.is_durable;
  if (has_failed_) {
    if (result<void> alive = revive(); !alive) return alive;
  }
  // Not before: there may have been no family to name.
  bytes_.Put(files_.about, {revision_key.data(), revision_key.size()}, bytes_of_revision(what.at));
  moment::turning turn(now_);
  const rocksdb::Status status = files_.db->Write(how, &bytes_);
  has_failed_ = !status.ok();
  if (has_failed_) return to_error(status, path_);
  turn.to(what.at);
  return {};
}

error rocks_store::unreadable() const {
  return refused(path_,
                 "it could not be opened again after a write failed; see that the disk is "
                 "sound, and commit something");
}

// Opens the folder again without the write that failed. RocksDB could be told to go on, but what
// it does then with a log whose writing failed depends on what is in memory, and ends the process
// where that is nothing. Where the folder can't be written again, reads are answered all the same.
result<void> rocks_store::revive() {
  if (files_.db != nullptr) {
    const rocksdb::Status room = files_.check_room(path_);
    if (!room.ok()) return to_error(room, path_);
    last_ = files_.db->GetLatestSequenceNumber();
  }
  const std::unique_lock lock(open_);
  static_cast<void>(files_.close());
  result<rocks_files> fresh = rocks_files::open(how_, on_, last_);
  if (fresh && fresh->at == now_.at()) {
    files_ = *std::move(fresh);
    has_failed_ = false;
    return {};
  }
  const error why = fresh ? refused(path_, fmt::format("opened again after a write failed it ends "
                                                       "with revision {} and not {}; restart",
                                                       fresh->at, now_.at()))
                          : fresh.error();
  if (fresh) fresh = why;
  result<rocks_files> readable = rocks_files::open_existing(path_, access::read_only, on_, last_);
  if (readable) files_ = *std::move(readable);
  return why;
}

result<revision> rocks_store::revision_now(const std::string& key) {
  rocksdb::PinnableSlice found;
  if (files_.db == nullptr) return unreadable();
  const rocksdb::Status status = files_.db->Get({}, files_.records, key, &found);
  if (status.IsNotFound()) return revision{0};
  if (!status.ok()) return to_error(status, path_);
  return revision_of_bytes(found.ToStringView());
}

result<std::optional<outcome::conflict>> rocks_store::conflict_of(const group_write& in,
                                                                  const batch& what) {
  for (std::size_t i = 0; i < what.conditions.size(); ++i) {
    const auto& [key, at] = what.conditions[i];
    const auto changed = in.changed.find(key);
    const result<revision> now =
        changed != in.changed.end() ? result<revision>(changed->second) : revision_now(key);
    if (!now) return now.error();
    if (*now != at) return std::optional(outcome::conflict{i, *now});
  }
  return std::optional<outcome::conflict>();
}

// Adds a batch to the group's write, unless a condition does not hold. The history takes over its
// changes.
result<outcome> rocks_store::add(group_write& to, batch& what) {
  const auto conflict = conflict_of(to, what);
  if (!conflict) return conflict.error();
  if (*conflict) return outcome{0, *conflict};
  const revision next = to.at + 1;
  const std::string at = bytes_of_revision(next);
  for (const change& one : what.changes) add_to_write(one, at);
  if (to.has_conditions) {
    for (const change& one : what.changes) {
      to.changed[one.key] = one.what == change::kind::put ? next : 0;
    }
  }
  to.draft.add(next, std::move(what.changes), what.is_watched);
  to.at = next;
  to.is_durable = to.is_durable || what.how == durability::durable;
  return outcome{next, std::nullopt};
}

void rocks_store::add_to_write(const change& one, const std::string& at) {
  const rocksdb::Slice key(one.key);
  if (one.what == change::kind::del) {
    bytes_.Delete(files_.records, key);
    return;
  }
  const std::array<rocksdb::Slice, 2> value = {at, one.value};
  bytes_.Put(files_.records, {&key, 1}, {value.data(), static_cast<int>(value.size())});
}

result<found> rocks_store::read_now(std::vector<std::string> keys) try {
  if (result<void> good = check(keys); !good) return good.error();
  const std::shared_lock lock(open_);
  if (is_closed_) return closed_error();
  if (files_.db == nullptr) return unreadable();
  if (keys.size() == 1) {
    if (auto quickly = read_unmoved(keys.front())) return *std::move(quickly);
  }
  const snapshot of(files_);
  found out;
  if (const auto status = of.revision_of(out.at); !status.ok()) return to_error(status, path_);
  out.records.reserve(keys.size());
  std::size_t bytes = 0;
  rocksdb::PinnableSlice value;
  for (std::string& key : keys) {
    value.Reset();
    const rocksdb::Status status = files_.db->Get(of.options(), files_.records, key, &value);
    if (status.ok()) bytes += key.size() + value.size() - std::min(value.size(), revision_bytes);
    if (bytes > limits::read_bytes) return too_much_to_read();
    if (result<void> good = add_found(out, key, status, value); !good) return good.error();
  }
  return out;
} catch (const std::bad_alloc&) {
  return error::out_of_memory();
}

// Nothing when there were writes meanwhile.
std::optional<result<found>> rocks_store::read_unmoved(std::string& key) {
  constexpr int tries = 3;
  for (int i = 0; i < tries; ++i) {
    const std::uint64_t turn = now_.turns();
    if (turn % 2 != 0) return std::nullopt;  // a write takes longer than a snapshot
    found out;
    out.at = now_.at();
    rocksdb::PinnableSlice value;
    const rocksdb::Status status = files_.db->Get({}, files_.records, key, &value);
    if (now_.turns() != turn) continue;
    if (result<void> good = add_found(out, key, status, value); !good) return good.error();
    return out;
  }
  return std::nullopt;
}

// Takes the key over.
result<void> rocks_store::add_found(found& to, std::string& key, const rocksdb::Status& status,
                                    const rocksdb::PinnableSlice& value) const {
  if (status.IsNotFound()) {
    to.records.emplace_back();
    return {};
  }
  if (!status.ok()) return to_error(status, path_);
  to.records.emplace_back(to_record(std::move(key), value.ToStringView()));
  return {};
}

result<page> rocks_store::scan_now(const range& of) try {
  if (result<void> good = check(of); !good) return good.error();
  const std::shared_lock lock(open_);
  if (is_closed_) return closed_error();
  if (files_.db == nullptr) return unreadable();
  const snapshot one(files_);
  page out;
  if (const auto status = one.revision_of(out.at); !status.ok()) return to_error(status, path_);
  const std::unique_ptr<rocksdb::Iterator> at(
      files_.db->NewIterator(one.options(), files_.records));
  at->Seek(std::max(of.prefix, of.after));
  if (of.after >= of.prefix && at->Valid() && at->key() == of.after) at->Next();
  std::size_t bytes = 0;
  for (; at->Valid() && at->key().starts_with(of.prefix); at->Next()) {
    if (out.records.size() == of.most || bytes >= limits::page_bytes) {
      out.has_more = true;
      break;
    }
    bytes += at->key().size() + at->value().size();
    out.records.push_back(to_record(at->key().ToString(), at->value().ToStringView()));
  }
  if (!at->status().ok()) return to_error(at->status(), path_);
  return out;
} catch (const std::bad_alloc&) {
  return error::out_of_memory();
}

result<std::unique_ptr<watcher>> rocks_store::watch(std::string prefix, revision from,
                                                    std::function<void()> bell) {
  if (result<void> good = check_prefix(prefix); !good) return good.error();
  const std::shared_lock lock(open_);
  if (is_closed_) return closed_error();
  return history_.watch(std::move(prefix), from, std::move(bell));
}

usage rocks_store::measure() const {
  usage out;
  out.at = now_.at();
  const std::shared_lock lock(open_);
  if (is_closed_ || files_.db == nullptr) return out;
  static_cast<void>(
      files_.db->GetIntProperty(files_.records, "rocksdb.estimate-num-keys", &out.records));
  static_cast<void>(
      files_.db->GetIntProperty(files_.records, "rocksdb.total-sst-files-size", &out.bytes));
  return out;
}

result<void> rocks_store::close() {
  const std::lock_guard once(closing_);
  queue_.end();
  if (writer_.joinable()) writer_.join();
  if (is_closed_) return {};  // written here alone
  result<void> alive = has_failed_ ? revive() : result<void>();
  const std::unique_lock lock(open_);
  is_closed_ = true;
  if (!alive) {
    static_cast<void>(files_.close());
    return alive;
  }
  rocksdb::Status status = files_.db->SyncWAL();
  const rocksdb::Status closed = files_.close();
  if (status.ok()) status = closed;
  if (!status.ok()) return to_error(status, path_);
  return {};
}

}  // namespace

result<std::unique_ptr<store>> open_rocks_store(const rocks_options& how) {
  return open_rocks_store(how, nullptr);
}

result<std::unique_ptr<store>> open_rocks_store(const rocks_options& how, rocksdb::Env* on) {
  result<rocks_files> files = rocks_files::open(how, on);
  if (!files) return files.error();
  return std::unique_ptr<store>(std::make_unique<rocks_store>(*std::move(files), how, on));
}

}  // namespace manta::inline v0::control
