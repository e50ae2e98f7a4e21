// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <manta/actor.hpp>
#include <manta/exec/known_actor.hpp>
#include <manta/future.hpp>
#include <manta/handles.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/actor_end.hpp>

// Actors' lives: finding one by its name, ending one, being told of an end, weak handles, and what
// an actor's own methods may ask for.

namespace manta::inline v0 {

template <class T>
class weak_actor;

namespace codec {
template <class T>
struct custom<weak_actor<T>>;
}  // namespace codec

namespace detail {

MANTA_API exec::actor_core* find_core(const std::string& name, const std::string& name_space,
                                      const exec::actor_ops* mirror);
MANTA_API future<actor_end> watch_core(exec::actor_core* core);
MANTA_API void kill_core(exec::actor_core* core);
MANTA_API void retire_core(exec::actor_core* core);
MANTA_API exec::actor_core* own_core(const char* type);

}  // namespace detail

/// A handle that does not keep its actor: lock() gives a real one while the actor lives.
///
/// Copyable; empty when default-made. Any thread may use a weak handle and its copies; one object
/// is externally synchronised. Inside of values it goes to other nodes, as the actor's name. Cost:
/// what is left of an actor that ended, its block of memory, stays until the last weak handle goes;
/// in another node than the actor's a block for each message that it came with.
template <class T>
class weak_actor {
 public:
  /// The type of the object.
  using value_type = T;

  /// Empty.
  weak_actor() noexcept = default;
  /// To the actor of `a`; empty when that is.
  weak_actor(const actor<T>& a) noexcept  // NOLINT(google-explicit-constructor): as std::weak_ptr
      : core_(detail::actor_access::core_or_null(a)) {
    if (core_ != nullptr) core_->pin();
  }
  /// To the same actor.
  weak_actor(const weak_actor& other) noexcept : core_(other.core_) {
    if (core_ != nullptr) core_->pin();
  }
  /// Takes the handle over and leaves `other` empty.
  weak_actor(weak_actor&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  /// Takes the place of what this was.
  weak_actor& operator=(weak_actor other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~weak_actor() {
    if (core_ != nullptr) core_->unpin();
  }

  /// A handle to the actor; an empty one when its last handle went, or it was killed, retired, has
  /// left, was never constructed, or ended with the runtime or its node. Cost: two atomic
  /// operations. For an actor of another node to which this node has no handle the other one is
  /// asked, which alone knows, and its answer waited for: two messages, and as long as it takes to
  /// find out that a node which does not answer is lost. Then throws unsupported where the engine
  /// itself reads or destroys a value that came from elsewhere, whose thread must not wait;
  /// std::bad_alloc.
  actor<T> lock() const {
    if (core_ == nullptr) return {};
    if (core_->try_add_handle(true)) return detail::actor_access::make<T>(core_);
    exec::actor_core* const found = node::lock_actor(core_, &detail::mirror_ops<T>);
    return found != nullptr ? detail::actor_access::make<T>(found) : actor<T>();
  }

  /// Two weak handles are equal when they are to the same actor.
  friend bool operator==(const weak_actor& a, const weak_actor& b) noexcept {
    return exec::is_same_actor(a.core_, b.core_);
  }

 private:
  friend struct codec::custom<weak_actor<T>>;
  exec::actor_core* core_ = nullptr;
};

/// The living actor of that name in that namespace, or nothing. A name is found from spawn on, and
/// no longer once the actor's last handle went or its end was asked for. Throws no_runtime;
/// invalid_argument when that actor is not a T, with both types; node_lost; unsupported in an
/// isolated worker for an actor of another node. Any thread. Cost: one lock; in an isolated worker
/// a question to its node, and for an actor of another node one to the head's node and one to the
/// actor's, which are waited for. There a name is free when its node has heard of the end, a moment
/// later.
template <class T>
std::optional<actor<T>> find_actor(const std::string& name, const std::string& name_space = {}) {
  exec::actor_core* const found = detail::find_core(name, name_space, &detail::mirror_ops<T>);
  if (found == nullptr) return std::nullopt;
  return detail::actor_access::make<T>(found);
}

/// A future of how the actor ends. It is ready when the object is gone, at once when it has ended,
/// and at the latest with the runtime. It does not keep the actor; there may be several. A method
/// that waits for its own actor's end gets self_wait. Throws invalid_argument for an empty handle,
/// no_runtime, std::bad_alloc; in an isolated worker store_full when it waits for the ends of
/// 32,768 actors. Any thread. Cost: a block; in an isolated worker a question to its node, once for
/// each actor.
template <class T>
future<actor_end> monitor(const actor<T>& a) {
  return detail::watch_core(detail::actor_access::core(a));
}

/// Ends the actor: calls that have not begun fail with actor_lost at once, what runs is asked to
/// stop (this_task::is_cancelled), and when that has returned the object is destroyed on a worker.
/// Later calls fail with actor_lost. Handles stay, its name is free. Harmless when it has ended
/// already, and before it was constructed: then it never is. Throws invalid_argument for an empty
/// handle, no_runtime, std::bad_alloc with nothing changed. Any thread. Cost: one barrier on every
/// thread of the process (some microseconds); arguments of the calls that fail are destroyed on
/// this thread.
template <class T>
void kill(const actor<T>& a) {
  detail::kill_core(detail::actor_access::core(a));
}

/// Ends the actor after the calls made before, those that still wait for arguments included; later
/// ones fail with actor_lost. A kill may follow. Otherwise as kill.
template <class T>
void retire(const actor<T>& a) {
  detail::retire_core(detail::actor_access::core(a));
}

/// What an actor's method, or its constructor, may ask for about its own actor. Elsewhere, also in
/// a task that a method made, these throw invalid_argument.
namespace this_actor {

/// A handle to the actor itself. When all others have gone it keeps the actor alive all the same;
/// kept in the object it makes a cycle. Throws invalid_argument when the actor is not a T.
template <class T>
actor<T> handle() {
  exec::actor_core* const core = detail::own_core(base::spelled_type<T>());
  core->add_handle_inside();
  return detail::actor_access::make<T>(core);
}

/// Ends the actor when the method has returned; the method goes on after this call, and its result
/// is delivered. Calls that have not begun fail with actor_lost at once. Throws std::bad_alloc.
MANTA_API void exit();

}  // namespace this_actor
}  // namespace manta::inline v0

namespace manta::inline v0::codec {

/// A weak handle goes as the actor's core, and keeps nothing but its block.
template <class T>
struct custom<weak_actor<T>> {
  static void write(out_archive& out, const weak_actor<T>& handle) {
    exec::actor_core* const core = handle.core_;
    if (core != nullptr) core->pin();
    detail::write_handle<weak_actor<T>>(out, spec::reference_kind::weak_actor,
                                        {reinterpret_cast<std::uint64_t>(core), 1}, core,
                                        [](const spec::reference& lent) noexcept {
                                          reinterpret_cast<exec::actor_core*>(lent.local)->unpin();
                                        });
  }
  static weak_actor<T> read(in_archive& in) {
    weak_actor<T> out;
    if (!in.flag(name_of<weak_actor<T>>())) return out;
    const spec::reference& found = in.reference(spec::reference_kind::weak_actor,
                                                type_hash<weak_actor<T>>, name_of<weak_actor<T>>());
    if (found.local != 0) {
      out.core_ = reinterpret_cast<exec::actor_core*>(found.local);
      out.core_->pin();
    } else {
      out.core_ = node::borrow_weak_actor(found, &detail::mirror_ops<T>);
    }
    return out;
  }
};

}  // namespace manta::inline v0::codec
