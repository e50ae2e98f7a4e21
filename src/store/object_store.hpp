// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/spec/error.hpp>

#include "store/lane.hpp"
#include "store/object_table.hpp"
#include "store/quota.hpp"
#include "store/segment.hpp"
#include "store/spill_file.hpp"

// The large objects of a node: in memory that all its processes read, on a disk when that is full.
//
// Problem and idea are object_table's, which decides; this does what it says, with real memory and
// files. What is quick is done by the thread that calls, under one lock; what takes time has three
// lanes, so that nobody who brings something back waits for somebody who writes, or the other way
// round:
//
//     make, read, drop --> table --> memory lane: segments come and go, objects move
//                                    spill lane: to the disk          restore lane: back
//
// With ASan what is free is poisoned: a view that was kept too long is found.
//
// Threads: any. Cost of make and read when there is room: a lock, and a search in trees; nothing is
// copied.

namespace manta::inline v0::store {

class object_store;
class reading;

/// Memory of an object that is not whole yet. It is given back when this ends before seal().
class making {
 public:
  making(making&& other) noexcept
      : in_(std::exchange(other.in_, nullptr)), id_(other.id_), bytes_(other.bytes_) {}
  making& operator=(making&&) = delete;
  ~making();

  object_id id() const noexcept { return id_; }
  /// Aligned to 64, of any content.
  std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// From now on others may read it, and nobody writes it. It lives until erase().
  object_id seal() &&;
  /// The same, and reads it where it is. object_lost: its maker is gone.
  result<reading> seal_and_read(holder who = 0) &&;

 private:
  friend class object_store;
  making(object_store* in, object_id id, std::span<std::byte> bytes) noexcept
      : in_(in), id_(id), bytes_(bytes) {}

  object_store* in_;
  object_id id_;
  std::span<std::byte> bytes_;
};

/// An object that stays where it is until this ends.
class reading {
 public:
  reading(reading&& other) noexcept
      : in_(std::exchange(other.in_, nullptr)),
        id_(other.id_),
        who_(other.who_),
        bytes_(other.bytes_) {}
  reading& operator=(reading&&) = delete;
  ~reading();

  object_id id() const noexcept { return id_; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  friend class object_store;
  reading(object_store* in, object_id id, holder who, std::span<const std::byte> bytes) noexcept
      : in_(in), id_(id), who_(who), bytes_(bytes) {}

  object_store* in_;
  object_id id_;
  holder who_;
  std::span<const std::byte> bytes_;
};

class object_store {
 public:
  struct settings {
    std::uint64_t bytes = std::uint64_t{1} << 30U;  ///< of memory; at least a MiB
    std::string spill_folder{};                     ///< empty: nothing is spilled
    std::uint64_t spill_bytes = std::uint64_t{1} << 40U;
    /// Where the stores of this user on this machine count what they have; empty: this one shares
    /// nothing.
    std::string quota_folder{};
    std::uint64_t quota_bytes = 0;                       ///< of all of them together; 0: `bytes`
    std::chrono::milliseconds wait{10'000};              ///< for room, at most
    std::uint64_t warm_bytes = std::uint64_t{8} << 20U;  ///< populated ahead
    /// Of an object that left without erase(): evicted (a cache), or object_lost. By any thread,
    /// with the store locked: it may not call it.
    std::function<void(object_id, bool is_lost)> on_gone{};
    /// Of a segment, the store's or a worker's, in which nothing lives any more, before its memory
    /// goes. As on_gone.
    std::function<void(segment_id)> on_segment_gone{};
    /// Of a segment that its worker keeps: nothing lives there any more, so it may use it again.
    /// False: it can't be told, and the segment goes. As on_gone.
    std::function<bool(segment_id, holder)> on_segment_idle{};
    /// There is no room: those of such segments, by their workers, that these do not use now and
    /// will not use again. As on_gone.
    std::function<std::vector<std::pair<segment_id, holder>>()> take_back_idle{};
  };
  /// Of what is there now.
  struct use {
    std::uint64_t reserved = 0;  ///< bytes of segments
    std::uint64_t live = 0;      ///< bytes of objects in memory
    std::uint64_t spilled = 0;   ///< bytes on the disk
    std::size_t waiting = 0;     ///< requests
  };

  /// invalid_config: too few bytes, or a folder that can't be written.
  static result<std::unique_ptr<object_store>> open(settings with);

  object_store(const object_store&) = delete;
  object_store& operator=(const object_store&) = delete;
  /// Nobody uses it or what came from it any more.
  ~object_store();

  /// Room for an object of 1 byte or more. Waits for it; store_full: there was none in time, with
  /// who holds what.
  result<making> make(std::uint64_t bytes, holder who = 0);
  /// The same, waiting so long at most.
  result<making> make(std::uint64_t bytes, holder who, std::chrono::milliseconds wait);
  /// All of these, in their order, or none; those that are on the disk come back. object_lost: one
  /// is not here, or the disk lost it. store_full: there was no room in time.
  result<std::vector<reading>> read(const std::vector<object_id>& objects, holder who = 0);
  /// The same when all of them are in memory; nothing: that would take time, or fail.
  std::optional<std::vector<reading>> try_read(const std::vector<object_id>& objects,
                                               holder who = 0);
  /// Nobody needs it any more; it may be evicted.
  void keep_as_cache(object_id object);
  /// False: it has gone meanwhile.
  bool need(object_id object);
  /// It goes, when its last reader has ended.
  void erase(object_id object);
  /// A process died: what it read and had not finished is given back.
  void holder_gone(holder who);

  /// Where an object lies as long as it is read: in a segment of the store, or of a worker. Both
  /// null: it is none.
  struct located {
    place at;
    std::shared_ptr<const segment> in;
    std::shared_ptr<const segment_view> view;
  };
  located locate(object_id object) const;
  /// Room for a segment that a worker makes, at once or not at all: store_full. It counts until
  /// segment_gone, or the worker's end, and while something lives in it.
  result<segment_id> admit_segment(std::uint64_t bytes, holder worker);
  void segment_gone(segment_id number);
  /// The same, if it is that worker's.
  void segment_gone(segment_id number, holder worker);
  /// The same, but its worker may have it again, as long as there is room.
  void segment_kept(segment_id number);
  /// An object that a worker has made there, which the node has mapped as `view`, and reads from
  /// now on. It lives until erase(). Nothing: there is no such room.
  std::optional<reading> adopt(const place& at, holder worker,
                               std::shared_ptr<const segment_view> view);
  /// One that somebody reads is read by a worker, too; and is not any more.
  void pin_also(object_id object, holder who);
  void unpin_also(object_id object, holder who) { unpin(object, who); }

  /// Memory that nobody uses goes back to the machine. To be called when nothing is urgent.
  void tidy();

  use measure() const;

 private:
  friend class making;
  friend class reading;
  struct waiter {
    bool is_done = false;
    std::vector<place> at;
    std::optional<error> why;
    std::condition_variable rung;
  };
  using locked = std::unique_lock<std::mutex>;

  object_store(settings with, std::unique_ptr<spill_files> disk, std::optional<quota> shared);
  object_table::reserved_as reserve(std::uint64_t bytes, std::optional<segment>& made) const;

  request_id begin(waiter& who);
  std::optional<error> wait_for(locked& lock, request_id asked, waiter& who,
                                std::chrono::milliseconds wait);
  std::span<std::byte> span_of(const place& at, std::uint64_t bytes) const;
  std::span<const std::byte> seen(const place& at, std::uint64_t bytes) const;
  std::vector<reading> readings(const std::vector<object_id>& objects, const std::vector<place>& at,
                                holder who);
  void seal(object_id id);
  result<reading> seal_and_read(const making& of, holder who);
  void abandon(object_id id);
  void unpin(object_id id, holder who);
  /// With the lock held: what the table decided.
  void perform();
  void perform(const act::granted& is);
  void perform(const act::refused& is);
  void perform(const act::reserve& is);
  void perform(const act::drop& is);
  void perform(const act::move& is);
  void perform(const act::restore& is);
  void perform(const act::forget& is);
  void perform(const act::freed& is);
  void perform(const act::evicted& is);
  void perform(const act::lost& is);
  void perform(const act::ask_back& is);
  void perform(const act::offer& is);
  void perform(const act::spill& is) { to_spill_.push_back(is); }
  void begin_spill();
  void spill_together(std::vector<act::spill> all);
  std::shared_ptr<const void> memory_of(segment_id number) const;
  void warm_up();

  const settings with_;
  const std::unique_ptr<spill_files> disk_;
  const std::optional<quota> shared_;
  mutable std::mutex mutex_;  // of all that follows but the lanes
  object_table table_;
  // Of a worker: counted from when it was granted, mapped when it came.
  struct guest_segment {
    std::uint64_t bytes = 0;
    std::shared_ptr<const segment_view> view;
  };
  std::unordered_map<segment_id, std::shared_ptr<const segment>> segments_;
  std::unordered_map<segment_id, guest_segment> guests_;
  std::unordered_map<request_id, waiter*> waiters_;
  std::vector<act::spill> to_spill_;
  request_id next_request_ = 0;
  object_id next_object_ = 0;
  bool is_warming_ = false;
  bool is_ending_ = false;
  lane memory_;
  lane spills_;
  lane restores_;
};

}  // namespace manta::inline v0::store
