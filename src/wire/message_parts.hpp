// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <manta/base/id.hpp>

// What all parts of the writer of messages (message.hpp) put into them.
//
// Threads: any; there is no state.

namespace manta::inline v0::wire {

// Texts that only people read are cut; `init` gives the text's builder for a length.
template <class Init>
void put_text(std::string_view text, std::size_t limit, Init&& init) {
  if (text.empty()) return;
  if (text.size() <= limit) {
    std::memcpy(init(text.size()).begin(), text.data(), text.size());
    return;
  }
  const std::string mark = fmt::format("... [cut, of {} bytes]", text.size());
  std::size_t kept = limit - mark.size();
  // Not within a character of UTF-8: its later bytes begin with the bits 10.
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xC0U) == 0x80U) --kept;
  char* to = init(kept + mark.size()).begin();
  to = std::copy_n(text.data(), kept, to);
  std::copy(mark.begin(), mark.end(), to);
}

template <class Group>
void put_id(Group group, const base::id& id) {
  group.setHigh(id.high);
  group.setLow(id.low);
}

}  // namespace manta::inline v0::wire
