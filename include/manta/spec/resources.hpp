// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/spec/error.hpp>

// What a task, an actor or a placement group asks of a node beside a thread, and where it wants to
// be. Amounts are doubles where users write them and thousandths (fixed point) everywhere else, so
// that a thousand tenths add up to exactly a hundred.

namespace manta::inline v0 {

/// Amounts of resources that the user named: {{"license", 1}, {"disk", 0.5}}. Keys are 1 to 64
/// letters, digits, '_', '-', '.' and '/', each once; "cpus", "gpus" and "memory_bytes" have fields
/// of their own. Amounts are 0, or 0.001 to 1e9, kept to a thousandth. 256 keys at most.
using resource_list = std::vector<std::pair<std::string, double>>;

/// What a node is: {{"zone", "a"}, {"kind", "big"}}. Keys and values are made of the same letters
/// as the keys of a resource_list; each key once, 256 at most.
using label_list = std::vector<std::pair<std::string, std::string>>;

/// A set of resources that is given as a whole, on one node: what a task asks for, or one part of a
/// placement group.
struct bundle {
  /// Cores, fractions allowed. 0, or 0.001 to 1e9.
  double cpus = 0;
  /// GPUs: 0, a fraction from 0.001 below 1 (which shares one GPU with other fractions), or a whole
  /// number.
  double gpus = 0;
  /// Bytes of memory. Accounted, so that tasks that say what they need do not meet; not enforced.
  std::size_t memory_bytes = 0;
  /// Amounts under the user's own names.
  resource_list resources = {};

  /// Two bundles are equal when they ask for the same amounts in the same order.
  friend bool operator==(const bundle& a, const bundle& b) noexcept {
    return a.cpus == b.cpus && a.gpus == b.gpus && a.memory_bytes == b.memory_bytes &&
           a.resources == b.resources;
  }
};

/// How the bundles of a placement group lie on the nodes.
enum class strategy : std::uint8_t {
  pack,          ///< on as few nodes as can be
  spread,        ///< on as many nodes as can be
  strict_pack,   ///< all on one node, or the group waits
  strict_spread  ///< each on a node of its own, or the group waits
};

/// "pack" and so on; static storage.
MANTA_API const char* to_string(strategy how) noexcept;

/// Where a task or an actor wants to be. Made by spread, on_node, with_labels and in_group; a
/// default-made one has no wish. A value; any thread may use its own copy.
struct placement {
  /// The kinds of wish.
  enum class rule : std::uint8_t { anywhere, spread, node, labels, group };

  rule by = rule::anywhere;  ///< which of the fields below count
  /// A wish (stay here when no such node can ever give what is asked) instead of a condition.
  bool is_soft = false;
  /// rule::node: the node's name. No string where there is none: GCC 12 copies the bytes of options
  /// that are written in braces inside of a co_await, which a string does not survive.
  std::optional<std::string> node = std::nullopt;
  label_list labels = {};   ///< rule::labels: all of them must hold
  std::uint64_t group = 0;  ///< rule::group: which
  int bundle = -1;          ///< rule::group: index of the bundle; -1 for any

  /// Two placements are equal when they wish for the same.
  friend bool operator==(const placement& a, const placement& b) noexcept {
    return a.by == b.by && a.is_soft == b.is_soft && a.group == b.group && a.bundle == b.bundle &&
           a.node == b.node && a.labels == b.labels;
  }
};

/// All nodes alike. Of an actor: the node with the fewest actors for each of its cores, as far as
/// this node has made them. Of tasks: each node in turn, as many as it has workers; one whose node
/// is lost runs here; with config::share_resources those that ask for amounts, where most is free.
/// Where nodes don't share their work: this node.
MANTA_API placement spread();
/// The node of that name (this_task::node() gives it), which gives what is asked from its own. One
/// that is not known is waited for, 2 s at the call, which throws infeasible then. Soft: this one
/// when that node does not exist, is lost, or can never give what is asked; a node that is merely
/// busy is waited for. Where nodes don't share their work, this one only.
MANTA_API placement on_node(std::string name, bool is_soft = false);
/// A node that has all these labels: this one, or with config::share_resources any; where none has
/// them, as where too much is asked for (options::cpus). Soft as in on_node.
MANTA_API placement with_labels(label_list labels, bool is_soft = false);

/// A demand that waits, for runtime::unmet_demand().
struct demand_report {
  /// What each of them asks for: one bundle for a task or an actor, all bundles for a group.
  std::vector<bundle> bundles;
  placement where;           ///< the wish of a task or an actor
  bool is_group = false;     ///< a placement group that is not placed yet
  strategy how = {};         ///< of the group
  std::size_t count = 0;     ///< how many wait
  duration longest_wait{0};  ///< since the first of them began to wait
};

/// What a node has and what of it is free, for runtime::resources().
struct resource_report {
  bundle total;  ///< everything
  /// What nobody holds. cpus may be below zero for moments: a task that comes back from a wait does
  /// not wait for its cores.
  bundle free;
  std::vector<double> gpu_free;  ///< the free part of each GPU, by index
};

namespace spec {

/// A bundle in fixed point: thousandths, and bytes. Custom keys are sorted and have an amount.
struct demand {
  std::int64_t cpus = 0;
  std::int64_t gpus = 0;
  std::int64_t memory_bytes = 0;
  std::vector<std::pair<std::string, std::int64_t>> custom;

  friend bool operator==(const demand& a, const demand& b) noexcept {
    return a.cpus == b.cpus && a.gpus == b.gpus && a.memory_bytes == b.memory_bytes &&
           a.custom == b.custom;
  }
  /// Whether nothing is asked for.
  bool is_empty() const noexcept {
    return cpus == 0 && gpus == 0 && memory_bytes == 0 && custom.empty();
  }
};

/// Throw invalid_argument with `field`'s name, what was asked and what is allowed.
MANTA_API void check_cpus(const char* field, double cpus);
MANTA_API void check_gpus(const char* field, double gpus);
MANTA_API void check_memory(const char* field, std::size_t bytes);
MANTA_API void check_resources(const char* field, const resource_list& list);
MANTA_API void check_labels(const char* field, const label_list& list);
MANTA_API void check(const placement& where);
/// All fields of one bundle; `index` is its place in the group.
MANTA_API void check(const bundle& asked, std::size_t index);

/// A checked bundle in fixed point, and back. The way back loses zero amounts.
MANTA_API demand to_demand(const bundle& asked);
MANTA_API bundle to_bundle(const demand& asked);
/// "2 cpus, 1 gpus, 1024 memory_bytes, 0.5 disk" for messages; "nothing" when empty.
MANTA_API std::string to_string(const demand& asked);
/// An amount in thousandths as people write it: "0.5".
MANTA_API std::string show_amount(std::int64_t thousandths);

/// Bytes from "8GiB", "512MiB", "1.5TiB", "64KiB" or a plain number.
MANTA_API result<std::int64_t> parse_bytes(std::string_view text);
/// "license:3,disk:0.5"; empty text is an empty list. And back.
MANTA_API result<resource_list> parse_resources(std::string_view text);
MANTA_API std::string to_text(const resource_list& list);
/// "zone=a,kind=big"; empty text is an empty list. And back.
MANTA_API result<label_list> parse_labels(std::string_view text);
MANTA_API std::string to_text(const label_list& list);

}  // namespace spec
}  // namespace manta::inline v0
