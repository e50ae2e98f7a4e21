// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <manta/base/id.hpp>

// Recovery units: the jobs of a node that have a record of how they are run again.
//
// Problem. A job that another node runs, or that came from one, can be run again from its message.
// Most of them live for milliseconds, and a record that is written costs microseconds; jobs that
// are made and run here have none, and what they make belongs to the nearest ancestor that has one.
//
// Idea. A job that leaves is a unit from then on until nobody needs its result. Its recipe waits
// here, and whoever writes records takes what waits a few times a second: what was over before is
// never seen. A job that came is a unit as long as it runs, or something made by it here is known
// to others; its recipe stays here, since its first node has written it already, until something
// that is recorded hangs by it.
//
//   left:   waits --take--> told --over--> named once more, as over
//             '-- over --> gone; with children: told, and over at once
//   came:   held --a child leaves, or is lent--> waits, as above
//             '-- over --> gone
//
// The nearest ancestor: callers are known by the low half of their id. Who came is found by it at
// once. A job made here is led up by what running callers show of themselves (exec/context.hpp), to
// the first that came; what was found so is kept as long as that one is. A caller that has ended,
// and shows nothing any more, leads nowhere: what it has made has no ancestor then.
//
// Invariants
// 1. What is told comes after its ancestor here, and goes in the order in which it was over.
// 2. A number that is over is another unit's only after it was told as over.
// Whether a record that was told lives on, for its descendants, is who writes it to say
// (control/task_table.hpp), and so is the budget of what is written.
//
// Limits: below; what is beyond is no unit, and counted.
// Pure. Threads: externally synchronised. Costs: of a job that leaves its bytes are copied once.

namespace manta::inline v0::own {

class units {
  static constexpr unsigned life_shift = 24;
  static constexpr std::uint32_t slot_mask = (std::uint32_t{1} << life_shift) - 1;

 public:
  /// A unit of this node; 0: none. Those of another life of the node mean nothing here.
  using number = std::uint32_t;

  /// Recipes that are here, and not told.
  static constexpr std::size_t most_waiting = std::size_t{32} << 20U;
  /// A recipe: more than one value of the store has, and the arguments are what is large.
  static constexpr std::size_t most_recipe = std::size_t{256} << 10U;
  /// So many waiting bytes should be taken soon.
  static constexpr std::size_t many_waiting = std::size_t{8} << 20U;
  /// Units at a time: what a budget of 64 MiB has records for, and half as many more.
  static constexpr std::size_t most_units = std::size_t{1} << 20U;

  explicit units(std::uint8_t life = 0) noexcept : life_(number{life} << life_shift) {}

  /// Of a number that is a unit's: from 0 on, for tables of them.
  static constexpr std::size_t index_of(number of) noexcept { return (of & slot_mask) - 1; }

  /// The nearest ancestor that has a record.
  struct ancestor {
    number here = 0;  ///< when it is this node's; 0: it is not, or there is none
    base::id id = {};
  };
  /// What a running caller shows: low halves of ids.
  struct shown {
    std::uint64_t self = 0;
    std::uint64_t caller = 0;
  };

  /// A job leaves with that message. 0: there is no room for its record.
  number left(const base::id& of, const ancestor& under,
              std::span<const std::span<const std::byte>> recipe);
  /// A job came. `under`: the nearest ancestor that its first node knows. 0: too many.
  number came(const base::id& of, const base::id& under, std::span<const std::byte> recipe);
  /// Something that a unit's job has made, and that has no record, is others' to ask for. Each is
  /// taken back by an over.
  /// False: it is over.
  bool lent(number of);
  /// Nobody needs its result, or it has run; or what was lent under it is nobody's any more.
  void over(number of) noexcept;

  /// Of what that caller makes: who came, or was found before.
  ancestor nearest(const base::id& caller) const;
  /// Whether it is not worth asking what callers show.
  bool leads_nowhere(const base::id& caller) const noexcept;
  /// The same by what they show, once.
  ancestor nearest(const base::id& caller, std::span<const shown> all);

  /// A record that is to be made.
  struct record {
    number unit = 0;
    number parent = 0;  ///< the ancestor, when it is this node's
    base::id id = {};
    base::id under = {};  ///< the ancestor's id; zero: none
    std::size_t at = 0;   ///< where its recipe lies in work::bytes
    std::size_t size = 0;
  };
  struct work {
    std::vector<record> made;   ///< in this order
    std::vector<number> ended;  ///< after all of those
    std::string bytes;
  };
  work take();
  bool has_work() const noexcept { return waiting_ > 0 || !ended_.empty(); }
  /// Whether it should be taken now.
  bool has_much() const noexcept {
    return bytes_.size() >= many_waiting || made_.size() >= most_units / 16;
  }

  /// Units that came.
  std::size_t guests() const noexcept { return guests_; }
  std::size_t size() const noexcept { return all_.size() - free_.size(); }
  /// How many had no room.
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  static constexpr std::size_t most_steps = 256;       // from caller to caller
  static constexpr std::size_t most_relatives = 1024;  // found so, of one unit
  enum class state : std::uint8_t { none, bare, held, waits, told };

  struct unit {
    base::id id;
    base::id under;
    number parent = 0;
    std::uint32_t needs = 0;
    state is = state::none;  // bare: without a recipe, which was too large
    bool is_guest = false;
    bool has_children = false;
    std::size_t at = 0;
    std::size_t size = 0;
    std::string recipe;  // while it is held
  };

  unit* find(number of) noexcept;
  number number_of(std::size_t slot) const noexcept {
    return life_ | static_cast<number>(slot + 1);
  }
  bool has_room(std::size_t bytes) noexcept;
  number take_slot();
  void let_wait(number of, unit& is);
  void forget_callers(number of, const unit& is) noexcept;
  void drop(number of) noexcept;
  void forget_dead() noexcept;
  ancestor ancestor_of(number of) const;

  const number life_;
  std::vector<unit> all_;
  std::vector<std::uint32_t> free_;  // slots
  std::vector<number> made_;         // those that wait, and those that were over meanwhile
  std::vector<number> ended_;
  std::string bytes_;        // recipes of made_
  std::size_t waiting_ = 0;  // of made_, not over
  std::size_t held_ = 0;     // bytes of recipes that are not in bytes_
  std::size_t guests_ = 0;
  std::uint64_t refused_ = 0;
  std::unordered_map<std::uint64_t, number> by_caller_;
  std::unordered_map<number, std::vector<std::uint64_t>> relatives_;  // in by_caller_, too
  std::array<std::uint64_t, 64> nowhere_{};                           // callers, some
};

}  // namespace manta::inline v0::own
