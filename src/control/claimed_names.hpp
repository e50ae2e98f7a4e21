// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

// Which node of a cluster has the actor of a name.
//
// Problem. At most one living actor has a name, whichever nodes ask for it at once; and the actor
// may end, or its node die, without a word to whoever keeps the names.
// Idea. A name belongs to a claim: a node, and a number of its own that it never gives twice. One
// who finds a name taken asks that node; if the actor is gone there he says so, by that number, and
// claims again. So what is told late, twice or never frees no name that somebody else has by then.
//
//   free --claim--> (node, number) --release of the same, or the node's death--> free
//
// Pure. Cost: a step for each of log(names); gone: one for each name.
// Threads: one at a time.

namespace manta::inline v0::control {

struct claimed_name {
  std::string name_space;
  std::string name;
  auto operator<=>(const claimed_name&) const = default;
};

/// Who has a name; by default nobody.
struct name_holder {
  std::uint64_t node = 0;
  std::uint64_t number = 0;
  bool operator==(const name_holder&) const = default;
};

class claimed_names {
 public:
  /// `by` has it from now on, if nobody has it. Who has it then.
  name_holder claim(const claimed_name& of, const name_holder& by);
  name_holder find(const claimed_name& of) const;
  /// That claim is over; of another one nothing is changed.
  void release(const claimed_name& of, const name_holder& by);
  /// With that node all it had is gone.
  void gone(std::uint64_t node);
  std::size_t size() const noexcept { return taken_.size(); }

 private:
  std::map<claimed_name, name_holder> taken_;
};

}  // namespace manta::inline v0::control
