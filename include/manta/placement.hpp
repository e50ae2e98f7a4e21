// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/future.hpp>
#include <manta/handles.hpp>
#include <manta/spec/resources.hpp>

// Placement groups: resources set aside for several tasks and actors at once, in any nodes.
//
//   auto g = manta::make_placement_group({{.cpus = 1, .gpus = 1}, {.cpus = 1, .gpus = 1}},
//                                        manta::strategy::strict_pack);
//   g.wait(10s);
//   auto f = manta::remote<train>.with({.cpus = 1, .gpus = 1, .where = g.bundle(0)})(x);
//   ...
//   manta::remove_placement_group(g);

namespace manta::inline v0 {

/// A copyable handle to a placement group: bundles of resources that are set aside together, all or
/// none, for tasks and actors that name the group.
///
/// A group lives until remove_placement_group or the end of the runtime; handles do not keep it.
/// Any thread may use a handle and its copies; one handle object is externally synchronised. A
/// default-made handle is empty; anything but valid, assignment and comparison throws
/// invalid_argument.
class MANTA_API placement_group {
 public:
  placement_group() noexcept = default;

  /// Whether this is a handle to a group (which may have been removed).
  bool valid() const noexcept { return ready_.valid(); }
  /// Ready when all bundles have their place. Fails with group_removed when the group is removed
  /// before, with infeasible when nodes are lost without which it can have none, with cancelled
  /// when the runtime ends before. Cost: a copy of a future.
  future<void> ready() const;
  /// Waits until the group has its place: false at the timeout. Throws what ready fails with.
  bool wait(duration timeout) const;
  /// The number of bundles.
  std::size_t size() const noexcept { return size_; }
  /// The wish to run in bundle `index`, for options.where. Throws invalid_argument beyond size().
  placement bundle(std::size_t index) const;
  /// The wish to run in any bundle of the group.
  placement any_bundle() const;

  /// Two handles are equal when they are to the same group.
  friend bool operator==(const placement_group& a, const placement_group& b) noexcept {
    return a.id_ == b.id_ && a.valid() == b.valid();
  }

 private:
  friend MANTA_API placement_group make_placement_group(const std::vector<manta::bundle>& bundles,
                                                        strategy how);
  friend MANTA_API bool remove_placement_group(const placement_group& group);

  void require() const;

  std::uint64_t id_ = 0;
  std::size_t size_ = 0;
  future<void> ready_;
};

/// Sets `bundles` aside as soon as all of them fit at once, and gives the handle to the group at
/// once. Until then the group stands in line like a task that asked for the same.
///
/// They lie in any nodes of the cluster that share their work, as `how` says; with isolation =
/// processes, or share-resources = no, in this one. What runs in a bundle runs in its node; what
/// can't leave this node is infeasible in a bundle elsewhere, and an actor's spawn waits until the
/// group has its place. A node that is lost takes its bundles along: they get other places as soon
/// as some fit, and tasks that wait in them wait on. While nodes are still joining it waits for
/// them, for up to 2 s.
///
/// 1 to 1000 bundles, each asking for something. Throws invalid_argument for a bundle that can't
/// be, infeasible for a group that can never fit, no_runtime, std::bad_alloc. Any thread. Cost:
/// about twenty allocations; a search for places when there are several nodes.
MANTA_API placement_group make_placement_group(const std::vector<bundle>& bundles,
                                               strategy how = strategy::pack);

/// Ends the group: tasks that wait for a part of it, or for its place, fail with group_removed, and
/// so do later calls that name it. Tasks that run in it go on and give back to the node when they
/// end. Actors in it are killed, also in other nodes: what waits in their mailboxes fails with
/// actor_lost. False when it was removed before, or its runtime ended. Throws invalid_argument for
/// an empty handle. Any thread.
MANTA_API bool remove_placement_group(const placement_group& group);

/// The wish to run in the group: in its bundle `index`, or in any with -1. Throws invalid_argument
/// for an empty handle and an index beyond the group's size.
MANTA_API placement in_group(const placement_group& group, int index = -1);

}  // namespace manta::inline v0

namespace manta::inline v0::codec {

template <>
struct custom<placement_group>
    : detail::boxed_handle<placement_group, spec::reference_kind::placement_group> {};

}  // namespace manta::inline v0::codec
