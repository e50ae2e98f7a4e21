// SPDX-License-Identifier: Apache-2.0
// How a process serves its cluster, and leaves it: cluster.hpp.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "node/cluster.hpp"
#include "node/end_signals.hpp"
#include "node/leftovers.hpp"
#include "node/parting.hpp"
#include "node/trade.hpp"
#include "spec/own_node.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

constexpr auto first_check = 1ms;
constexpr auto between_checks = 20ms;
constexpr auto time_to_end = 2s;

void say_end(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "manta: %s\n", text.c_str());
}

}  // namespace

int cluster::serve() {
  signals_.emplace();
  if (plan_.role == role_mode::head) {
    const int code = serve_head();
    signals_.reset();  // it runs nothing that could hold its end up
    return code;
  }
  const int code = serve_node();
  signals_->give_back(SIGTERM);
  return code;
}

void cluster::wait_interrupted() noexcept {
  while (end_signals::last_number() != SIGINT) signals_->wait();
}

int cluster::serve_node() {
  watch_the_fence();
  int number = 0;
  const process_ptr at = process();
  while (!at->wait_over_for({})) {
    number = signals_->wait();
    if (number == 0) continue;
    const base::time_point until = base::now() + drain_limit_;
    at->drain(number == SIGTERM ? drain_limit_ : duration(0));
    // What others have given it ends first, and what it has made for them is fetched meanwhile.
    trade::global().close_door();
    if (number == SIGTERM) wait_for_others(*at, true, until);
    at->idle();
    break;
  }
  const std::optional<error> why = at->wait_over();
  if (!why.has_value()) return 0;
  say_end(fmt::format("{}: {}", name_of_member(), why->message()));
  return 1;
}

// Until others have what is theirs here: arrays of results and, `with_guests`, what came of what
// they gave this node. Who waits for guests drains, and its seat ends that after drain-ms, which
// gives back the time that this process stood still; who doesn't waits for no longer than `until`.
// Nobody does who is interrupted meanwhile.
void cluster::wait_for_others(cluster_process& at, bool with_guests, base::time_point until) {
  parting arrays(at.others());
  // In this order: the last guest's result may be an array that stays.
  const auto is_done = [&arrays, with_guests] {
    const bool has_guests = with_guests && trade::global().has_guests();
    return arrays.is_over() && !has_guests;
  };
  duration pause = first_check;
  const auto may_wait = [with_guests, until] {
    if (end_signals::last_number() == SIGINT) return false;
    return with_guests || base::now() < until;
  };
  while (!is_done() && may_wait() && !at.wait_over_for(pause)) {
    pause = std::min<duration>(2 * pause, between_checks);
  }
  // Where the work of all has ended before, nobody reads them.
  if (base::now() >= until) say_end(arrays.text_of_left(name_of_member(), drain_limit_));
}

// The end of a head's process without spmd is that of all; with it that one goes last, and answers
// until then. Who goes before is given nothing meanwhile: it would send that back, without an end.
void cluster::hand_over() noexcept {
  const process_ptr at = process();
  if (at == nullptr || (plan_.hosts_head() && !is_spmd_)) return;
  const bool goes = !plan_.hosts_head();
  const base::time_point until = base::now() + drain_limit_;
  if (goes) at->drain(drain_limit_);
  wait_for_others(*at, goes, until);
}

// SIGTERM: it may be started again, and finds its members then. SIGINT: nobody wants them any more.
int cluster::serve_head() {
  for (const wire::socket_address& one : process_->addresses()) {
    std::fprintf(stderr, "manta: head of a cluster at %s\n", one.text().c_str());
  }
  process_->tell_over([](const std::optional<error>&) { end_signals::ring(); });
  int number = 0;
  while (number == 0 && !process_->wait_over_for({})) number = signals_->wait();
  if (number == SIGINT) dissolve();
  if (number != 0) return 0;
  const std::optional<error> why = process_->wait_over();
  say_end(why.has_value() ? why->message() : "the head has ended");
  return 1;
}

void cluster::dissolve() noexcept {
  const process_ptr at = process();
  if (at == nullptr) return;
  at->dissolve("its work is done");
  at->wait_dissolved(time_to_end);
}

void cluster::leave() noexcept {
  const process_ptr at = process();
  if (at == nullptr) return;
  at->tell_over({});
  at->drain({});
  at->idle();  // it may be draining already
  at->wait_over_for(time_to_end);
}

// Of the job; who has joined it since has nothing to come to an end with.
bool cluster::has_other_ranks(const cluster_process& at) const {
  const std::vector<spec::node_member> there = at.members();
  const std::set<std::string> came = at.gathered();
  return std::ranges::any_of(there, [&](const spec::node_member& one) {
    if (one.who.name == name_of_member()) return false;
    if (came.contains(one.who.name)) return true;
    for (int rank = 1; rank < plan_.size; ++rank) {
      if (one.who.name == fmt::format("rank-{}", rank)) return true;
    }
    return false;
  });
}

void cluster::close(bool at_once) noexcept {
  if (const process_ptr at = process()) {
    if (plan_.hosts_head() && plan_.role != role_mode::head) {
      // As with MPI, who ends last ends the others: they may still be at work.
      while (is_spmd_ && !at_once && has_other_ranks(*at) && !at->wait_over_for(between_checks)) {
      }
      at->tell_over({});
      dissolve();
    } else if (plan_.role != role_mode::head) {
      leave();
    }
  }
  process_ptr last;  // ends without the lock
  {
    const std::lock_guard lock(mutex_);
    last = std::exchange(process_, nullptr);
    plan_ = {};
  }
  last.reset();  // with its sockets; the next job of that name may have some there at once
  spec::name_own_node("local");
  leftovers::global().forget_own();
  // With spmd they may have more to do when their runtime has ended.
  const bool waits = is_spmd_ && !at_once;
  children_.end(waits ? std::optional<duration>() : time_to_end);
  meeting_.reset();
  folder_.clear();
  leftovers::global().remove();  // the folder goes with the last one
  leftovers::global().clear();
  if (signals_.has_value()) signals_->give_back(SIGINT);  // what follows is the program's own exit
}

}  // namespace manta::inline v0::node
