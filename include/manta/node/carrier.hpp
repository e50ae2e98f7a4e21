// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/base/id.hpp>
#include <manta/base/type_name.hpp>
#include <manta/codec/codec.hpp>
#include <manta/codec/identity.hpp>
#include <manta/codec/obstacle.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/node/rest.hpp>
#include <manta/spec/isolation.hpp>

// How the values of a job become bytes and come back: where the typed front meets codec and wire.
//
// Each job that may leave its process has a carrier among its operations (exec::job_ops::carrier).
// In the check-copy mode (MANTA_CHECK=copy) nothing leaves, but everything goes the same way: the
// arguments when the call is made, the result when it is there, what is put and what is yielded.
// Value, segments, Cap'n Proto message, value; what was there before is destroyed and its memory
// filled, so that who kept a reference to it reads nonsense.

namespace manta::inline v0::exec {

class stream_core;

}  // namespace manta::inline v0::exec

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
  /// Puts the value that is read into the empty slot; null for void.
  void (*read_value)(exec::job* j, codec::in_archive& in) = nullptr;
  /// By its type, as far as that can be seen, the value has what can't go to another node.
  bool stays = false;
  /// The arguments of a job that needs nothing any more as its function's parameters: futures are
  /// replaced by their values.
  void (*write_parameters)(exec::job* j, codec::out_archive& out) = nullptr;
  /// Why such a job can't run: the error of an argument; null when it can.
  const error* (*failure)(exec::job* j) noexcept = nullptr;
  /// Has the arrays in such a job's awaited arguments in memory until these are dropped; it has to
  /// be called before they are written. `waits`: for the disk and for room; else false where that
  /// would be needed. `reader`: who gets them, see node/rest.hpp. Null: they have none. Throws
  /// store_full, object_lost, node_lost, cancelled, std::bad_alloc.
  bool (*wake_arguments)(exec::job* j, bool waits, std::uint64_t reader) = nullptr;
  /// They may leave memory again, until somebody wakes them: what was written holds its own. Null
  /// where that is.
  void (*rest_arguments)(exec::job* j) = nullptr;
  /// The awaited values with arrays. Null where that is. Throws std::bad_alloc.
  std::vector<rested> (*rested_arguments)(exec::job* j) = nullptr;
  /// Of a generator's job that has its arguments: its stream; null for other functions.
  exec::stream_core* (*stream)(exec::job* j) noexcept = nullptr;
  /// Makes an item of it, ready, with one hold. The second: of an item that could not be read.
  exec::job* (*read_item)(codec::in_archive& in) = nullptr;
  exec::job* (*fail_item)(error why) = nullptr;
};

/// How a call that came from another process becomes a job of this one; what entry::ops points to.
struct inbound {
  /// A task with two holds whose parameters are read from `in`. `with`: for the extra that it has.
  exec::job* (*make)(const exec::extra_source& with, codec::in_archive& in) = nullptr;
  /// The same for a call of a method, with the number of its group.
  exec::job* (*make_call)(exec::actor_core* to, std::uint64_t group, const exec::extra_source& with,
                          codec::in_archive& in) = nullptr;
  /// An actor that nobody knows yet; it holds `given`, null for nothing.
  exec::actor_core* (*make_core)(std::unique_ptr<exec::resource_claim> given) = nullptr;
  /// The job that constructs it, with two holds.
  exec::job* (*make_construction)(exec::actor_core* of, codec::in_archive& in) = nullptr;
  /// Of which actors the calls are, or what the constructor makes.
  const exec::actor_ops* of = nullptr;
};

inline const carrier* carrier_of(const exec::job* j) noexcept {
  return static_cast<const carrier*>(j->ops->carrier);
}

/// Whether what asks for that runs in another process, where nothing is in the way of that; makes
/// what it needs there. Throws unsupported, cancelled (the runtime ends), std::system_error.
MANTA_API bool goes_elsewhere(std::optional<isolation_mode> asked);
/// Of a task whose arguments are ready: whether it goes, of itself, to the node where large arrays
/// in them have stayed. True: its queue entry's hold is taken over.
MANTA_API bool goes_to_its_data(exec::job* j) noexcept;
/// Of a new job, which nobody knows yet: whether it is to run in another process, and then whether
/// it can. In the check-copy mode: sends its arguments through a message. Throws what
/// goes_elsewhere does, unsupported, encode_failed, decode_failed, std::bad_alloc.
MANTA_API void check_arguments(exec::job* j);
/// The same of a construction, of which the former is known.
MANTA_API void check_construction(exec::job* j, bool is_away);
/// The same for the value of a ready object that nobody knows yet.
MANTA_API void check_object(exec::job* j);

/// Where an actor that is asked for so (null: with no options) is to live: another node's number,
/// or 0 for this one. Throws infeasible, unsupported, std::bad_alloc. Cost: two loads while there
/// are no other nodes.
MANTA_API std::uint64_t place_actor(const actor_options* asked);
/// A new actor, which nobody knows yet, is to live there. When it throws (std::bad_alloc) the actor
/// is gone.
MANTA_API void send_actor(exec::actor_core* made, std::uint64_t node, const actor_options* asked);

/// The actor that came as an id from another process, with a handle: the core that is known here,
/// or a new one of that kind that stands for it. Null: this process can't know it. Throws
/// std::bad_alloc.
MANTA_API exec::actor_core* borrow_actor(const base::id& what, const exec::actor_ops* kind);

/// The core that a weak handle which came from another process is to, with a pin: the one that is
/// known here, or a new one without handles that has its name. Throws std::bad_alloc.
MANTA_API exec::actor_core* borrow_weak_actor(const spec::reference& what,
                                              const exec::actor_ops* kind);
/// A handle for a weak one whose core gives none: the actor may live in another process, which is
/// asked then. The core that has the handle; null: it has ended, or nobody has handles. Throws
/// unsupported, std::bad_alloc.
MANTA_API exec::actor_core* lock_actor(const exec::actor_core* of, const exec::actor_ops* kind);

/// The job of a future that came as a name from another process, with a hold: the one that is known
/// here, or what `make` makes (claimed, with one hold), which gets the value. `type`: the hash of
/// the future's type. Null: this process can't know it. Throws std::bad_alloc.
MANTA_API exec::job* borrow_future(const base::id& what, std::uint64_t type, exec::job* (*make)());

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

/// Throws encode_failed: a value of the one type has to be copied to become the other, and can't.
[[noreturn]] MANTA_API void raise_not_convertible(const char* from, const char* to);

/// Writes a value that will be gone before the parcel is used.
template <class T>
void write_passing(codec::out_archive& out, const T& value) {
  const bool before = out.passing(true);
  node::write(out, value);
  out.passing(before);
}

/// Writes `value` as the P that it becomes.
template <class P, class T>
void write_as([[maybe_unused]] codec::out_archive& out, [[maybe_unused]] const T& value) {
  if constexpr (!can_travel<P>) {
    return;
  } else if constexpr (std::is_same_v<P, T>) {
    codec::write(out, value);
  } else if constexpr (std::is_convertible_v<const T&, P>) {
    write_passing(out, static_cast<P>(value));
  } else {
    raise_not_convertible(base::spelled_type<T>(), base::spelled_type<P>());
  }
}

/// Makes a T of what is read at `at`.
template <class T>
void read_at([[maybe_unused]] T* at, [[maybe_unused]] codec::in_archive& in) {
  if constexpr (can_travel<T>) new (static_cast<void*>(at)) T(codec::read<T>(in));
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
