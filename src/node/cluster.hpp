// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/config.hpp>
#include <manta/spec/error.hpp>

#include "control/store.hpp"
#include "node/child_nodes.hpp"
#include "node/cluster_process.hpp"
#include "node/end_signals.hpp"
#include "node/rendezvous.hpp"
#include "spec/launch.hpp"

// The cluster of this process's runtime, from what its launch plan says.
//
//   hosts the head   listens at <user folder>/jobs/<job>/head, and over TCP where there are other
//                    machines; says where in the rendezvous; starts the other nodes if it is to
//   others           find that place, join, and serve until the work is done
//
// A process that is alone has none, and opens nothing.
// Threads: open and close: who starts and ends the runtime; the rest: any.

namespace manta::inline v0::node {

class cluster {
 public:
  static cluster& global();

  /// Whether a process with this plan has one.
  static bool is_wanted(const spec::launch_plan& plan) noexcept;
  /// Begins it; returns when this process is a member and, where it hosts the head, the others are
  /// too, or join-ms is over: then it says which are missing, and goes on. `rows`: of a head.
  /// Errors: what a member is refused for; of addresses, tokens, sockets and files.
  result<void> open(const config& settings, const spec::launch_plan& plan,
                    std::shared_ptr<control::store> rows);
  /// In a process that serves: until the work is done, or a signal asks for the end. The exit code.
  /// It ends then; a node is not ended at once by SIGINT any more.
  int serve();
  /// In a node behind serve, until SIGINT has come, be it before.
  void wait_interrupted() noexcept;
  /// When nothing runs here any more, before close: waits, for drain-ms of its time at most, until
  /// others have heard what came of what they gave this node, and have fetched what they have of
  /// it, if they go on without it.
  void hand_over() noexcept;
  /// Ends it: a head ends the work of all, a member leaves. With spmd, rank 0 waits until the
  /// others have left, unless it is to end `at_once`.
  void close(bool at_once) noexcept;

  /// Tasks that wait here go to other nodes, while the runtime runs, and actors that are to;
  /// `workers`: how many this one has. Throws std::system_error.
  struct given_all {
    bool tasks = false;
    bool actors = false;
    bool amounts = false;  ///< no test's: those that ask for some
  };
  /// `all`: for tests, whatever may go.
  void share(std::uint32_t workers, given_all all);

  bool is_open() const;
  /// Copies; empty and the defaults while there is none.
  std::vector<spec::node_member> members() const;
  spec::launch_plan plan() const;

 private:
  using process_ptr = std::shared_ptr<cluster_process>;

  result<void> start(const config& settings, std::shared_ptr<control::store> rows);
  result<void> place_head(cluster_process::settings& with, const config& settings);
  result<void> find_head(cluster_process::settings& with, const config& settings);
  result<void> find_published(cluster_process::settings& with);
  result<void> trust_others(cluster_process::settings& with, const config& settings);
  std::vector<wire::socket_address> published() const;
  void look_for_head();
  result<void> publish();
  result<void> join();
  result<void> gather();
  void watch_the_fence();
  spec::node_introduction own_introduction(const config& settings) const;
  void note_folder(const std::string& head);
  void leave() noexcept;
  void dissolve() noexcept;
  bool has_other_ranks(const cluster_process& at) const;
  int serve_head();
  int serve_node();
  void wait_for_others(cluster_process& at, bool with_guests, base::time_point until);
  bool is_serving() const noexcept { return plan_.role == role_mode::node && !is_spmd_; }
  result<void> tell_from_earlier();
  bool does_work() const noexcept;
  wire::endpoint place_of_node(const std::vector<wire::socket_address>& head) const;
  std::string name_of_member() const;
  process_ptr process() const;
  static void ask_head_of(const process_ptr& at);

  mutable std::mutex mutex_;
  process_ptr process_;     // guarded by it
  spec::launch_plan plan_;  // guarded by it; written by open and close
  duration join_limit_{};
  duration drain_limit_{};
  bool is_spmd_ = false;
  unsigned opened_ = 0;  // how often, in this process
  std::string folder_;   // of the job, when it is made here
  std::optional<rendezvous> meeting_;
  child_nodes children_;
  std::optional<end_signals> signals_;  // of a node, from serve on
};

}  // namespace manta::inline v0::node
