// SPDX-License-Identifier: Apache-2.0
#include <manta/node/rest.hpp>

#include <algorithm>
#include <stop_token>
#include <utility>
#include <vector>

#include <manta/base/check.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/context.hpp>
#include <manta/node/carrier.hpp>

#include "node/far_pulls.hpp"
#include "node/reading_stop.hpp"
#include "node/resting_array.hpp"

namespace manta::inline v0::node {

/// The steps of a note, each under its lock.
class rest_steps {
 public:
  /// What has to come before a value can be read, each with a hold.
  struct needs {
    std::vector<resting_array*> resting;
    std::vector<array_block*> away;
    std::uint64_t reader = 0;
  };

  /// One reader more; what it needs is added.
  static void enter(const rested& what, needs& needed) {
    rest_note& note = *what.note;
    const std::lock_guard lock(note.mutex_);
    if (note.is_at_rest_) {
      what.visit(
          what.value,
          [](void* to, array_block*& handle) {
            if (!handle->is_at_rest()) return;
            add(static_cast<needs*>(to)->resting, static_cast<resting_array*>(handle));
          },
          &needed);
    }
    if (note.may_be_away()) {
      const auto each = what.as_handles ? add_away : add_away_from_here;
      what.visit(what.value, each, &needed);
    }
    ++note.readers_;
  }

  struct awake {
    const std::vector<resting_array*>& was;
    const std::vector<array_block*>& is;
    std::uint64_t reader = 0;
  };
  /// Puts the handles back, unless somebody has.
  static void arrive(const rested& what, awake now) noexcept {
    rest_note& note = *what.note;
    const std::lock_guard lock(note.mutex_);
    if (now.reader == 0 || !what.as_handles) note.may_be_away_.store(false);
    if (!std::exchange(note.is_at_rest_, false)) return;
    what.visit(
        what.value,
        [](void* to, array_block*& handle) {
          if (!handle->is_at_rest()) return;
          const awake& with = *static_cast<const awake*>(to);
          const auto found = std::ranges::find(with.was, handle);
          MANTA_CHECK(found != with.was.end());
          array_block* const block = with.is[static_cast<std::size_t>(found - with.was.begin())];
          block->hold();
          std::exchange(handle, block)->drop();
        },
        &now);
  }

  static void leave(const rested& what) noexcept {
    rest_note& note = *what.note;
    const std::lock_guard lock(note.mutex_);
    --note.readers_;
    settle(what);
  }

  static void rest(const rested& what) noexcept {
    const std::lock_guard lock(what.note->mutex_);
    settle(what);
  }

  static void look(const rested& what, void (*each)(void* to, array_block*& handle), void* to) {
    const std::lock_guard lock(what.note->mutex_);
    what.visit(what.value, each, to);
  }

  static void see(const rested& what) noexcept {
    rest_note& note = *what.note;
    const std::lock_guard lock(note.mutex_);
    --note.readers_;
    note.is_seen_.store(true, std::memory_order_release);
  }

 private:
  // Under the lock.
  static void settle(const rested& what) noexcept {
    rest_note& note = *what.note;
    if (note.readers_ != 0 || note.is_at_rest_ || note.is_seen()) return;
    note.is_at_rest_ = true;
    what.visit(
        what.value,
        [](void* to, array_block*& handle) {
          if (handle->is_away(0)) static_cast<std::atomic<bool>*>(to)->store(true);
          array_block* const stand_in = handle->at_rest();
          if (stand_in != nullptr) std::exchange(handle, stand_in)->drop();
        },
        &note.may_be_away_);
  }

  template <class Block>
  static void add(std::vector<Block*>& to, Block* one) {
    if (std::ranges::find(to, one) != to.end()) return;
    to.push_back(one);
    one->hold();
  }
  static void add_away(void* to, array_block*& handle) {
    auto& of = *static_cast<needs*>(to);
    if (handle->is_away(of.reader)) add(of.away, handle);
  }
  static void add_away_from_here(void* to, array_block*& handle) {
    if (handle->is_away(0)) add(static_cast<needs*>(to)->away, handle);
  }
};

namespace {

/// What was begun: ended again unless it is kept.
class beginning {
 public:
  beginning(std::span<const rested> all, std::uint64_t reader) : all_(all) {
    needed_.reader = reader;
    try {
      for (; begun_ < all.size(); ++begun_) rest_steps::enter(all[begun_], needed_);
    } catch (...) {
      undo();
      throw;
    }
  }
  ~beginning() { undo(); }
  beginning(const beginning&) = delete;
  beginning& operator=(const beginning&) = delete;

  /// False: it would take time, or longer than until then.
  bool wake(bool waits, const base::deadline& until = {}) {
    if (!needed_.away.empty() && (!waits || !fetch(until))) return false;
    std::vector<array_block*> blocks;
    if (!needed_.resting.empty()) {
      auto got = wake_arrays(needed_.resting, waits);
      if (!got) return false;
      blocks = *std::move(got);
    }
    for (const rested& one : all_) {
      rest_steps::arrive(one, {needed_.resting, blocks, needed_.reader});
    }
    for (array_block* const one : blocks) one->drop();
    begun_ = 0;
    return true;
  }

 private:
  bool fetch(const base::deadline& until) {
    return far_pulls::global().fetch(needed_.away, until, stop_of_reader());
  }
  // A task that is cancelled before it has its arguments has not begun, and needs none. Who waits
  // for a value by itself, or writes another one's call, is asked to stop, and no more. An actor is
  // made whatever becomes of who asked for it.
  std::stop_token stop_of_reader() const {
    exec::context* const by = exec::this_thread.current;
    const exec::job* const runs = by == nullptr ? nullptr : by->running;
    if (runs != nullptr && is_construction(*runs)) return {};
    if (runs != nullptr && are_arguments_of(*runs)) return exec::stop_token_of(*by);
    return reading_stop::of_this_thread();
  }
  static bool is_construction(const exec::job& j) noexcept {
    const carrier* const by = carrier_of(&j);
    return by != nullptr && by->entry != nullptr &&
           by->entry->kind() == codec::entry_kind::constructor;
  }
  bool are_arguments_of(const exec::job& j) const {
    auto* const its = const_cast<exec::job*>(&j);  // nothing is changed
    const carrier* const by = carrier_of(its);
    if (by == nullptr || by->rested_arguments == nullptr) return false;
    const std::vector<rested> arguments = by->rested_arguments(its);
    return std::ranges::any_of(arguments, [this](const rested& one) {
      return std::ranges::find(all_, one.note, &rested::note) != all_.end();
    });
  }
  void undo() noexcept {
    for (const rested& one : all_.first(begun_)) rest_steps::leave(one);
    for (resting_array* const one : needed_.resting) one->drop();
    for (array_block* const one : needed_.away) one->drop();
  }

  const std::span<const rested> all_;
  std::size_t begun_ = 0;
  rest_steps::needs needed_;
};

}  // namespace

void put_to_rest(const rested& what) noexcept { rest_steps::rest(what); }

bool begin_reading(std::span<const rested> all, std::uint64_t reader, const base::deadline& until) {
  return beginning(all, reader).wake(true, until);
}

bool try_begin_reading(std::span<const rested> all, std::uint64_t reader) {
  return beginning(all, reader).wake(false);
}

void end_reading(const rested& what) noexcept { rest_steps::leave(what); }

void look_at_arrays(const rested& what, void (*each)(void* to, array_block*& handle), void* to) {
  rest_steps::look(what, each, to);
}

bool see(const rested& what, const base::deadline& until) {
  if (!beginning({&what, 1}, 0).wake(true, until)) return false;
  rest_steps::see(what);
  return true;
}

}  // namespace manta::inline v0::node
