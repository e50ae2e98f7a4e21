// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <manta/base/export.hpp>
#include <manta/base/id.hpp>
#include <manta/codec/codec.hpp>
#include <manta/exec/barrier_core.hpp>
#include <manta/exec/channel_core.hpp>
#include <manta/exec/semaphore_core.hpp>
#include <manta/node/carrier.hpp>

// Things that several tasks use at the same time, channels, semaphores and barriers, as handles in
// messages mean them: see src/node/shared_names.hpp.

namespace manta::inline v0::node {

/// What is done with the items of a channel of T, whoever knows no T. A `box` is a
/// std::optional<T>.
struct item_ops {
  void* (*make_box)() = nullptr;
  void (*drop_box)(void* box) noexcept = nullptr;
  /// From a T.
  void (*write)(const void* value, codec::out_archive& out) = nullptr;
  /// From a box that is not empty.
  void (*write_box)(const void* box, codec::out_archive& out) = nullptr;
  void (*read)(void* box, codec::in_archive& in) = nullptr;
  // As exec::wish::move.
  void (*put)(void* items, void* box) = nullptr;
  void (*put_front)(void* items, void* box) = nullptr;
  void (*take)(void* items, void* box) = nullptr;
};

/// A thing that lives in this process, or stands for one of another process: then it has an id.
struct shared_thing {
  std::shared_ptr<void> owner;
  void* core = nullptr;             ///< exec::channel_core, semaphore_core or barrier_core
  const item_ops* items = nullptr;  ///< of a channel whose items can travel
  spec::reference_kind kind = spec::reference_kind::channel;
  std::uint64_t type = 0;  ///< hash of the handle's spelled type
  base::id id{};           ///< zero: it lives here
};

/// The way to a thing of another process; gives back what came of it when it ends.
struct far_link {
  far_link() = default;
  far_link(const far_link&) = delete;
  far_link& operator=(const far_link&) = delete;
  virtual ~far_link() = default;
  exec::far_channel* channel = nullptr;
  exec::far_semaphore* semaphore = nullptr;
  exec::far_barrier* barrier = nullptr;
};

/// Whether a handle of that kind is one of such a thing.
constexpr bool is_of_thing(spec::reference_kind kind) noexcept {
  return kind == spec::reference_kind::channel || kind == spec::reference_kind::semaphore ||
         kind == spec::reference_kind::barrier;
}

/// Makes what stands here for a thing of another process.
using make_mirror = std::shared_ptr<void> (*)(const std::shared_ptr<far_link>& link,
                                              std::uint64_t size);

/// What a handle that came from another process means here: its owner. Null: this process can't
/// know it. Throws std::bad_alloc.
MANTA_API std::shared_ptr<void> borrow_thing(const spec::reference& came, const item_ops* items,
                                             std::uint64_t size, make_mirror make);

/// Writes a handle H, which goes with the thing that it is of; an empty one without an owner.
template <class H>
void write_thing(codec::out_archive& out, shared_thing thing, std::uint64_t size) {
  out.raw(static_cast<std::uint8_t>(thing.owner != nullptr));
  if (thing.owner == nullptr) return;
  const spec::reference_kind kind = thing.kind;
  thing.type = codec::type_hash<H>;
  auto* const held = new shared_thing(std::move(thing));
  out.refer({{.what = {reinterpret_cast<std::uint64_t>(held->core), 1},
              .owner = {},
              .type = codec::type_hash<H>,
              .local = reinterpret_cast<std::uint64_t>(held),
              .kind = kind},
             [](const spec::reference& lent) noexcept {
               delete reinterpret_cast<shared_thing*>(lent.local);
             }});
  out.raw(size);
}

/// The owner of the thing of such a handle; null for an empty one.
template <class H>
std::shared_ptr<void> read_thing(codec::in_archive& in, spec::reference_kind kind,
                                 const item_ops* items, make_mirror make) {
  if (!in.flag(codec::name_of<H>())) return nullptr;
  const spec::reference& found = in.reference(kind, codec::type_hash<H>, codec::name_of<H>());
  const auto size = in.raw<std::uint64_t>();
  if (found.local != 0) return reinterpret_cast<shared_thing*>(found.local)->owner;
  std::shared_ptr<void> known = borrow_thing(found, items, size, make);
  if (known == nullptr) in.refuse("nobody here knows that handle", codec::name_of<H>());
  return known;
}

}  // namespace manta::inline v0::node
