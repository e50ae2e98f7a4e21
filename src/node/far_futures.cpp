// SPDX-License-Identifier: Apache-2.0
#include "node/far_futures.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/delegation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/parker.hpp>

#include "node/errand.hpp"
#include "node/far_ids.hpp"
#include "node/future_names.hpp"
#include "node/task_records.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "node/worker_facts.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

namespace {

error lost_future_error(const exec::job& image, const std::string& why) noexcept {
  return spec::made_error(errc::node_lost, [&] {
    return fmt::format(
        "a future ({}) of another node, which has its value and is lost: {}; call "
        "its task again",
        readable_name(image.ops->function), why);
  });
}

/// Taken back, unless it is left to somebody.
struct kept_unit {
  explicit kept_unit(std::uint32_t unit) noexcept : of(unit) {}
  ~kept_unit() { task_records::global().over(of); }
  kept_unit(const kept_unit&) = delete;
  kept_unit& operator=(const kept_unit&) = delete;
  std::uint32_t of;
};

error nobody_has_it() noexcept {
  return spec::made_error(
      errc::object_lost, [] { return "the node that had the value of a future has let go of it"; });
}

}  // namespace

/// Who waits for the word whether it could be cancelled.
struct far_futures::cancelling {
  exec::parker nap;
  std::uint64_t node = 0;
  std::atomic<bool> is_asked{false};
};

/// Who waits elsewhere for a value of this node.
struct far_futures::answer : exec::waiter {
  std::uint64_t to = 0;
  std::uint64_t number = 0;
  exec::job_ref of;
  const carrier* values = nullptr;
};

far_futures& far_futures::global() {
  static auto* const made = new far_futures;
  return *made;
}

void far_futures::open(peers& with) noexcept {
  exec::knows_names.store(&names_of_node());
  peers_.store(&with);
  is_open_.store(true);
}

void far_futures::call_back(bool at_once) noexcept {
  if (at_once && is_open_.exchange(false)) end_all(0, exec::ended_error());
}

void far_futures::close() noexcept {
  call_back(true);
  end_images();
  std::unordered_map<base::id, own, base::id_hash> left;
  std::unordered_set<answer*> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
    left.swap(own_);
    own_ids_.clear();
    // Another runtime's nodes may have the same numbers.
    images_.clear();
    by_id_.clear();
  }
  // What is not ready by now never will be.
  for (answer* const one : waiting) {
    if (!one->of->remove_waiter(one)) continue;
    const std::unique_ptr<answer> self(one);
    refuse(self->to, self->number, exec::ended_error());
  }
  for (const auto& [id, of] : left) of.job->drop();
}

void far_futures::stop_answering() noexcept {
  is_open_.store(false);
  peers_.store(nullptr);
}

// Those that nobody has asked for fail as soon as they are looked at.
void far_futures::end_images() noexcept {
  std::vector<exec::job*> all;
  try {
    const std::lock_guard lock(mutex_);
    all.reserve(images_.size());
    for (const auto& [of, is] : images_) {
      auto* const image = const_cast<exec::job*>(of);
      if (!image->is_ready() && image->try_hold()) all.push_back(image);
    }
  } catch (const std::bad_alloc&) {
    return;  // who looks at one asks, and hears it
  }
  for (exec::job* const one : all) {
    one->look_again();
    one->drop();
  }
}

// ---- those of this node

// Under the mutex: one that has a name already.
std::optional<far_name> far_futures::known_name(workbench& on, exec::job* j, std::uint64_t type) {
  if (const auto image = images_.find(j); image != images_.end()) {
    return far_name{image->second.id, image->second.owner};
  }
  const auto known = own_ids_.find(j);
  if (known == own_ids_.end()) return std::nullopt;
  own& is = own_.find(known->second)->second;
  if (is.type != type) {
    raise(errc::encode_failed, "a future went out as one of another type before");
  }
  ++is.naming;
  on.lent.put(known->second);
  return far_name{known->second, far_handles::global().self()};
}

far_name far_futures::name(workbench& on, exec::job* j, std::uint64_t type, const carrier* values) {
  on.lent.reserve_one();
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_name(on, j, type)) return *known;
  }
  // Not under the lock: it may look at all that runs here to find whose record that keeps.
  kept_unit unit(task_records::global().lent(*j));
  const std::uint64_t self = far_handles::global().self();
  const std::lock_guard lock(mutex_);
  if (const auto known = known_name(on, j, type)) return *known;  // by another thread, just now
  const base::id id = far_future_id(self, ++last_);
  own_.emplace(id, own{.job = j, .type = type, .values = values, .naming = 1, .unit = unit.of});
  try {
    own_ids_.emplace(j, id);
  } catch (...) {
    own_.erase(id);
    throw;
  }
  unit.of = 0;
  j->hold();
  on.lent.put(id);
  return {id, self};
}

// Its message keeps the job meanwhile, so the last hold is no other's.
void far_futures::named(const base::id& id) noexcept {
  exec::job* last = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = own_.find(id);
    if (found == own_.end() || --found->second.naming > 0) return;
    if (far_handles::global().is_lent(id)) return;
    last = found->second.job;
    task_records::global().over(found->second.unit);
    own_ids_.erase(last);
    own_.erase(found);
  }
  last->drop();
}

void far_futures::freed(const std::vector<base::id>& ids) noexcept {
  try {
    std::vector<exec::job*> all;
    all.reserve(ids.size());
    {
      const std::lock_guard lock(mutex_);
      for (const base::id& id : ids) {
        const auto found = own_.find(id);
        if (found == own_.end() || found->second.naming > 0) continue;
        if (far_handles::global().is_lent(id)) continue;
        all.push_back(found->second.job);
        task_records::global().over(found->second.unit);
        own_ids_.erase(found->second.job);
        own_.erase(found);
      }
    }
    drop_soon(all);
  } catch (const std::bad_alloc&) {
    return;  // they are kept until this node ends
  }
}

void far_futures::drop_soon(const std::vector<exec::job*>& all) noexcept {
  // What has nothing of the user's in it goes at once.
  const auto is_plain = [](const exec::job* j) {
    return j->ops->drop_value == nullptr && j->is_ready();
  };
  if (std::ranges::all_of(all, is_plain)) {
    for (exec::job* const one : all) one->drop();
    return;
  }
  try {
    run_errand([all](bool /*runs*/) {
      for (exec::job* const one : all) one->drop();
    });
  } catch (const std::bad_alloc&) {
    return;  // as above
  }
}

exec::job* far_futures::job_of(const base::id& id) noexcept { return found(id).job; }

far_futures::own far_futures::found(const base::id& id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = own_.find(id);
  if (at == own_.end()) return {};
  at->second.job->hold();
  return at->second;
}

// ---- those of others

exec::job* far_futures::borrow(const base::id& id, std::uint64_t type, exec::job* (*make)()) {
  far_arrivals::one* const came = far_arrivals::find(id);
  if (came == nullptr) return nullptr;
  exec::job* const out = take(*came, type, make);
  if (out == nullptr) return nullptr;
  came->is_left = false;
  // Without the mutex, since others may be freed by it.
  if (came->is_counted) far_handles::global().read(id);
  return out;
}

exec::job* far_futures::take(const far_arrivals::one& came, std::uint64_t type,
                             exec::job* (*make)()) {
  const std::lock_guard lock(mutex_);
  if (came.future != nullptr) {
    const auto own = own_.find(came.id);
    return own != own_.end() && own->second.type != type ? nullptr : came.future;
  }
  if (came.owner == far_handles::global().self()) return nullptr;
  const auto known = by_id_.find(came.id);
  const bool is_known = known != by_id_.end();
  if (is_known && images_.find(known->second)->second.type != type) return nullptr;
  if (is_known && known->second->try_hold()) return known->second;
  return make_image(came, type, make);
}

// Under the mutex.
exec::job* far_futures::make_image(const far_arrivals::one& came, std::uint64_t type,
                                   exec::job* (*make)()) {
  exec::job* const out = make();
  try {
    images_.emplace(out, image{.id = came.id,
                               .owner = came.owner,
                               .type = type,
                               .number = ++last_,
                               .counts = came.is_counted});
    by_id_[came.id] = out;
    if (came.is_counted) far_handles::global().has_core(came.id);
  } catch (...) {
    images_.erase(out);
    if (const auto at = by_id_.find(came.id); at != by_id_.end() && at->second == out) {
      by_id_.erase(at);
    }
    fail(out, error::out_of_memory());
    throw;
  }
  out->set(exec::job_bits::named | exec::job_bits::unasked);
  return out;
}

bool far_futures::taken(exec::job* j) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = images_.find(j);
  if (found == images_.end()) return true;
  if (!j->is_unique()) return false;
  const auto at = by_id_.find(found->second.id);
  if (at != by_id_.end() && at->second == j) by_id_.erase(at);
  return true;
}

void far_futures::gone(exec::job* j) noexcept {
  base::id id;
  {
    const std::lock_guard lock(mutex_);
    const auto found = images_.find(j);
    if (found == images_.end()) return;
    if (found->second.counts) id = found->second.id;
    // Another image may have the id by now.
    const auto at = by_id_.find(found->second.id);
    if (at != by_id_.end() && at->second == j) by_id_.erase(at);
    images_.erase(found);
  }
  if (id != base::id{}) far_handles::global().lost_core(id);
}

// ---- their values

void far_futures::wanted(exec::job* j) noexcept {
  j->hold();
  image of;
  bool is_asked = false;
  try {
    const std::lock_guard lock(mutex_);
    // Else its runtime has just ended.
    const auto found = images_.find(j);
    if (found != images_.end()) of = found->second;
    is_asked = found != images_.end() && !of.is_in_ring && is_open_.load();
    if (is_asked) asked_.emplace(of.number, asked{j, of.owner});
  } catch (const std::bad_alloc&) {
    return fail(j, error::out_of_memory());
  }
  if (is_asked) return ask(of.number, of.owner, of.id);
  fail(j, of.is_in_ring ? exec::delegation_cycle_error() : exec::ended_error());
}

// Of one that is listed: whoever takes it out of the list ends it.
void far_futures::ask(std::uint64_t number, std::uint64_t node, const base::id& id) noexcept {
  const char* why = "it can't be asked";
  try {
    const borrowed_workbench on;
    on->out.clear();
    const future_question what{id.high, id.low};
    const wire::ask_view question{wire::question::future_value, codec::encode(on->out, what)};
    const peers* const by = peers_.load();
    const bool is_sent = send(*on, node, number, question).has_value();
    // One that can't be reached was told of before this one was listed, or takes it from the list.
    if (is_sent && by != nullptr && by->can_reach(node)) return;
  } catch (const std::bad_alloc&) {
    why = "there is no memory to ask it";
  }
  exec::job* const j = take_asked(number, node);
  if (j != nullptr) fail(j, lost_future_error(*j, why));
}

// Never waits: who asks may hold what the loop's thread needs. They are small, and one for each
// image.
result<void> far_futures::send(workbench& on, std::uint64_t to, std::uint64_t number,
                               const wire::ask_view& what) {
  peers* const by = peers_.load();
  if (by == nullptr) return exec::ended_error();
  const base::id request{peers::future, number};
  if (result<void> is = on.writer.write({request, 1, 0}, what); !is) return is;
  return by->send_anyway(to, request, on.writer.pieces(), on.writer.size_bytes());
}

exec::job* far_futures::take_asked(std::uint64_t number, std::uint64_t from) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = asked_.find(number);
  if (found == asked_.end() || found->second.node != from) return nullptr;
  exec::job* const out = found->second.job;
  asked_.erase(found);
  return out;
}

// Takes a hold over.
void far_futures::fail(exec::job* image, const error& why) noexcept {
  image->finish(fill_slot(image, why) | exec::job_bits::claimed, 1);
}

// 0: of all.
far_futures::all_asked far_futures::take_all(std::uint64_t node) noexcept {
  all_asked out;
  const std::lock_guard lock(mutex_);
  for (auto at = asked_.begin(); at != asked_.end();) {
    const auto next = std::next(at);
    if (node == 0 || at->second.node == node) out.insert(asked_.extract(at));
    at = next;
  }
  for (auto at = cancelling_.begin(); at != cancelling_.end();) {
    const bool is_over = node == 0 || at->second->node == node;
    if (is_over) at->second->nap.signal();
    at = is_over ? cancelling_.erase(at) : std::next(at);
  }
  return out;
}

void far_futures::end_all(std::uint64_t node, const error& why) noexcept {
  for (const auto& [number, one] : take_all(node)) fail(one.job, why);
}

void far_futures::lose(std::uint64_t node, const std::string& why) noexcept {
  for (const auto& [number, one] : take_all(node)) {
    fail(one.job, lost_future_error(*one.job, why));
  }
}

void far_futures::on_answer(std::uint64_t from, std::uint64_t number,
                            const peers::kept_message& message) noexcept {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message.bytes);
  const auto* const came = read ? std::get_if<wire::result_view>(&read->body) : nullptr;
  if (exec::job* const j = take_asked(number, from)) {
    const neutral_caller nobody;
    const std::uint64_t bits =
        came != nullptr ? fill_slot(j, *came)
                        : fill_slot(j, error(errc::decode_failed, "a value that is none"));
    j->finish(bits | exec::job_bits::claimed, 1);
    return;
  }
  std::shared_ptr<cancelling> one;
  {
    const std::lock_guard lock(mutex_);
    const auto found = cancelling_.find(number);
    if (found == cancelling_.end()) return;
    one = std::move(found->second);
    cancelling_.erase(found);
  }
  const auto* const value =
      came == nullptr ? nullptr : std::get_if<spec::parcel_view>(&came->outcome);
  try {
    one->is_asked = value != nullptr && codec::decode<bool>(*value);
  } catch (...) {
    one->is_asked = false;
  }
  one->nap.signal();
}

std::optional<bool> far_futures::cancel(exec::job* j, const exec::far_cancel& how) noexcept {
  try {
    auto one = std::make_shared<cancelling>();
    base::id id;
    const std::uint64_t number = ++last_;
    {
      const std::lock_guard lock(mutex_);
      const auto found = images_.find(j);
      if (found == images_.end()) return std::nullopt;
      if (!is_open_.load()) return false;
      id = found->second.id;
      one->node = found->second.owner;
      if (how.waits) cancelling_.emplace(number, one);
    }
    const cancel_question what{id.high, id.low, how.with_children, how.at_once};
    const borrowed_workbench on;
    on->out.clear();
    const wire::ask_view question{wire::question::cancel_future, codec::encode(on->out, what)};
    const bool is_sent = send(*on, one->node, number, question).has_value();
    if (!how.waits) return is_sent;
    if (is_sent) exec::executor::sleep(one->nap, {});
    const std::lock_guard lock(mutex_);
    cancelling_.erase(number);
    return one->is_asked.load();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// ---- what others ask

void far_futures::on_question(std::uint64_t from, std::uint64_t number,
                              const peers::kept_message& message) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message.bytes);
  const auto* const asked = read ? std::get_if<wire::ask_view>(&read->body) : nullptr;
  if (asked == nullptr) return;
  switch (asked->what) {
    case wire::question::future_value: {
      const auto of = codec::decode<future_question>(asked->with);
      return value_asked(from, number, {of.high, of.low});
    }
    case wire::question::cancel_future:
      return cancel_asked(from, number, *asked);
    case wire::question::delegation:
      return probed(from, *asked);
    default:
      return;
  }
}

// The loop's thread: what is there already is written by a worker.
void far_futures::value_asked(std::uint64_t from, std::uint64_t number, const base::id& id) {
  const own of = found(id);
  if (of.job == nullptr) return refuse(from, number, nobody_has_it());
  if (!is_open_.load() && !of.job->is_ready()) {  // it never will be
    drop_soon({of.job});
    return refuse(from, number, exec::ended_error());
  }
  auto one = std::make_unique<answer>();
  one->to = from;
  one->number = number;
  one->of = exec::job_ref(of.job);
  one->values = of.values;
  one->fire = [](exec::waiter* w) noexcept {
    const std::unique_ptr<answer> self(static_cast<answer*>(w));
    global().unlist(self.get());
    global().say_value(*self);
  };
  {
    const std::lock_guard lock(mutex_);
    waiting_.insert(one.get());
  }
  answer* const listed = one.release();
  if (listed->of->add_waiter(listed)) return;
  unlist(listed);
  run_errand([listed](bool runs) {
    if (runs) return listed->fire(listed);
    const std::unique_ptr<answer> self(listed);
    global().refuse(self->to, self->number, exec::ended_error());
  });
}

void far_futures::unlist(answer* one) noexcept {
  const std::lock_guard lock(mutex_);
  waiting_.erase(one);
}

// By whichever thread has made it ready.
void far_futures::say_value(const answer& of) noexcept {
  const neutral_caller nobody;
  try {
    const borrowed_workbench on;
    on->write_for(of.to);
    write_outcome(*on, of.of.get(), *of.values, {peers::future_answer, of.number});
    peers* const by = peers_.load();
    if (by == nullptr) return;
    // False is of one that is gone.
    static_cast<void>(far_handles::global().send(*by, {peers::future_answer, of.number}, *on,
                                                 peers::when_full::wait));
  } catch (...) {
    refuse(of.to, of.number, describe_current_exception(of.of->ops->function));
  }
}

// Of the loop's thread, too.
void far_futures::refuse(std::uint64_t to, std::uint64_t number, const error& why) noexcept {
  try {
    peers* const by = peers_.load();
    if (by == nullptr) return;
    const base::id request{peers::future_answer, number};
    const borrowed_workbench on;
    write_failure(*on, {1, 1}, request, why);
    static_cast<void>(by->send_anyway(to, request, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    return;  // no memory: who waits hears of it when one of the two ends
  }
}

// By a thread of its own, since workers may all be at what is to be stopped.
void far_futures::cancel_asked(std::uint64_t from, std::uint64_t number,
                               const wire::ask_view& asked) {
  const auto what = codec::decode<cancel_question>(asked.with);
  facts_line::global().add([from, number, what] {
    const exec::job_ref of(global().job_of({what.high, what.low}));
    const bool is = of && cancel_named(of.get(), what.with_children, what.at_once);
    peers* const by = global().peers_.load();
    if (by == nullptr) return;
    const base::id request{peers::future_answer, number};
    const borrowed_workbench on;
    on->references.clear();
    write_answer(*on, request, codec::encode(on->out, is));
    static_cast<void>(
        by->send_when_room(from, request, on->writer.pieces(), on->writer.size_bytes()));
  });
}

}  // namespace manta::inline v0::node
