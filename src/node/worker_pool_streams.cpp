// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <manta/exec/cancellation.hpp>
#include <manta/exec/stream_core.hpp>
#include <manta/node/carrier.hpp>

#include "node/trip.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"
#include "node/worker_streams.hpp"

// Generators in isolated workers, seen from the node: worker_streams.hpp has the story. Their
// reader is in this process, or in another worker, whose call is a passed_job.

namespace manta::inline v0::node {

bool worker_pool::is_generator(const exec::job* j) noexcept {
  if (is_passed(j)) return (static_cast<const passed_job*>(j)->request & stream_mark) != 0;
  return carrier_of(j)->stream != nullptr;
}

// Under the mutex: whether items of it came, which are not made twice. It has its arguments.
bool worker_pool::has_yielded(exec::job* j) noexcept {
  if (!is_generator(j)) return false;
  if (is_passed(j)) return passed_job::self(j)->came > 0;
  return carrier_of(j)->stream(j)->pushed() > 0;
}

// Under the mutex: where it is under way, and as what number; null: nowhere.
std::pair<worker_pool::hand*, std::uint64_t> worker_pool::place_of(const exec::job* j) noexcept {
  if (j->ops->origin == nullptr) {
    const auto [of, f] = find_flight(j);
    return {of, f == nullptr ? 0 : f->number};
  }
  const exec::actor_core* const of = j->ops->origin(const_cast<exec::job*>(j)).actor;
  auto* const at = of == nullptr ? nullptr : static_cast<hand*>(of->seat);
  if (at == nullptr || at->lives_here == nullptr) return {nullptr, 0};
  const tenant& t = *at->lives_here;
  const auto found = std::ranges::find(t.calls, j);
  if (found == t.calls.end()) return {nullptr, 0};
  return {at, t.first + static_cast<std::uint64_t>(found - t.calls.begin())};
}

// Under the mutex. What has no room in the socket goes later, in its order.
void worker_pool::say_order(hand& to, const worker_order& order) noexcept {
  if (to.is_dead) return;
  try {
    to.arrays.say(order, -1, to.socket);
  } catch (const std::bad_alloc&) {
    zygote::global().kill(to.unique);  // its generator would wait for ever
  }
}

void worker_pool::flow(exec::job* generator, std::uint64_t taken, std::uint32_t credits) noexcept {
  const std::lock_guard lock(mutex_);
  const auto [at, number] = place_of(generator);
  if (at != nullptr) say_order(*at, {worker_order::kind::flow, number, taken, credits});
}

void worker_pool::abandon(exec::job* generator) noexcept {
  const std::lock_guard lock(mutex_);
  const auto [at, number] = place_of(generator);
  if (at != nullptr) say_order(*at, {worker_order::kind::abandon, number});
}

// Its reader in a worker has gone.
void worker_pool::abandon_passed(passed_job& generator) noexcept {
  if (is_passed_call(&generator)) {
    exec::cancel_job(&generator, false);
  } else if (!generator.withdraw(exec::cancelled_error())) {
    generator.ask_to_stop();
    abandon(&generator);
  }
}

// Under the mutex, before its message goes: from now on the worker's messages keep their order.
void worker_pool::begin_stream(hand& at, std::uint64_t number) noexcept {
  at.has_handles.store(true, std::memory_order_relaxed);
  if (is_closing_.load(std::memory_order_relaxed)) {
    say_order(at, {worker_order::kind::abandon, number});
  }
}

// The runtime ends. Under the mutex.
void worker_pool::abandon_all(hand& at) noexcept {
  const auto end = [&](const flight& f) {
    if (f.number != 0 && is_generator(f.job)) {
      say_order(at, {worker_order::kind::abandon, f.number});
    }
  };
  for (const flight& f : at.flights) end(f);
  for (const auto& [number, f] : at.off_stack) end(f);
}

// A worker reads what another one, or an actor, makes.
void worker_pool::on_flow(hand& from, std::uint64_t request, const wire::flow_view& said) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = from.asked.find(request);
  if (found == from.asked.end()) return;  // it has ended
  const bool is_stream = is_passed(found->second) && is_generator(found->second);
  if (!is_stream || said.taken > passed_job::self(found->second)->came) {
    return end_for(from, "the news of a generator that it does not read, or has not read so far");
  }
  passed_job& j = *passed_job::self(found->second);
  j.allowed = std::max(j.allowed, said.taken + said.credits);
  j.credits.store(said.credits, std::memory_order_relaxed);
  const auto [at, number] = place_of(&j);
  if (at != nullptr) say_order(*at, {worker_order::kind::flow, number, said.taken, said.credits});
}

// Under the mutex: what runs there under that number; null: nothing any more.
exec::job* worker_pool::under_way_at(hand& at, std::uint64_t number) noexcept {
  if (const flight* const f = at.find(number)) return f->is_written ? f->job : nullptr;
  tenant* const t = at.lives_here.get();
  return t != nullptr && t->has(number) && t->encoding != number ? t->at(number) : nullptr;
}

void worker_pool::on_item(const std::shared_ptr<hand>& from, std::uint64_t number,
                          const wire::item_view& item) {
  exec::stream_ref into;
  const carrier* by = nullptr;
  bool is_nonsense = false;
  std::shared_ptr<hand> to;
  std::uint64_t request = 0;
  {
    const std::lock_guard lock(mutex_);
    exec::job* const j = under_way_at(*from, number);
    if (j == nullptr) return;  // it was ended here meanwhile
    is_nonsense = !is_generator(j);
    if (!is_nonsense && is_passed(j)) {
      passed_job& p = *passed_job::self(j);
      is_nonsense = p.came++ >= p.allowed;
      request = p.request;
      const auto found = std::ranges::find_if(
          all_, [&p](const std::shared_ptr<hand>& one) { return one->unique == p.worker; });
      if (found != all_.end()) to = *found;
    } else if (!is_nonsense) {
      by = carrier_of(j);
      by->stream(j)->hold();
      into = exec::stream_ref(by->stream(j));
    }
  }
  if (is_nonsense || (into && into->has_too_many())) {
    distrust(*from, "an item of no generator, or more of them than it may send");
  } else if (into) {
    into->push(make_item(*by, item));
  } else if (to != nullptr) {
    pass_item(*to, request, item);
  }
}

// What it names is held until that is lent to the reader.
void worker_pool::pass_item(hand& to, std::uint64_t request, const wire::item_view& item) {
  const borrowed_workbench on;
  on->references.assign(item.value.references.begin(), item.value.references.end());
  const result<void> written = on->writer.write({{1, request}, 1, 0}, item);
  if (!written) raise(errc::encode_failed, written.error().message());
  // Its reader has allowed that many: no other limit.
  const std::lock_guard lock(mutex_);
  if (to.is_dead) return;
  send_naming(to, *on);
  to.down.bell();
}

// A generator is not run again when items of it are out.
error worker_pool::lost_generator(const std::string& name, pid_t pid, const std::string& how) {
  return {
      errc::worker_lost,
      fmt::format("{}: the isolated worker that ran it (pid {}) ended with {}; items of it were "
                  "handed over before, so it is not run again: call it anew, or mend what ends "
                  "it",
                  name, pid, how)};
}

}  // namespace manta::inline v0::node
