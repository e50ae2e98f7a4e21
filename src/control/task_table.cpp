// SPDX-License-Identifier: Apache-2.0
#include "control/task_table.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "control/ask.hpp"
#include "control/row_bytes.hpp"

namespace manta::inline v0::control {

namespace {

constexpr std::size_t most_recipe_bytes = limits::value_bytes / 2;

bool is_over(const task_row& row) noexcept { return row.id == base::id{}; }

std::string to_bytes(std::span<const task_row> rows) {
  std::size_t words = 64;
  for (const task_row& row : rows) words += 6 + row.recipe.size() / sizeof(capnp::word);
  capnp::MallocMessageBuilder message(static_cast<unsigned>(words));
  auto all = message.initRoot<schema::Tasks>().initAll(static_cast<unsigned>(rows.size()));
  for (unsigned i = 0; i < all.size(); ++i) {
    const task_row& row = rows[i];
    auto to = all[i];
    to.setHigh(row.id.high);
    to.setLow(row.id.low);
    to.setParentHigh(row.parent.high);
    to.setParentLow(row.parent.low);
    to.setRecipe(data(row.recipe));
  }
  return flat(message);
}

}  // namespace

task_table::task_table(const owner_id& owner, std::size_t most_bytes)
    : prefix_(tasks_of(owner)), most_bytes_(most_bytes) {}

std::string task_table::key(std::uint64_t number) const { return prefix_ + digits(number); }

result<task_table::ticket> task_table::add(task_row row, std::uint32_t known_as) {
  if (row.id == base::id{}) {
    return error(errc::invalid_argument, "control: asked a task record without an id");
  }
  if (row.recipe.size() > most_recipe_bytes) {
    ++refused_;
    return error(errc::store_full,
                 fmt::format("control: asked a task record of {} bytes, at most {}; put what is "
                             "large as an object; what the task makes can't be made again when it "
                             "is lost",
                             row.recipe.size(), most_recipe_bytes));
  }
  const std::size_t more = row.recipe.size() + bytes_of_a_row;
  if (bytes_ + more > most_bytes_) {
    ++refused_;
    return error(errc::store_full,
                 fmt::format("control: no room for the record of a task: asked {} bytes, {} of {} "
                             "are in use; what it makes can't be made again when it is lost",
                             more, bytes_, most_bytes_));
  }
  ticket made;
  made.slot = take_slot();
  entry& of = entries_[made.slot];
  made.turn = of.turn;
  of.bytes = static_cast<std::uint32_t>(row.recipe.size());
  of.known_as = known_as;
  bytes_ += more;
  place(std::move(row), made.slot);
  return made;
}

std::uint32_t task_table::take_slot() {
  if (free_.empty()) {
    entries_.emplace_back();
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  const std::uint32_t turn = entries_[slot].turn;
  entries_[slot] = {};
  entries_[slot].turn = turn;
  return slot;
}

// Into the value that is being filled.
void task_table::place(task_row row, std::uint32_t slot) {
  if (drafts_.empty() || drafts_.back().rows.size() == rows_in_a_value ||
      drafts_.back().bytes + row.recipe.size() > bytes_of_a_value) {
    drafts_.emplace_back().number = next_++;
    drafts_.back().rows.reserve(rows_in_a_value);
  }
  draft& to = drafts_.back();
  entry& of = entries_[slot];
  of.value = to.number;
  of.at = static_cast<std::uint16_t>(to.rows.size());
  value& in = values_[to.number];
  in.slots.push_back(slot);
  ++in.live;
  in.live_bytes += row.recipe.size() + bytes_of_a_row;
  to.bytes += row.recipe.size();
  to.rows.push_back(std::move(row));
}

bool task_table::contains(ticket of) const noexcept {
  return of.slot < entries_.size() && entries_[of.slot].turn == of.turn;
}

void task_table::remove(ticket of) {
  if (!contains(of)) return;
  entry& gone = entries_[of.slot];
  drop(gone);
  bytes_ -= gone.bytes + bytes_of_a_row;
  ++gone.turn;
  free_.push_back(of.slot);
}

// A row is over.
void task_table::drop(const entry& of) {
  const auto at = values_.find(of.value);
  value& in = at->second;
  --in.live;
  in.live_bytes -= of.bytes + bytes_of_a_row;
  if (of.at != nowhere) in.slots[of.at] = none;
  if (!in.is_written) {
    draft& from = drafts_[of.value - drafts_.front().number];
    from.bytes -= from.rows[of.at].recipe.size();
    from.rows[of.at] = {};
    if (in.live == 0) empty(from, in);
    return;
  }
  if (in.live == 0) {
    over_.push_back(of.value);
    stored_ -= in.bytes;
    values_.erase(at);
  } else if (in.live_bytes <= in.bytes / 2 && !std::exchange(in.is_sparse, true)) {
    sparse_.push_back(of.value);
  }
}

// All that it had is over before it was written.
void task_table::empty(draft& one, value& in) {
  std::vector<task_row>().swap(one.rows);
  in.slots.clear();
  while (drafts_.size() > 1 && values_.at(drafts_.front().number).live == 0) {
    values_.erase(drafts_.front().number);
    drafts_.pop_front();
  }
}

// What is over is not written: the others move up.
void task_table::settle(draft& one) {
  value& in = values_.at(one.number);
  in.is_written = true;
  in.bytes = in.live_bytes;
  stored_ += in.bytes;
  std::erase_if(one.rows, is_over);
  std::erase(in.slots, none);
  for (std::size_t at = 0; at < in.slots.size(); ++at) {
    entries_[in.slots[at]].at = static_cast<std::uint16_t>(at);
  }
}

std::vector<batch> task_table::write() {
  std::vector<batch> out;
  std::size_t bytes = 0;
  const auto add = [&](change one) { add_change(out, bytes, std::move(one), bytes_of_a_batch); };
  for (draft& one : drafts_) {
    if (values_.at(one.number).live == 0) {
      values_.erase(one.number);
      continue;
    }
    settle(one);
    add({change::kind::put, key(one.number), to_bytes(one.rows)});
  }
  drafts_.clear();
  for (change& one : rewritten_) add(std::move(one));
  rewritten_.clear();
  // Last: one that was written again may be over by now.
  for (const std::uint64_t number : over_) add({change::kind::del, key(number), {}});
  over_.clear();
  return out;
}

std::optional<task_table::sparse_value> task_table::sparse() {
  while (!sparse_.empty() && !values_.contains(sparse_.front())) sparse_.pop_front();
  // Where records go in the order in which they came a value is soon over by itself.
  while (!sparse_.empty() && stored_ / 2 > bytes_) {
    const std::uint64_t number = sparse_.front();
    sparse_.pop_front();
    const auto at = values_.find(number);
    if (at == values_.end()) continue;
    sparse_value out{number, {}, {}};
    for (const std::uint32_t slot : at->second.slots) {
      if (slot == none) continue;
      ticket& one = out.rows.emplace_back();
      one.slot = slot;
      one.turn = entries_[slot].turn;
      out.known_as.push_back(entries_[slot].known_as);
    }
    return out;
  }
  return std::nullopt;
}

void task_table::rewrite(const sparse_value& what, std::vector<task_row> rows) {
  const auto at = values_.find(what.number);
  if (at == values_.end()) return;
  value& in = at->second;
  for (const std::uint32_t slot : in.slots) {
    if (slot != none) entries_[slot].at = nowhere;
  }
  in.slots.clear();
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < rows.size() && i < what.rows.size(); ++i) {
    if (is_over(rows[i]) || !contains(what.rows[i])) {
      rows[i] = {};
      continue;
    }
    entries_[what.rows[i].slot].at = static_cast<std::uint16_t>(in.slots.size());
    in.slots.push_back(what.rows[i].slot);
    bytes += rows[i].recipe.size() + bytes_of_a_row;
  }
  std::erase_if(rows, is_over);
  stored_ -= in.bytes - bytes;
  in.bytes = bytes;
  in.is_sparse = false;
  rewritten_.push_back({change::kind::put, key(what.number), to_bytes(rows)});
}

result<std::vector<task_row>> read_tasks(std::string_view key, std::string_view bytes) {
  return with_message<schema::Tasks>(key, bytes, [](schema::Tasks::Reader from) {
    std::vector<task_row> rows;
    rows.reserve(from.getAll().size());
    for (const auto one : from.getAll()) {
      rows.push_back({{one.getHigh(), one.getLow()},
                      {one.getParentHigh(), one.getParentLow()},
                      data(one.getRecipe())});
    }
    return rows;
  });
}

result<std::vector<task_row>> read_tasks(store& in, const owner_id& owner) {
  const result<std::vector<record>> found = scan_all(in, tasks_of(owner));
  if (!found) return found.error();
  std::vector<task_row> all;
  for (const record& one : *found) {
    result<std::vector<task_row>> read = read_tasks(one.key, one.value);
    if (!read) return read.error();
    std::vector<task_row> rows = *std::move(read);
    std::ranges::move(rows, std::back_inserter(all));
  }
  return all;
}

}  // namespace manta::inline v0::control
