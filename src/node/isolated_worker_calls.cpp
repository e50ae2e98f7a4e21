// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <sys/socket.h>

#include <manta/base/pause.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/future_names.hpp"
#include "node/isolated_worker.hpp"
#include "node/ring_sleep.hpp"
#include "node/trip.hpp"

// The calls that a worker's tasks make: each goes to the node with a number, by which the answer
// finds its job; who waits for one runs what the node sends meanwhile.

namespace manta::inline v0::node {

using namespace std::chrono_literals;
using page = wire::worker_page;

void isolated_worker::take(exec::job* j) noexcept {
  if (!j->try_claim()) {
    j->drop_entry();
    return;
  }
  std::uint64_t request = 0;
  try {
    const carrier& by = *carrier_of(j);
    if (const error* const inherited = by.failure(j)) inherited->raise();
    const borrowed_workbench on;
    request = note_request(j);
    const exec::job_ref wished = wished_call(j);
    write_task(*on, j, {unique_, request});
    send(*on);
    if (wished) futures_.sent(j, request);
  } catch (...) {
    j->fail(not_asked(j, request), 1);
  }
}

// With a hold, when the node is to hear what stands for it.
exec::job_ref isolated_worker::wished_call(exec::job* j) noexcept {
  if (!futures_.is_wished(j)) return exec::job_ref();
  j->hold();
  return exec::job_ref(j);
}

// The number by which the node's answer finds a job.
std::uint64_t isolated_worker::note_request(exec::job* j) {
  const std::lock_guard lock(mutex_);
  return number_request(j);
}

// Under the mutex.
std::uint64_t isolated_worker::number_request(exec::job* j) {
  const bool is_stream = carrier_of(j)->stream != nullptr;
  const std::uint64_t request = ++last_request_ | (is_stream ? stream_mark : 0);
  asked_by_job_[j] = request;
  try {
    asked_[request] = j;
  } catch (...) {
    asked_by_job_.erase(j);
    throw;
  }
  return request;
}

// In a handler of what kept its message from being sent: why.
error isolated_worker::not_asked(exec::job* j, std::uint64_t request) noexcept {
  static_cast<void>(futures_.is_wished(j));
  error why = describe_current_exception(j->ops->function);
  if (request == 0) return why;
  {
    const std::lock_guard lock(mutex_);
    asked_.erase(request);
    asked_by_job_.erase(j);
  }
  futures_.answered(j, false);
  return why;
}

void isolated_worker::on_result(const wire::envelope& head,
                                const wire::result_view& arrived) noexcept {
  if (questions_.answer(head.request.low, arrived)) return;
  exec::job* j = nullptr;
  bool is_construction = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(head.request.low);
    if (found == asked_.end()) return;
    j = found->second;
    asked_.erase(found);
    asked_by_job_.erase(j);
    is_construction = constructions_.contains(j);
  }
  const std::uint64_t bits = fill_slot(j, arrived);
  j->ops->drop_arguments(j);
  j->hold();  // so that nobody moves the value out before it is sent
  j->finish(bits | exec::job_bits::claimed, 1);
  if ((j->word() & exec::job_bits::named) != 0) futures_.answered(j, is_future(head.request));
  j->drop();
  if (is_construction) constructed(j);
}

void isolated_worker::on_item(const wire::envelope& head, const wire::item_view& item) noexcept {
  exec::stream_ref into;
  const carrier* by = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(head.request.low);
    if (found == asked_.end()) return;
    by = carrier_of(found->second);
    exec::stream_core* const core = by->stream(found->second);
    core->hold();
    into = exec::stream_ref(core);
  }
  try {
    into->push(make_item(*by, item));
  } catch (const std::bad_alloc&) {
    vanish();  // the reader would miss one
  }
}

// What the reader says goes behind the call's own message.
void isolated_worker::flow(exec::job* generator, std::uint64_t taken,
                           std::uint32_t credits) noexcept {
  const std::uint64_t request = request_of(generator);
  if (request == 0) return;
  const borrowed_workbench on;
  on->references.clear();
  if (!on->writer.write({{unique_, request}, 1, 0}, wire::flow_view{taken, credits})) vanish();
  send(*on);
}

void isolated_worker::abandon(exec::job* generator) noexcept {
  send_order(generator, worker_order::kind::abandon);
}

std::uint64_t isolated_worker::request_of(exec::job* awaited) noexcept {
  if (awaited == nullptr) return 0;
  const std::lock_guard lock(mutex_);
  const auto found = asked_by_job_.find(awaited);
  return found == asked_by_job_.end() ? 0 : found->second;
}

bool isolated_worker::sleep(exec::parker& p, const base::deadline& deadline, exec::job* awaited) {
  constexpr auto longest = 1s;
  const exec::job_ref end(awaited != nullptr ? awaited->awaited() : nullptr);
  // Only the main thread runs tasks, and only one that is waited for without a limit.
  const bool is_main = std::this_thread::get_id() == main_thread_;
  const bool may_run = is_main && end && !deadline && exec::executor::has_room_here();
  std::uint64_t outer = page::awaits_nothing;
  base::time_point spin_until = base::after(std::chrono::microseconds(spin_us_));
  bool has_said = false;
  bool is_late = false;
  for (std::uint32_t round = 1; !p.is_signalled() && !is_late; ++round) {
    // Another thread that waits leaves the ring to the main one while that looks.
    if (!is_main && main_looks_.load() && p.park_until(base::after(1ms))) continue;
    if (may_run && serve_awaited(*end.get())) continue;
    if (pump(doing::waits, may_run ? end.get() : nullptr) == came::something) continue;
    base::pause();
    if (round % 16 != 0) continue;
    const base::time_point now = base::now();
    is_late = deadline && now >= *deadline;
    if (is_late) continue;
    if (!has_said) {
      // The node may start it here, or another worker in this one's place.
      has_said = true;
      if (is_main) {
        outer = say_waits(page::awaiting(request_of(end.get()), may_run));
      } else {
        say_other_waits(1);
      }
      bell();
      continue;
    }
    if (now < spin_until) continue;
    ring_sleep nap(p);
    nap.add(down_.ring());
    const base::time_point most = now + (may_run && others_waiting_ > 0 ? 1ms : longest);
    if (!down_.has_message()) nap.sleep(deadline ? std::min(*deadline, most) : most);
  }
  if (has_said) {
    if (is_main) {
      say_waits(outer);
    } else {
      say_other_waits(-1);
    }
    bell();
  }
  return p.is_signalled();
}

// Runs what is waited for, if another thread put it aside.
bool isolated_worker::serve_awaited(const exec::job& awaited) {
  put_aside found;
  {
    const std::lock_guard lock(mutex_);
    if (aside_.empty()) return false;
    const base::id id = exec::id_of(awaited);
    const auto it =
        std::ranges::find_if(aside_, [&](const put_aside& one) { return one.id == id; });
    if (it == aside_.end()) return false;
    found = std::move(*it);
    aside_.erase(it);
  }
  const std::uint64_t outer = say_waits(page::awaits_nothing);
  serve_one(found.frame, found.number);
  say_waits(outer);
  return true;
}

// What a task asked for is the node's, which knows who runs it.
void isolated_worker::stop(exec::job* j) noexcept { send_order(j, worker_order::kind::stop); }
void isolated_worker::end(exec::job* j) noexcept { send_order(j, worker_order::kind::end); }

void isolated_worker::send_order(exec::job* j, worker_order::kind what) noexcept {
  const worker_order order{what, request_of(j)};
  if (order.number != 0) ::send(socket_, &order, sizeof order, MSG_NOSIGNAL);
}

}  // namespace manta::inline v0::node
