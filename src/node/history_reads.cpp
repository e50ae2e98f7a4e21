// SPDX-License-Identifier: Apache-2.0
#include "node/history_reads.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "control/ask.hpp"
#include "control/rows.hpp"
#include "control/table.hpp"
#include "node/journal.hpp"
#include "node/worker_questions.hpp"

namespace manta::inline v0::node {

namespace {

error no_history() {
  return {errc::no_runtime, "history: no manta::runtime runs; it has ended, or is about to"};
}

// Answers on the journal's thread with what `find` finds.
template <class T, class Find>
void after_news(const kv_answer<T>& then, Find find) {
  const bool is_asked = journal::global().after_writing([then, find](control::store& in) {
    try {
      then(find(in));
    } catch (...) {
      then(describe_current_exception("manta::history"));
    }
  });
  if (!is_asked) then(no_history());
}

result<std::vector<std::string>> find_functions(control::store& in, const std::string& job) {
  const auto found = control::read_one(in, std::string(control::keys::jobs) + job);
  if (!found) return found.error();
  if (!*found) return std::vector<std::string>();
  const auto row = control::read_row<job_record>((*found)->key, (*found)->value);
  if (!row) return row.error();
  const auto list = control::read_one(
      in, std::string(control::keys::functions) + control::digits(row->functions));
  if (!list) return list.error();
  if (!*list) return std::vector<std::string>();
  auto read = control::read_row<std::vector<std::string>>((*list)->key, (*list)->value);
  if (!read) return read.error();
  std::vector<std::string> names = *std::move(read);
  std::ranges::sort(names);
  return names;
}

result<std::vector<event_record>> find_events(control::store& in, const std::string& job,
                                              std::size_t most) {
  using rows = std::vector<event_record>;
  const auto all = control::rows_with<rows>(in, control::events_of(job));
  if (!all) return all.error();
  rows flat;
  for (const rows& part : *all) flat.insert(flat.end(), part.begin(), part.end());
  // What a thread was about to tell when the others' were written came with the next ones.
  std::ranges::stable_sort(flat, {}, &event_record::at);
  if (flat.size() > most) {
    flat.erase(flat.begin(), flat.end() - static_cast<std::ptrdiff_t>(most));
  }
  return flat;
}

}  // namespace

std::string history_this_job() {
  if (worker_questions* const node = worker_questions::for_all()) {
    return node->ask_now<std::string>(wire::question::this_job, std::uint64_t{0});
  }
  return journal::global().job();
}

void history_jobs(kv_answer<std::vector<job_record>> then) {
  if (worker_questions* const node = worker_questions::for_all()) {
    return node->ask(wire::question::jobs, std::uint64_t{0}, std::move(then));
  }
  after_news(then, [](control::store& in) {
    return control::rows_with<job_record>(in, control::keys::jobs);
  });
}

void history_functions(const std::string& job, kv_answer<std::vector<std::string>> then) {
  if (worker_questions* const node = worker_questions::for_all()) {
    return node->ask(wire::question::functions, job, std::move(then));
  }
  after_news(then, [job](control::store& in) { return find_functions(in, job); });
}

void history_actors(kv_answer<std::vector<actor_record>> then) {
  if (worker_questions* const node = worker_questions::for_all()) {
    return node->ask(wire::question::actors, std::uint64_t{0}, std::move(then));
  }
  after_news(then, [](control::store& in) -> result<std::vector<actor_record>> {
    auto rows = control::rows_with<actor_record>(in, control::keys::names);
    if (!rows) return rows;
    std::vector<actor_record> all = *std::move(rows);
    // The keys of long names are in an order of their own.
    std::ranges::sort(all, [](const actor_record& a, const actor_record& b) {
      return std::tie(a.name_space, a.name) < std::tie(b.name_space, b.name);
    });
    return all;
  });
}

void history_events(const std::string& job, std::size_t most,
                    kv_answer<std::vector<event_record>> then) {
  if (worker_questions* const node = worker_questions::for_all()) {
    return node->ask(wire::question::events, events_question{job, most}, std::move(then));
  }
  after_news(then, [job, most](control::store& in) { return find_events(in, job, most); });
}

}  // namespace manta::inline v0::node
