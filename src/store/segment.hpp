// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <manta/spec/error.hpp>

// Memory that one process writes and others read in place.
//
// Problem. Objects are shared without copying, by processes that may end at any moment and do not
// trust each other with a pen. Nothing may be left when all are gone, and a machine without memory
// has to be an answer, not a signal.
//
// Idea. A memfd has no name and ends with the last who has it. Its pages are reserved before it is
// mapped, so that no write can fail later. That alone is no answer: a memfd has no limit, and the
// kernel ends processes to find its pages. So what the machine and the cgroup have available is
// asked first, and again between pieces. When its writer has it mapped it is sealed: its size
// stays, and no mapping or write can begin any more that would change it.
//
//     writer                              reader
//     make: memfd, fallocate, map, seal
//     descriptor ------ SCM_RIGHTS -----> map: seals and size looked at, mapped read-only
//
// Invariant: who has mapped a segment can read all of it for as long as it likes, whatever becomes
// of its writer.
//
// A sealed segment can't give back some of its pages: it goes as a whole, when nobody has it.
//
// Threads: values; each may be used by one thread at a time, their bytes by any.

namespace manta::inline v0::store {

/// An open file, closed with it.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int number) noexcept : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor();

  int number() const noexcept { return number_; }

 private:
  int number_ = -1;
};

/// Pages of a file in this process's memory, unmapped with it.
class mapping {
 public:
  mapping() = default;
  mapping(void* at, std::size_t bytes) noexcept : at_(static_cast<std::byte*>(at)), bytes_(bytes) {}
  mapping(mapping&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  mapping& operator=(mapping&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~mapping();

  std::span<std::byte> bytes() const noexcept { return {at_, bytes_}; }

 private:
  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A segment as its writer has it.
class segment {
 public:
  /// At least `bytes`, up to the next multiple of a page, of zeros. About 0.4 s for a GiB: the
  /// kernel clears pages. store_full: the machine or the cgroup has not so much, with 64 MiB beside
  /// it, or too many files are open. invalid_argument: 0 bytes.
  static result<segment> make(std::size_t bytes);
  /// The same where `available()` says how many bytes are.
  static result<segment> make(std::size_t bytes, std::int64_t (*available)());

  std::span<std::byte> bytes() const noexcept { return map_.bytes(); }
  /// For readers. Lives as long as the segment; duplicate it to keep it.
  const descriptor& file() const noexcept { return file_; }

  /// Has the pages of a part mapped ahead, so that the first write there takes no page fault. About
  /// 1 s for a GiB; best from a thread that has nothing else to do. Does nothing where the kernel
  /// can't (before Linux 5.14).
  void populate(std::size_t from, std::size_t bytes) const noexcept;

 private:
  segment(descriptor file, mapping map) noexcept : file_(std::move(file)), map_(std::move(map)) {}

  descriptor file_;
  mapping map_;
};

/// A segment as others read it.
class segment_view {
 public:
  /// Of a segment whose descriptor came from somebody else. decode_failed: it is no sealed segment,
  /// which its writer could make shorter under the reader. store_full: it can't be mapped.
  static result<segment_view> map(descriptor file);

  std::span<const std::byte> bytes() const noexcept { return map_.bytes(); }
  const descriptor& file() const noexcept { return file_; }

 private:
  segment_view(descriptor file, mapping map) noexcept
      : file_(std::move(file)), map_(std::move(map)) {}

  descriptor file_;
  mapping map_;
};

}  // namespace manta::inline v0::store
