// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stop_token>

#include <manta/codec/archive.hpp>
#include <manta/codec/errors.hpp>
#include <manta/codec/value.hpp>

// Handles inside of values: futures, actors, streams and the like go as references beside the
// bytes (spec/parcel.hpp), which the parcel holds until it is dropped. A handle takes a byte, 0 for
// an empty one.

namespace manta::inline v0::detail {

/// Writes the handle H: `held`, null for an empty one, has been given a hold for the parcel, which
/// `give_back` ends.
template <class H>
void write_handle(codec::out_archive& out, spec::reference_kind kind, base::id what, void* held,
                  void (*give_back)(const spec::reference& lent) noexcept) {
  out.raw(static_cast<std::uint8_t>(held != nullptr));
  if (held == nullptr) return;
  out.refer({{.what = what,
              .owner = {},
              .type = codec::type_hash<H>,
              .local = reinterpret_cast<std::uint64_t>(held),
              .kind = kind},
             give_back});
}

/// What such a handle holds, which stays the parcel's; null for an empty one. In its own process.
template <class H, class Held>
Held* read_handle(codec::in_archive& in, spec::reference_kind kind) {
  if (!in.flag(codec::name_of<H>())) return nullptr;
  const spec::reference& found = in.reference(kind, codec::type_hash<H>, codec::name_of<H>());
  if (found.local == 0) in.refuse("its owner is in another process", codec::name_of<H>());
  return reinterpret_cast<Held*>(found.local);
}

/// A copyable handle H without a name of its own: the parcel holds a copy of it.
template <class H, spec::reference_kind Kind>
struct boxed_handle {
  static void write(codec::out_archive& out, const H& handle) {
    H* const copy = new H(handle);
    write_handle<H>(
        out, Kind, {reinterpret_cast<std::uint64_t>(copy), 1}, copy,
        [](const spec::reference& lent) noexcept { delete reinterpret_cast<H*>(lent.local); });
  }
  static H read(codec::in_archive& in) { return *read_handle<H, const H>(in, Kind); }
};

}  // namespace manta::inline v0::detail

namespace manta::inline v0::codec {

/// A stop token goes with the state it asks.
template <>
struct custom<std::stop_token>
    : detail::boxed_handle<std::stop_token, spec::reference_kind::stop_token> {};

}  // namespace manta::inline v0::codec
