// SPDX-License-Identifier: Apache-2.0
#include "node/worker_arrays.hpp"

#include <algorithm>
#include <atomic>
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
constexpr std::uint64_t page = 4096;
// Segments that are kept mapped, whatever lives there.
constexpr std::size_t most_idle = wire::segment_shelf::places;

// A segment that is larger than this is not for so few bytes.
constexpr std::uint64_t most_for(std::uint64_t bytes) noexcept { return bytes + bytes / 8 + page; }

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
    in.node_.give_back(in.node_.to, id, n);
  }
  worker_arrays& in() const noexcept { return in_; }
  std::uint32_t times_it_came() const noexcept { return came_.load(std::memory_order_relaxed); }

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
  own_block(worker_arrays& in, own_segment of, std::size_t bytes) noexcept
      : block(in, of.of.bytes().first(bytes), in.id_of(of), {of.name, 0, bytes}),
        of_(std::move(of)) {}
  int file() const noexcept override { return of_.of.file().number(); }
  /// Before the first message that names it the node gets the descriptor.
  void name(spec::reference& to) override {
    block::name(to);
    const std::lock_guard lock(mutex_);
    is_sent_ = true;
    if (of_.has_file) return;
    const worker_order order{worker_order::kind::segment, of_.name, 0};
    if (!send_order(in().node_.socket, order, order_way::waits, file())) {
      raise(errc::store_full,
            "an array can't leave its isolated worker: no descriptor can be passed; raise the "
            "limit of open files (ulimit -n)");
    }
    of_.has_file = true;
  }

 private:
  void end() noexcept override {
    in().forget(this);
    const std::uint32_t n = times_it_came();
    worker_arrays& to = in();
    own_segment of = std::move(of_);
    const bool is_sent = is_sent_;
    delete this;
    to.put_away(std::move(of), n, is_sent);
  }

  own_segment of_;
  std::mutex mutex_;
  bool is_sent_ = false;
};

class worker_arrays::own_making final : public array_making {
 public:
  own_making(worker_arrays& in, own_segment of, std::size_t bytes) noexcept
      : array_making(of.of.bytes().first(bytes)), in_(in), of_(std::move(of)) {}
  ~own_making() override {
    if (of_) in_.put_away(*std::move(of_), 1, false);
  }
  array_block* seal() override {
    auto* const made = new own_block(in_, *std::move(of_), bytes().size());
    of_.reset();
    in_.remember(made);
    return made;
  }

 private:
  worker_arrays& in_;
  std::optional<own_segment> of_;
};

worker_arrays* worker_arrays::here() noexcept {
  return this_process.load(std::memory_order_acquire);
}

worker_arrays::worker_arrays(const way& node, const config& settings)
    : node_(node), wait_ms_(settings.store_wait_ms) {
  this_process.store(this, std::memory_order_release);
}

bool worker_arrays::obey(came_order& came) {
  const worker_order& order = came.order;
  std::shared_ptr<const store::segment_view> gone;  // unmapped without the lock
  std::optional<own_segment> idle;                  // likewise
  if (order.what == worker_order::kind::segment) {
    auto view = store::segment_view::map(std::move(came.file));
    if (!view) return true;  // who waits for it says so
    const std::lock_guard lock(mutex_);
    gone = std::exchange(views_[order.number],
                         std::make_shared<const store::segment_view>(*std::move(view)));
  } else if (order.what == worker_order::kind::drop) {
    idle = remove_idle(order.number);
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
    node_.give_back(node_.to, came.what, 1);
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
  if (!send_order(node_.socket, {worker_order::kind::room, request, bytes}, order_way::waits)) {
    raise(errc::store_full, "an isolated worker can't ask its node for the room of an array");
  }
  node_.page->note_order();
  node_.wake(node_.to);
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
  if (auto again = make_again(bytes)) return again;
  return make_in(ask_room(store::round_up(bytes, page)), bytes);
}

std::unique_ptr<array_making> worker_arrays::try_make(std::uint64_t bytes) {
  if (auto again = make_again(bytes)) return again;
  const std::uint64_t segment = ask_once(store::round_up(bytes, page)).segment;
  return segment == 0 ? nullptr : make_in(segment, bytes);
}

// In a segment of that name, which the node has granted.
std::unique_ptr<array_making> worker_arrays::make_in(std::uint64_t segment, std::uint64_t bytes) {
  const base::id id{array_mark | node_.worker, segment};
  node_.page->makes_actors.store(1, std::memory_order_relaxed);
  try {
    result<store::segment> made = store::segment::make(static_cast<std::size_t>(bytes));
    if (!made) made.error().raise();
    return std::make_unique<own_making>(*this, own_segment{segment, *std::move(made)},
                                        static_cast<std::size_t>(bytes));
  } catch (...) {
    node_.give_back(node_.to, id, 1);
    throw;
  }
}

// ---- segments that are used again

// In one that was used before; null: none of about that size is free.
std::unique_ptr<array_making> worker_arrays::make_again(std::uint64_t bytes) {
  std::optional<own_segment> found = take_idle(bytes);
  if (!found) {
    drop_unknown();
    return nullptr;
  }
  node_.page->shelf.note_use();
  return std::make_unique<own_making>(*this, *std::move(found), static_cast<std::size_t>(bytes));
}

base::id worker_arrays::id_of(const own_segment& one) const noexcept {
  return {array_mark | node_.worker, one.name};
}

std::optional<worker_arrays::own_segment> worker_arrays::take_idle(std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto one = idle_.begin(); one != idle_.end(); ++one) {
    const std::uint64_t size = one->of.bytes().size();
    if (size < bytes || size > most_for(bytes) || !node_.page->shelf.take(one->name)) continue;
    std::optional<own_segment> out = std::move(*one);
    idle_.erase(one);
    return out;
  }
  return std::nullopt;
}

// The last handle here is gone. What nobody else saw is free at once; else the node puts it on the
// shelf when nothing lives there any more, if it has the descriptor.
void worker_arrays::put_away(own_segment one, std::uint32_t n, bool is_sent) noexcept {
  const base::id id = id_of(one);
  std::optional<own_segment> unmapped;  // without the lock
  {
    const std::lock_guard lock(mutex_);
    const bool is_free = !is_sent && node_.page->shelf.put(id.low);
    const bool is_kept = is_free || one.has_file;
    unmapped = is_kept ? keep(std::move(one)) : std::move(one);
    if (is_free) return;
  }
  node_.give_back(node_.to, id, n);
}

// Under the mutex. What has no room any more: its name, if the shelf has it, is of no use.
std::optional<worker_arrays::own_segment> worker_arrays::keep(own_segment one) noexcept {
  std::optional<own_segment> out;
  try {
    idle_.reserve(most_idle);
    if (idle_.size() == most_idle) {
      out = std::move(idle_.front());
      idle_.erase(idle_.begin());
    }
    idle_.push_back(std::move(one));
  } catch (const std::bad_alloc&) {
    out = std::move(one);
  }
  if (out) refuse(out->name);
  return out;
}

// Under the mutex: the node need not leave that segment for this worker.
void worker_arrays::refuse(std::uint64_t name) noexcept {
  if (!node_.page->shelf.take(name)) return;
  static_cast<void>(
      send_order(node_.socket, {worker_order::kind::drop, name, 0}, order_way::at_once));
}

std::optional<worker_arrays::own_segment> worker_arrays::remove_idle(std::uint64_t name) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(idle_, name, &own_segment::name);
  if (found == idle_.end()) return std::nullopt;
  std::optional<own_segment> out = std::move(*found);
  idle_.erase(found);
  return out;
}

// What is on the shelf and was unmapped here is of no use to anybody.
void worker_arrays::drop_unknown() noexcept {
  const std::lock_guard lock(mutex_);
  const wire::segment_shelf& shelf = node_.page->shelf;
  for (std::size_t i = 0; i < wire::segment_shelf::places; ++i) {
    const std::uint64_t name = shelf.at(i);
    const bool is_known =
        name == 0 || std::ranges::find(idle_, name, &own_segment::name) != idle_.end();
    if (!is_known) refuse(name);
  }
}

}  // namespace manta::inline v0::node
