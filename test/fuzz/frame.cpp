// SPDX-License-Identifier: Apache-2.0
// A frame from anybody: it is refused with decode_failed, or what it says lies within the frame and
// the limits, and is written and read again as the same.
#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "fuzz/harness.hpp"
#include "wire/check.hpp"
#include "wire/message.hpp"

namespace {

namespace wire = manta::wire;
using bytes_view = std::span<const std::byte>;

// A frame limit below which no size that a table says is believed.
constexpr std::size_t frame_limit = std::size_t{1} << 20U;

bool lies_within(bytes_view part, bytes_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_payload(const manta::spec::parcel_view& payload, bytes_view whole) {
  bool is_sane = lies_within(payload.head, whole);
  for (const auto& one : payload.segments) {
    const auto place = reinterpret_cast<std::uintptr_t>(one.bytes.data());
    is_sane = is_sane && lies_within(one.bytes, whole) &&
              (one.bytes.empty() || place % wire::segment_alignment == 0);
  }
  if (!is_sane) fuzz::fail("a payload lies outside of the frame or at an odd place", "frame");
}

void check_message(const wire::message_view& message, bytes_view whole) {
  const auto fine =
      std::visit([](const auto& body) { return check(wire::side::reader, body); }, message.body);
  if (!fine)
    fuzz::fail("a message was accepted that is not", "frame", fine.error().message().c_str());
  if (const auto* task = std::get_if<wire::task_view>(&message.body)) {
    check_payload(task->arguments, whole);
  } else if (const auto* call = std::get_if<wire::call_view>(&message.body)) {
    check_payload(call->arguments, whole);
  } else if (const auto* spawn = std::get_if<wire::spawn_view>(&message.body)) {
    check_payload(spawn->arguments, whole);
  } else if (const auto* asked = std::get_if<wire::ask_view>(&message.body)) {
    check_payload(asked->with, whole);
  } else if (const auto* item = std::get_if<wire::item_view>(&message.body)) {
    check_payload(item->value, whole);
  } else if (const auto* put = std::get_if<wire::put_view>(&message.body)) {
    check_payload(put->value, whole);
  } else if (const auto* done = std::get_if<wire::result_view>(&message.body)) {
    if (const auto* value = std::get_if<manta::spec::parcel_view>(&done->outcome)) {
      check_payload(*value, whole);
    }
  }
}

fuzz::block written(wire::message_writer& writer, const wire::message_view& message) {
  const auto out =
      std::visit([&](const auto& body) { return writer.write(message.head, body); }, message.body);
  if (!out) fuzz::fail("what was read can't be written", "frame", out.error().message().c_str());
  const std::vector<std::byte> room(writer.size_bytes());
  fuzz::block made(room);
  writer.flatten(made.bytes());
  return made;
}

// Kept from input to input, as a connection keeps them.
struct tools {
  wire::message_reader reader{frame_limit};
  wire::message_reader second_reader;
  wire::message_writer writer{512};
};

void check_frame(bytes_view whole) {
  static tools* const kept = new tools;
  const auto message = kept->reader.read(whole);
  if (!message) {
    if (message.error().code() != manta::errc::decode_failed) {
      fuzz::fail("a frame was refused with another code", "frame",
                 message.error().message().c_str());
    }
    return;
  }
  check_message(*message, whole);
  const fuzz::block first = written(kept->writer, *message);
  const auto back = kept->second_reader.read(first.bytes());
  if (!back) fuzz::fail("what was written is refused", "frame", back.error().message().c_str());
  const fuzz::block second = written(kept->writer, *back);
  if (!std::ranges::equal(first.bytes(), second.bytes())) {
    fuzz::fail("what was read and written again is another frame", "frame");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::block whole(std::as_bytes(std::span(data, size)));
  const std::uint64_t before = fuzz::live_bytes();
  fuzz::restart_peak();
  check_frame(whole.bytes());
  // Lists of structs become vectors of larger structs; a reference takes 72 bytes for 8 at least.
  const std::uint64_t most = (std::uint64_t{256} << 10U) + 32 * std::uint64_t{size};
  if (fuzz::peak_bytes() > before + most) fuzz::fail("reading takes too much memory", "frame");
  return 0;
}
