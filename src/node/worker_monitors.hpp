// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include <manta/base/id.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/spec/actor_end.hpp>

// How an isolated worker hears of the ends of actors that are not in it.
//
// Problem. manta::monitor in a worker is asked of a core that stands for an actor of another
// process (actor_names.hpp). That core knows its own handles only: the object may be killed from
// elsewhere, leave, or die with its process.
//
// Idea. The first who watches such a core makes its worker ask the node, once, how the actor ends;
// the answer comes when it has. The core then ends as its actor did, and tells all who watch it
// there. One that is killed or retired in the worker waits for that answer, too, and keeps what the
// node lent until then; one whose last handle goes gives that back and waits without.
//
//   worker: monitor -> core.watch; ask(actor) -> ring -> node: core.watch ... it ends
//           futures <- core ends as that did <---------- result <---------------'
//
// An actor whose worker has told the node nothing of it yet is asked for right behind the message
// that makes it. The end of the runtime answers, as it tells those who watch in the driver. A
// worker that dies has its watches taken back.
//
// Limits. A worker asks most_open times at most without an answer; monitor throws beyond that, and
// the node ends a worker that asks all the same.
//
// Threads: any. No lock is held while an answer is told.

namespace manta::inline v0::node {

/// question::actor_end.
struct end_question {
  std::uint64_t high = 0;  ///< the actor's id
  std::uint64_t low = 0;
};
/// Its answer.
struct end_answer {
  std::uint8_t reason = 0;  ///< an end_reason
  std::string message;
};

/// What one worker waits for, at the node.
class worker_monitors : public std::enable_shared_from_this<worker_monitors> {
 public:
  static constexpr std::size_t most_open = 65536;

  /// Says an answer to the worker, under the request of that number; any thread.
  using teller = std::function<void(std::uint64_t number, const actor_end& how)>;
  explicit worker_monitors(teller tell) : tell_(std::move(tell)) {}

  /// Answers when that actor has ended; takes a pin of it. Throws decode_failed: nonsense;
  /// std::bad_alloc.
  void watch(std::uint64_t number, exec::actor_core* of);
  /// The runtime ends: answers all.
  void end_with_runtime() noexcept;
  /// The worker is gone: nothing is left in the actors that it watched.
  void end() noexcept;

 private:
  struct one;
  using all = std::unordered_map<std::uint64_t, std::shared_ptr<one>>;
  bool unlist(std::uint64_t number) noexcept;
  void told(one& by, const actor_end& how) noexcept;

  const teller tell_;
  std::mutex mutex_;
  bool is_over_ = false;
  all open_;
};

}  // namespace manta::inline v0::node
