// SPDX-License-Identifier: Apache-2.0
#include "control/call_log.hpp"

#include <utility>

#include "control/ask.hpp"
#include "control/cluster_rows.hpp"
#include "control/row_bytes.hpp"

namespace manta::inline v0::control {

namespace {

constexpr std::size_t most_call_bytes = limits::value_bytes / 2;
constexpr std::size_t bytes_of_a_row = 64;  // beside its request
constexpr std::size_t bytes_of_a_value = std::size_t{4} << 20U;

std::size_t bytes_of(const call_row& row) noexcept { return row.request.size() + bytes_of_a_row; }

std::string to_bytes(const std::vector<call_row>& rows, std::size_t from, std::size_t to) {
  capnp::MallocMessageBuilder message;
  auto all = message.initRoot<schema::Calls>().initAll(static_cast<unsigned>(to - from));
  for (unsigned i = 0; i < all.size(); ++i) {
    const call_row& row = rows[from + i];
    all[i].setCallerHigh(row.caller.high);
    all[i].setCallerLow(row.caller.low);
    all[i].setNumber(row.number);
    all[i].setExecution(row.execution);
    all[i].setRequest(data(row.request));
  }
  return flat(message);
}

result<std::vector<call_row>> read_calls(const std::string& key, const std::string& bytes) {
  return with_message<schema::Calls>(key, bytes, [](schema::Calls::Reader from) {
    std::vector<call_row> rows;
    rows.reserve(from.getAll().size());
    for (const auto one : from.getAll()) {
      rows.push_back({{one.getCallerHigh(), one.getCallerLow()},
                      one.getNumber(),
                      one.getExecution(),
                      data(one.getRequest())});
    }
    return rows;
  });
}

}  // namespace

call_log::call_log(const base::id& actor, std::size_t most_bytes)
    : prefix_(std::string(keys::calls) + digits(actor) + '/'), most_bytes_(most_bytes) {}

result<std::vector<call_row>> call_log::load(store& in) {
  const result<std::vector<record>> found = scan_all(in, prefix_);
  if (!found) return found.error();
  std::vector<call_row> all;
  std::deque<value> written;
  for (const record& one : *found) {
    result<std::vector<call_row>> read = read_calls(one.key, one.value);
    if (!read) return read.error();
    std::vector<call_row> rows = *std::move(read);
    value is;
    is.number = number_of(own_part(one.key, prefix_));
    for (call_row& row : rows) {
      is.last = row.execution;
      is.bytes += bytes_of(row);
      all.push_back(std::move(row));
    }
    written.push_back(is);
  }
  written_ = std::move(written);
  added_.clear();
  over_.clear();
  bytes_ = 0;
  for (const value& one : written_) bytes_ += one.bytes;
  last_ = written_.empty() ? 0 : written_.back().last;
  next_ = written_.empty() ? 0 : written_.back().number + 1;
  return all;
}

result<void> call_log::add(call_row row) {
  if (row.execution <= last_) {
    return error(errc::invalid_argument,
                 fmt::format("control: asked to log execution {} of an actor after {}",
                             row.execution, last_));
  }
  const std::size_t more = bytes_of(row);
  if (more > most_call_bytes) {
    return error(errc::store_full,
                 fmt::format("control: asked to log a call of {} bytes, at most {}; put what is "
                             "large as an object and give its future",
                             more, most_call_bytes));
  }
  if (bytes_ + more > most_bytes_) {
    return error(errc::store_full,
                 fmt::format("control: no room in the log of an actor's calls: asked {} bytes, {} "
                             "of {} are in use until its next checkpoint",
                             more, bytes_, most_bytes_));
  }
  last_ = row.execution;
  bytes_ += more;
  added_.push_back(std::move(row));
  return {};
}

void call_log::cover(std::uint64_t execution) {
  while (!written_.empty() && written_.front().last <= execution) {
    bytes_ -= written_.front().bytes;
    over_.push_back(prefix_ + digits(written_.front().number));
    written_.pop_front();
  }
  // Those are the oldest of what was added.
  std::size_t covered = 0;
  while (covered < added_.size() && added_[covered].execution <= execution) {
    bytes_ -= bytes_of(added_[covered++]);
  }
  added_.erase(added_.begin(), added_.begin() + static_cast<std::ptrdiff_t>(covered));
}

std::vector<batch> call_log::write() {
  std::vector<batch> out;
  std::size_t bytes = 0;
  for (std::size_t from = 0; from < added_.size();) {
    value made{.number = next_++};
    std::size_t end = from;
    while (end < added_.size() && (end == from || made.bytes < bytes_of_a_value)) {
      made.bytes += bytes_of(added_[end]);
      made.last = added_[end++].execution;
    }
    add_change(out, bytes,
               {change::kind::put, prefix_ + digits(made.number), to_bytes(added_, from, end)});
    written_.push_back(made);
    from = end;
  }
  added_.clear();
  for (std::string& key : over_) add_change(out, bytes, {change::kind::del, std::move(key), {}});
  over_.clear();
  return out;
}

}  // namespace manta::inline v0::control
