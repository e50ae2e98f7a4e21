// SPDX-License-Identifier: Apache-2.0
#include "node/array_home.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <new>
#include <utility>

#include <manta/base/clock.hpp>
#include <manta/exec/executor.hpp>
#include <manta/spec/error.hpp>

#include "node/worker_arrays.hpp"
#include "store/copy.hpp"

namespace manta::inline v0::node {

namespace {

/// An object of this process's store, pinned.
class store_block final : public placed_block {
 public:
  store_block(array_home::stored in, store::object_store::located at, store::reading reads) noexcept
      : placed_block(reads.bytes()),
        in_(std::move(in)),
        segment_(std::move(at.in)),
        place_{in_.key_of(at.at.segment), at.at.at, reads.bytes().size()},
        reads_(std::move(reads)) {}

  void name(spec::reference& to) override {
    to.what = array_names::global().name(this);
    to.place = place_;
  }
  spec::array_place place() const noexcept override { return place_; }
  int file() const noexcept override { return segment_->file().number(); }
  stored_object object() const noexcept override { return {in_.in, reads_.id()}; }

 private:
  void end() noexcept override {
    array_names::global().forget(this);
    in_.in->erase(reads_.id());  // it goes with the pin
    delete this;
  }

  array_home::stored in_;
  std::shared_ptr<const store::segment> segment_;
  spec::array_place place_;
  store::reading reads_;  // ends before its store
};

class store_making final : public array_making {
 public:
  store_making(array_home::stored in, store::making room) noexcept
      : array_making(room.bytes()), in_(std::move(in)), room_(std::move(room)) {}

  array_block* seal() override {
    result<store::reading> sealed = std::move(room_).seal_and_read();
    if (!sealed) sealed.error().raise();
    const store::object_id id = sealed->id();
    try {
      return new store_block(in_, in_.in->locate(id), *std::move(sealed));
    } catch (...) {
      in_.in->erase(id);
      throw;
    }
  }

 private:
  array_home::stored in_;
  store::making room_;
};

/// An object that a worker has made, in its segment, which stays when the worker is gone.
class adopted_block final : public placed_block {
 public:
  adopted_block(std::shared_ptr<store::object_store> in, store::object_id object,
                const spec::array_place& place,
                std::shared_ptr<const store::segment_view> view) noexcept
      : placed_block(view->bytes().subspan(place.at, place.bytes)),
        in_(std::move(in)),
        object_(object),
        place_(place),
        view_(std::move(view)) {}

  void name(spec::reference& to) override {
    to.what = array_names::global().name(this);
    to.place = place_;
  }
  spec::array_place place() const noexcept override { return place_; }
  int file() const noexcept override { return view_->file().number(); }
  stored_object object() const noexcept override { return {in_, object_}; }

 private:
  void end() noexcept override {
    array_names::global().forget(this);
    const auto in = std::move(in_);
    const store::object_id object = object_;
    delete this;  // its memory goes before others may count on that
    in->erase(object);
    in->unpin_also(object, 0);
  }

  std::shared_ptr<store::object_store> in_;
  const store::object_id object_;
  const spec::array_place place_;
  std::shared_ptr<const store::segment_view> view_;
};

constexpr std::align_val_t alignment{64};

struct free_aligned {
  void operator()(std::byte* p) const noexcept { ::operator delete(p, alignment); }
};
using heap_bytes = std::unique_ptr<std::byte, free_aligned>;

class heap_block final : public array_block {
 public:
  heap_block(heap_bytes own, std::size_t n) noexcept
      : array_block({own.get(), n}), own_(std::move(own)) {}
  bool is_copied() const noexcept override { return true; }

 private:
  void end() noexcept override { delete this; }
  heap_bytes own_;
};

class heap_making final : public array_making {
 public:
  heap_making(heap_bytes own, std::size_t n) noexcept
      : array_making({own.get(), n}), own_(std::move(own)) {}
  array_block* seal() override { return new heap_block(std::move(own_), bytes().size()); }

 private:
  heap_bytes own_;
};

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
  has_workers_ = settings.isolation == isolation_mode::processes;
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
  if (has_workers_) {
    settings_.on_segment_gone = [made](store::segment_id segment) {
      global().note_gone(made.key_of(segment));
    };
  }
  auto opened = store::object_store::open(settings_);
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

placed_block* adopt_block(const std::shared_ptr<store::object_store>& in, store::segment_id segment,
                          const spec::array_place& place, store::holder by,
                          std::shared_ptr<const store::segment_view> view, const base::id& id) {
  const std::uint64_t whole = store::round_up(place.bytes, store::allocator::unit);
  const auto object = in->adopt({segment, place.at, whole}, by);
  if (!object) return nullptr;
  adopted_block* made = nullptr;
  try {
    made = new adopted_block(in, *object, place, std::move(view));
  } catch (...) {
    in->erase(*object);
    in->unpin_also(*object, 0);
    throw;
  }
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

std::unique_ptr<array_making> make_on_heap(std::uint64_t bytes) {
  const auto n = static_cast<std::size_t>(bytes);
  return std::make_unique<heap_making>(
      heap_bytes(static_cast<std::byte*>(::operator new(n, alignment))), n);
}

void fill_array(std::span<std::byte> to, const std::byte* from) noexcept {
  store::copy_large(to, from);
}

std::unique_ptr<array_making> make_array_copy(std::uint64_t bytes) { return make_on_heap(bytes); }

std::unique_ptr<array_making> make_array_room(std::uint64_t bytes) {
  exec::executor::require();
  if (worker_arrays* const here = worker_arrays::here()) return here->make(bytes);
  array_home::stored in = array_home::global().store();
  result<store::making> room = in.in->make(bytes);
  if (!room) room.error().raise();
  return std::make_unique<store_making>(std::move(in), *std::move(room));
}

std::unique_ptr<array_making> try_make_array_room(std::uint64_t bytes) {
  // This thread may be one that others wait for. Who finds none is not the only one: then nobody
  // asks for a while.
  constexpr auto wait = std::chrono::milliseconds(50);
  constexpr auto pause = std::chrono::seconds(1);
  static std::atomic<base::time_point> full_until{base::time_point{}};
  if (base::now() < full_until.load(std::memory_order_relaxed)) return nullptr;
  try {
    if (worker_arrays* const here = worker_arrays::here()) {
      if (auto room = here->try_make(bytes)) return room;
    } else {
      array_home::stored in = array_home::global().store();
      result<store::making> room = in.in->make(bytes, 0, wait);
      if (room) return std::make_unique<store_making>(std::move(in), *std::move(room));
    }
  } catch (const manta::exception&) {
    // There is no store, or no memory for a segment.
  }
  full_until.store(base::now() + pause, std::memory_order_relaxed);
  return nullptr;
}

array_block* borrow_array(const spec::reference& came) {
  if (worker_arrays* const here = worker_arrays::here()) return here->borrow(came);
  return array_tray::find(came.what);
}

}  // namespace manta::inline v0::node
