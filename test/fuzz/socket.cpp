// SPDX-License-Identifier: Apache-2.0
// What a socket brings from anybody, in front of Cap'n Proto's RPC: the greeting, then frames one
// behind the other, their tables, and which kinds of calls they are. Each is refused with a typed
// error, or is what it has to be; what a peer may leave open stays bounded.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <capnp/serialize.h>
#include <kj/exception.h>

#include "fuzz/harness.hpp"
#include "wire/frame.hpp"
#include "wire/greeting.hpp"
#include "wire/rpc_gate.hpp"

namespace {

namespace wire = manta::wire;
using bytes_view = std::span<const std::byte>;
using capnp::word;

constexpr std::size_t frame_limit = std::size_t{1} << 20U;

void check_greeting(bytes_view bytes) {
  const auto read = wire::to_greeting(bytes);
  if (read) {
    if (!std::ranges::equal(wire::to_bytes(*read), bytes)) {
      fuzz::fail("a greeting is written as another one", "socket");
    }
  } else if (read.error().code() != manta::errc::decode_failed &&
             read.error().code() != manta::errc::unsupported) {
    fuzz::fail("a greeting was refused with another code", "socket");
  }
}

bool passes(wire::rpc_gate& gate, std::span<const bytes_view> segments) {
  std::vector<kj::ArrayPtr<const word>> parts;
  for (const bytes_view one : segments) {
    parts.emplace_back(reinterpret_cast<const word*>(one.data()), one.size() / sizeof(word));
  }
  try {
    capnp::SegmentArrayMessageReader message(kj::arrayPtr(parts.data(), parts.size()));
    return static_cast<bool>(gate.pass(message.getRoot<capnp::rpc::Message>()));
  } catch (const kj::Exception&) {
    return false;  // a root that points nowhere: the stream ends
  }
}

// As frame_stream takes them; in memory of their own, so that a byte too far is noticed.
void check_frames(bytes_view rest) {
  wire::rpc_gate gate;
  wire::frame_buffer frame;
  std::vector<bytes_view> segments;
  for (;;) {
    const auto length = wire::frame_length(rest, frame_limit);
    if (!length || *length == 0 || *length > rest.size()) return;
    std::ranges::copy(rest.first(*length), frame.reset(*length).begin());
    rest = rest.subspan(*length);
    if (!wire::split_frame(frame.bytes(), frame_limit, segments)) {
      fuzz::fail("a whole frame can't be split", "socket");
    }
    if (!passes(gate, segments)) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::block whole(std::as_bytes(std::span(data, size)));
  const bytes_view bytes = whole.bytes();
  if (bytes.size() < wire::greeting_bytes) return 0;
  check_greeting(bytes.first(wire::greeting_bytes));
  check_frames(bytes.subspan(wire::greeting_bytes));
  return 0;
}
