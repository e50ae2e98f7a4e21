// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "node/far_names.hpp"
#include "node/peers.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_questions.hpp"
#include "wire/bundle.hpp"

// Keys and values, and the history, of a cluster: they are at the head, and asked for by all nodes.
//
// What runs in another node asks as an isolated worker asks its node (worker_questions.hpp), and is
// answered in the same way (worker_facts.hpp); only the messages go by peers. So what a task reads
// and writes under a key does not depend on where it runs.
//
//   node: kv::put -> ask -> peers ~~~> head: [facts' thread] -> store
//         future <- answer <- peers <~~~~~~~~~~~~ answer <------'
//
// A head of its own is no peer: head_line.hpp carries questions and answers, and each node keeps
// the history of what it did itself. Keys and values are the cluster's in either case.
//
// Names of actors are far_names.hpp's.
//
// Threads: any, but as said.

namespace manta::inline v0::node {

class head_facts {
 public:
  static head_facts& global();

  /// In a node that is not the head's: asks that one, by its epoch, until close.
  void ask_of(peers& with, std::uint64_t head);
  /// The same of a head of its own, by whichever line there is: false when there is no room now.
  using pieces = wire::bundle::pieces_view;
  using poster = std::function<bool(std::uint64_t number, pieces message, std::size_t size)>;
  void ask_by(poster line);
  /// There may be room in that line by now. Any thread.
  void has_room() noexcept;
  /// Asks that one for a name. Throws what worker_questions::begin does.
  void ask_name(const name_question& what, worker_questions::taker then);
  /// It was started anew: of what the one before was asked, up to that number, what has no answer
  /// ends with node_lost.
  void head_is_another(std::uint64_t asked) noexcept;
  /// Nobody asks any more: what was asked, and is from now on, ends with `ended_error`.
  void close() noexcept;
  /// Others are not answered any more, since their peers are about to go. Nothing comes from there
  /// meanwhile.
  void stop_answering() noexcept;

  // On the loop's thread.
  void on_question(peers& by, std::uint64_t from, std::span<const std::byte> frame);
  /// Says an answer to who asked; any thread, and nothing when that one has gone.
  using voice = std::function<void(pieces message, std::size_t size)>;
  /// In a head of its own.
  struct asker {
    std::uint64_t number = 0;  ///< for on_gone
    std::uint64_t epoch = 0;   ///< of the member
  };
  void on_question(const asker& who, const voice& say, std::span<const std::byte> frame);
  void on_gone(std::uint64_t node) { on_gone(node, node); }
  /// The same of an asker.
  void on_gone(std::uint64_t node, std::uint64_t epoch);
  /// What was asked for is told on the calling thread, which is not the loop's.
  void on_answer(std::span<const std::byte> frame) noexcept;

 private:
  head_facts() = default;
  static void send(void* self, workbench& on) noexcept;
  /// Whether answers find their way still.
  struct door {
    std::mutex mutex;
    bool is_open = true;
  };
  bool post(workbench& on) noexcept;
  void hear(std::uint64_t from, const voice& say, std::span<const std::byte> frame,
            std::uint64_t epoch);
  static void tell_keeper(std::uint64_t gone) noexcept;
  static void answer_name(const voice& say, std::uint64_t number, const name_question& what);
  void ask_as(std::uint64_t head, peers* with, poster line, worker_questions::scope what);
  std::shared_ptr<worker_facts> facts_of(std::uint64_t node, const voice& say);
  std::shared_ptr<worker_questions> asks() noexcept;

  std::atomic<peers*> with_{nullptr};
  std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint64_t> last_{0};
  std::atomic<std::uint32_t> is_making_{0};

  std::mutex mutex_;
  std::shared_ptr<worker_questions> asks_;
  std::vector<std::shared_ptr<worker_questions>> ended_;  // watches may know them still
  poster line_;                                           // to a head of its own
  std::uint64_t rooms_ = 0;                               // how often there may have been some
  std::condition_variable room_;
  std::shared_ptr<door> door_;
  std::unordered_map<std::uint64_t, std::shared_ptr<worker_facts>> facts_;  // by node
};

}  // namespace manta::inline v0::node
