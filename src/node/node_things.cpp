// SPDX-License-Identifier: Apache-2.0
#include "node/node_things.hpp"

#include <cstddef>
#include <new>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/executor.hpp>

#include "node/far_ids.hpp"
#include "node/far_things.hpp"
#include "node/large_ranges.hpp"
#include "node/trade.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_questions.hpp"
#include "spec/made_error.hpp"
#include "wire/secret.hpp"

namespace manta::inline v0::node {

namespace {

error lost_home_error(const std::string& name, const std::string& why) noexcept {
  return spec::made_error(errc::node_lost, [&] {
    return fmt::format(
        "the node {} is lost, and its channels, semaphores and barriers with it: {}; make them in "
        "a node that stays",
        name, why);
  });
}

error lost_asker_error() noexcept {
  return spec::made_error(errc::node_lost, [] {
    return "the node of a channel, semaphore or barrier could not reach the one that waited";
  });
}

error left_error() noexcept {
  return spec::made_error(errc::node_lost, [] {
    return "the node has left, or its runtime has ended, and its channels, semaphores and barriers "
           "with it; make them in a node that stays";
  });
}

// Cryptographically random: see far_thing_id.
std::uint64_t drawn_number() {
  std::uint64_t out = 0;
  wire::fill_random(std::as_writable_bytes(std::span(&out, 1)));
  return out;
}

error too_many_bytes(std::size_t open) {
  return {
      errc::store_full,
      fmt::format("items of {} bytes of one node wait at the node of the channel, and {} is the "
                  "most; let some of them be received first",
                  open, worker_things::most_open_bytes)};
}

constinit thread_local bool is_in_haste = false;

}  // namespace

node_things::in_haste::in_haste() noexcept : was_so_(std::exchange(is_in_haste, true)) {}
node_things::in_haste::~in_haste() { is_in_haste = was_so_; }

/// What asks another node of its things. Those that stand for one keep it.
struct node_things::asker {
  asker(std::uint64_t at, std::string called, std::uint64_t life)
      : node(at),
        name(std::move(called)),
        asks(1, &asker::send, this, is_making, worker_questions::scope::none, life),
        things(asks, at) {}
  const std::uint64_t node;
  const std::string name;
  std::atomic<std::uint32_t> is_making{0};
  worker_questions asks;
  far_things things;

  static void send(void* self, workbench& on) noexcept;
};

// Who asks waits for room; the looker does not, since it hands out what makes some, nor the giver,
// which has others' tasks.
void node_things::asker::send(void* self, workbench& on) noexcept {
  auto* const of = static_cast<asker*>(self);
  node_things& all = global();
  peers* const by = all.peers_.load();
  if (by == nullptr) return;  // and what was asked has ended
  try {
    const bool may_wait = !is_in_haste && !trade::is_own_thread();
    const auto then = may_wait ? peers::when_full::wait : peers::when_full::send;
    const result<void> is = far_handles::global().send(*by, {peers::thing, ++all.last_}, on, then);
    if (!is) all.give_up(*of, lost_home_error(of->name, is.error().message()));
  } catch (...) {
    all.give_up(*of, describe_current_exception("a question to another node"));
  }
}

// Who asks keeps it.
void node_things::give_up(asker& of, const error& why) noexcept {
  of.asks.end(why);
  asker_ptr gone;
  const std::lock_guard lock(mutex_);
  const auto found = askers_.find(of.node);
  if (found == askers_.end() || found->second.get() != &of) return;
  gone = std::move(found->second);
  askers_.erase(found);
}

node_things& node_things::global() {
  static auto* const made = new node_things;
  return *made;
}

void node_things::open(peers& with) noexcept {
  {
    const std::lock_guard lock(mutex_);
    askers_.clear();  // of who looked after the end
  }
  peers_.store(&with);
  was_asked_.store(false);
  stage_.store(stage::asking);
}

void node_things::end_asking() noexcept {
  stage from = stage::asking;
  stage_.compare_exchange_strong(from, stage::answering);  // what is over stays so
  std::unordered_map<std::uint64_t, asker_ptr> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(askers_);
  }
  for (const auto& [node, one] : all) one->asks.end(exec::ended_error());
}

void node_things::close() noexcept {
  end_asking();
  stage_.store(stage::over);
  end_homes_in_line();
  close_lines();
  end_homes();
  decltype(own_) left;
  const std::lock_guard lock(mutex_);
  left.swap(own_);
  own_ids_.clear();
}

void node_things::end_homes() noexcept {
  decltype(homes_) homes;
  {
    const std::lock_guard lock(mutex_);
    homes.swap(homes_);
  }
  const error why = left_error();
  for (const auto& [node, one] : homes) {
    if (one.things != nullptr) one.things->end(&why);  // null: there was no memory for it
  }
}

// By the line's thread, which may be listing a wish; and then what was met meanwhile is finished,
// and put back.
void node_things::end_homes_in_line() noexcept {
  facts_line& line = facts_line::of_things();
  try {
    if (!was_asked_.load()) return;
    line.add([this] { end_homes(); });
  } catch (...) {
    return;  // no memory
  }
  line.drain();
  line.drain();
  try {
    const std::vector<facts_line*> slow = slow_lines();
    for (facts_line* const one : slow) one->drain();
    for (facts_line* const one : slow) one->drain();
  } catch (...) {
    return;  // no memory
  }
  line.drain();
}

void node_things::stop_answering() noexcept {
  stage_.store(stage::over);  // where it was never closed, nothing having run
  peers_.store(nullptr);
  close_lines();
}

// The slow ones are never taken from the list, so each is there whoever adds to it.
void node_things::close_lines() noexcept {
  facts_line::of_things().close();
  for (std::uint64_t after = 0;;) {
    facts_line* next = nullptr;
    {
      const std::lock_guard lock(mutex_);
      const auto found = slow_.upper_bound(after);
      if (found == slow_.end()) return;
      after = found->first;
      next = found->second.get();
    }
    next->close();
  }
}

// ---- those of this node

far_name node_things::name(workbench& on, const shared_thing& of, const char* function) {
  if (const base::id id = id_of_far(of); id != base::id{}) {
    const std::uint64_t node = node_of_far(of);
    if (node != 0) return {id, node};
    raise(errc::node_lost, fmt::format("{}: the node, or the runtime, that a channel, semaphore or "
                                       "barrier was of is over; pass another one",
                                       readable_name(function)));
  }
  on.lent.reserve_one();
  const std::uint64_t self = far_handles::global().self();
  const std::lock_guard lock(mutex_);
  if (const auto known = own_ids_.find(of.core); known != own_ids_.end()) {
    ++own_.find(known->second)->second.naming;
    on.lent.put(known->second);
    return {known->second, self};
  }
  base::id id = far_thing_id(self, drawn_number());
  while (!own_.emplace(id, own{of, 1}).second) id = far_thing_id(self, drawn_number());
  try {
    own_ids_.emplace(of.core, id);
  } catch (...) {
    own_.erase(id);
    throw;
  }
  on.lent.put(id);
  return {id, self};
}

void node_things::named(const base::id& id) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto found = own_.find(id);
    if (found == own_.end() || --found->second.naming > 0) return;
    if (far_handles::global().is_lent(id)) return;
  }
  freed(id);
}

// Behind what those have asked that had it: what they gave back with their last word counts.
void node_things::freed(const base::id& id) noexcept {
  try {
    facts_line::of_things().add([this, id] { let_go(id); });
  } catch (...) {
    return;  // no memory: it is kept until this runtime ends
  }
}

// The things' thread, since a user's destructor may run.
void node_things::let_go(const base::id& id) noexcept {
  std::shared_ptr<void> last;  // ends without the lock
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(id);
  if (found == own_.end() || found->second.naming > 0) return;
  if (far_handles::global().is_lent(id)) return;
  last = std::move(found->second.thing.owner);
  own_ids_.erase(found->second.thing.core);
  own_.erase(found);
}

void node_things::drop_soon(std::shared_ptr<void> owner) noexcept {
  try {
    facts_line::of_things().add([held = std::move(owner)] {});
  } catch (...) {
    return;  // no memory, no thread: it ends here
  }
}

std::optional<shared_thing> node_things::find(const base::id& id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(id);
  if (found == own_.end()) return std::nullopt;
  return found->second.thing;
}

std::shared_ptr<void> node_things::owner_of(const base::id& id) noexcept {
  const std::optional<shared_thing> found = find(id);
  return found ? found->owner : nullptr;
}

// ---- what others ask

namespace {

// Whether it is a release of permits: nothing of the user's, and nobody hears of what held them,
// a task's result, before they are back. Not room that is given up: that must not pass the question
// that it is about, which may be in the line still.
bool gives_back(std::span<const std::byte> message) {
  constexpr std::size_t most = 512;
  if (message.size() > most) return false;
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  const auto* const asked = read ? std::get_if<wire::ask_view>(&read->body) : nullptr;
  if (asked == nullptr || asked->what != wire::question::thing) return false;
  if (!asked->with.segments.empty() || !asked->with.references.empty()) return false;
  try {
    codec::in_archive in(asked->with);
    const auto question = codec::read<thing_question>(in);
    return question.op == static_cast<std::uint8_t>(thing_op::release);
  } catch (...) {
    return false;  // as the things' thread will say
  }
}

// While it lives those bytes are kept for a node, of what it has asked.
class kept_bytes {
 public:
  kept_bytes(std::shared_ptr<std::atomic<std::size_t>> of, std::size_t size)
      : of_(std::move(of)), size_(size) {
    of_->fetch_add(size_);
  }
  ~kept_bytes() { of_->fetch_sub(size_); }
  kept_bytes(const kept_bytes&) = delete;
  kept_bytes& operator=(const kept_bytes&) = delete;

 private:
  const std::shared_ptr<std::atomic<std::size_t>> of_;
  const std::size_t size_;
};

// Of a question that has an answer; 0: it has none, or is none.
std::uint64_t number_of_asked(std::span<const std::byte> message) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  if (!read || !worker_questions::has_answer(read->head.request.low)) return 0;
  return read->head.request.low;
}

}  // namespace

void node_things::on_question(std::uint64_t from, const peers::kept_message& message,
                              std::shared_ptr<far_arrivals> came) {
  if (peers_.load() == nullptr) return;
  std::shared_ptr<std::atomic<std::size_t>>& kept = have_asked_[from];
  if (kept == nullptr) kept = std::make_shared<std::atomic<std::size_t>>(0);
  was_asked_.store(true);
  if (came == nullptr && gives_back(message.bytes)) return hear(from, message, nullptr, nullptr);
  const std::size_t size = message.bytes.size();
  const std::size_t open = kept->load();
  // One alone may have more; what is small takes back, or closes, what takes so much.
  if (size > worker_things::small_bytes && open > 0 &&
      open + size > worker_things::most_open_bytes) {
    if (const std::uint64_t number = number_of_asked(message.bytes); number != 0) {
      refuse(from, number, too_many_bytes(open));
      facts_line::of_things().add([handles = std::move(came)] {});  // what they hold is the user's
      return;
    }
  }
  facts_line::of_things().add([this, from, message, handles = std::move(came),
                               bytes = std::make_shared<const kept_bytes>(kept, size)] {
    hear(from, message, handles.get(), bytes);
  });
}

// What a node asks anew, after it had given this one up, has nothing to do with what it asked
// before: that ends here, too, if it has not.
std::shared_ptr<worker_things> node_things::things_of(std::uint64_t node, std::uint64_t life) {
  std::uint64_t had = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = homes_.find(node);
    if (found != homes_.end()) had = found->second.life;
  }
  if (life != 0 && had != 0 && life != had) {
    // Not by the loop's thread, which only gives back what was asked for under the same number.
    if (life < had || !facts_line::of_things().is_here()) lost_asker_error().raise();
    end_home_of(node);
  }
  const std::lock_guard lock(mutex_);
  home& one = homes_[node];
  if (life != 0) one.life = life;
  std::shared_ptr<worker_things>& of = one.things;
  if (of == nullptr) {
    one.serial = ++homes_made_;
    of = std::make_shared<worker_things>(
        [this, to = listener{node, one.serial}](std::uint64_t number,
                                                const worker_things::writer& write, bool may_wait) {
          return tell(to, number, write, may_wait);
        },
        [this, node](std::uint64_t number, const error& why) { refuse(node, number, why); },
        facts_line::of_things(),
        [this, node](std::function<void()> what) { do_aside(node, std::move(what)); });
  }
  return of;
}

// The things' thread; of a release the loop's.
void node_things::hear(std::uint64_t from, const peers::kept_message& message, far_arrivals* came,
                       const std::shared_ptr<const void>& kept) noexcept {
  std::uint64_t number = 0;
  try {
    const borrowed_workbench on;
    const neutral_caller nobody;
    const far_reading handles(came);
    const result<const wire::message_view&> read = on->reader.read(message.bytes);
    if (!read) return;
    number = read->head.request.low;
    const auto* const asked = std::get_if<wire::ask_view>(&read->body);
    if (asked == nullptr || asked->what != wire::question::thing) {
      raise(errc::decode_failed, "a question about a channel that is none");
    }
    if (stage_.load() == stage::over) left_error().raise();
    const opened_parcel opened(asked->with);
    codec::in_archive in(opened.view());
    const auto question = codec::read<thing_question>(in);
    const std::optional<shared_thing> of = find({question.high, question.low});
    if (!of) {
      raise(errc::object_lost,
            "its node has let go of that channel, semaphore or barrier; keep a handle there");
    }
    things_of(from, worker_questions::life_of(number))->ask(number, *of, question, in, kept);
  } catch (...) {
    refuse(from, number, describe_current_exception("a question of another node"));
  }
}

// One for each node that has not taken at once what it was to get, until the process ends.
facts_line& node_things::slow_line(std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<facts_line>& of = slow_[node];
  if (of == nullptr) of = std::make_unique<facts_line>("manta-slow", true);
  return *of;
}

void node_things::do_aside(std::uint64_t node, std::function<void()> what) {
  slow_line(node).add(std::move(what));
}

std::vector<facts_line*> node_things::slow_lines() {
  std::vector<facts_line*> out;
  const std::lock_guard lock(mutex_);
  for (const auto& [node, one] : slow_) out.push_back(one.get());
  return out;
}

// no: it has not got it, or was told why there is no answer.
worker_things::told node_things::tell(const listener& to, std::uint64_t number,
                                      const worker_things::writer& write, bool may_wait) noexcept {
  using told = worker_things::told;
  peers* const by = peers_.load();
  if (by == nullptr) return told::no;
  try {
    const borrowed_workbench on;
    on->write_for(to.node);
    on->out.clear();
    write(*on);
    on->out.finish();
    write_answer(*on, {1, number}, "an item of a channel");
    const std::size_t size = on->writer.size_bytes();
    // Parts wait for room. What is small is not worth that: there is one for each question.
    if (!may_wait && size > peers::most_at_once) return told::later;
    const auto then = may_wait                             ? peers::when_full::wait
                      : size <= worker_things::small_bytes ? peers::when_full::send
                                                           : peers::when_full::refuse;
    const result<void> is =
        far_handles::global().send(*by, {peers::thing_answer, ++last_}, *on, then);
    if (is) return told::yes;
    if (!may_wait && is.error().code() == errc::store_full) return told::later;
    refuse(to.node, number, is.error());
    // It is lost: nothing more is taken for it before what has been taken goes back.
    if (is.error().code() == errc::node_lost) end_in_line(to);
  } catch (...) {
    refuse(to.node, number, describe_current_exception("an item of a channel"));
  }
  return told::no;
}

// A home ends where its questions are done, one of which may be listing a wish just now.
void node_things::end_in_line(const listener& to) {
  facts_line& line = facts_line::of_things();
  if (line.is_here()) return end_home_of(to.node, to.home);
  line.add([this, to] { end_home_of(to.node, to.home); });
}

void node_things::refuse(std::uint64_t to, std::uint64_t number, const error& why) noexcept {
  peers* const by = peers_.load();
  if (by == nullptr) return;
  try {
    const borrowed_workbench on;
    write_failure(*on, {1, 1}, {1, number}, why);
    static_cast<void>(by->send_anyway(to, {peers::thing_answer, ++last_}, on->writer.pieces(),
                                      on->writer.size_bytes()));
  } catch (...) {
    return;  // no memory: who asked hears of it when one of the two nodes ends
  }
}

// Behind what it has asked before, unless an answer has found it lost. Items that nobody gets are
// the user's.
void node_things::on_gone(std::uint64_t node) {
  if (have_asked_.erase(node) == 0) return;
  facts_line::of_things().add([this, node] { end_home_of(node); });
}

// `serial`: only if it is that one still; 0: whichever it is.
void node_things::end_home_of(std::uint64_t node, std::uint64_t serial) noexcept {
  std::shared_ptr<worker_things> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = homes_.find(node);
    if (found == homes_.end() || (serial != 0 && found->second.serial != serial)) return;
    gone = std::move(found->second.things);
    homes_.erase(found);
  }
  // One that can't be reached from here may live, and hear it later.
  const error why = lost_asker_error();
  if (gone != nullptr) gone->end(&why);
}

// ---- those of others

node_things::asker_ptr node_things::asker_of(std::uint64_t node) {
  peers* const by = peers_.load();
  std::string called = by != nullptr ? by->introduction_of(node).name : std::string();
  asker_ptr out;
  {
    const std::lock_guard lock(mutex_);
    asker_ptr& one = askers_[node];
    if (one != nullptr) return one;
    one = std::make_shared<asker>(node, std::move(called), ++lives_);
    out = one;
  }
  // One that is lost was told of before it was listed here, or is taken from the list.
  const auto asks = [this] { return stage_.load() == stage::asking; };
  if (asks() && by != nullptr && by->can_reach(node)) return out;
  out->asks.end(asks() ? lost_home_error(out->name, "it can't be asked") : exec::ended_error());
  const std::lock_guard lock(mutex_);
  const auto found = askers_.find(node);
  if (found != askers_.end() && found->second == out) askers_.erase(found);
  return out;
}

std::shared_ptr<void> node_things::take(far_arrivals::one& came, const spec::reference& as,
                                        const item_ops* items, std::uint64_t size,
                                        make_mirror make) {
  if (came.thing != nullptr) {
    const std::optional<shared_thing> known = find(came.id);
    if (!known || known->kind != as.kind || known->type != as.type) return nullptr;
    return std::move(came.thing);
  }
  if (came.owner == far_handles::global().self()) return nullptr;
  const asker_ptr by = asker_of(came.owner);
  return by->things.view(as, items, size, make, {by, came.is_counted});
}

std::shared_ptr<void> node_things::borrow(const spec::reference& came, const item_ops* items,
                                          std::uint64_t size, make_mirror make) {
  far_arrivals::one* const found = far_arrivals::find(came.what);
  if (found == nullptr) return nullptr;
  std::shared_ptr<void> out = take(*found, came, items, size, make);
  if (out == nullptr) return nullptr;
  found->is_left = false;
  if (found->is_counted) far_handles::global().read(came.what);
  return out;
}

void node_things::on_answer(std::uint64_t from, const peers::kept_message& message) noexcept {
  asker_ptr of;
  {
    const std::lock_guard lock(mutex_);
    const auto found = askers_.find(from);
    if (found != askers_.end()) of = found->second;
  }
  const borrowed_workbench on;
  const neutral_caller nobody;
  const result<const wire::message_view&> read = on->reader.read(message.bytes);
  const auto* const came = read ? std::get_if<wire::result_view>(&read->body) : nullptr;
  if (came != nullptr && of != nullptr) of->asks.answer(read->head.request.low, *came);
}

void node_things::lose(std::uint64_t node, const std::string& why) noexcept {
  asker_ptr gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = askers_.find(node);
    if (found == askers_.end()) return;
    gone = std::move(found->second);
    askers_.erase(found);
  }
  gone->asks.end(lost_home_error(gone->name, why));
}

}  // namespace manta::inline v0::node
