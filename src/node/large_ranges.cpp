// SPDX-License-Identifier: Apache-2.0
#include "node/large_ranges.hpp"

#include <algorithm>
#include <memory>

#include <manta/spec/error.hpp>

#include "node/array_home.hpp"
#include "node/array_names.hpp"
#include "node/far_arrays.hpp"
#include "node/trade.hpp"
#include "node/worker_arrays.hpp"
#include "store/copy.hpp"
#include "wire/frame.hpp"

namespace manta::inline v0::node {

namespace {

// A sealed copy, with a hold; null: there is no room.
array_block* copy_of(std::span<const std::byte> bytes, std::unique_ptr<array_making> room) {
  if (room == nullptr) return nullptr;
  store::copy_large(room->bytes(), bytes.data());
  return room->seal();
}

// The same of a range; null: a message can have it instead.
// For what is too large for that, room is waited for like an array's. Throws store_full.
array_block* store_range(std::span<const std::byte> bytes) {
  constexpr std::size_t most_beside = wire::default_frame_limit / 2;
  return copy_of(bytes, bytes.size() > most_beside ? wait_for_array_room(bytes.size())
                                                   : try_make_array_room(bytes.size()));
}

}  // namespace

namespace {

// The message has that range as the last of its references. `named`: what it is called there.
void refer(workbench& on, spec::segment_view& range, spec::reference named) {
  named.kind = spec::reference_kind::array;
  named.type = range.type;
  on.references.push_back(named);
  range.bytes = {};
}

// Of those that are at least so large, each that `store` has a block for. `name` says what it is
// called.
template <class Store, class Name>
void pack(workbench& on, spec::parcel_view& value, std::size_t least, Store store, Name name) {
  const auto is_large = [least](const spec::segment_view& one) {
    return one.bytes.size() >= least;
  };
  if (std::ranges::none_of(value.segments, is_large)) return;
  on.segments.assign(value.segments.begin(), value.segments.end());
  for (spec::segment_view& one : on.segments) {
    if (!is_large(one)) continue;
    on.packed.reserve(on.packed.size() + 1);
    array_block* const block = store(one.bytes);
    if (block == nullptr) continue;
    on.packed.push_back(block);
    spec::reference named;
    name(static_cast<placed_block&>(*block), named);
    refer(on, one, named);
  }
  value.segments = on.segments;
  value.references = on.references;
}

std::size_t size_of(const spec::parcel_view& value) noexcept {
  std::size_t sum = 0;
  for (const spec::segment_view& one : value.segments) sum += one.bytes.size();
  return sum;
}

bool has_too_much(const spec::parcel_view& value) noexcept {
  return value.segments.size() > most_ranges || size_of(value) > most_in_message;
}

}  // namespace

void pack_large(workbench& on, spec::parcel_view& value) {
  const std::size_t least = has_too_much(value)                ? 1
                            : worker_arrays::here() != nullptr ? large_from_worker
                                                               : large_from_node;
  pack(on, value, least, store_range,
       [](placed_block& block, spec::reference& named) { block.name(named); });
}

void pack_for_node(workbench& on, spec::parcel_view& value) {
  // These have others' tasks and results to carry, and copy nothing.
  if (!on.packs || trade::is_own_thread()) return;
  const bool has_to = size_of(value) > most_bytes_afar;
  const auto store = [&](std::span<const std::byte> bytes) -> array_block* {
    if (!far_arrays::global().has_room(bytes.size(), on.goes_to)) return nullptr;
    return copy_of(bytes,
                   has_to ? wait_for_array_room(bytes.size()) : try_make_array_room(bytes.size()));
  };
  const std::size_t least = has_too_much(value) ? far_arrays::least_lent : large_from_node;
  pack(on, value, least, store, [&](placed_block& block, spec::reference& named) {
    const far_name known = far_arrays::global().name(on, block, named);
    named.what = known.id;
    named.owner = {known.owner, 0};
  });
}

opened_parcel::opened_parcel(const spec::parcel_view& came) : view_(came) {
  const auto is_elsewhere = [](const spec::segment_view& one) { return one.bytes.empty(); };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(came.segments, is_elsewhere));
  if (count == 0) return;
  if (count > came.references.size()) {
    raise(errc::decode_failed, "a value came without the arrays that have its large ranges");
  }
  view_.references = came.references.first(came.references.size() - count);
  segments_.assign(came.segments.begin(), came.segments.end());
  held_.reserve(count);
  try {
    auto next = came.references.last(count).begin();
    for (spec::segment_view& one : segments_) {
      if (!is_elsewhere(one)) continue;
      array_block* const block = borrow_array(*next++);
      if (block == nullptr) {
        raise(errc::decode_failed, "a value came with a large range that nobody here knows");
      }
      held_.push_back(block);
      if (block->is_away(0)) raise(errc::decode_failed, "a value came without a large range of it");
      one.bytes = block->bytes();
    }
  } catch (...) {
    drop_all();
    throw;
  }
  view_.segments = segments_;
}

opened_parcel::~opened_parcel() { drop_all(); }

void opened_parcel::drop_all() noexcept {
  for (array_block* const one : held_) one->drop();
  held_.clear();
}

}  // namespace manta::inline v0::node
