// SPDX-License-Identifier: Apache-2.0
#include "node/large_ranges.hpp"

#include <algorithm>

#include <manta/spec/error.hpp>

#include "node/array_home.hpp"
#include "node/array_names.hpp"
#include "node/worker_arrays.hpp"
#include "store/copy.hpp"
#include "wire/frame.hpp"

namespace manta::inline v0::node {

namespace {

// A sealed copy of a range, with a hold; null: there is no room, and a message can have it instead.
// For what is too large for that, room is waited for like an array's. Throws store_full.
array_block* store_range(std::span<const std::byte> bytes) {
  constexpr std::size_t most_beside = wire::default_frame_limit / 2;
  const auto room = bytes.size() > most_beside ? wait_for_array_room(bytes.size())
                                               : try_make_array_room(bytes.size());
  if (room == nullptr) return nullptr;
  store::copy_large(room->bytes(), bytes.data());
  return room->seal();
}

}  // namespace

void pack_large(workbench& on, spec::parcel_view& value) {
  std::size_t sum = 0;
  for (const spec::segment_view& one : value.segments) sum += one.bytes.size();
  const bool is_too_much = value.segments.size() > most_ranges || sum > most_in_message;
  const std::size_t least = is_too_much                        ? 1
                            : worker_arrays::here() != nullptr ? large_from_worker
                                                               : large_from_node;
  const auto is_large = [least](const spec::segment_view& one) {
    return one.bytes.size() >= least;
  };
  if (std::ranges::none_of(value.segments, is_large)) return;
  on.segments.assign(value.segments.begin(), value.segments.end());
  for (spec::segment_view& one : on.segments) {
    if (!is_large(one)) continue;
    on.packed.reserve(on.packed.size() + 1);
    array_block* const block = store_range(one.bytes);
    if (block == nullptr) continue;
    on.packed.push_back(block);
    spec::reference named;
    named.kind = spec::reference_kind::array;
    named.type = one.type;
    static_cast<placed_block*>(block)->name(named);
    on.references.push_back(named);
    one.bytes = {};
  }
  value.segments = on.segments;
  value.references = on.references;
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
