// SPDX-License-Identifier: Apache-2.0
#include "control/expiry.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
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
constexpr std::size_t revision_digits = 16;
constexpr std::size_t own_bytes = keys::ends.size() + time_digits;
constexpr std::size_t rows_at_once = 1024;
constexpr std::int64_t parts_of_a_life = 16;

static_assert(longest_ending_key + own_bytes == limits::key_bytes);

// The number from place `at` on.
std::uint64_t number_at(std::string_view text, std::size_t at, std::size_t digits) {
  return number_of(text.substr(std::min(at, text.size())), digits);
}

wall_time time_of_ms(std::uint64_t ms) {
  return wall_time(std::chrono::milliseconds(static_cast<std::int64_t>(ms)));
}

std::string row_key(std::uint64_t ms, std::string_view key) {
  return fmt::format("{}{:012x}{}", keys::ends, ms, key);
}

/// A row of what ends.
struct ending {
  explicit ending(const record& from)
      : row(from.key),
        row_at(from.at),
        key(from.key.substr(std::min(own_bytes, from.key.size()))),
        at(number_at(from.value, time_digits, revision_digits)),
        end(number_at(from.value, 0, time_digits)) {
    if (at == 0) at = row_at;  // the batch that wrote the key wrote the row
  }

  std::string row;
  revision row_at = 0;
  std::string key;
  revision at = 0;        // of the key, when the row is still its
  std::uint64_t end = 0;  // ms; after the row's time for one that is filed early
};

// What is to be done with a row that is due, under way.
class ended {
 public:
  ended(store& in, ending what, wall_time now) : in_(in), what_(std::move(what)) {
    batch both = row_only();
    both.conditions.push_back({what_.key, what_.at});
    is_early_ = time_of_ms(what_.end) > now;
    if (is_early_) {
      both.changes.push_back({change::kind::put, row_key(what_.end, what_.key),
                              fmt::format("{:012x}{:016x}", what_.end, what_.at)});
    } else {
      both.changes.push_back({change::kind::del, what_.key, {}});
    }
    in_.commit(what_.key.empty() ? row_only() : std::move(both),
               [this](result<outcome> got) { answer_.set_value(std::move(got)); });
  }
  result<void> wait(swept& out) {
    result<outcome> got = answer_.get_future().get();
    if (!got) return got.error();
    if (got->refused) {
      // The key was written again, maybe with a row of this name, which is another one then.
      got = commit_now(in_, row_only());
      return got ? result<void>() : result<void>(got.error());
    }
    if (!is_early_) {
      ++out.gone;
    } else {
      out.next = std::min(out.next.value_or(wall_time::max()), time_of_ms(what_.end));
    }
    return {};
  }

 private:
  batch row_only() const {
    return {.conditions = {{what_.row, what_.row_at}},
            .changes = {{change::kind::del, what_.row, {}}}};
  }

  store& in_;
  const ending what_;
  bool is_early_ = false;
  std::promise<result<outcome>> answer_;
};

result<void> end(store& in, std::vector<ending> due, wall_time now, swept& out) {
  std::deque<ended> all;  // all under way at once, so that the store writes them as one
  for (ending& one : due) all.emplace_back(in, std::move(one), now);
  result<void> done;
  for (ended& one : all) {
    if (result<void> good = one.wait(out); !good) done = good;
  }
  return done;
}

}  // namespace

void end_at(batch& to, const std::string& key, wall_time at, wall_time now) {
  const std::int64_t us = std::max<std::int64_t>(at.time_since_epoch().count(), 0);
  const auto ms = static_cast<std::uint64_t>((us + 999) / 1000);
  const std::int64_t part = (at - now).count() / 1000 / parts_of_a_life;
  const std::uint64_t step =
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(part, 1)));
  to.changes.push_back(
      {change::kind::put, row_key(ms / step * step, key), fmt::format("{:012x}", ms)});
}

result<swept> sweep(store& in, wall_time now, std::size_t most) {
  swept out;
  range next{.prefix = std::string(keys::ends), .most = rows_at_once};
  bool is_done = false;
  for (std::size_t rows = 0; !is_done;) {
    const auto found = answer_of<page>([&](answer<page> then) { in.scan(next, std::move(then)); });
    if (!found) return found.error();
    std::vector<ending> due;
    for (const record& one : found->records) {
      const wall_time at = time_of_ms(number_at(one.key, keys::ends.size(), time_digits));
      if (at > now || rows == most) {
        out.next = std::min(out.next.value_or(at), at);
        is_done = true;
        break;
      }
      ++rows;
      due.emplace_back(one);
    }
    if (due.empty()) break;
    next.after = due.back().row;  // what was deleted is not looked at again
    if (result<void> good = end(in, std::move(due), now, out); !good) return good.error();
  }
  return out;
}

}  // namespace manta::inline v0::control
