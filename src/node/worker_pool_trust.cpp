// SPDX-License-Identifier: Apache-2.0
#include <new>
#include <string>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>

#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// Workers that are not to be trusted, and those that do not read what they asked for.
//
// Problem. What comes from a worker may be anything, and what goes to one has no room in its ring
// while it reads nothing: a task may ask for any number of results and never wait for one.
//
// Idea. Whoever finds nonsense says in one line what it was, and ends the worker; that line is in
// the errors of what it had. Answers that have no room are kept here up to a limit, which is for
// those alone: the tasks on their way to a worker are as many as its window, an actor's calls as
// its mailbox takes, a generator's items as its reader allows. Past the limit an answer is replaced
// by store_full; a worker for which even these pile up is ended.

namespace manta::inline v0::node {

namespace {

// More than what a worker that reads ever leaves, and less than what a machine would miss.
constexpr std::size_t most_unread_bytes = std::size_t{1} << 30U;
// For the errors that stand for answers.
constexpr std::size_t most_unread_errors = std::size_t{64} << 20U;

}  // namespace

// Under the mutex.
void worker_pool::end_for(hand& from, const char* what) noexcept {
  try {
    if (from.why.empty()) from.why = what;
  } catch (const std::bad_alloc&) {
    // It is ended without a word.
  }
  zygote::global().kill(from.unique);
}

void worker_pool::distrust(hand& from, const char* what) noexcept {
  const std::lock_guard lock(mutex_);
  end_for(from, what);
}

// Under the mutex: a worker calls, or ends, actors of which it has handles. Throws actor_lost.
void worker_pool::check_lent(hand& from, const base::id& actor) {
  if (from.lent.contains(actor)) return;
  end_for(from, "a message for an actor that it was never given");
  raise(errc::actor_lost, "a worker that was never given this actor called it");
}

// Under the mutex: the worker has what the message that was written names, which goes. Throws
// std::bad_alloc: it has nothing of it.
void worker_pool::send_naming(hand& to, const workbench& on) {
  std::size_t lent = 0;
  try {
    for (const spec::reference& one : on.references) {
      ++lent;
      lend(to, one.what);
    }
    to.down.send(on.writer.pieces(), on.writer.size_bytes());
  } catch (...) {
    while (lent > 0) unlend(to, on.references[--lent].what);
    throw;
  }
}

// Under the mutex: what was lent for a message that did not go. Whoever wrote that has handles
// still, so nothing ends here but the last block of an array, which does so later.
void worker_pool::unlend(hand& to, const base::id& what) noexcept {
  try {
    if (is_array(what)) {
      to.arrays.give_back(what, 1, to.not_sent);
      return;
    }
    const auto found = to.lent.find(what);
    if (found == to.lent.end()) return;
    if (--found->second == 0) to.lent.erase(found);
    give_back_name(what, 1);
  } catch (const std::bad_alloc&) {
    // It counts until the worker ends.
  }
}

// Sends what the worker waits for, as an answer of any kind. False: the worker is gone. Throws
// store_full, std::bad_alloc.
bool worker_pool::reply(hand& to, const workbench& on) {
  const std::lock_guard lock(mutex_);
  if (to.is_dead) return false;
  const std::size_t kept = to.down.kept_bytes();
  if (kept > 0 && kept + on.writer.size_bytes() > most_unread_bytes) {
    raise(errc::store_full,
          fmt::format("an answer of {} bytes was to go to an isolated worker that has {} bytes of "
                      "them to read, allowed are {}; wait for what was asked for before asking for "
                      "more, or return manta::array",
                      on.writer.size_bytes(), kept, most_unread_bytes));
  }
  send_naming(to, on);
  to.down.bell();
  return true;
}

// The same with why there is no answer.
void worker_pool::reply_error(hand& to, const workbench& on) {
  const std::lock_guard lock(mutex_);
  if (to.is_dead) return;
  if (to.down.kept_bytes() > most_unread_bytes + most_unread_errors) {
    return end_for(to, "more unread answers than its node keeps; it asks and does not read");
  }
  to.down.send(on.writer.pieces(), on.writer.size_bytes());
  to.down.bell();
}

}  // namespace manta::inline v0::node
