// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/spec/actor_end.hpp>

namespace manta::inline v0::exec {

/// Somebody who is told how an actor ended. Lives where its owner wants; the list only links it.
struct end_watcher {
  end_watcher* next = nullptr;
  /// Called once, after the object is gone; the watcher may be gone when it returns.
  void (*tell)(end_watcher* self, const actor_end& how) noexcept = nullptr;
  /// Whether nobody wants to know any more: then give_up is called some time instead of tell.
  bool (*is_forgotten)(end_watcher* self) noexcept = nullptr;
  void (*give_up)(end_watcher* self) noexcept = nullptr;
};

}  // namespace manta::inline v0::exec
