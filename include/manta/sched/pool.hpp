// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <manta/base/export.hpp>

// One place's account: what a node, or a bundle carved out of a node, has and what is free of it.

namespace manta::inline v0::sched {

/// A kind of resource but gpus, as the ledger numbers them.
using kind = std::uint32_t;
inline constexpr kind cpu_kind = 0;
inline constexpr kind memory_kind = 1;
inline constexpr kind first_custom_kind = 2;

/// An amount of one kind: thousandths, or bytes of memory.
struct part {
  kind of = 0;
  std::int64_t amount = 0;
  friend bool operator==(const part&, const part&) = default;
};

/// What is asked of one place. Parts are sorted by kind and above 0; gpus are thousandths: 0, below
/// 1000, or a multiple of 1000.
struct need {
  std::vector<part> parts;
  std::int64_t gpus = 0;
  bool stays = false;  ///< other nodes (ledger::add_other) can't give it
  bool is_empty() const noexcept { return parts.empty() && gpus == 0; }
  friend bool operator==(const need&, const need&) = default;
};

/// How many different gpus a need takes.
constexpr std::size_t gpu_count(std::int64_t thousandths) noexcept {
  return thousandths < 1000 ? (thousandths > 0 ? 1 : 0)
                            : static_cast<std::size_t>(thousandths / 1000);
}

/// Which amounts a question is about.
enum class horizon : std::uint8_t {
  now,   ///< what is free
  soon,  ///< what will be free when those who run now have ended (see `active`)
  ever   ///< all there is
};

/// Amounts of one place. What is held is either active (its holder runs and will end), or not (its
/// holder sleeps in a wait, lives for long, or is a bundle): the difference tells whether waiting
/// for the holders is enough.
///
/// Pure, externally synchronised. Only add and add_gpu allocate. Sums are exact, so that a pool
/// whose grants all came back is what it was.
class MANTA_API pool {
 public:
  struct account {
    kind of = 0;
    std::int64_t total = 0, free = 0, active = 0;
  };
  /// A gpu, or a share of one. The index is -1 while a bundle has no place yet.
  struct gpu {
    int index = -1;
    std::int64_t total = 0, free = 0, active = 0;
  };

  void add(kind of, std::int64_t total);
  void add_gpu(int index, std::int64_t share);

  bool fits(const need& asked, horizon when) const noexcept;
  /// Requires fits(asked, now). `gpus` is empty with room for the indices, and gets them: whole
  /// ones from the lowest index, a fraction from the fullest gpu that has room for it.
  void take(const need& asked, std::vector<int>& gpus) noexcept;
  /// Takes back what take gave.
  void give(const need& asked, const std::vector<int>& gpus) noexcept;
  /// The holder of this starts (1) or stops (-1) being active.
  void count_active(const need& asked, const std::vector<int>& gpus, int sign) noexcept;
  /// A holder's cores become free (1) or are its own again (-1; free may fall below 0).
  void lend_cpus(const need& asked, int sign) noexcept;

  /// The bundle `child`, which was taken from this pool, is dissolved: its free amounts become free
  /// here, and what is held of it is from now on held of this pool.
  void absorb(const pool& child) noexcept;
  /// All of it is free again, as it was made.
  void reset() noexcept;
  /// So much of the cpus that are held is lent, by what another process says; at most all of that.
  /// `was`: the same by what it said before.
  void note_lent(std::int64_t& was, std::int64_t now) noexcept;
  /// Gives the gpus of a bundle their indices.
  void name_gpus(const std::vector<int>& indices) noexcept;
  /// Makes free what the horizon counts as free: for trials on a copy.
  void look_ahead(horizon when) noexcept;
  /// The largest part in use of anything it has, in thousandths.
  std::int64_t load() const noexcept;

  const std::vector<account>& accounts() const noexcept { return accounts_; }
  const std::vector<gpu>& gpus() const noexcept { return gpus_; }

 private:
  account* find(kind of) noexcept;
  const account* find(kind of) const noexcept;
  gpu* find_gpu(int index) noexcept;
  gpu* roomiest_fit(std::int64_t share) noexcept;

  std::vector<account> accounts_;
  std::vector<gpu> gpus_;
};

}  // namespace manta::inline v0::sched
