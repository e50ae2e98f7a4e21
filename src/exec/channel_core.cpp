// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/channel_core.hpp>

#include <manta/exec/executor.hpp>
#include <manta/spec/error.hpp>

#include "await_telling.hpp"

namespace manta::inline v0::exec {

bool channel_core::is_possible(const wish& w) const noexcept {
  return w.is_send ? !is_closed_ && size_ + kept_ < capacity_ : size_ > 0;
}

// Requires is_possible.
void channel_core::act(const wish& w) {
  if (w.move == nullptr) [[unlikely]] {
    ++kept_;
    return;
  }
  w.move(items_, w.value);
  w.is_send ? ++size_ : --size_;
}

// Meets a wish whose group the caller has claimed.
void channel_core::serve(wish* w) noexcept {
  try {
    act(*w);
  } catch (...) {
    w->failure = std::current_exception();
  }
  w->state = wish_state::met;
}

// True when the caller has to tell the group that there is no hope.
bool channel_core::find_closed(wish* w) noexcept {
  w->state = wish_state::closed;
  return w->group->open.fetch_sub(1, std::memory_order_acq_rel) == 1 && w->group->claim();
}

// The oldest wish of the list that nobody claimed, claimed; those before it are of no use any more.
wish* channel_core::first_free(linked_list<wish>& list) noexcept {
  for (;;) {
    wish* const w = list.pop_front();
    if (w == nullptr || w->group->claim()) return w;
  }
}

void channel_core::settle() noexcept {
  for (;;) {
    wish* next = nullptr;
    if (size_ > 0) next = first_free(receivers_);
    if (next == nullptr && size_ + kept_ < capacity_ && !is_closed_) next = first_free(senders_);
    if (next == nullptr) return;
    waiter* const tell = next->group->tell;
    serve(next);
    tell->fire(tell);  // after it nothing of the wish is touched
  }
}

wish_state channel_core::attempt(const wish& w) {
  if (far_ != nullptr) [[unlikely]]
    return far_->attempt(w);
  const std::lock_guard lock(mutex_);
  if (is_possible(w)) {
    act(w);
    if ((w.is_send ? receivers_ : senders_).front() != nullptr) settle();
    return wish_state::met;
  }
  return is_closed_ && (w.is_send || kept_ == 0) ? wish_state::closed : wish_state::open;
}

wish_state channel_core::perform(wish& w, const base::deadline& deadline) {
  // One that is elsewhere is asked once: now, or to wait.
  const bool is_far = far_ != nullptr && !is_over(deadline);
  const wish_state now = is_far ? wish_state::open : attempt(w);
  if (now != wish_state::open || is_over(deadline)) return now;
  thread_waiter me;
  wish_group group;
  group.tell = &me;
  w.group = &group;
  w.state = wish_state::open;
  if (!enlist(w)) {
    awoken how = awoken::told;
    try {
      how = await_telling(me, deadline);
    } catch (...) {
      if (withdraw(w)) throw;  // else it was told meanwhile
    }
    if (how != awoken::told && withdraw(w) && how == awoken::stopped) {
      raise_stopped(w.is_send ? "send" : "receive");
    }
  }
  if (w.failure) std::rethrow_exception(w.failure);
  return w.state;
}

bool channel_core::enlist(wish& w) noexcept {
  if (far_ != nullptr) [[unlikely]]
    return far_->enlist(w);
  const std::lock_guard lock(mutex_);
  if (is_possible(w)) {
    if (!w.group->claim()) return false;
    serve(&w);
    settle();
    return true;
  }
  if (is_closed_ && (w.is_send || kept_ == 0)) return find_closed(&w);
  (w.is_send ? senders_ : receivers_).push_back(&w);
  return false;
}

bool channel_core::withdraw(wish& w) noexcept {
  if (far_ != nullptr) [[unlikely]]
    return far_->withdraw(w);
  const std::lock_guard lock(mutex_);
  if (!w.is_listed) return false;
  (w.is_send ? senders_ : receivers_).remove(&w);
  return true;
}

void channel_core::restore(void (*put_front)(void*, void*), void* value) noexcept {
  if (far_ != nullptr) [[unlikely]]
    return far_->restore(value);
  const std::lock_guard lock(mutex_);
  try {
    put_front(items_, value);
  } catch (...) {
    return;  // it can't be moved: it is gone, as it is for a receiver who gets the exception
  }
  ++size_;
  settle();
}

void channel_core::fill_room(void (*move)(void*, void*), void* value) {
  const std::lock_guard lock(mutex_);
  try {
    move(items_, value);
  } catch (...) {
    give_up_room();
    throw;
  }
  --kept_;
  ++size_;
  settle();
  if (kept_ == 0 && is_closed_ && size_ == 0) tell_closed(receivers_);
}

void channel_core::free_room() noexcept {
  const std::lock_guard lock(mutex_);
  give_up_room();
}

void channel_core::give_up_room() noexcept {
  --kept_;
  settle();
  if (kept_ == 0 && is_closed_ && size_ == 0) tell_closed(receivers_);
}

void channel_core::tell_closed(linked_list<wish>& list) noexcept {
  while (wish* const w = list.pop_front()) {
    waiter* const tell = w->group->tell;
    if (find_closed(w)) tell->fire(tell);
  }
}

bool channel_core::close() {
  if (far_ != nullptr) [[unlikely]]
    return far_->close();
  const std::lock_guard lock(mutex_);
  if (is_closed_) return false;
  is_closed_ = true;
  tell_closed(senders_);
  if (kept_ == 0) tell_closed(receivers_);  // else when it is known what comes of that
  return true;
}

std::size_t channel_core::size() const {
  if (far_ != nullptr) [[unlikely]]
    return far_->look().first;
  const std::lock_guard lock(mutex_);
  return size_;
}

bool channel_core::is_closed() const {
  if (far_ != nullptr) [[unlikely]]
    return far_->look().second;
  const std::lock_guard lock(mutex_);
  return is_closed_;
}

std::optional<std::size_t> select_one(select_case* cases, std::size_t n,
                                      const base::deadline& deadline) {
  thread_local std::size_t turn = 0;  // where to start, so that no case is always the last
  const std::size_t start = n == 0 ? 0 : turn++ % n;
  const auto nth = [&](std::size_t i) { return start + i < n ? start + i : start + i - n; };
  std::size_t closed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const wish_state found = cases[nth(i)].on->attempt(cases[nth(i)].want);
    if (found == wish_state::met) return nth(i);
    if (found == wish_state::closed) ++closed;
  }
  if (closed == n) raise_channel_closed(n > 0 && cases[0].want.is_send);
  if (is_over(deadline)) return std::nullopt;

  thread_waiter me;
  wish_group group;
  group.tell = &me;
  group.open.store(n, std::memory_order_relaxed);
  bool is_settled = false;
  for (std::size_t i = 0; i < n && !is_settled; ++i) {
    wish& w = cases[nth(i)].want;
    w.group = &group;
    is_settled = cases[nth(i)].on->enlist(w);
  }
  // Who is late and claims the group himself has made sure that nothing happens any more. If he
  // can't, it is being told, under the lock of one of the channels, all of which are passed now.
  awoken how = awoken::told;
  std::exception_ptr failure;
  try {
    if (!is_settled) how = await_telling(me, deadline);
  } catch (...) {
    failure = std::current_exception();
    how = awoken::late;
  }
  if (how != awoken::told && !group.claim()) how = awoken::told;
  for (std::size_t i = 0; i < n; ++i) cases[i].on->withdraw(cases[i].want);
  for (std::size_t i = 0; i < n; ++i) {
    if (cases[i].want.state != wish_state::met) continue;
    if (cases[i].want.failure) std::rethrow_exception(cases[i].want.failure);
    return i;
  }
  if (failure && how != awoken::told) std::rethrow_exception(failure);
  if (group.open.load(std::memory_order_relaxed) == 0) raise_channel_closed(cases[0].want.is_send);
  if (how == awoken::stopped) raise_stopped("select");
  return std::nullopt;
}

void raise_channel_closed(bool is_send) {
  raise(errc::channel_closed,
        is_send ? "send: the channel is closed; close it when nobody sends any more"
                : "receive: the channel is closed and empty; end the loop here, or use next()");
}

}  // namespace manta::inline v0::exec
