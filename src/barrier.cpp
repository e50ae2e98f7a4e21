// SPDX-License-Identifier: Apache-2.0
#include <manta/barrier.hpp>

#include <mutex>

#include <fmt/format.h>

#include <manta/exec/executor.hpp>
#include <manta/exec/linked_list.hpp>
#include <manta/spec/error.hpp>

#include "exec/await_telling.hpp"

namespace manta::inline v0 {

namespace {

std::size_t check_parties(std::size_t asked) {
  if (static_cast<std::ptrdiff_t>(asked) >= 1) return asked;
  raise(errc::invalid_argument, fmt::format("barrier: asked for {} parties, allowed 1 or more",
                                            static_cast<std::ptrdiff_t>(asked)));
}

[[noreturn]] void raise_empty() {
  raise(errc::invalid_argument,
        "an empty barrier handle was used; it was default-made or moved from; make one with "
        "barrier(parties)");
}

}  // namespace

struct barrier::state {
  struct party {
    exec::thread_waiter told;
    party* previous = nullptr;
    party* next = nullptr;
    bool is_listed = false;
  };
  explicit state(std::size_t n) : parties(n) {}
  const std::size_t parties;
  std::mutex mutex;
  std::size_t arrived = 0;
  std::uint64_t generation = 0;
  exec::linked_list<party> waiting;
};

barrier::barrier(std::size_t parties) : state_(std::make_shared<state>(check_parties(parties))) {}

barrier_arrival barrier::arrive_and_wait() const {
  if (!state_) raise_empty();
  const std::shared_ptr<state> keep = state_;
  state& s = *keep;
  state::party me;
  barrier_arrival out;
  {
    const std::lock_guard lock(s.mutex);
    out.generation = s.generation;
    out.is_last = ++s.arrived == s.parties;
    if (out.is_last) {
      s.arrived = 0;
      ++s.generation;
      while (state::party* const p = s.waiting.pop_front()) p->told.sleep.signal();
    } else {
      s.waiting.push_back(&me);
    }
  }
  if (out.is_last || exec::await_telling(me.told, std::nullopt) == exec::awoken::told) return out;
  const std::lock_guard lock(s.mutex);
  if (!me.is_listed) return out;
  s.waiting.remove(&me);
  --s.arrived;
  exec::raise_stopped("arrive_and_wait");
}

std::size_t barrier::parties() const {
  if (!state_) raise_empty();
  return state_->parties;
}

}  // namespace manta::inline v0
