// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace manta::inline v0::node {

/// What another process has asked for and is not over, by the number that it gave: it is not
/// answered, or room is kept for it. One is there as long as that very one is: its number may be
/// another one's by now, when it was met, or could not be told, as that process ended or took it
/// back. Threads: externally synchronised.
template <class One>
class open_wishes {
 public:
  using pointer = std::shared_ptr<One>;
  using list = std::unordered_map<std::uint64_t, pointer>;

  /// False: there is one of its number. Throws std::bad_alloc.
  bool add(const pointer& one) { return all_.emplace(one->number, one).second; }
  /// Null: there is none.
  pointer find(std::uint64_t number) const noexcept {
    const auto found = all_.find(number);
    return found == all_.end() ? nullptr : found->second;
  }
  bool has(const One& one) const noexcept {
    const auto found = all_.find(one.number);
    return found != all_.end() && found->second.get() == &one;
  }
  /// False: it is not there any more. Who asks keeps it.
  bool take(const One& one) noexcept {
    const auto found = all_.find(one.number);
    if (found == all_.end() || found->second.get() != &one) return false;
    all_.erase(found);
    return true;
  }
  /// All, which are there no more.
  list take_all() noexcept {
    list out;
    out.swap(all_);
    return out;
  }
  std::size_t size() const noexcept { return all_.size(); }
  bool is_empty() const noexcept { return all_.empty(); }

 private:
  list all_;
};

}  // namespace manta::inline v0::node
