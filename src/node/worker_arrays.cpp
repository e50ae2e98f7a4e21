// SPDX-License-Identifier: Apache-2.0
#include "node/worker_arrays.hpp"

#include <chrono>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <manta/spec/error.hpp>

#include "node/actor_names.hpp"
#include "node/array_home.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

// A segment that was announced comes at once, unless its node is stopped.
constexpr auto segment_patience = 60s;
// The node makes room meanwhile, or others give theirs back.
constexpr auto ask_again = 10ms;

std::atomic<worker_arrays*> this_process{nullptr};

}  // namespace

/// One that the node knows, too.
class worker_arrays::block : public placed_block {
 public:
  block(worker_arrays& in, std::span<const std::byte> bytes, const base::id& id,
        const spec::array_place& place) noexcept
      : placed_block(bytes), in_(in), id_(id), place_(place) {}
  void name(spec::reference& to) override {
    to.what = id_;
    to.place = place_;
  }
  spec::array_place place() const noexcept override { return place_; }
  const base::id& id() const noexcept { return id_; }
  /// Times that the node has sent it, or granted it, which it has back with the last hold.
  void came() noexcept { came_.fetch_add(1, std::memory_order_relaxed); }

 protected:
  ~block() override = default;
  void end() noexcept override {
    in_.forget(this);
    const base::id id = id_;
    const std::uint32_t n = came_.load(std::memory_order_relaxed);
    worker_arrays& in = in_;
    delete this;  // before the node may use its memory for another
    in.give_back_(in.to_, id, n);
  }

 private:
  worker_arrays& in_;
  const base::id id_;
  const spec::array_place place_;
  std::atomic<std::uint32_t> came_{1};
};

class worker_arrays::view_block final : public block {
 public:
  view_block(worker_arrays& in, std::shared_ptr<const store::segment_view> of, const base::id& id,
             const spec::array_place& place) noexcept
      : block(in, of->bytes().subspan(place.at, place.bytes), id, place), of_(std::move(of)) {}
  int file() const noexcept override { return of_->file().number(); }

 private:
  std::shared_ptr<const store::segment_view> of_;
};

class worker_arrays::own_block final : public block {
 public:
  own_block(worker_arrays& in, store::segment of, std::size_t bytes, const base::id& id) noexcept
      : block(in, of.bytes().first(bytes), id, {id.low, 0, bytes}),
        of_(std::move(of)),
        socket_(in.socket_) {}
  int file() const noexcept override { return of_.file().number(); }
  /// Before the first message that names it the node gets the descriptor.
  void name(spec::reference& to) override {
    block::name(to);
    const std::lock_guard lock(mutex_);
    if (is_given_) return;
    const worker_order order{worker_order::kind::segment, id().low, 0};
    if (!send_order(socket_, order, order_way::waits, file())) {
      raise(errc::store_full,
            "an array can't leave its isolated worker: no descriptor can be passed; raise the "
            "limit of open files (ulimit -n)");
    }
    is_given_ = true;
  }

 private:
  store::segment of_;
  const int socket_;
  std::mutex mutex_;
  bool is_given_ = false;
};

class worker_arrays::own_making final : public array_making {
 public:
  own_making(worker_arrays& in, store::segment of, std::size_t bytes, const base::id& id) noexcept
      : array_making(of.bytes().first(bytes)), in_(in), of_(std::move(of)), id_(id) {}
  ~own_making() override {
    if (!of_) return;
    of_.reset();
    in_.give_back_(in_.to_, id_, 1);
  }
  array_block* seal() override {
    auto* const made = new own_block(in_, *std::move(of_), bytes().size(), id_);
    of_.reset();
    in_.remember(made);
    return made;
  }

 private:
  worker_arrays& in_;
  std::optional<store::segment> of_;
  const base::id id_;
};

worker_arrays* worker_arrays::here() noexcept {
  return this_process.load(std::memory_order_acquire);
}

worker_arrays::worker_arrays(int socket, std::uint64_t worker, const config& settings,
                             void (*give_back)(void*, const base::id&, std::uint32_t) noexcept,
                             void* to, std::atomic<std::uint32_t>& is_making)
    : socket_(socket),
      worker_(worker),
      wait_ms_(settings.store_wait_ms),
      give_back_(give_back),
      to_(to),
      is_making_(is_making) {
  this_process.store(this, std::memory_order_release);
}

bool worker_arrays::obey(came_order& came) {
  const worker_order& order = came.order;
  std::shared_ptr<const store::segment_view> gone;  // unmapped without the lock
  if (order.what == worker_order::kind::segment) {
    auto view = store::segment_view::map(std::move(came.file));
    if (!view) return true;  // who waits for it says so
    const std::lock_guard lock(mutex_);
    gone = std::exchange(views_[order.number],
                         std::make_shared<const store::segment_view>(*std::move(view)));
  } else if (order.what == worker_order::kind::drop) {
    const std::lock_guard lock(mutex_);
    const auto found = views_.find(order.number);
    if (found == views_.end()) return true;
    gone = std::move(found->second);
    views_.erase(found);
  } else if (order.what == worker_order::kind::room) {
    const std::lock_guard lock(mutex_);
    asked_[order.number] = {true, order.value, std::move(came.text)};
  } else {
    return false;
  }
  changed_.notify_all();
  return true;
}

// ---- arrays that come

std::shared_ptr<const store::segment_view> worker_arrays::view_of(std::uint64_t segment) {
  std::unique_lock lock(mutex_);
  const auto is_here = [&] { return views_.contains(segment); };
  if (!changed_.wait_for(lock, segment_patience, is_here)) {
    raise(errc::store_full,
          "the memory of an array did not come to its isolated worker, or can't be mapped there: "
          "no descriptor or no memory is left; raise those limits");
  }
  return views_.at(segment);
}

// With a hold.
worker_arrays::block* worker_arrays::find(const base::id& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  return found != by_id_.end() && found->second->try_hold() ? found->second : nullptr;
}

array_block* worker_arrays::borrow(const spec::reference& came) {
  if (!arrived_handles::take(came.what)) return nullptr;
  try {
    if (block* const known = find(came.what)) {
      known->came();
      return known;
    }
    const spec::array_place& at = came.place;
    auto view = view_of(at.segment);
    const std::uint64_t size = view->bytes().size();
    if (at.at % 64 != 0 || at.bytes == 0 || at.bytes > size || at.at > size - at.bytes) {
      raise(errc::decode_failed,
            fmt::format("an array of {} bytes at {} is not in its segment of {}", at.bytes, at.at,
                        size));
    }
    auto* const made = new view_block(*this, std::move(view), came.what, at);
    remember(made);
    return made;
  } catch (...) {
    give_back_(to_, came.what, 1);
    throw;
  }
}

void worker_arrays::remember(block* one) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    by_id_[one->id()] = one;
  } catch (const std::bad_alloc&) {
    // It has another block each time it comes.
  }
}

void worker_arrays::forget(block* one) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(one->id());
  if (found != by_id_.end() && found->second == one) by_id_.erase(found);
}

// ---- arrays that are made here

worker_arrays::answer worker_arrays::ask_once(std::uint64_t bytes) {
  std::uint64_t request = 0;
  {
    const std::lock_guard lock(mutex_);
    request = ++last_request_;
    asked_.emplace(request, answer{});
  }
  if (!send_order(socket_, {worker_order::kind::room, request, bytes}, order_way::waits)) {
    raise(errc::store_full, "an isolated worker can't ask its node for the room of an array");
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return asked_.at(request).is_there; });
  answer out = std::move(asked_.at(request));
  asked_.erase(request);
  return out;
}

// The node answers at once; it is asked again until there is room, or no time is left.
std::uint64_t worker_arrays::ask_room(std::uint64_t bytes) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms_);
  for (;;) {
    answer got = ask_once(bytes);
    if (got.segment != 0) return got.segment;
    if (std::chrono::steady_clock::now() >= end) raise(errc::store_full, std::move(got.why));
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, ask_again);  // whatever changes, it may be that
  }
}

std::unique_ptr<array_making> worker_arrays::make(std::uint64_t bytes) {
  if (bytes < least_shared) return make_on_heap(bytes);
  return make_in(ask_room(bytes), bytes);
}

std::unique_ptr<array_making> worker_arrays::try_make(std::uint64_t bytes) {
  const std::uint64_t segment = ask_once(bytes).segment;
  return segment == 0 ? nullptr : make_in(segment, bytes);
}

// In a segment of that name, which the node has granted.
std::unique_ptr<array_making> worker_arrays::make_in(std::uint64_t segment, std::uint64_t bytes) {
  const base::id id{array_mark | worker_, segment};
  is_making_.store(1, std::memory_order_relaxed);
  try {
    result<store::segment> made = store::segment::make(static_cast<std::size_t>(bytes));
    if (!made) made.error().raise();
    return std::make_unique<own_making>(*this, *std::move(made), static_cast<std::size_t>(bytes),
                                        id);
  } catch (...) {
    give_back_(to_, id, 1);
    throw;
  }
}

}  // namespace manta::inline v0::node
