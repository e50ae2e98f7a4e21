// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <manta/exec/resource_gate.hpp>
#include <manta/sched/ledger.hpp>
#include <manta/sched/line.hpp>
#include <manta/spec/config.hpp>

// Where the gate of exec/ meets the ledger of sched/. A claim is a request of the line: the desk
// hands one to the other and turns what the line grants into what the gate starts. It decides
// nothing.

namespace manta::inline v0::node {

class desk final : public exec::resource_desk {
 public:
  /// The process's desk; never destroyed.
  static desk& global();

  /// Begins the books of a new runtime, while none runs. Not under the gate's lock.
  void open(const config& settings);

  /// What a claim of this desk was made for, and where. The claim's owner.
  static const spec::demand& asked_by(const exec::resource_claim& c) noexcept;
  static const placement& place_of(const exec::resource_claim& c) noexcept;

  // For the gate, under its lock.
  std::unique_ptr<exec::resource_claim> prepare(const spec::demand& asked, const placement& where,
                                                std::uint64_t caller, bool is_for_life) override;
  std::unique_ptr<exec::resource_claim> note(const spec::demand& asked) override;
  void ask_here(exec::resource_claim& c, std::uint64_t caller) override;
  answer ask(exec::resource_claim& c) override;
  exec::claim_list leave(exec::resource_claim& c) noexcept override;
  exec::claim_list lend(exec::resource_claim& c) noexcept override;
  void take_back(exec::resource_claim& c) noexcept override;
  exec::resource_claim* take_waiting() noexcept override;

  // For the front; they take the gate's lock.

  /// A group and its claim, not made yet: request(job) does that, and the job goes on when the
  /// group has its place. The claim has to live until the job went on or was cancelled. Throws
  /// infeasible, std::bad_alloc.
  std::unique_ptr<exec::resource_claim> make_group(std::vector<spec::demand> bundles, strategy how,
                                                   sched::group_id& id);
  /// False when it is not there (any more). Those who wait for it fail with group_removed, actors
  /// in it are killed. Throws std::bad_alloc: the group is gone, and some actor may live on.
  bool remove_group(sched::group_id id);
  std::vector<demand_report> unmet() const;
  resource_report report() const;
  /// What placements call this node: "local", which always means it, or its name in the cluster
  /// that it is a member of.
  std::string node_name() const;
  void call_node(std::string name);

 private:
  desk() = default;
  struct claim;
  // All that belongs to one runtime.
  struct books {
    explicit books(std::uint64_t generation);
    ~books();
    sched::ledger has;
    sched::line waits;
  };

  bool is_current(const claim& c) const noexcept;
  exec::claim_list claims_of(const sched::request_list& granted) noexcept;
  void list(claim& c) noexcept;
  void unlist(claim& c) noexcept;
  std::vector<exec::actor_core*> actors_in(const sched::group& g) const;

  std::uint64_t generation_ = 0;
  std::unique_ptr<books> books_;
  claim* living_ = nullptr;  // what actors hold now
};

}  // namespace manta::inline v0::node
