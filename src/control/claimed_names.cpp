// SPDX-License-Identifier: Apache-2.0
#include "control/claimed_names.hpp"

namespace manta::inline v0::control {

name_holder claimed_names::claim(const claimed_name& of, const name_holder& by) {
  return taken_.try_emplace(of, by).first->second;
}

name_holder claimed_names::find(const claimed_name& of) const {
  const auto found = taken_.find(of);
  return found == taken_.end() ? name_holder{} : found->second;
}

void claimed_names::release(const claimed_name& of, const name_holder& by) {
  const auto found = taken_.find(of);
  if (found != taken_.end() && found->second == by) taken_.erase(found);
}

void claimed_names::gone(std::uint64_t node) {
  std::erase_if(taken_, [node](const auto& one) { return one.second.node == node; });
}

}  // namespace manta::inline v0::control
