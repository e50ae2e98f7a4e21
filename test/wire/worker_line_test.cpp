// SPDX-License-Identifier: Apache-2.0
#include "wire/worker_line.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "wire/frame_line.hpp"
#include "wire/message.hpp"

namespace worker_line_test {
namespace {

using namespace std::chrono_literals;
using manta::errc;
using manta::wire::frame_buffer;
using manta::wire::frame_receiver;
using manta::wire::frame_sender;
using manta::wire::ring_memory;
using manta::wire::ring_writer;
using manta::wire::slot_state;
using manta::wire::worker_line;
using manta_test::dice;
using manta_test::run_seed;
using got = frame_receiver::got;
using bytes = std::vector<std::byte>;

// A frame as Cap'n Proto has it: a table that says one segment of so many words, and those.
bytes frame_of(std::size_t words, dice& roll) {
  bytes out(8 + 8 * words);
  const auto n = static_cast<std::uint32_t>(words);
  std::memcpy(out.data() + 4, &n, sizeof n);
  for (std::size_t i = 8; i < out.size(); i += 64) out[i] = static_cast<std::byte>(roll.next());
  return out;
}
void send(frame_sender& to, const bytes& frame) {
  const std::span<const std::byte> piece(frame);
  to.send({&piece, 1}, frame.size());
}
std::array<int, worker_line::file_count> copies(const worker_line& of) {
  auto files = of.files();
  for (int& file : files) file = dup(file);
  return files;
}

}  // namespace

TEST_CASE("both sides of a worker's line see the same page and rings", "[wire]") {
  auto made = worker_line::make();
  REQUIRE(made);
  auto other = worker_line::map(copies(*made));
  REQUIRE(other);
  auto& here = made->page();
  auto& there = other->page();
  CHECK(&here != &there);
  here.slot_of(70).store(manta::wire::slot_word(70, slot_state::sent));
  CHECK(there.is(70, slot_state::sent));
  CHECK_FALSE(there.is(6, slot_state::sent));  // of the same slot
  CHECK(there.claim(70, slot_state::running));
  CHECK_FALSE(here.claim(70, slot_state::free));  // who is second has nothing
  CHECK(here.is(70, slot_state::running));
  CHECK(there.leave_stack(70));
  CHECK_FALSE(there.leave_stack(70));
  CHECK(here.news == 1);
  there.note_order();  // does not look like a task
  CHECK(here.news == manta::wire::worker_page::one_order + 1);
  CHECK(here.is(70, slot_state::done));

  frame_sender down(made->to_worker());
  frame_receiver up(other->to_worker());
  dice roll(run_seed());
  send(down, frame_of(3, roll));
  frame_buffer frame;
  CHECK(up.take(frame) == got::message);
  CHECK(frame.bytes().size() == 32);
}

TEST_CASE("files that are no worker's line are refused", "[wire]") {
  auto made = worker_line::make();
  REQUIRE(made);
  for (const std::size_t wrong : {0U, 1U, 2U}) {
    auto files = copies(*made);
    close(files[wrong]);
    files[wrong] = memfd_create("other", MFD_CLOEXEC);
    REQUIRE(ftruncate(files[wrong], 4096) == 0);
    const auto mapped = worker_line::map(files);
    REQUIRE_FALSE(mapped);
    CHECK(mapped.error().code() == errc::decode_failed);
  }
}

TEST_CASE("what awaits says is read as it was written", "[wire]") {
  using page = manta::wire::worker_page;
  for (const std::uint64_t request :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40U}) {
    for (const bool has_room : {false, true}) {
      const std::uint64_t word = page::awaiting(request, has_room);
      CHECK(word != page::awaits_nothing);
      CHECK(page::request_of(word) == request);
      CHECK(page::has_room(word) == has_room);
    }
  }
}

// A frame is longer than a ring's message, than the ring, or waits because others are in the way:
// the parts could be mixed up, lost, or be given out before they are all there.
TEST_CASE("frames of any size come whole and in order", "[wire]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice roll(seed);
  auto memory = ring_memory::make(4096);
  REQUIRE(memory);
  frame_sender sender(*memory);
  frame_receiver receiver(*memory);
  std::deque<bytes> model;
  frame_buffer frame;
  int kept = 0;
  for (int step = 0; step < 20000; ++step) {
    if (model.size() < 20 && roll.one_in(2)) {
      const std::size_t words = roll.one_in(10) ? roll.below(2000) : roll.below(100);
      model.push_back(frame_of(words, roll));
      send(sender, model.back());
      kept += sender.is_behind() ? 1 : 0;
    } else if (receiver.take(frame) == got::message) {
      REQUIRE_FALSE(model.empty());
      REQUIRE(std::ranges::equal(frame.bytes(), model.front()));
      CHECK(reinterpret_cast<std::uintptr_t>(frame.bytes().data()) % 64 == 0);
      model.pop_front();
    } else {
      sender.flush();
    }
  }
  CHECK(kept > 100);
  while (!model.empty()) {
    sender.flush();
    if (receiver.take(frame) != got::message) continue;
    REQUIRE(std::ranges::equal(frame.bytes(), model.front()));
    model.pop_front();
  }
}

TEST_CASE("who sends may wait until a long frame has room", "[wire]") {
  auto memory = ring_memory::make(4096);
  REQUIRE(memory);
  frame_sender sender(*memory);
  dice roll(run_seed());
  const bytes sent = frame_of(100'000, roll);
  send(sender, sent);
  CHECK(sender.is_behind());
  CHECK_FALSE(sender.flush(1ms));
  frame_buffer frame;
  std::thread reader([&] {
    frame_receiver receiver(*memory);
    while (receiver.take(frame) == got::nothing) receiver.ring().wait(100, 1s);
  });
  const bool is_flushed = sender.flush(60s);
  sender.bell();
  reader.join();
  CHECK(is_flushed);
  CHECK(std::ranges::equal(frame.bytes(), sent));
}

TEST_CASE("parts that can't be a frame break the line", "[wire]") {
  auto memory = ring_memory::make(4096);
  REQUIRE(memory);
  const auto put = [&](ring_writer& to, const bytes& part, std::uint8_t tag) {
    const auto room = to.reserve(part.size());
    REQUIRE_FALSE(room.empty());
    std::ranges::copy(part, room.begin());
    to.publish(tag);
  };
  const auto begin_of = [](std::uint64_t length, std::size_t size) {
    bytes part(8 + size);
    std::memcpy(part.data(), &length, sizeof length);
    return part;
  };
  const bytes half = begin_of(800, 400);
  const auto is_broken = [&](std::initializer_list<std::pair<bytes, std::uint8_t>> parts) {
    auto fresh = ring_memory::make(4096);
    REQUIRE(fresh);
    ring_writer writer(*fresh);
    frame_receiver receiver(*fresh);
    for (const auto& [part, tag] : parts) put(writer, part, tag);
    frame_buffer frame;
    return receiver.take(frame) == got::broken;
  };
  CHECK(is_broken({{begin_of(400, 400), 1}}));          // says that more comes, and is all
  CHECK(is_broken({{half, 1}, {bytes(100), 0}}));       // ends before its length
  CHECK(is_broken({{half, 1}, {bytes(500), 0}}));       // ends behind it
  CHECK(is_broken({{half, 2}}));                        // a tag that nobody knows
  CHECK(is_broken({{bytes(8), 1}}));                    // a length of nothing
  CHECK(is_broken({{bytes(16, std::byte{0xff}), 1}}));  // too long for anything
  CHECK_FALSE(is_broken({{half, 1}, {bytes(400), 0}}));
}

}  // namespace worker_line_test
