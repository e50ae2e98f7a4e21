// SPDX-License-Identifier: Apache-2.0
#include "control/record_room.hpp"

#include <algorithm>
#include <utility>

namespace manta::inline v0::control {

void record_room::set(node& of, std::uint64_t number, std::size_t bytes) {
  std::size_t before = 0;
  if (bytes == 0) {
    const auto at = of.values.find(number);
    if (at == of.values.end()) return;
    before = at->second;
    of.values.erase(at);
  } else {
    before = std::exchange(of.values[number], bytes);
  }
  of.bytes += bytes - before;
  bytes_ += bytes - before;
}

record_room::verdict record_room::ask(const std::string& by, const std::vector<wish>& all) {
  const auto own = nodes_.try_emplace(by).first;
  own->second.lost = 0;
  std::size_t more = 0;
  std::size_t less = 0;
  for (const wish& one : all) {
    more += one.bytes;
    const auto there = own->second.values.find(one.number);
    if (there != own->second.values.end()) less += there->second;
  }
  verdict out;
  std::size_t freed = 0;
  std::vector<decltype(nodes_)::iterator> go;
  while (bytes_ - freed + more > most_bytes_ + less) {
    auto oldest = nodes_.end();
    for (auto at = nodes_.begin(); at != nodes_.end(); ++at) {
      if (at->second.lost == 0 || std::ranges::find(go, at) != go.end()) continue;
      if (oldest == nodes_.end() || at->second.lost < oldest->second.lost) oldest = at;
    }
    if (oldest == nodes_.end()) return {.has_room = false, .go = {}};
    freed += oldest->second.bytes;
    go.push_back(oldest);
  }
  for (const auto at : go) out.go.push_back(at->first);
  return out;
}

void record_room::wrote(const std::string& by, const std::vector<wish>& all) {
  node& own = nodes_[by];
  for (const wish& one : all) set(own, one.number, one.bytes);
}

void record_room::lost(const std::string& who) {
  const auto own = nodes_.find(who);
  if (own == nodes_.end()) return;
  if (own->second.values.empty()) return static_cast<void>(nodes_.erase(own));
  own->second.lost = ++last_lost_;
}

void record_room::forget(const std::string& who) noexcept {
  const auto own = nodes_.find(who);
  if (own == nodes_.end()) return;
  bytes_ -= own->second.bytes;
  nodes_.erase(own);
}

}  // namespace manta::inline v0::control
