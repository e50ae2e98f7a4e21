// SPDX-License-Identifier: Apache-2.0
#include "node/array_home.hpp"

#include <chrono>
#include <cstddef>
#include <new>
#include <utility>

#include <manta/exec/executor.hpp>
#include <manta/spec/error.hpp>

namespace manta::inline v0::node {

namespace {

/// An object of this process's store, pinned.
class store_block final : public array_block {
 public:
  store_block(std::shared_ptr<store::object_store> in, store::reading reads) noexcept
      : array_block(reads.bytes()), in_(std::move(in)), reads_(std::move(reads)) {}

 private:
  void end() noexcept override {
    in_->erase(reads_.id());  // it goes with the pin
    delete this;
  }

  std::shared_ptr<store::object_store> in_;
  store::reading reads_;  // ends before its store
};

class store_making final : public array_making {
 public:
  store_making(std::shared_ptr<store::object_store> in, store::making room) noexcept
      : array_making(room.bytes()), in_(std::move(in)), room_(std::move(room)) {}

  array_block* seal() override {
    result<store::reading> sealed = std::move(room_).seal_and_read();
    if (!sealed) sealed.error().raise();
    const store::object_id id = sealed->id();
    try {
      return new store_block(in_, *std::move(sealed));
    } catch (...) {
      in_->erase(id);
      throw;
    }
  }

 private:
  std::shared_ptr<store::object_store> in_;
  store::making room_;
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
  is_open_ = true;
}

void array_home::close() noexcept {
  std::shared_ptr<store::object_store> last;  // ends without the lock
  const std::lock_guard lock(mutex_);
  last.swap(store_);
  is_open_ = false;
}

std::shared_ptr<store::object_store> array_home::store() {
  const std::lock_guard lock(mutex_);
  if (store_ != nullptr) return store_;
  if (!is_open_) {
    raise(errc::no_runtime, "manta: an array needs a manta::runtime, and there is none");
  }
  auto opened = store::object_store::open(settings_);
  if (!opened) opened.error().raise();
  store_ = *std::move(opened);
  return store_;
}

std::shared_ptr<store::object_store> array_home::store_if_made() const {
  const std::lock_guard lock(mutex_);
  return store_;
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

std::unique_ptr<array_making> make_array_copy(std::uint64_t bytes) { return make_on_heap(bytes); }

std::unique_ptr<array_making> make_array_room(std::uint64_t bytes) {
  exec::executor::require();
  std::shared_ptr<store::object_store> in = array_home::global().store();
  result<store::making> room = in->make(bytes);
  if (!room) room.error().raise();
  return std::make_unique<store_making>(std::move(in), *std::move(room));
}

array_block* borrow_array(const spec::reference& /*came*/) { return nullptr; }

}  // namespace manta::inline v0::node
