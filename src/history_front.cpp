// SPDX-License-Identifier: Apache-2.0
#include <manta/history.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include <manta/pending.hpp>

#include "control/ask.hpp"
#include "control/rows.hpp"
#include "control/table.hpp"
#include "node/journal.hpp"

namespace manta::inline v0::history {

namespace {

namespace keys = control::keys;

error no_store() {
  return {errc::no_runtime, "history: no manta::runtime runs; it has ended, or is about to"};
}

/// Pays a future on the journal's thread with what `find` finds.
template <class T, class Find>
future<T> ask(Find find) {
  exec::executor::require();
  future<T> out;
  auto owed = std::make_shared<detail::promise<T>>(out);
  const bool is_asked = node::journal::global().after_writing([owed, find](control::store& in) {
    try {
      result<T> found = find(in);
      if (found) {
        owed->set(*std::move(found));
      } else {
        owed->fail(found.error());
      }
    } catch (...) {
      owed->fail(describe_current_exception("manta::history"));
    }
  });
  if (!is_asked) owed->fail(no_store());
  return out;
}

result<std::vector<std::string>> functions_of(control::store& in, const std::string& job) {
  const auto found = control::read_one(in, std::string(keys::jobs) + job);
  if (!found) return found.error();
  if (!*found) return std::vector<std::string>();
  const auto row = control::read_row<job_record>((*found)->key, (*found)->value);
  if (!row) return row.error();
  const auto list =
      control::read_one(in, std::string(keys::functions) + control::digits(row->functions));
  if (!list) return list.error();
  if (!*list) return std::vector<std::string>();
  auto read = control::read_row<std::vector<std::string>>((*list)->key, (*list)->value);
  if (!read) return read.error();
  std::vector<std::string> names = *std::move(read);
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string this_job() {
  exec::executor::require();
  return node::journal::global().job();
}

future<std::vector<job_record>> jobs() {
  return ask<std::vector<job_record>>(
      [](control::store& in) { return control::rows_with<job_record>(in, keys::jobs); });
}

future<std::vector<std::string>> functions(std::string job) {
  return ask<std::vector<std::string>>(
      [job = std::move(job)](control::store& in) { return functions_of(in, job); });
}

future<std::vector<actor_record>> actors() {
  return ask<std::vector<actor_record>>(
      [](control::store& in) { return control::rows_with<actor_record>(in, keys::names); });
}

future<std::vector<event_record>> events(std::string job, std::size_t most) {
  return ask<std::vector<event_record>>([job = std::move(job), most](control::store& in) {
    using rows = std::vector<event_record>;
    const auto all = control::rows_with<rows>(in, control::events_of(job));
    if (!all) return result<rows>(all.error());
    rows flat;
    for (const rows& part : *all) flat.insert(flat.end(), part.begin(), part.end());
    // What a thread was about to tell when the others' were written came with the next ones.
    std::ranges::stable_sort(flat, {}, &event_record::at);
    if (flat.size() > most) {
      flat.erase(flat.begin(), flat.end() - static_cast<std::ptrdiff_t>(most));
    }
    return result<rows>(std::move(flat));
  });
}

}  // namespace manta::inline v0::history
