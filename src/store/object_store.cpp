// SPDX-License-Identifier: Apache-2.0
#include "store/object_store.hpp"

#include <algorithm>
#include <cstring>
#include <variant>

#include <fmt/format.h>

#include <manta/base/sanitizers.hpp>

#if MANTA_HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace manta::inline v0::store {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t least_bytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t warm_piece = std::uint64_t{2} << 20U;
// A disk or a machine without room is asked again so often while somebody waits.
constexpr auto retry_after = 100ms;
// A segment's pages take so long at most, unless the machine is full.
constexpr auto reserve_patience = 500ms;

void poison([[maybe_unused]] std::span<std::byte> free) noexcept {
#if MANTA_HAS_ASAN
  __asan_poison_memory_region(free.data(), free.size());
#endif
}

void unpoison([[maybe_unused]] std::span<std::byte> used) noexcept {
#if MANTA_HAS_ASAN
  __asan_unpoison_memory_region(used.data(), used.size());
#endif
}

std::span<std::byte> part_of(const segment& in, const place& at) noexcept {
  return in.bytes().subspan(at.at, at.bytes);
}

}  // namespace

making::~making() {
  if (in_ != nullptr) in_->abandon(id_);
}

object_id making::seal() && {
  std::exchange(in_, nullptr)->seal(id_);
  return id_;
}

result<reading> making::seal_and_read(holder who) && {
  return std::exchange(in_, nullptr)->seal_and_read(*this, who);
}

reading::~reading() {
  if (in_ != nullptr) in_->unpin(id_, who_);
}

result<std::unique_ptr<object_store>> object_store::open(settings with) {
  if (with.bytes < least_bytes) {
    return error(errc::invalid_config,
                 fmt::format("store: asked a store of {} bytes, allowed are {} and more",
                             with.bytes, least_bytes));
  }
  std::unique_ptr<spill_files> disk;
  if (!with.spill_folder.empty()) {
    auto opened = spill_files::open(with.spill_folder, with.spill_bytes);
    if (!opened) return opened.error();
    disk = *std::move(opened);
  }
  std::optional<quota> shared;
  if (!with.quota_folder.empty()) {
    const std::uint64_t most = with.quota_bytes != 0 ? with.quota_bytes : with.bytes;
    auto opened = quota::open(with.quota_folder, most);
    if (!opened) return opened.error();
    shared.emplace(*std::move(opened));
  }
  return std::unique_ptr<object_store>(
      new object_store(std::move(with), std::move(disk), std::move(shared)));
}

object_store::object_store(settings with, std::unique_ptr<spill_files> disk,
                           std::optional<quota> shared)
    : with_(std::move(with)),
      disk_(std::move(disk)),
      shared_(std::move(shared)),
      table_(with_.bytes) {}

object_store::~object_store() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  memory_.stop();
  spills_.stop();
  restores_.stop();
  // Others may get these addresses.
  for (const auto& [number, one] : segments_) unpoison(one->bytes());
}

request_id object_store::begin(waiter& who) {
  waiters_.emplace(++next_request_, &who);
  return next_request_;
}

std::optional<error> object_store::wait_for(locked& lock, request_id asked, waiter& who,
                                            std::chrono::milliseconds wait) {
  const auto end = std::chrono::steady_clock::now() + wait;
  perform();
  while (!who.is_done) {
    const auto now = std::chrono::steady_clock::now();
    // Memory that is being reserved mostly comes.
    if (now >= end && (!table_.is_reserving() || now >= end + reserve_patience)) {
      if (auto why = table_.give_up(asked)) {
        who.why = std::move(why);
        who.is_done = true;
      }
    } else if (who.rung.wait_until(
                   lock, now >= end ? now + retry_after : std::min(end, now + retry_after)) ==
               std::cv_status::timeout) {
      table_.retry();
    }
    perform();
  }
  waiters_.erase(asked);
  return std::move(who.why);
}

std::span<std::byte> object_store::span_of(const place& at, std::uint64_t bytes) const {
  return segments_.at(at.segment)->bytes().subspan(at.at, bytes);
}

result<making> object_store::make(std::uint64_t bytes, holder who) {
  return make(bytes, who, with_.wait);
}

result<making> object_store::make(std::uint64_t bytes, holder who, std::chrono::milliseconds wait) {
  if (bytes == 0) {
    return error(errc::invalid_argument,
                 "store: asked an object of 0 bytes, allowed are 1 and more");
  }
  locked lock(mutex_);
  waiter one;
  const request_id asked = begin(one);
  const object_id id = ++next_object_;
  table_.create(asked, id, bytes, who);
  if (auto why = wait_for(lock, asked, one, wait)) return *std::move(why);
  return making(this, id, span_of(one.at[0], bytes));
}

result<std::vector<reading>> object_store::read(const std::vector<object_id>& objects, holder who) {
  locked lock(mutex_);
  waiter one;
  const request_id asked = begin(one);
  table_.pin(asked, objects, who);
  if (auto why = wait_for(lock, asked, one, with_.wait)) return *std::move(why);
  return readings(objects, one.at, who);
}

std::optional<std::vector<reading>> object_store::try_read(const std::vector<object_id>& objects,
                                                           holder who) {
  const locked lock(mutex_);
  if (!table_.are_here(objects)) return std::nullopt;
  waiter one;
  const request_id asked = begin(one);
  table_.pin(asked, objects, who);
  perform();
  waiters_.erase(asked);
  return readings(objects, one.at, who);
}

std::vector<reading> object_store::readings(const std::vector<object_id>& objects,
                                            const std::vector<place>& at, holder who) {
  std::vector<reading> out;
  out.reserve(objects.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    out.push_back({this, objects[i], who, seen(at[i], table_.bytes_of(objects[i]))});
  }
  return out;
}

void object_store::seal(object_id id) {
  const locked lock(mutex_);
  if (!table_.is_known(id)) return;  // its maker died meanwhile
  table_.seal(id);
  perform();
}

result<reading> object_store::seal_and_read(const making& of, holder who) {
  const locked lock(mutex_);
  if (!table_.is_known(of.id_)) {
    return error(errc::object_lost, "store: asked to seal an object whose maker is gone");
  }
  table_.seal_pinned(of.id_, who);
  perform();
  return reading(this, of.id_, who, of.bytes_);
}

void object_store::abandon(object_id id) {
  const locked lock(mutex_);
  if (!table_.is_known(id)) return;  // its maker died meanwhile
  table_.erase(id);
  table_.seal(id);
  perform();
}

void object_store::unpin(object_id id, holder who) {
  const locked lock(mutex_);
  table_.unpin(id, who);
  perform();
}

void object_store::keep_as_cache(object_id object) {
  const locked lock(mutex_);
  table_.keep_as_cache(object);
  perform();
}

bool object_store::need(object_id object) {
  const locked lock(mutex_);
  return table_.need(object);
}

void object_store::erase(object_id object) {
  const locked lock(mutex_);
  table_.erase(object);
  perform();
}

void object_store::holder_gone(holder who) {
  const locked lock(mutex_);
  table_.holder_gone(who);
  perform();
}

void object_store::tidy() {
  const locked lock(mutex_);
  table_.tidy();
  perform();
}

object_store::use object_store::measure() const {
  const std::lock_guard lock(mutex_);
  return {table_.reserved_bytes(), table_.live_bytes(), disk_ ? disk_->bytes() : 0,
          table_.waiting()};
}

void object_store::perform() {
  if (is_ending_) return;
  for (auto all = table_.take(); !all.empty(); all = table_.take()) {
    for (const act::any& one : all) {
      std::visit([this](const auto& what) { perform(what); }, one);
    }
    begin_spill();
  }
  warm_up();
}

void object_store::perform(const act::granted& is) {
  const auto found = waiters_.find(is.request);
  if (found == waiters_.end()) return;
  waiter& one = *found->second;
  for (const place& at : is.at) {
    const auto in = segments_.find(at.segment);
    if (in != segments_.end()) unpoison(part_of(*in->second, at));  // a worker's is not here
  }
  one.at = is.at;
  one.is_done = true;
  one.rung.notify_one();
}

void object_store::perform(const act::refused& is) {
  const auto found = waiters_.find(is.request);
  if (found == waiters_.end()) return;
  found->second->why = is.why;
  found->second->is_done = true;
  found->second->rung.notify_one();
}

object_table::reserved_as object_store::reserve(std::uint64_t bytes,
                                                std::optional<segment>& made) const {
  if (shared_ && !shared_->take(bytes)) return object_table::reserved_as::no_quota;
  if (result<segment> is = segment::make(bytes)) {
    made.emplace(*std::move(is));
    return object_table::reserved_as::made;
  }
  if (shared_) shared_->give(bytes);
  return object_table::reserved_as::no_memory;
}

void object_store::perform(const act::reserve& is) {
  memory_.push([this, is] {
    std::optional<segment> made;
    const object_table::reserved_as how = reserve(is.bytes, made);
    const locked lock(mutex_);
    if (made) {
      poison(made->bytes());
      segments_[is.segment] = std::make_shared<const segment>(*std::move(made));
    }
    table_.reserved(is.segment, how);
    perform();
  });
}

void object_store::perform(const act::drop& is) {
  if (with_.on_segment_gone) with_.on_segment_gone(is.segment);
  if (const auto guest = guests_.find(is.segment); guest != guests_.end()) {
    if (shared_) shared_->give(guest->second.bytes);
    memory_.push([gone = std::move(guest->second.view)]() mutable { gone.reset(); });
    guests_.erase(guest);
  }
  const auto found = segments_.find(is.segment);
  if (found == segments_.end()) return;
  unpoison(found->second->bytes());
  // Its pages go back elsewhere: that takes a while.
  memory_.push([this, gone = std::move(found->second)]() mutable {
    const std::uint64_t bytes = gone->bytes().size();
    gone.reset();
    if (shared_) shared_->give(bytes);
  });
  segments_.erase(found);
}

void object_store::perform(const act::move& is) {
  unpoison(part_of(*segments_.at(is.to.segment), is.to));
  memory_.push([this, is, from = segments_.at(is.from.segment), to = segments_.at(is.to.segment)] {
    std::memcpy(part_of(*to, is.to).data(), part_of(*from, is.from).data(), is.from.bytes);
    const locked lock(mutex_);
    table_.moved(is.object);
    perform();
  });
}

namespace {

// Without the advice, which is that of a full store then.
std::string fault_of_spilling(const error& why) {
  return fmt::format("spilling failed ({})", why.message().substr(0, why.message().find("; ")));
}

}  // namespace

// Small objects of one decision in one write; a large one has its own, so that who waits for the
// first does not wait for the others.
void object_store::begin_spill() {
  const std::vector<act::spill> all = std::exchange(to_spill_, {});
  std::uint64_t bytes = 0;
  std::size_t from = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    bytes += all[i].from.bytes;
    if (bytes < object_table::spill_batch && i + 1 < all.size()) continue;
    spill_together({all.begin() + static_cast<std::ptrdiff_t>(from),
                    all.begin() + static_cast<std::ptrdiff_t>(i + 1)});
    from = i + 1;
    bytes = 0;
  }
}

void object_store::spill_together(std::vector<act::spill> all) {
  if (!disk_) {
    for (const act::spill& one : all) {
      table_.spilled_to(one.object, std::nullopt,
                        "what nobody reads has no spill_folder where it could go");
    }
    return;
  }
  std::vector<std::shared_ptr<const void>> in;
  std::vector<std::span<const std::byte>> parts;
  in.reserve(all.size());
  parts.reserve(all.size());
  for (const act::spill& one : all) {
    in.push_back(memory_of(one.from.segment));
    parts.push_back(seen(one.from, one.from.bytes));
  }
  spills_.push([this, all = std::move(all), in = std::move(in), parts = std::move(parts)] {
    const auto written = disk_->write(parts);
    const std::string fault = written ? std::string() : fault_of_spilling(written.error());
    const locked lock(mutex_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (written) {
        table_.spilled_to(all[i].object, (*written)[i]);
      } else {
        table_.spilled_to(all[i].object, std::nullopt, fault);
      }
    }
    perform();
  });
}

void object_store::perform(const act::restore& is) {
  unpoison(part_of(*segments_.at(is.to.segment), is.to));
  restores_.push([this, is, to = segments_.at(is.to.segment)] {
    const result<void> read = disk_->read(is.from, part_of(*to, is.to));
    const locked lock(mutex_);
    table_.restored(is.object, read.has_value(), read ? std::string() : read.error().message());
    perform();
  });
}

void object_store::perform(const act::forget& is) {
  spills_.push([this, is] { disk_->forget(is.at); });
}

void object_store::perform(const act::freed& is) {
  const auto in = segments_.find(is.at.segment);
  if (is.of == 0 && in != segments_.end()) poison(part_of(*in->second, is.at));
}

void object_store::perform(const act::evicted& is) {
  if (with_.on_gone) with_.on_gone(is.object, false);
}

void object_store::perform(const act::lost& is) {
  if (with_.on_gone) with_.on_gone(is.object, true);
}

// A piece at a time, so that the memory lane has time for what somebody waits for.
void object_store::warm_up() {
  if (is_warming_) return;
  const auto next = table_.cold(with_.warm_bytes, warm_piece);
  if (!next) return;
  is_warming_ = true;
  memory_.push([this, at = *next, in = segments_.at(next->segment)] {
    in->populate(at.at, at.bytes);
    const locked lock(mutex_);
    is_warming_ = false;
    table_.warmed(at);
    if (!is_ending_) warm_up();
  });
}

}  // namespace manta::inline v0::store
