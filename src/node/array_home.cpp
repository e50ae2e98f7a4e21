// SPDX-License-Identifier: Apache-2.0
#include "node/array_home.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <manta/base/clock.hpp>
#include <manta/base/machine.hpp>
#include <manta/exec/executor.hpp>
#include <manta/spec/error.hpp>

#include "node/beside_store.hpp"
#include "node/far_arrays.hpp"
#include "node/resting_array.hpp"
#include "node/user_folder.hpp"
#include "node/worker_arrays.hpp"
#include "own/room_limits.hpp"
#include "store/copy.hpp"

namespace manta::inline v0::node {

namespace {

class store_making final : public array_making {
 public:
  store_making(array_home::stored in, store::making room) noexcept
      : array_making(room.bytes()), in_(std::move(in)), room_(std::move(room)) {}

  array_block* seal() override {
    result<store::reading> sealed = std::move(room_).seal_and_read();
    if (!sealed) sealed.error().raise();
    return make_stored_block(in_, *std::move(sealed), bytes().size());
  }

 private:
  array_home::stored in_;
  store::making room_;
};

constexpr std::align_val_t alignment{64};

struct free_aligned {
  void operator()(std::byte* p) const noexcept { ::operator delete(p, alignment); }
};

// The memory of an array on the heap, and what counts it, if anything does: given back before.
struct heap_bytes {
  beside_store counted;
  std::unique_ptr<std::byte, free_aligned> own;
};

class heap_block final : public array_block {
 public:
  heap_block(heap_bytes of, std::size_t n) noexcept
      : array_block({of.own.get(), n}), of_(std::move(of)) {}
  bool is_copied() const noexcept override { return true; }

 private:
  void end() noexcept override { delete this; }
  heap_bytes of_;
};

class heap_making final : public array_making {
 public:
  heap_making(heap_bytes of, std::size_t n) noexcept
      : array_making({of.own.get(), n}), of_(std::move(of)) {}
  array_block* seal() override { return new heap_block(std::move(of_), bytes().size()); }

 private:
  heap_bytes of_;
};

std::unique_ptr<array_making> make_on_heap(std::uint64_t bytes, beside_store counted) {
  const auto n = static_cast<std::size_t>(bytes);
  heap_bytes made{std::move(counted),
                  {static_cast<std::byte*>(::operator new(n, alignment)), free_aligned()}};
  base::welcome_large_pages(made.own.get(), n);
  return std::make_unique<heap_making>(std::move(made), n);
}

}  // namespace

bool array_block::try_hold() noexcept {
  std::uint64_t seen = holds_.load(std::memory_order_relaxed);
  while (seen != 0) {
    if (holds_.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}
array_block::~array_block() = default;
array_making::~array_making() = default;

array_home& array_home::global() {
  static auto* const made = new array_home;
  return *made;
}

void array_home::open(const config& settings) {
  const std::lock_guard lock(mutex_);
  settings_ = {};
  settings_.bytes = static_cast<std::uint64_t>(settings.store_bytes);
  settings_.wait = std::chrono::milliseconds(settings.store_wait_ms);
  if (*settings.spill_folder != "none") settings_.spill_folder = *settings.spill_folder;
  settings_.spill_bytes = static_cast<std::uint64_t>(settings.spill_bytes);
  settings_.quota_bytes = static_cast<std::uint64_t>(settings.quota_bytes);
  has_own_quota_folder_ = settings.quota_folder.has_value();
  settings_.quota_folder.clear();
  if (settings_.quota_bytes != 0) {
    settings_.quota_folder = has_own_quota_folder_ ? *settings.quota_folder : user_folder();
  }
  is_open_ = true;
}

void array_home::close() noexcept {
  stored last;  // ends without the lock
  const std::lock_guard lock(mutex_);
  std::swap(last, store_);
  is_open_ = false;
}

array_home::stored array_home::store() {
  const std::lock_guard lock(mutex_);
  if (store_.in != nullptr) return store_;
  if (!is_open_) {
    raise(errc::no_runtime, "manta: an array needs a manta::runtime, and there is none");
  }
  stored made{nullptr, last_epoch_ + 1};
  settings_.on_segment_gone = [made](store::segment_id segment) {
    global().note_gone(made.key_of(segment));
  };
  settings_.on_segment_idle = [made](store::segment_id segment, store::holder worker) {
    return global().offer(made.key_of(segment), worker);
  };
  settings_.take_back_idle = [made] { return global().take_back(made.epoch); };
  auto opened = store::object_store::open(settings_);
  if (!opened && !settings_.quota_folder.empty() && !has_own_quota_folder_) {
    // Nobody asked for the folder that can't be used.
    settings_.quota_folder.clear();
    opened = store::object_store::open(settings_);
  }
  if (!opened) opened.error().raise();
  made.in = *std::move(opened);
  ++last_epoch_;
  store_ = std::move(made);
  return store_;
}

std::shared_ptr<store::object_store> array_home::store_if_made() const {
  const std::lock_guard lock(mutex_);
  return store_.in;
}

void array_home::note_gone(std::uint64_t key) noexcept {
  const std::lock_guard lock(gone_mutex_);
  if (shelves_.empty()) return;  // there is no worker
  try {
    gone_.push_back(key);
  } catch (const std::bad_alloc&) {
    // Workers keep their mappings of it.
  }
}

std::vector<std::uint64_t> array_home::take_gone() {
  const std::lock_guard lock(gone_mutex_);
  return std::exchange(gone_, {});
}

// ---- segments that workers may use again

void array_home::add_shelf(store::holder worker, wire::segment_shelf& shelf) {
  const std::lock_guard lock(gone_mutex_);
  shelves_.push_back({worker, &shelf, 0});
}

void array_home::remove_shelf(const wire::segment_shelf& shelf) noexcept {
  const std::lock_guard lock(gone_mutex_);
  std::erase_if(shelves_, [&](const worker_shelf& one) { return one.on == &shelf; });
}

bool array_home::offer(std::uint64_t key, store::holder worker) noexcept {
  const std::lock_guard lock(gone_mutex_);
  return std::ranges::any_of(shelves_, [&](const worker_shelf& one) {
    return one.worker == worker && (one.on->has(key) || one.on->put(key));
  });
}

// Whose they are the store looks up: a worker may write any name there.
void array_home::take_all(const worker_shelf& from, std::uint64_t epoch, idle_segments& into) {
  for (std::size_t i = 0; i < wire::segment_shelf::places; ++i) {
    const std::uint64_t key = from.on->at(i);
    if (key == 0 || key >> 32U != epoch || !from.on->take(key)) continue;
    into.emplace_back(static_cast<store::segment_id>(key), from.worker);
  }
}

array_home::idle_segments array_home::take_back(std::uint64_t epoch) {
  const std::lock_guard lock(gone_mutex_);
  idle_segments out;
  for (const worker_shelf& one : shelves_) take_all(one, epoch, out);
  return out;
}

void array_home::tidy_shelves(base::time_point now) {
  constexpr auto idle_for = std::chrono::seconds(1);
  if (now < next_tidy_) return;
  next_tidy_ = now + idle_for;
  stored in;
  {
    const std::lock_guard lock(mutex_);
    in = store_;
  }
  if (in.in == nullptr) return;
  idle_segments gone;
  {
    const std::lock_guard lock(gone_mutex_);
    for (worker_shelf& one : shelves_) {
      const std::uint32_t uses = one.on->uses();
      if (std::exchange(one.uses, uses) == uses) take_all(one, in.epoch, gone);
    }
  }
  for (const auto& [segment, worker] : gone) in.in->segment_gone(segment, worker);
}

placed_block* adopt_block(const std::shared_ptr<store::object_store>& in, store::segment_id segment,
                          const spec::array_place& place, store::holder by,
                          std::shared_ptr<const store::segment_view> view, const base::id& id) {
  const std::uint64_t whole = store::round_up(place.bytes, store::allocator::unit);
  std::optional<store::reading> reads = in->adopt({segment, place.at, whole}, by, std::move(view));
  if (!reads) return nullptr;
  stored_block* const made =
      make_stored_block({in, place.segment >> 32U}, *std::move(reads), place.bytes);
  try {
    placed_block* const known = array_names::global().set(made, id);
    if (known == nullptr) return made;
    made->drop();
    return known;
  } catch (...) {
    made->drop();
    throw;
  }
}

std::uint64_t array_home::limit_bytes() const {
  const std::lock_guard lock(mutex_);
  return settings_.bytes;
}

duration array_home::store_wait() const {
  const std::lock_guard lock(mutex_);
  return settings_.wait;
}

bool array_home::has_disk() const {
  const std::lock_guard lock(mutex_);
  return !settings_.spill_folder.empty();
}

// ---- room for arrays that come

std::int64_t beside_store::machine_memory() noexcept {
  try {
    return base::available_memory();
  } catch (const std::exception&) {
    return 0;  // not even for that
  }
}

std::optional<beside_store> beside_store::take(std::uint64_t bytes, std::uint64_t most,
                                               std::int64_t (*available)()) noexcept {
  using limits = own::room_limits;
  if (bytes == 0) return beside_store();
  const bool is_alone = fetched_.fetch_add(bytes, std::memory_order_relaxed) == 0;
  std::uint64_t all = all_.load(std::memory_order_relaxed);
  // The machine is asked about what is more than the others leave only.
  const bool may_be_more = is_alone && !limits::has_room_beside(bytes, all, most) &&
                           limits::may_lie_alone(bytes, available());
  while (may_be_more || limits::has_room_beside(bytes, all, most)) {
    if (!all_.compare_exchange_weak(all, all + bytes, std::memory_order_relaxed)) continue;
    beside_store out;
    out.bytes_ = bytes;
    out.is_fetched_ = true;
    return out;
  }
  fetched_.fetch_sub(bytes, std::memory_order_relaxed);
  return std::nullopt;
}

std::unique_ptr<array_making> make_on_heap(std::uint64_t bytes) { return make_on_heap(bytes, {}); }

void fill_array(std::span<std::byte> to, const std::byte* from) noexcept {
  store::copy_large(to, from);
}

namespace {

constexpr std::uint64_t stored_from = std::uint64_t{64} << 10U;

std::unique_ptr<array_making> make_in_store(std::uint64_t bytes, duration wait) {
  array_home::stored in = array_home::global().store();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait);
  result<store::making> room = in.in->make(bytes, 0, std::max(ms, ms.zero()));
  if (!room) room.error().raise();
  return std::make_unique<store_making>(std::move(in), *std::move(room));
}

// Null: there is no room. As many bytes as the store may have.
std::unique_ptr<array_making> try_make_beside(std::uint64_t bytes, beside_store* kept) {
  if (kept != nullptr) {
    return kept->bytes() >= bytes ? make_on_heap(bytes, kept->split(bytes)) : nullptr;
  }
  auto counted = beside_store::take(bytes, array_home::global().limit_bytes());
  return counted ? make_on_heap(bytes, *std::move(counted)) : nullptr;
}

[[noreturn]] void raise_no_room(std::uint64_t bytes) {
  raise(
      errc::store_full,
      fmt::format("asked for an array of {} bytes of another node: the store has {} in all, and a "
                  "larger one lies beside it alone, as far as the machine has memory; drop "
                  "references, free memory or raise store_bytes",
                  bytes, array_home::global().limit_bytes()));
}

// Null: there is no store.
std::unique_ptr<array_making> make_in_store_if_any(std::uint64_t bytes, duration wait) {
  try {
    return make_in_store(bytes, wait);
  } catch (const store_full&) {
    throw;
  } catch (const manta::exception&) {
    return nullptr;
  }
}

}  // namespace

// Workers get as bytes only what was in no store before. What has come is not refused, since its
// value would be lost; it counts, so that less is fetched.
std::unique_ptr<array_making> make_array_copy(std::uint64_t bytes) {
  if (bytes < stored_from || worker_arrays::here() != nullptr) return make_on_heap(bytes);
  // One that never fits says nothing of those that do.
  if (bytes <= array_home::global().limit_bytes()) {
    if (auto room = try_make_array_room(bytes)) return room;
  }
  return make_on_heap(bytes, beside_store(bytes));
}

std::unique_ptr<array_making> make_taken_array(std::uint64_t bytes) {
  return bytes < stored_from ? make_on_heap(bytes) : make_in_store(bytes, duration(0));
}

// What is larger than the store never has room there, and says nothing of what has.
std::unique_ptr<array_making> make_read_array(std::uint64_t bytes, const read_room& in) {
  if (bytes < stored_from) return make_on_heap(bytes);
  const bool may_fit = bytes <= array_home::global().limit_bytes();
  const auto left = [&in] { return in.line_end - base::now(); };
  beside_store* kept = in.kept;
  if (may_fit && in.is_for_store) {
    if (auto room = make_in_store_if_any(bytes, left())) return room;
    kept = nullptr;  // no room was kept beside what there is not
  } else if (may_fit) {
    if (auto room = try_make_array_room(bytes, left())) return room;
  }
  if (auto room = try_make_beside(bytes, kept)) return room;
  if (may_fit) return make_in_store(bytes, left());  // somebody may have let go by now
  raise_no_room(bytes);
}

std::unique_ptr<array_making> make_array_room(std::uint64_t bytes) {
  exec::executor::require();
  return wait_for_array_room(bytes);
}

std::unique_ptr<array_making> wait_for_array_room(std::uint64_t bytes) {
  if (worker_arrays* const here = worker_arrays::here()) return here->make(bytes);
  array_home::stored in = array_home::global().store();
  result<store::making> room = in.in->make(bytes);
  if (!room) room.error().raise();
  return std::make_unique<store_making>(std::move(in), *std::move(room));
}

std::unique_ptr<array_making> try_make_array_room(std::uint64_t bytes, duration within) {
  // This thread may be one that others wait for. Who finds none is not the only one: then nobody
  // asks for a while.
  constexpr auto pause = std::chrono::seconds(1);
  static std::atomic<base::time_point> full_until{base::time_point{}};
  if (base::now() < full_until.load(std::memory_order_relaxed)) return nullptr;
  try {
    if (worker_arrays* const here = worker_arrays::here()) {
      if (auto room = here->try_make(bytes)) return room;
    } else {
      return make_in_store(bytes, std::min(within, own::room_wait::soon));
    }
  } catch (const manta::exception&) {
    // There is no room, no store, or no memory for a segment.
  }
  // Whose time was over at once has not seen it.
  if (within >= own::room_wait::soon / 2) {
    full_until.store(base::now() + pause, std::memory_order_relaxed);
  }
  return nullptr;
}

array_block* borrow_array(const spec::reference& came) {
  if (worker_arrays* const here = worker_arrays::here()) return here->borrow(came);
  if (array_block* const found = array_tray::find(came.what)) return found;
  return far_arrays::global().borrow(came);
}

}  // namespace manta::inline v0::node
