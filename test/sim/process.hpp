// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <manta/base/id.hpp>

#include "node/cluster_member.hpp"
#include "sim/cluster.hpp"
#include "sim/network.hpp"
#include "sim/tampering_link.hpp"
#include "sim/timer.hpp"
#include "spec/cluster.hpp"
#include "wire/courier.hpp"

namespace sim {

/// What a process sees of the run that it is in.
class scene {
 public:
  scene(const run_settings& s, std::uint64_t seed) : with(s), time(seed), net(time) {}

  virtual void log(entry one) = 0;
  virtual manta::life::membership_settings settings(bool of_head) const = 0;
  virtual bool is_here(const std::string& host, const manta::base::id& who) const = 0;
  /// The process in that slot has ended by itself.
  virtual void gone(std::size_t slot) = 0;
  time_point begin() const { return begin_; }

  const run_settings with;
  world time;
  network net;

 protected:
  ~scene() = default;

 private:
  const time_point begin_ = time.now();
};

inline const std::string head_host = "head";
std::string host_of(std::size_t slot);

/// A process that is a member, or wants to be.
class process final : public manta::node::cluster_member::visitor {
 public:
  process(scene& in, std::size_t slot, const manta::base::id& own);

  void on_joined(std::uint64_t epoch) override;
  void on_changed(const manta::spec::node_member& one) override;
  void on_over(const std::optional<manta::error>& why) override;

  time_point pump();
  void accept(std::unique_ptr<manta::wire::link> from, const caller& by);
  void drain();
  /// Stopped, it does nothing, and what is done to it waits.
  void stop() { timer.stop(); }
  void go_on();
  view_of_members view() const;
  const manta::spec::node_load& load() const { return load_; }
  const std::string& host() const { return host_; }

  const manta::base::id name;
  bool is_over = false;
  pump_timer timer;

 private:
  // Requests to and from one other process.
  struct peer final : manta::wire::courier::visitor {
    void on_request(const manta::wire::arrival& came) override;
    void on_answer(const manta::base::id& request, std::span<const std::byte> answer) override;

    process* of = nullptr;
    manta::base::id other;
    std::unique_ptr<manta::wire::courier> mail;
    std::map<std::uint64_t, std::uint64_t> open;  // ids' low halves -> number of the request
  };
  void work();
  void change_load();
  void meet(const manta::spec::node_member& one);
  peer& make_peer(const manta::base::id& other, manta::wire::courier::settings how);
  std::unique_ptr<manta::wire::link> dial(const std::string& to, const manta::base::id& wanted);
  void ask(peer& whom, std::uint64_t number);
  void note(entry::what is, std::uint64_t other = 0, std::uint64_t number = 0,
            std::string why = {});

  scene& in_;
  const std::size_t slot_;
  const std::string host_;
  std::uint64_t epoch_ = 0;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_request_ = 0;
  int dials_ = 0;
  bool is_to_drain_ = false;
  manta::spec::node_load load_;
  tampering_link::memory broken_memory_;
  using by_id = bool (*)(const manta::base::id&, const manta::base::id&);
  std::map<manta::base::id, std::unique_ptr<peer>, by_id> peers_;
  std::unique_ptr<manta::node::cluster_member> member_;
};

}  // namespace sim
