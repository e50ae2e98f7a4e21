// SPDX-License-Identifier: Apache-2.0
#include "control/expiry.hpp"

#include <algorithm>
#include <charconv>
#include <deque>
#include <future>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "control/ask.hpp"
#include "control/rows.hpp"

namespace manta::inline v0::control {

namespace {

constexpr std::size_t time_digits = 12;
constexpr std::size_t rows_at_once = 1024;

static_assert(longest_ending_key + keys::ends.size() + time_digits == limits::key_bytes);

struct ending {
  std::string row;  // key
  revision at = 0;
  std::string key;
};

std::uint64_t to_millis(wall_time at) {
  return static_cast<std::uint64_t>((at.time_since_epoch().count() + 999) / 1000);
}

wall_time time_of(std::string_view row) {
  std::int64_t ms = 0;
  const std::string_view time = row.substr(keys::ends.size(), time_digits);
  std::from_chars(time.data(), time.data() + time.size(), ms, 16);
  return wall_time(std::chrono::milliseconds(ms));
}

// Deletes a row, and its key with it when that was not written since; tells whether it was.
class ended {
 public:
  ended(store& in, ending what) : in_(in), what_(std::move(what)) {
    batch both = row_only();
    both.conditions.push_back({what_.key, what_.at});
    both.changes.push_back({change::kind::del, what_.key, {}});
    in_.commit(what_.key.empty() ? row_only() : std::move(both),
               [this](result<outcome> got) { answer_.set_value(std::move(got)); });
  }
  result<bool> wait() {
    result<outcome> got = answer_.get_future().get();
    if (!got) return got.error();
    if (!got->refused) return true;
    got = commit_now(in_, row_only());
    if (!got) return got.error();
    return false;
  }

 private:
  batch row_only() const { return {.changes = {{change::kind::del, what_.row, {}}}}; }

  store& in_;
  const ending what_;
  std::promise<result<outcome>> answer_;
};

result<std::size_t> end(store& in, std::vector<ending> due) {
  std::deque<ended> all;  // all under way at once, so that the store writes them as one
  for (ending& one : due) all.emplace_back(in, std::move(one));
  std::size_t gone = 0;
  std::optional<error> wrong;
  for (ended& one : all) {
    const result<bool> is_gone = one.wait();
    if (!is_gone) wrong = is_gone.error();
    if (is_gone && *is_gone) ++gone;
  }
  if (wrong) return *wrong;
  return gone;
}

}  // namespace

void end_at(batch& to, const std::string& key, wall_time at) {
  to.changes.push_back(
      {change::kind::put, fmt::format("{}{:012x}{}", keys::ends, to_millis(at), key), {}});
}

result<swept> sweep(store& in, wall_time now) {
  swept out;
  for (;;) {
    const auto rows = answer_of<page>([&](answer<page> then) {
      in.scan({.prefix = std::string(keys::ends), .most = rows_at_once}, std::move(then));
    });
    if (!rows) return rows.error();
    std::vector<ending> due;
    for (const record& one : rows->records) {
      if (time_of(one.key) > now) {
        out.next = time_of(one.key);
        break;
      }
      constexpr std::size_t own = keys::ends.size() + time_digits;
      due.push_back({one.key, one.at, one.key.substr(std::min(own, one.key.size()))});
    }
    if (due.empty()) return out;
    const result<std::size_t> gone = end(in, std::move(due));
    if (!gone) return gone.error();
    out.gone += *gone;
  }
}

}  // namespace manta::inline v0::control
