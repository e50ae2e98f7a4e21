// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/store.hpp"

// Calls of a store that wait for their answer: for threads that may block, and never in an answer.

namespace manta::inline v0::control {

/// Waits for what `ask(answer)` is answered.
template <class T, class Ask>
result<T> answer_of(Ask&& ask) {
  std::promise<result<T>> given;
  ask(answer<T>([&given](result<T> got) { given.set_value(std::move(got)); }));
  return given.get_future().get();
}

inline result<outcome> commit_now(store& to, batch what) {
  return answer_of<outcome>(
      [&](answer<outcome> then) { to.commit(std::move(what), std::move(then)); });
}

/// The record of a key, or none.
inline result<std::optional<record>> read_one(store& in, std::string key) {
  auto got =
      answer_of<found>([&](answer<found> then) { in.read({std::move(key)}, std::move(then)); });
  if (!got) return got.error();
  found one = *std::move(got);
  return std::move(one.records.at(0));
}

/// All records with a prefix, page by page, so not of one moment.
inline result<std::vector<record>> scan_all(store& in, std::string prefix) {
  std::vector<record> all;
  range next{.prefix = std::move(prefix)};
  for (;;) {
    auto got = answer_of<page>([&](answer<page> then) { in.scan(next, std::move(then)); });
    if (!got) return got.error();
    page part = *std::move(got);
    for (record& one : part.records) all.push_back(std::move(one));
    if (!part.has_more) return all;
    next.after = all.back().key;
  }
}

}  // namespace manta::inline v0::control
