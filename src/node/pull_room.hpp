// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <manta/node/array_block.hpp>

// Where the bytes of an array that is fetched come to be.
//
// Problem. Others are given chunks of it from here, while it is fetched and just after: whoever
// reads the array may drop it before the last of them has gone.
// Idea. Who sends holds the room, and the room its block: the memory stays until both are let go
// of, whichever way the bytes came.
//
// Threads: one writes and seals; it ends on any.

namespace manta::inline v0::node {

class pull_room {
 public:
  explicit pull_room(std::unique_ptr<array_making> of) noexcept : making_(std::move(of)) {}
  pull_room(const pull_room&) = delete;
  pull_room& operator=(const pull_room&) = delete;
  ~pull_room() {
    if (sealed_ != nullptr) sealed_->drop();
  }

  std::span<std::byte> bytes() const noexcept { return making_->bytes(); }
  /// The block, with a hold for who calls. Once. Throws as array_making::seal.
  array_block* seal() {
    sealed_ = making_->seal();
    sealed_->hold();
    return sealed_;
  }

 private:
  std::unique_ptr<array_making> making_;
  array_block* sealed_ = nullptr;  // with a hold; `making_` has no memory from then on
};

}  // namespace manta::inline v0::node
