// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "control/checks.hpp"
#include "control/history.hpp"

// The backend of tests, of simulations, and of jobs that need nothing to outlive them: an ordered
// map and a lock. Answers are given by the calling thread.

namespace manta::inline v0::control {

namespace {

constexpr std::size_t record_bytes = 64;  // what a record takes beside its bytes

struct stored {
  std::string value;
  revision at = 0;
};

using records = std::map<std::string, stored, std::less<>>;

class memory_store final : public store {
 public:
  explicit memory_store(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  void commit(batch what, answer<outcome> then) override {
    history::bells bells;
    result<outcome> became = commit_now(what, bells);
    history::ring(bells);
    then(std::move(became));
  }
  void read(std::vector<std::string> keys, answer<found> then) override { then(read_now(keys)); }
  void scan(range of, answer<page> then) override { then(scan_now(of)); }
  result<std::unique_ptr<watcher>> watch(std::string prefix, revision from,
                                         std::function<void()> bell) override {
    if (result<void> good = check_prefix(prefix); !good) return good.error();
    const std::shared_lock lock(mutex_);
    if (is_closed_) return closed_error();
    return history_.watch(std::move(prefix), from, std::move(bell));
  }
  usage measure() const override {
    const std::shared_lock lock(mutex_);
    return {records_.size(), bytes_, at_};
  }
  result<void> close() override {
    const std::unique_lock lock(mutex_);
    is_closed_ = true;
    return {};
  }

 private:
  result<outcome> commit_now(batch& what, history::bells& bells);
  result<found> read_now(const std::vector<std::string>& keys) const;
  result<page> scan_now(const range& of) const;
  std::optional<outcome::conflict> conflict_of(const batch& what) const;
  result<void> check_room(const batch& what) const;
  std::uint64_t bytes_with(const batch& what) const;
  void apply(records& fresh, const std::vector<const change*>& gone) noexcept;
  revision revision_of(const std::string& key) const;

  const std::size_t most_bytes_;
  mutable std::shared_mutex mutex_;
  records records_;
  std::uint64_t bytes_ = 0;
  revision at_ = 0;
  bool is_closed_ = false;
  history history_;
};

std::size_t bytes_of(const std::string& key, const std::string& value) noexcept {
  return key.size() + value.size() + record_bytes;
}

revision memory_store::revision_of(const std::string& key) const {
  const auto at = records_.find(key);
  return at == records_.end() ? 0 : at->second.at;
}

std::optional<outcome::conflict> memory_store::conflict_of(const batch& what) const {
  for (std::size_t i = 0; i < what.conditions.size(); ++i) {
    const revision now = revision_of(what.conditions[i].key);
    if (now != what.conditions[i].at) return outcome::conflict{i, now};
  }
  return std::nullopt;
}

std::uint64_t memory_store::bytes_with(const batch& what) const {
  std::map<std::string_view, std::uint64_t> sizes;  // of the keys it changes, as they will be
  for (const change& one : what.changes) {
    sizes[one.key] = one.what == change::kind::put ? bytes_of(one.key, one.value) : 0;
  }
  std::uint64_t bytes = bytes_;
  for (const auto& [key, size] : sizes) {
    const auto at = records_.find(key);
    if (at != records_.end()) bytes -= bytes_of(at->first, at->second.value);
    bytes += size;
  }
  return bytes;
}

result<void> memory_store::check_room(const batch& what) const {
  std::uint64_t most = bytes_;
  for (const change& one : what.changes) {
    if (one.what == change::kind::put) most += bytes_of(one.key, one.value);
  }
  if (most <= most_bytes_) return {};
  const std::uint64_t exact = bytes_with(what);
  if (exact <= most_bytes_) return {};
  return error(errc::store_full,
               fmt::format("control: asked for room for {} bytes, {} of {} are in use; delete "
                           "records, or give the store a path on a disk",
                           exact - bytes_, bytes_, most_bytes_));
}

// All memory was taken before, so that nothing can fail between the first change and the last.
void memory_store::apply(records& fresh, const std::vector<const change*>& gone) noexcept {
  for (const change* one : gone) {
    const auto at = records_.find(one->key);
    if (at == records_.end()) continue;
    bytes_ -= bytes_of(at->first, at->second.value);
    records_.erase(at);
  }
  while (!fresh.empty()) {
    auto node = fresh.extract(fresh.begin());
    bytes_ += bytes_of(node.key(), node.mapped().value);
    const auto at = records_.find(node.key());
    if (at == records_.end()) {
      records_.insert(std::move(node));
    } else {
      bytes_ -= bytes_of(at->first, at->second.value);
      at->second = std::move(node.mapped());
    }
  }
}

result<outcome> memory_store::commit_now(batch& what, history::bells& bells) try {
  if (result<void> good = check(what); !good) return good.error();
  if (what.how == durability::replicated) return no_replicas();
  const std::unique_lock lock(mutex_);
  if (is_closed_) return closed_error();
  if (const auto conflict = conflict_of(what)) return outcome{0, conflict};
  if (result<void> room = check_room(what); !room) return room.error();
  const revision next = at_ + 1;
  records fresh;
  std::map<std::string_view, const change*> last;
  for (const change& one : what.changes) last[one.key] = &one;
  std::vector<const change*> gone;
  for (const auto& [key, one] : last) {
    if (one->what == change::kind::put) {
      fresh.emplace(one->key, stored{one->value, next});
    } else {
      gone.push_back(one);
    }
  }
  history::draft told(history_);
  told.add(next, std::move(what.changes), what.is_watched);  // which `gone` points into still
  apply(fresh, gone);
  at_ = next;
  bells = told.publish();
  return outcome{next, std::nullopt};
} catch (const std::bad_alloc&) {
  return error::out_of_memory();
}

result<found> memory_store::read_now(const std::vector<std::string>& keys) const try {
  if (result<void> good = check(keys); !good) return good.error();
  const std::shared_lock lock(mutex_);
  if (is_closed_) return closed_error();
  found out;
  out.at = at_;
  out.records.reserve(keys.size());
  std::size_t bytes = 0;
  for (const std::string& key : keys) {
    const auto at = records_.find(key);
    if (at == records_.end()) {
      out.records.emplace_back();
      continue;
    }
    bytes += key.size() + at->second.value.size();
    if (bytes > limits::read_bytes) return too_much_to_read();
    out.records.push_back(record{at->first, at->second.value, at->second.at});
  }
  return out;
} catch (const std::bad_alloc&) {
  return error::out_of_memory();
}

result<page> memory_store::scan_now(const range& of) const try {
  if (result<void> good = check(of); !good) return good.error();
  const std::shared_lock lock(mutex_);
  if (is_closed_) return closed_error();
  page out;
  out.at = at_;
  // The keys that begin with the prefix come one after the other, from the prefix itself on.
  auto at = of.after < of.prefix ? records_.lower_bound(of.prefix) : records_.upper_bound(of.after);
  std::size_t bytes = 0;
  for (; at != records_.end() && at->first.starts_with(of.prefix); ++at) {
    if (out.records.size() == of.most || bytes >= limits::page_bytes) {
      out.has_more = true;
      break;
    }
    bytes += bytes_of(at->first, at->second.value);
    out.records.push_back({at->first, at->second.value, at->second.at});
  }
  return out;
} catch (const std::bad_alloc&) {
  return error::out_of_memory();
}

}  // namespace

std::unique_ptr<store> make_memory_store(std::size_t most_bytes) {
  return std::make_unique<memory_store>(most_bytes);
}

}  // namespace manta::inline v0::control
