// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <manta/base/id.hpp>

// Recovery units: the jobs of a node that have a record of how they are run again.
//
// Problem. A job that another node runs, or that came from one, can be run again from its message,
// its recipe. The record has to be there as long as its result may be needed, or that of a
// descendant; and elsewhere, too, where this node may be lost before. Most live for milliseconds,
// and a record that is written costs microseconds; jobs that are made and run here have none, and
// what they make belongs to the nearest ancestor that has one.
//
// Idea. A job that leaves is a unit until nobody needs its result, and its recipe is kept here. A
// job that came is one as long as it runs, or something hangs by it: a job that it sent on, or a
// future of here that others know. Who writes records takes what is to be told a few times a
// second, so what was over before is never written; and only what others may need:
//
//   left, made by this node's main    told to nobody: the job ends with this node
//   left, made by a job that came,    told: another node goes on when this one is lost
//     or in a node without a main
//   came                              told once something that is recorded hangs by it; before that
//                                     its first node has it, as one that has left
//
// The nearest ancestor: callers are known by the low half of their id. Who came is; and of a job of
// here that makes calls is said once, at the first of them, who made it: it belongs to whom that
// one does, as long as who came is needed. Of the callers of one that came the last most_relatives
// are known: what an earlier one has made, and leaves after that, has no ancestor.
//
// Invariants
// 1. A unit is here while it is needed, or has children here.
// 2. What is told comes after its ancestor here, and is said to be over once, later.
// 3. A number that was told is another unit's only after it was told as over.
//
// Limits: `most_bytes` of recipes with bytes_of_a_unit for each, half of that for who came; what is
// beyond is no unit, and counted. One that came is known all the same, as what is above it.
//
// Pure. Threads: externally synchronised. Costs: of a job that leaves its bytes are copied once.

namespace manta::inline v0::own {

class units {
  static constexpr unsigned life_shift = 24;
  static constexpr std::uint32_t slot_mask = (std::uint32_t{1} << life_shift) - 1;

 public:
  /// A unit of this node; 0: none. Those of another life of the node mean nothing here.
  using number = std::uint32_t;

  /// A recipe: more than one value of the store has, and the arguments are what is large.
  static constexpr std::size_t most_recipe = std::size_t{256} << 10U;
  static constexpr std::size_t bytes_of_a_unit = 100;
  static constexpr std::size_t most_units = std::size_t{4} << 20U;
  static constexpr std::size_t most_relatives = 65536;  ///< of one that came

  struct settings {
    std::uint8_t life = 0;
    std::size_t most_bytes = std::size_t{64} << 20U;
    bool has_main = false;  ///< what is made here without an ancestor is its main's
  };
  explicit units(const settings& how) noexcept
      : life_(number{how.life} << life_shift),
        most_bytes_(how.most_bytes),
        has_main_(how.has_main) {}

  /// Of a number that is a unit's: from 0 on, for tables of them.
  static constexpr std::size_t index_of(number of) noexcept { return (of & slot_mask) - 1; }

  /// How a job is run, copied before its unit is made: so not under the lock of these. The
  /// arguments of most calls are a few numbers, and need no memory of their own.
  class recipe {
   public:
    static constexpr std::size_t most_here = 24;

    recipe() = default;
    /// Throws std::bad_alloc.
    explicit recipe(std::span<const std::span<const std::byte>> pieces);
    recipe(recipe&& other) noexcept { take(other); }
    recipe& operator=(recipe&& other) noexcept {
      if (this == &other) return *this;
      drop();
      take(other);
      return *this;
    }
    ~recipe() { drop(); }
    std::string text() const { return {bytes(), size_}; }
    std::size_t size() const noexcept { return size_; }

   private:
    const char* bytes() const noexcept { return size_ <= most_here ? here_ : far_; }
    void take(recipe& other) noexcept;
    void drop() noexcept {
      if (size_ > most_here) delete[] far_;
      size_ = 0;
    }
    union {
      char here_[most_here];
      char* far_;
    };
    std::uint32_t size_ = 0;
  };

  /// The nearest ancestor that has a record.
  struct ancestor {
    number here = 0;  ///< when it is this node's; 0: it is not, or there is none
    base::id id = {};
  };
  /// Whether one more of that size has room; counts it when not. What is left and came ask.
  bool has_room(std::size_t recipe_bytes) noexcept;
  /// A job leaves. 0: there is no room for its record.
  number left(const base::id& of, const ancestor& under, recipe how);
  /// A job came. `under`: the nearest ancestor that its first node knows. Without a recipe it has
  /// no record, but is known. 0: too many.
  number came(const base::id& of, const base::id& under, recipe how);
  /// Something that a unit's job has made, and that has no record, is others' to ask for. Each is
  /// taken back by an over.
  /// False: it is over.
  bool lent(const ancestor& of);
  /// Nobody needs its result, or it has run; or what was lent under it is nobody's any more.
  void over(number of) noexcept;

  /// A job of here, made by that caller, is about to make calls. Throws std::bad_alloc.
  void calls(const base::id& self, const base::id& caller);
  /// Of what that caller makes.
  ancestor nearest(const base::id& caller) const;

  /// A record as it is told.
  struct record {
    number unit = 0;
    base::id id = {};
    base::id under = {};  ///< the ancestor's id; zero: none
    std::string recipe = {};
  };
  struct work {
    std::vector<record> made;
    std::vector<number> ended;  ///< of those that were told before; numbers of made ones are others
    bool is_cut = false;        ///< there was more
  };
  /// What is to be told, recipes of about `most` bytes.
  work take(std::size_t most);
  bool has_work() const noexcept { return waiting_ > 0 || !ended_.empty(); }
  /// One that was told, once more; zero id: it is over, and will be told so.
  record told(number of) const;

  /// Units that came, and run.
  std::size_t guests() const noexcept { return guests_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// How many had no room.
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  static constexpr std::uint32_t unlisted = 0xffffffffU;
  enum class state : std::uint8_t {
    none,
    bare,   // without a recipe, for want of room
    kept,   // told to nobody
    waits,  // to be told
    told,
    over  // and to be told so
  };

  struct unit {
    base::id id;
    base::id under;
    recipe how;
    number parent = 0;  // has this one among its children
    std::uint32_t needs = 0;
    std::uint32_t children = 0;
    std::uint32_t at = unlisted;  // in made_
    state is = state::none;
    bool is_guest = false;
  };

  unit* find(number of) noexcept;
  const unit* find(number of) const noexcept;
  unit* find(const ancestor& of) noexcept;
  number number_of(std::size_t slot) const noexcept {
    return life_ | static_cast<number>(slot + 1);
  }
  number put(unit made);
  void tell(number of, unit& is);
  void end(number of, unit& is) noexcept;
  void forget(unit& is) noexcept;
  void free(number of) noexcept;
  void forget_callers(number of, const unit& is) noexcept;
  void close_gaps() noexcept;
  ancestor ancestor_of(number of) const;

  const number life_;
  const std::size_t most_bytes_;
  const bool has_main_;
  std::deque<unit> all_;
  std::vector<std::uint32_t> free_;  // slots
  std::vector<number> made_;         // those that wait; 0: it was over meanwhile
  std::vector<number> ended_;
  std::size_t waiting_ = 0;  // of made_, not over
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
  std::size_t held_ = 0;  // bytes of recipes of who came
  std::size_t guests_ = 0;
  std::uint64_t refused_ = 0;
  std::unordered_map<std::uint64_t, number> by_caller_;
  std::unordered_map<number, std::deque<std::uint64_t>> relatives_;  // in by_caller_, too
};

}  // namespace manta::inline v0::own
