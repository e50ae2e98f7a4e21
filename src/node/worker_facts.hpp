// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <manta/codec/codec.hpp>
#include <manta/node/kv_bytes.hpp>

#include "node/facts_line.hpp"
#include "wire/message.hpp"

// What an isolated worker asks its node: small facts, which the node has and the worker has not.
//
// Problem. Values under keys, their watches and the history are in the control store, and that is
// the node's. Who hears a worker's ring runs the tasks that wait, or finishes others' results, and
// a store in a folder may wait for the disk.
//
// Idea. A question is a message with its kind and its own values, encoded as any value is; its
// answer is a result under the same request. Who hears one decodes and checks it, and puts it into
// a line, from which one thread of the node asks what the driver's own calls ask (kv_bytes.hpp,
// history_reads.hpp). So the questions of one worker are asked in their order. Their answers come
// on whatever thread the store answers on, which writes them into the worker's ring at once. Names
// of actors are no part of this: they are answered on the spot, in the order of the worker's
// messages (worker_pool_asks.cpp).
//
//   worker: kv::put -> ask -> ring -> [who hears] -> line -> [the facts' thread] -> store
//           future <- result <- ring <------------------------------ [the store's] <-'
//
// Watches. A worker's watch is one of the node's under a number; the end of the worker ends it.
//
// Limits. A worker has at most most_open questions without an answer, with most_open_bytes in
// them, and most_watches; beyond it the answer is store_full.
//
// Threads: any. No lock is held while an answer is told or a watch ends.

namespace manta::inline v0::node {

// The questions' own values; those of keys and values: kv_bytes.hpp.

/// question::find_actor.
struct actor_question {
  std::string name;
  std::string name_space;
  std::string type;  ///< the compiler's spelling
};
/// question::kv_list.
struct list_question {
  std::string prefix;
  std::string after;
  std::uint64_t most = 0;
};
/// question::kv_watch.
struct watch_question {
  kv_part part = kv_part::values;
  std::string prefix;
  std::optional<std::uint64_t> from;
};
/// question::events.
struct events_question {
  std::string job;
  std::uint64_t most = 0;
};

/// The value of a question that came. Throws decode_failed: nonsense.
template <class T>
T value_of_question(const wire::ask_view& asked) {
  return codec::decode<T>(asked.with);
}

/// The facts of one worker.
class worker_facts : public std::enable_shared_from_this<worker_facts> {
 public:
  static constexpr std::size_t most_open = 65536;
  static constexpr std::size_t most_open_bytes = std::size_t{64} << 20U;
  static constexpr std::size_t most_watches = 1024;

  /// Says an answer to the worker, under the request of that number; any thread.
  using teller = std::function<void(std::uint64_t number, const wire::result_view& answer)>;
  explicit worker_facts(teller tell) : tell_(std::move(tell)) {}

  /// A question that is not about names of actors. Throws decode_failed: nonsense; std::bad_alloc.
  void ask(std::uint64_t number, const wire::ask_view& asked);
  /// The same of what others know how to answer: `answers` is called in the line.
  void ask_else(std::uint64_t number, const spec::parcel_view& with, std::function<void()> answers);
  /// The same of question::task_records, by that member.
  void ask_records(std::uint64_t number, const wire::ask_view& asked, std::uint64_t member);
  /// The worker is gone: its watches end, and nobody hears the answers.
  void end() noexcept;

  /// Tells that answer, or why there is none.
  template <class T>
  void tell(std::uint64_t number, const result<T>& got) noexcept;

 private:
  template <class T>
  kv_answer<T> answer_to(std::uint64_t number, std::size_t bytes);
  std::function<void()> open(std::uint64_t number, const wire::ask_view& asked, std::size_t bytes);
  std::function<void()> open_history(std::uint64_t number, const wire::ask_view& asked,
                                     std::size_t bytes);
  void begin_watch(const watch_question& asked, const kv_answer<std::uint64_t>& then);
  std::optional<kv_watch> watch_of(std::uint64_t watch);
  void end_watch(std::uint64_t watch) noexcept;
  bool takes(std::size_t bytes) noexcept;
  bool takes_or_tells(std::uint64_t number, std::size_t bytes);
  void answered(std::size_t bytes) noexcept;

  const teller tell_;
  std::atomic<int> records_{0};  // questions of them that are open
  std::mutex mutex_;
  std::size_t open_ = 0;
  std::size_t open_bytes_ = 0;
  bool is_over_ = false;
  std::unordered_map<std::uint64_t, kv_watch> watches_;
  // From where no other one has begun: who asks may have numbers of a head that was there before.
  std::uint64_t last_watch_ = static_cast<std::uint64_t>(base::now().time_since_epoch().count())
                              << 8U;
};

}  // namespace manta::inline v0::node
