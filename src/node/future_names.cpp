// SPDX-License-Identifier: Apache-2.0
#include "node/future_names.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/outside.hpp>

#include "node/far_futures.hpp"
#include "node/far_ids.hpp"
#include "node/passed_job.hpp"
#include "node/task_records.hpp"
#include "node/trip.hpp"
#include "node/worker_futures.hpp"

namespace manta::inline v0::node {

namespace {

// Fills an image when the bytes are there.
struct image_filler : exec::waiter {
  exec::job* image = nullptr;  // with a hold
  exec::job* from = nullptr;   // likewise
  image_filler* next = nullptr;
};

// A value may have futures inside whose values have futures, and so on: those that are there are
// filled in each other only so deep, the rest one after the other, for the stack's sake.
struct fillings {
  static constexpr int most_depth = 16;
  int depth = 0;
  image_filler* first = nullptr;
};
constinit thread_local fillings filling;

void fill(exec::job* image, exec::job* from) noexcept {
  std::uint64_t bits = 0;
  // Alone it has nobody who looks, and off the list nobody gets it any more.
  if (image->is_unique() && future_names::global().taken(image)) {
    bits = fill_slot(image, exec::cancelled_error());
  } else {
    const neutral_caller nobody;
    bits = fill_from_kept(image, passed_job::self(from));
  }
  image->finish(bits | exec::job_bits::claimed, 0);
  future_names::global().filled(image);
  image->drop();
  from->drop();
}

void fill_or_queue(image_filler* next) noexcept {
  if (filling.depth == fillings::most_depth) {
    next->next = std::exchange(filling.first, next);
    return;
  }
  ++filling.depth;
  while (next != nullptr) {
    const std::unique_ptr<image_filler> self(next);
    fill(self->image, self->from);
    next = filling.first;
    if (next != nullptr) filling.first = next->next;
  }
  --filling.depth;
}

void start_filling(std::unique_ptr<image_filler> by) noexcept {
  by->fire = [](exec::waiter* w) noexcept { fill_or_queue(static_cast<image_filler*>(w)); };
  image_filler* const listed = by.release();
  if (!listed->from->add_waiter(listed)) listed->fire(listed);
}

}  // namespace

future_names& future_names::global() {
  static auto* const made = new future_names;
  return *made;
}

base::id future_names::name(exec::job* j, std::uint64_t type, const carrier* values) {
  const std::lock_guard lock(mutex_);
  if (const auto known = by_job_.find(j); known != by_job_.end()) {
    entry& e = by_id_.find(known->second)->second;
    if (e.type != type) {
      raise(errc::encode_failed, "a future went out as one of another type before");
    }
    ++e.count;
    return known->second;
  }
  const base::id id{future_mark, ++last_};
  by_id_.emplace(id, entry{.job = j, .type = type, .values = values, .count = 1});
  try {
    by_job_.emplace(j, id);
  } catch (...) {
    by_id_.erase(id);
    throw;
  }
  j->hold();
  return id;
}

void future_names::adopt(const base::id& id, exec::job* bytes, std::uint64_t type) {
  const std::lock_guard lock(mutex_);
  by_id_.emplace(id, entry{.job = bytes, .type = type, .count = 1});
  try {
    by_job_.emplace(bytes, id);
  } catch (...) {
    by_id_.erase(id);
    throw;
  }
  bytes->set(exec::job_bits::named);
}

bool future_names::has(const base::id& id, std::uint64_t type) {
  const std::lock_guard lock(mutex_);
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return false;
  if (at->second.type == 0) at->second.type = type;
  return at->second.type == type;
}

void future_names::lend(const base::id& id, std::uint32_t n) {
  const std::lock_guard lock(mutex_);
  const auto at = by_id_.find(id);
  if (at != by_id_.end()) at->second.count += n;
}

// Under the lock: the job of an entry that nobody has any more, or only an image that has its
// value; null: somebody has. Its hold is the caller's.
exec::job* future_names::take_if_over(entries::iterator at) noexcept {
  const entry& e = at->second;
  const bool is_images = e.count == 1 && e.image != nullptr && e.image->is_ready();
  if (e.count != 0 && !is_images) return nullptr;
  exec::job* const last = e.job;
  by_job_.erase(last);
  if (e.image != nullptr) by_job_.erase(e.image);
  by_id_.erase(at);
  return last;
}

void future_names::give_back(const base::id& id, std::uint32_t n) noexcept {
  exec::job* ended = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto at = by_id_.find(id);
    if (at == by_id_.end()) return;
    at->second.count -= std::min<std::uint64_t>(n, at->second.count);
    ended = take_if_over(at);
  }
  if (ended != nullptr) ended->drop();
}

exec::job* future_names::borrow(const base::id& id, std::uint64_t type, exec::job* (*make)()) {
  auto by = std::make_unique<image_filler>();
  {
    const std::lock_guard lock(mutex_);
    const auto at = by_id_.find(id);
    if (at == by_id_.end() || at->second.type != type) return nullptr;
    entry& e = at->second;
    if (e.values != nullptr) {
      e.job->hold();
      return e.job;
    }
    if (e.image != nullptr && e.image->try_hold()) return e.image;
    by->image = make();
    try {
      by_job_.emplace(by->image, id);
    } catch (...) {
      fill_slot(by->image, error::out_of_memory());
      by->image->finish(exec::job_bits::ready | exec::job_bits::failed, 1);
      throw;
    }
    by->image->set(exec::job_bits::named);
    e.image = by->image;
    ++e.count;
    by->from = e.job;
    by->from->hold();
    by->image->hold();
  }
  exec::job* const made = by->image;
  start_filling(std::move(by));
  return made;
}

future_names::found future_names::find(const base::id& id) {
  const std::lock_guard lock(mutex_);
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return {};
  at->second.job->hold();
  return {exec::job_ref(at->second.job), at->second.values};
}

future_names::found future_names::behind(exec::job* image) {
  const std::lock_guard lock(mutex_);
  const auto known = by_job_.find(image);
  if (known == by_job_.end()) return {};
  const entry& e = by_id_.find(known->second)->second;
  if (e.image != image) return {};
  e.job->hold();
  return {exec::job_ref(e.job), e.values};
}

void future_names::forget(exec::job* image) noexcept {
  exec::job* ended = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_job_.find(image);
    if (known == by_job_.end()) return;
    const auto at = by_id_.find(known->second);
    by_job_.erase(known);
    // Another image may be there by now.
    if (at->second.image == image) at->second.image = nullptr;
    --at->second.count;
    ended = take_if_over(at);
  }
  if (ended != nullptr) ended->drop();
}

bool future_names::taken(exec::job* image) noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = by_job_.find(image);
  if (known == by_job_.end()) return true;
  if (!image->is_unique()) return false;
  entry& of = by_id_.find(known->second)->second;
  if (of.image == image) of.image = nullptr;
  return true;
}

void future_names::filled(exec::job* image) noexcept {
  exec::job* ended = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_job_.find(image);
    if (known != by_job_.end()) ended = take_if_over(by_id_.find(known->second));
  }
  if (ended != nullptr) ended->drop();
}

std::size_t future_names::size() {
  const std::lock_guard lock(mutex_);
  return by_id_.size();
}

const exec::named_jobs& names_of_node() noexcept {
  static const exec::named_jobs made{
      // Those of workers get their values unasked.
      .wanted = [](exec::job* j) noexcept { far_futures::global().wanted(j); },
      .looked_at = [] {},
      .cancel =
          [](exec::job* j, const exec::far_cancel& how) noexcept {
            if (const auto is = far_futures::global().cancel(j, how)) return *is;
            const future_names::found of = future_names::global().behind(j);
            return of.job && cancel_named(of.job.get(), how.with_children, how.at_once);
          },
      .delegates = [](exec::job* from,
                      exec::job* to) noexcept { far_futures::global().delegates(from, to); },
      .behind =
          [](exec::job* image) noexcept {
            return future_names::global().behind(image).job.release();
          },
      .taken =
          [](exec::job* j) noexcept {
            return future_names::global().taken(j) && far_futures::global().taken(j);
          },
      .gone =
          [](exec::job* j) noexcept {
            future_names::global().forget(j);
            far_futures::global().gone(j);
          },
      .unrecorded = [](exec::job* j) noexcept { task_records::global().unrecorded(j); }};
  return made;
}

bool cancel_named(exec::job* j, bool with_children, bool at_once) noexcept {
  const exec::job_ref end(j->awaited());
  const exec::call_extra* const with = end->extra();
  exec::outside* const away = exec::elsewhere.load(std::memory_order_acquire);
  const bool is_asked = exec::cancel_job(j, with_children);
  if (is_asked && at_once && away != nullptr && with != nullptr && with->is_outside) {
    away->end(end.get());
  }
  return is_asked;
}

void give_back_future(const base::id& id) noexcept { future_names::global().give_back(id, 1); }

void lend_name(const base::id& id, std::uint32_t n) {
  if (is_future(id)) {
    future_names::global().lend(id, n);
  } else {
    actor_names::global().lend(id, n);
  }
}

void give_back_name(const base::id& id, std::uint32_t n) {
  if (is_future(id)) {
    future_names::global().give_back(id, n);
  } else {
    actor_names::global().give_back(id, n);
  }
}

exec::job* borrow_future(const base::id& what, std::uint64_t type, exec::job* (*make)()) {
  if (worker_futures* const here = worker_futures::here()) return here->borrow(what, make);
  if (is_far_future_id(what)) return far_futures::global().borrow(what, type, make);
  return future_names::global().borrow(what, type, make);
}

}  // namespace manta::inline v0::node
