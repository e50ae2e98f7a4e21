// SPDX-License-Identifier: Apache-2.0
#include <manta/history.hpp>

#include <memory>
#include <utility>

#include <manta/pending.hpp>

#include "node/history_reads.hpp"

namespace manta::inline v0::history {

namespace {

/// An answer that pays a future.
template <class T>
node::kv_answer<T> paying(future<T>& out) {
  exec::executor::require();
  auto owed = std::make_shared<detail::promise<T>>(out);
  return [owed](result<T> got) {
    if (got) {
      owed->set(*std::move(got));
    } else {
      owed->fail(got.error());
    }
  };
}

}  // namespace

std::string this_job() {
  exec::executor::require();
  return node::history_this_job();
}

future<std::vector<job_record>> jobs() {
  future<std::vector<job_record>> out;
  node::history_jobs(paying(out));
  return out;
}

future<std::vector<std::string>> functions(const std::string& job) {
  future<std::vector<std::string>> out;
  node::history_functions(job, paying(out));
  return out;
}

future<std::vector<actor_record>> actors() {
  future<std::vector<actor_record>> out;
  node::history_actors(paying(out));
  return out;
}

future<std::vector<event_record>> events(const std::string& job, std::size_t most) {
  future<std::vector<event_record>> out;
  node::history_events(job, most, paying(out));
  return out;
}

}  // namespace manta::inline v0::history
