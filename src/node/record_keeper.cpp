// SPDX-License-Identifier: Apache-2.0
#include "node/record_keeper.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <manta/spec/error.hpp>

#include "control/ask.hpp"
#include "control/cluster_rows.hpp"
#include "control/rows.hpp"
#include "node/journal.hpp"
#include "own/record_limits.hpp"

namespace manta::inline v0::node {

namespace {

constexpr std::size_t longest_member_name = 256;
constexpr std::size_t beside_a_value = 200;  // its key, and what a store has for each

error no_store() { return {errc::cancelled, "the store of task records is closed"}; }

control::change del(std::string key) { return {control::change::kind::del, std::move(key), {}}; }

// Nothing, when a number is there twice.
std::optional<std::vector<control::record_room::wish>> wishes_of(const records_question& what) {
  std::vector<control::record_room::wish> out;
  out.reserve(what.puts.size() + what.dels.size());
  for (const written_value& one : what.puts)
    out.push_back({one.number, one.bytes.size() + beside_a_value});
  for (const std::uint64_t one : what.dels) out.push_back({one, 0});
  std::ranges::sort(out, {}, &control::record_room::wish::number);
  const auto twice = std::ranges::adjacent_find(out, {}, &control::record_room::wish::number);
  if (twice != out.end()) return std::nullopt;
  return out;
}

control::batch batch_of(const std::string& prefix, const records_question& what) {
  control::batch out{.is_watched = false};
  for (const written_value& one : what.puts) {
    out.changes.push_back(
        {control::change::kind::put, prefix + control::digits(one.number), one.bytes});
  }
  for (const std::uint64_t one : what.dels) {
    out.changes.push_back(del(prefix + control::digits(one)));
  }
  return out;
}

}  // namespace

record_keeper& record_keeper::global() {
  static auto* const made = new record_keeper;  // as the journal, whose threads may be late
  return *made;
}

result<void> record_keeper::keep(std::uint64_t from, const records_question& what) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    return write(from, what);
  } catch (...) {
    return describe_current_exception("records of tasks");
  }
}

result<void> record_keeper::write(std::uint64_t from, const records_question& what) {
  const auto in = journal::global().store();
  if (in == nullptr) return no_store();
  const bool is_name = !what.node.empty() && what.node.size() <= longest_member_name &&
                       what.node.find('\0') == std::string::npos;
  if (!is_name) return error(errc::decode_failed, "records of tasks of a node without a name");
  if (!room_) {
    if (result<void> is = load(*in); !is) return is;
  }
  const std::string prefix = control::tasks_of({what.node, from});
  member& by = members_.try_emplace(from, member{prefix, false}).first->second;
  if (prefix != by.prefix) {
    return error(errc::decode_failed, "records of tasks of a node with another name than before");
  }
  if (by.has_left) return no_store();
  if (what.leaves) {
    by.has_left = true;
    result<void> is = delete_all(*in, prefix);
    if (is) room_->forget(prefix);
    return is;
  }
  const auto wishes = wishes_of(what);
  if (!wishes) return error(errc::decode_failed, "a record of tasks that is there twice");
  const control::record_room::verdict is = room_->ask(prefix, *wishes);
  if (!is.has_room) {
    return error(
        errc::store_full,
        fmt::format("no room in the control store for records of tasks: {} of {} bytes are "
                    "in use; what these tasks make can't be made again when it is lost",
                    room_->bytes(), own::record_limits::all_bytes));
  }
  for (const std::string& one : is.go) {
    if (result<void> gone = delete_all(*in, one); !gone) return gone;
    room_->forget(one);
  }
  const auto done = control::commit_now(*in, batch_of(prefix, what));
  if (!done) return done.error();
  room_->wrote(prefix, *wishes);
  return {};
}

// Those of nodes that wrote before this process did: each is as a lost one's until it writes again.
result<void> record_keeper::load(control::store& in) {
  control::record_room room(own::record_limits::all_bytes);
  const auto found = control::scan_all(in, std::string(control::keys::tasks));
  if (!found) return found.error();
  for (const control::record& one : *found) {
    const std::size_t end = one.key.rfind('/') + 1;
    const std::string prefix = one.key.substr(0, end);
    const std::uint64_t number = control::number_of(std::string_view(one.key).substr(end));
    room.wrote(prefix, {{number, one.value.size() + beside_a_value}});
    room.lost(prefix);
  }
  room_.emplace(std::move(room));
  return {};
}

result<void> record_keeper::delete_all(control::store& in, const std::string& prefix) {
  // A page has 16 MiB.
  for (control::range next{.prefix = prefix, .after = {}, .most = 1000};;) {
    const auto page = control::answer_of<control::page>(
        [&](control::answer<control::page> then) { in.scan(next, std::move(then)); });
    if (!page) return page.error();
    if (page->records.empty()) return {};
    control::batch gone{.is_watched = false};
    for (const control::record& one : page->records) gone.changes.push_back(del(one.key));
    next.after = page->records.back().key;
    if (const auto is = control::commit_now(in, std::move(gone)); !is) return is.error();
    if (!page->has_more) return {};
  }
}

void record_keeper::gone(std::uint64_t from) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(from);
  if (found == members_.end()) return;
  if (room_) room_->lost(found->second.prefix);
  members_.erase(found);
}

void record_keeper::end_job() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    members_.clear();
    room_.reset();
    if (const auto in = journal::global().store()) {
      static_cast<void>(delete_all(*in, std::string(control::keys::tasks)));
    }
  } catch (const std::bad_alloc&) {
    return;  // they go when the next ones need their room
  }
}

}  // namespace manta::inline v0::node
