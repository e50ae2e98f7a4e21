// SPDX-License-Identifier: Apache-2.0
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "node/array_home.hpp"
#include "node/order_line.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// Arrays that go to isolated workers and come from them, seen from the pool: lent_arrays.hpp has
// the story.

namespace manta::inline v0::node {

namespace {

// Behind what the socket holds: a worker's second thread reads that whatever its task does.
constexpr std::size_t most_late_orders = 65'536;

}  // namespace

// What arrays in a message from the worker are here, held until the message has had its effect.
// False: nonsense.
bool worker_pool::receive_arrays(hand& from, std::span<const spec::reference> came,
                                 array_tray& into) {
  bool has_any = false;
  bool has_files = true;
  for (const spec::reference& one : came) has_any = has_any || is_array(one.what);
  if (!has_any) return true;
  {
    const std::lock_guard lock(mutex_);
    for (const spec::reference& one : came) {
      if (is_array(one.what) && !from.arrays.has_file_of(one)) has_files = false;
    }
  }
  if (!has_files) hear_orders();  // the descriptor went before the message
  const std::lock_guard lock(mutex_);
  for (const spec::reference& one : came) {
    const bool is_one = one.kind == spec::reference_kind::array;
    if (is_one != is_array(one.what)) return false;
    if (!is_one) continue;
    into.reserve_one();
    placed_block* const block = from.arrays.receive(one);
    if (block == nullptr) return false;
    into.put(one.what, block);
  }
  return true;
}

// A worker asks for the room of an array, and is answered at once.
void worker_pool::grant_room(const std::shared_ptr<hand>& to, const worker_order& asked) {
  worker_order said{worker_order::kind::room, asked.number, 0};
  lent_array room;  // when it is not the worker's, it ends without the lock
  std::string why;
  try {
    array_home::stored store = array_home::global().store();
    const auto who = static_cast<store::holder>(to->unique);
    const result<store::segment_id> got = store.in->admit_segment(asked.value, who);
    if (got) {
      room.in = std::move(store.in);
      room.granted = *got;
      room.granted_bytes = asked.value;
      said.value = store.key_of(*got);
    } else {
      why = got.error().message();
    }
  } catch (const manta::exception& e) {
    why = e.as_error().message();
  }
  const std::lock_guard lock(mutex_);
  if (to->is_dead) return;
  if (to->arrays.late_count() > most_late_orders) {
    return end_for(*to,
                   "more unread answers than its node keeps; it asks for room and does not "
                   "read");
  }
  if (said.value != 0) to->arrays.grant(std::move(room), said.value);
  to->arrays.say(said, -1, to->socket, why);
}

// Under the mutex: whether it was an order about arrays. Requests for room are answered later.
bool worker_pool::is_of_arrays(const std::shared_ptr<hand>& from, came_order& came,
                               room_requests& rooms) {
  if (came.order.what == worker_order::kind::room) {
    rooms.emplace_back(from, came.order);
    return true;
  }
  if (came.order.what == worker_order::kind::drop) {
    from->arrays.let_go(came.order.number);
    return true;
  }
  if (came.order.what != worker_order::kind::segment) return false;
  if (!from->arrays.file_came(came.order.number, std::move(came.file))) {
    end_for(*from, "the memory of an array for which it was given no room");
  }
  return true;
}

// Tells workers which segments are empty, and what had no room in their sockets.
void worker_pool::share_array_news() noexcept {
  try {
    array_home::global().tidy_shelves(base::now());
  } catch (const std::bad_alloc&) {
    // They stay on the shelves.
  }
  const std::vector<std::uint64_t> gone = array_home::global().take_gone();
  std::vector<std::shared_ptr<const store::segment_view>> unmapped;  // without the lock
  std::vector<lent_array> not_sent;  // of one worker, ends without the lock
  const std::lock_guard lock(mutex_);
  for (const auto& one : all_) {
    if (not_sent.empty()) not_sent.swap(one->not_sent);
    try {
      for (const std::uint64_t segment : gone) {
        unmapped.push_back(one->arrays.segment_gone(segment, one->socket));
      }
    } catch (const std::bad_alloc&) {
      // It keeps its mapping.
    }
    one->arrays.flush(one->socket);
  }
}

// The worker has n handles of an array fewer. False: nonsense.
bool worker_pool::release_arrays(hand& from, const base::id& what, std::uint32_t n) {
  std::vector<lent_array> ended;  // without the lock
  const std::lock_guard lock(mutex_);
  return from.arrays.give_back(what, n, ended);
}

}  // namespace manta::inline v0::node
