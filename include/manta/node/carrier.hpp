// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <manta/base/export.hpp>
#include <manta/codec/codec.hpp>
#include <manta/codec/identity.hpp>
#include <manta/codec/obstacle.hpp>
#include <manta/exec/job.hpp>

// How the values of a job become bytes and come back: where the typed front meets codec and wire.
//
// Each job that may leave its process has a carrier among its operations (exec::job_ops::carrier).
// In the check-copy mode (MANTA_CHECK=copy) nothing leaves, but everything goes the same way: the
// arguments when the call is made, the result when it is there, what is put and what is yielded.
// Value, segments, Cap'n Proto message, value; what was there before is destroyed and its memory
// filled, so that who kept a reference to it reads nonsense.

namespace manta::inline v0::node {

struct carrier {
  /// Who the function is; null for objects.
  const codec::entry* entry = nullptr;
  void (*write_arguments)(exec::job* j, codec::out_archive& out) = nullptr;
  /// Replaces the arguments by those that are read. When it throws each is the old or the new one.
  void (*renew_arguments)(exec::job* j, codec::in_archive& in) = nullptr;
  /// The same for the value of a job that has one; null for void.
  void (*write_value)(exec::job* j, codec::out_archive& out) = nullptr;
  void (*renew_value)(exec::job* j, codec::in_archive& in) = nullptr;
};

inline const carrier* carrier_of(const exec::job* j) noexcept {
  return static_cast<const carrier*>(j->ops->carrier);
}

/// In the check-copy mode: sends the arguments of a new job, which nobody knows yet, through a
/// message. Throws encode_failed, decode_failed, std::bad_alloc.
MANTA_API void check_arguments(exec::job* j);
/// The same for the value of a ready object that nobody knows yet.
MANTA_API void check_object(exec::job* j);

/// What memory is filled with whose value was moved away.
inline constexpr int poison = 0xdb;

/// Whether a T can leave its process. What can't was refused in one line; the rest of this file
/// leaves it alone, so that the compiler adds no others.
template <class T>
inline constexpr bool can_travel =
    decltype(codec::find_obstacle<std::remove_cv_t<T>>())::kind == codec::obstacle::none;

template <class T>
void write(codec::out_archive& out, const T& value) {
  if constexpr (can_travel<T>) codec::write(out, value);
}

/// Replaces `at` by what is read.
template <class T>
void renew([[maybe_unused]] T& at, [[maybe_unused]] codec::in_archive& in) {
  if constexpr (!can_travel<T>) {
    return;
  } else if constexpr (std::is_nothrow_move_constructible_v<T>) {
    T fresh = codec::read<T>(in);
    [&]() noexcept {
      std::destroy_at(&at);
      std::memset(static_cast<void*>(&at), poison, sizeof(T));
      new (static_cast<void*>(&at)) T(std::move(fresh));
    }();
  } else {
    // It may not be moved, so it is read where it belongs. Bytes just written can be read again; a
    // class whose functions disagree ends the program here.
    [&]() noexcept {
      std::destroy_at(&at);
      std::memset(static_cast<void*>(&at), poison, sizeof(T));
      new (static_cast<void*>(&at)) T(codec::read<T>(in));
    }();
  }
}

}  // namespace manta::inline v0::node
