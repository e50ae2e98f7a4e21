// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include <manta/spec/error.hpp>

#include "wire/frame.hpp"

// Messages from one process to another through memory that both have.
//
// Problem. A socket costs two system calls and a wake for each message. A peer may die at any
// instruction, or write nonsense where it can write. Who waits must not burn its core for long, and
// who sends must not make a system call when nobody sleeps.
//
// Idea. Bytes in a ring; its pages are mapped twice, one after the other, so that a message is
// never cut at the end. A message is its own flag: the word in front of it is written last. So a
// small message moves one line from core to core, and no counter of what was written is shared.
// Where the next one will begin the writer has put a zero before.
//
//     head (the reader's, for who looks for room)         tail (in the writer's memory only)
//      v                                                   v
//   ...| size a | a ....... | size b | b ... | size c | c | 0 | free ........................
//
//   reader, tired of looking:  sleeps = 1;  fence;  looks once more;  futex wait
//   writer, after messages:    size;        fence;  sleeps?  then 0 and futex wake
//
// A reader that has said 2 instead is not woken by a writer that has more to send soon.
//
// One of them sees what the other wrote, since both fences are in one order: no wake is missed.
//
// Invariants. The writer never writes what the reader has not passed. The reader trusts nothing
// that it finds: sizes are checked against the ring, a message is copied out before anybody parses
// it, and its own position is in its own memory. So a peer that writes nonsense makes a reader that
// says `broken`, and one that moves its head makes a writer that finds no room, or overwrites what
// that peer has not read; both stay within the ring.
//
// Limits: a ring has a power of two of bytes, at least a page; a message at most a quarter of it.
// Threads: one writes and one reads at a time; they may be in different processes.

namespace manta::inline v0::wire {

/// What both processes see, at the begin of the shared memory.
struct ring_control {
  alignas(64) std::atomic<std::uint64_t> head{0};  // the reader's, bytes from the first on
  alignas(64) std::atomic<std::uint32_t> reader_sleeps{0};
  alignas(64) std::atomic<std::uint32_t> writer_sleeps{0};
};

/// The memory of one ring: a memfd of one page of control and the bytes, those mapped twice.
class ring_memory {
 public:
  /// `bytes` is a power of two of at least a page. store_full: there is no memory or no descriptor.
  static result<ring_memory> make(std::size_t bytes);
  /// Of a descriptor that a peer sent, which this takes. decode_failed: it is no ring of so many
  /// bytes, or its size could change.
  static result<ring_memory> map(int file, std::size_t bytes);
  ring_memory(ring_memory&& other) noexcept;
  ring_memory& operator=(ring_memory&&) = delete;
  ~ring_memory();

  /// For the peer; lives as long as this.
  int file() const noexcept { return file_; }
  ring_control& control() const noexcept { return *static_cast<ring_control*>(at_); }
  /// Once; as many bytes lie behind them again.
  std::span<std::byte> bytes() const noexcept;

 private:
  ring_memory(int file, void* at, std::size_t bytes) noexcept
      : file_(file), at_(at), bytes_(bytes) {}

  int file_;
  void* at_;
  std::size_t bytes_;
};

/// The end that writes. There is one for each ring, made when the ring is.
class ring_writer {
 public:
  explicit ring_writer(const ring_memory& in) noexcept;

  std::size_t most_bytes() const noexcept { return bytes_.size() / 4; }
  /// Memory for the next message, 8-aligned; empty when there is no room yet. 1 to most_bytes().
  std::span<std::byte> reserve(std::size_t bytes) noexcept;
  /// The reader may have it, when it looks: whoever sleeps is woken by bell() alone, so that many
  /// messages need one. `tag` goes with it.
  void publish(std::uint8_t tag = 0) noexcept;
  void bell() noexcept;
  /// Wakes nobody who is patient: for a writer that will ring later in any case.
  void soft_bell() noexcept;
  /// Until there is room for a message of so many bytes. False: not within `time`, or an hour.
  bool wait(std::size_t bytes, std::chrono::nanoseconds time) noexcept;

 private:
  bool has_room(std::size_t bytes) noexcept;

  ring_control& control_;
  const std::span<std::byte> bytes_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_ = 0;  // as it was when it was looked at
  std::uint64_t next_ = 0;  // the tail after publish()
  std::uint64_t size_ = 0;
};

/// The end that reads. There is one for each ring, made when the ring is.
class ring_reader {
 public:
  enum class got { message, nothing, broken };

  explicit ring_reader(const ring_memory& in) noexcept;

  /// Copies the next message into `to`, whose memory is used again. broken: what is there can't be;
  /// nothing comes from this ring any more.
  got take(frame_buffer& to);
  /// The same, appended at `at`, as far as there is room: broken when there is not.
  got append(std::span<std::byte> to, std::size_t& at);
  /// The tag of the last message.
  std::uint8_t tag() const noexcept { return tag_; }
  /// Whether take has something to say. Any thread.
  bool has_message() const noexcept { return is_broken_ || word() != 0; }
  /// Until there is something to take, first looking `spins` times. False: not within `time`, or an
  /// hour.
  bool wait(int spins, std::chrono::nanoseconds time) noexcept;

  // The parts of wait, for who sleeps on several words at a time: announce; if nothing is there,
  // sleep while the word is what this answers (it is shared between processes). It stays so when
  // something else woke them, since others may sleep on it: that costs the writer one wake for
  // nobody. Who is patient sleeps for a short time only; beside one who is not, he is not either.
  static constexpr std::uint32_t asleep = 1;
  static constexpr std::uint32_t patient = 2;
  std::uint32_t announce_sleep(bool is_patient) noexcept;
  const std::atomic<std::uint32_t>& sleep_word() const noexcept { return control_.reader_sleeps; }

 private:
  std::uint64_t word() const noexcept;
  got next_size(std::size_t& size) noexcept;
  void copy(std::byte* to, std::size_t size) noexcept;

  ring_control& control_;
  const std::span<std::byte> bytes_;
  // Atomic for has_message(), which any thread may call: it may answer what was true a moment ago.
  std::atomic<std::uint64_t> head_{0};
  std::uint64_t told_ = 0;  // the head when a sleeping writer was looked for
  std::uint8_t tag_ = 0;
  std::atomic<bool> is_broken_{false};
};

}  // namespace manta::inline v0::wire
