// SPDX-License-Identifier: Apache-2.0
#include "node/far_names.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/parker.hpp>
#include <manta/node/carrier.hpp>

#include "exec/named_actors.hpp"
#include "life/membership.hpp"
#include "node/far_actors.hpp"
#include "node/head_facts.hpp"
#include "node/looking.hpp"
#include "node/trade.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_questions.hpp"
#include "wire/error_record.hpp"

namespace manta::inline v0::node {

namespace {

constexpr duration between_looks = std::chrono::milliseconds(2);
constexpr int most_looks = life::until_heard_of / between_looks;

name_question about_name(name_act act, const control::claimed_name& of) {
  return {static_cast<std::uint8_t>(act), of.name_space, of.name};
}

// What came as an answer; throws what the other node says instead.
const spec::parcel_view& parcel_in(const wire::result_view& came) {
  if (const auto* const failure = std::get_if<wire::error_view>(&came.outcome)) {
    wire::to_error(*failure).raise();
  }
  return std::get<spec::parcel_view>(came.outcome);
}
name_answer answer_in(const wire::result_view& came) {
  return codec::decode<name_answer>(parcel_in(came));
}
// These hear the answers, or hold up what others have given.
void check_may_wait() {
  if (!trade::is_own_thread() && !facts_line::of_answers().is_here()) return;
  raise(errc::unsupported,
        "find_actor: asked for a name while a value from another node is read; ask for it before, "
        "or in the task");
}

// A handle alone, or nothing.
auto handle_in(const exec::actor_ops* kind) {
  return [kind](const wire::result_view& came) -> exec::actor_core* {
    const spec::parcel_view& value = parcel_in(came);
    return value.references.empty() ? nullptr
                                    : borrow_far_actor(value.references.front().what, kind);
  };
}

}  // namespace

// Questions that get no answer: who waits for one is told why, also when nobody came to do that.
struct far_names::unanswered {
  std::vector<taker> all;

  unanswered() = default;
  unanswered(const unanswered&) = delete;
  unanswered& operator=(const unanswered&) = delete;
  ~unanswered() { end(exec::ended_error()); }
  void end(const error& why) noexcept {
    if (all.empty()) return;
    const std::vector<taker> told = std::exchange(all, {});
    const wire::error_record record(why);
    for (const taker& then : told) then({.task = {1, 1}, .outcome = record.view()});
  }
};

far_names& far_names::global() {
  static auto* const made = new far_names;
  return *made;
}

void far_names::open(peers& by, std::uint64_t head, bool is_driver) {
  std::unordered_set<exec::actor_core*> before;  // of an earlier runtime, whose actors have ended
  {
    const std::lock_guard lock(mutex_);
    before.swap(kept_);
  }
  for (exec::actor_core* const one : before) one->drop_handle();
  const std::lock_guard lock(mutex_);
  head_.store(head);
  is_driver_.store(is_driver);
  known_ = {};
  claims_.clear();
  by_.store(&by);
  is_open_.store(true);
}

void far_names::stop_answering() noexcept {
  const std::lock_guard lock(mutex_);
  by_.store(nullptr);
}

void far_names::close() noexcept {
  std::unordered_map<std::uint64_t, asked_one> asked;
  std::map<key, std::vector<std::function<void()>>> waiting;
  {
    const std::lock_guard lock(mutex_);
    is_open_.store(false);
    asked.swap(asked_);
    waiting.swap(unsettled_);
  }
  unanswered left;
  for (auto& [number, one] : asked) left.all.push_back(std::move(one.then));
  left.end(exec::ended_error());
  for (const auto& [name, all] : waiting) {
    for (const auto& then : all) then();  // which find that nobody is asked any more
  }
}

// ---- questions

void far_names::ask(std::uint64_t node, const writer& write, taker then) {
  peers* by = nullptr;
  const std::uint64_t number = ++last_;
  {
    const std::lock_guard lock(mutex_);
    by = by_.load();
    if (!is_open_.load() || by == nullptr) exec::ended_error().raise();
    asked_.emplace(number, asked_one{node, std::move(then)});
  }
  try {
    const borrowed_workbench on;
    const base::id request{peers::name, number};
    write(*on, request);
    const result<void> is =
        by->send_when_room(node, request, on->writer.pieces(), on->writer.size_bytes());
    if (!is && drop_asked(number)) is.error().raise();
    // One that can't be reached was told of before this was noted, or takes it away.
    if (is && !by->can_reach(node) && drop_asked(number)) {
      raise(errc::node_lost, "the node that has the actor can't be reached from here");
    }
  } catch (...) {
    drop_asked(number);
    throw;
  }
}

// False: it has its answer, or gets it.
bool far_names::drop_asked(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  return asked_.erase(number) > 0;
}

namespace {

auto name_writer(const name_question& what) {
  return [what](workbench& on, const base::id& request) {
    on.out.clear();
    const spec::parcel_view with = codec::encode(on.out, what);
    const result<void> is =
        on.writer.write({request, 1, 0}, wire::ask_view{wire::question::find_actor, with});
    if (!is) raise(errc::encode_failed, is.error().message());
  };
}

}  // namespace

void far_names::ask_head(const name_question& what, taker then) {
  const std::uint64_t head = head_.load();
  if (head != head_alone) return ask(head, name_writer(what), std::move(then));
  head_facts::global().ask_name(what, std::move(then));
}

// What `read` makes of the answer, or why there is none. It is called by who hears the answers.
template <class Begin, class Read>
auto far_names::wait_answer(const Begin& begin, Read read) {
  using value = std::invoke_result_t<Read, const wire::result_view&>;
  struct waiting {
    exec::parker nap;
    std::optional<result<value>> got;
  };
  check_may_wait();
  const auto until = std::make_shared<waiting>();
  try {
    begin([until, read](const wire::result_view& came) {
      try {
        until->got.emplace(read(came));
      } catch (...) {
        until->got.emplace(describe_current_exception("an answer of another node"));
      }
      until->nap.signal();
    });
  } catch (...) {
    return result<value>(describe_current_exception("a question to another node"));
  }
  worker_questions::wait(until->nap);
  return *std::move(until->got);
}

template <class Read>
auto far_names::ask_now(std::uint64_t node, const writer& write, Read read) {
  return wait_answer([&](taker then) { ask(node, write, std::move(then)); }, read);
}

void far_names::on_answer(std::uint64_t number, std::span<const std::byte> message) noexcept {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  const auto* const came = read ? std::get_if<wire::result_view>(&read->body) : nullptr;
  if (came == nullptr) return;
  taker then;
  {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(number);
    if (found == asked_.end()) return;
    then = std::move(found->second.then);
    asked_.erase(found);
  }
  then(*came);
}

// Not here: who hears of it may ask another one, and wait until there is room for that.
void far_names::on_gone(std::uint64_t node) {
  const auto waiting = std::make_shared<unanswered>();
  {
    const std::lock_guard lock(mutex_);
    const peers* const by = by_.load();
    if (by != nullptr && !by->has(node)) known_.gone(node);
    std::erase_if(asked_, [&](auto& one) {
      if (one.second.of != node) return false;
      waiting->all.push_back(std::move(one.second.then));
      return true;
    });
  }
  if (waiting->all.empty()) return;
  facts_line::global().add([waiting] {
    waiting->end(error(errc::node_lost, "the node that was asked for an actor's name is lost"));
  });
}

// ---- the head

bool far_names::is_head() const noexcept {
  const peers* const by = by_.load();
  return by != nullptr && by->epoch() == head_.load();
}

name_answer far_names::answer_as_head(std::uint64_t from, const name_question& what) {
  const key name{what.name_space, what.name};
  const std::lock_guard lock(mutex_);
  holder who;
  switch (static_cast<name_act>(what.act)) {
    case name_act::claim:
      who = known_.claim(name, {from, what.number});
      break;
    case name_act::release:
      known_.release(name, {what.node, what.number});
      break;
    case name_act::where:
      who = known_.find(name);
      break;
    default:
      raise(errc::decode_failed, "a question of names that is none");
  }
  return {who.node, who.number};
}

name_answer far_names::ask_head_now(const name_question& what) {
  if (is_head()) return answer_as_head(head_.load(), what);
  result<name_answer> got =
      wait_answer([&](taker then) { ask_head(what, std::move(then)); }, answer_in);
  if (!got) got.error().raise();
  return *std::move(got);
}

// ---- names of this node's actors

void far_names::hold(exec::actor_core* core, const key& name, const told& then) {
  const peers* by = nullptr;
  {
    const std::lock_guard lock(mutex_);
    by = by_.load();
    if (!is_open_.load() || by == nullptr) exec::ended_error().raise();
    const auto [at, is_new] = unsettled_.try_emplace(name);
    if (!is_new) {
      at->second.push_back([this, core, name, then] {
        try {
          hold(core, name, then);
        } catch (...) {
          then(describe_current_exception("spawn"));
        }
      });
      return;
    }
  }
  const holder mine{by->epoch(), ++last_};
  try {
    name_question what = about_name(name_act::claim, name);
    what.node = mine.node;
    what.number = mine.number;
    if (is_head()) {
      const name_answer got = answer_as_head(mine.node, what);
      return claimed(core, name, mine, holder{got.node, got.number}, then);
    }
    ask_head(what, [=, this](const wire::result_view& came) {
      try {
        const auto got = answer_in(came);
        claimed(core, name, mine, holder{got.node, got.number}, then);
      } catch (...) {
        claimed(core, name, mine, describe_current_exception("spawn"), then);
      }
    });
  } catch (...) {
    settle(name);
    throw;
  }
}

void far_names::claimed(exec::actor_core* core, const key& name, const holder& mine,
                        const result<holder>& who, const told& then) noexcept {
  result<holder> out = who;
  if (who && *who == mine) {
    out = holder{};
    try {
      {
        const std::lock_guard lock(mutex_);
        claims_.insert_or_assign(core, claim{name, mine.number});
      }
      static_cast<void>(core->take_name(false));
    } catch (...) {
      let_go(core);
      out = describe_current_exception("spawn");
    }
  }
  settle(name);
  then(out);
}

void far_names::settle(const key& name) noexcept {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    const auto found = unsettled_.find(name);
    if (found == unsettled_.end()) return;
    waiting.swap(found->second);
    unsettled_.erase(found);
  }
  for (const auto& then : waiting) then();
}

void far_names::when_settled(const key& name, std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = unsettled_.find(name);
    if (found != unsettled_.end()) return found->second.push_back(std::move(then));
  }
  then();
}

void far_names::wait_settled(const key& name) {
  check_may_wait();
  const auto nap = std::make_shared<exec::parker>();
  when_settled(name, [nap] { nap->signal(); });
  worker_questions::wait(*nap);
}

far_names::holder far_names::hold_now(exec::actor_core* core, const key& name) {
  check_may_wait();
  struct waiting {
    exec::parker nap;
    std::optional<result<holder>> got;
  };
  const auto until = std::make_shared<waiting>();
  hold(core, name, [until](const result<holder>& who) {
    until->got.emplace(who);
    until->nap.signal();
  });
  worker_questions::wait(until->nap);
  if (!*until->got) until->got->error().raise();
  return **until->got;
}

void far_names::check_outlives(const exec::actor_core& made) const {
  if (!is_open() || head_.load() != head_alone) {
    raise(errc::unsupported,
          "option detached: the job ends with its driver's process, since it has no head of its "
          "own that outlives it, and so does every actor; start a head (MANTA_ROLE=head), or keep "
          "a handle in main instead");
  }
  if (!made.is_afar()) check_outlives_here();
}

void far_names::check_outlives_here() const {
  if (!is_driver_.load()) return;
  raise(errc::unsupported,
        "option detached: the actor would live in a driver's process, and end with it; give it a "
        "place in another node, .where = manta::on_node(its name)");
}

// One that has ended already has no claim.
void far_names::keep(exec::actor_core* core) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!claims_.contains(core) || !kept_.insert(core).second) return;
    core->add_handle_inside();
  } catch (const std::bad_alloc&) {
    return;  // it ends with its last handle, as others do
  }
}

// Not here, where it ends. What a runtime's end has ended stays with its core.
void far_names::drop_kept(exec::actor_core* core) {
  facts_line::of_ends().add([core] { core->drop_handle(); });
}

// The head may not hear of it when there is no room: who finds the name there then is sent here,
// and says so.
void far_names::let_go(const exec::actor_core* core) noexcept {
  try {
    claim over;
    peers* by = nullptr;
    exec::actor_core* kept = nullptr;
    {
      const std::lock_guard lock(mutex_);
      by = by_.load();
      const auto found = claims_.find(core);
      if (found == claims_.end()) return;
      over = std::move(found->second);
      claims_.erase(found);
      const auto held = kept_.find(const_cast<exec::actor_core*>(core));
      if (held != kept_.end()) kept = is_open() ? kept_.extract(held).value() : nullptr;
    }
    if (kept != nullptr) drop_kept(kept);
    if (by == nullptr) return;
    name_question what = about_name(name_act::release, over.name);
    what.node = by->epoch();
    what.number = over.number;
    if (is_head()) return static_cast<void>(answer_as_head(what.node, what));
    if (head_.load() == head_alone) return ask_head(what, [](const wire::result_view&) {});
    const borrowed_workbench on;
    const base::id request{peers::name, 0};
    name_writer(what)(*on, request);
    static_cast<void>(
        by->send(head_.load(), request, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    return;  // no memory: as above
  }
}

// ---- spawn and find

// What `asks` gets from that node; of one that is gone by now: nothing. The head may have heard of
// one that has just joined before this node has.
template <class T, class Ask>
T far_names::value_or_none(std::uint64_t of, const Ask& asks) const {
  std::optional<T> out;
  int before = 0;
  look_until({.between = between_looks}, [&] {
    const peers* const by = by_.load();
    if (by == nullptr) exec::ended_error().raise();
    // Of those that ended before this one joined it never hears. Looked at first: it may join
    // while it is asked.
    const bool is_known = of <= std::max(by->newest(), by->epoch()) || before++ >= most_looks;
    const bool was_there = by->has(of);
    result<T> got = asks();
    if (got) {
      out = *std::move(got);
      return true;
    }
    if (got.error().code() != errc::node_lost || !is_open()) got.error().raise();
    const bool is_there = by->has(of);
    if (was_there && is_there) got.error().raise();
    return is_known && !is_there;
  });
  return std::move(out).value_or(T{});
}

exec::actor_core* far_names::living(const holder& at, const key& name, const wanted& as) {
  const peers* const by = by_.load();
  if (by == nullptr) exec::ended_error().raise();
  if (at.node == by->epoch()) {
    wait_settled(name);
    return exec::find_or_free(name.name, name.name_space, as.type);
  }
  if (as.kind == nullptr) {
    if (type_of_living(at, name).empty()) return nullptr;
    raise(errc::unsupported,
          fmt::format("find_actor: the actor \"{}\" lives in another node, and an isolated worker "
                      "calls actors of its own node only; call it from a thread of the node",
                      name.name));
  }
  name_question what = about_name(name_act::find, name);
  what.type = as.type;
  return value_or_none<exec::actor_core*>(
      at.node, [&] { return ask_now(at.node, name_writer(what), handle_in(as.kind)); });
}

std::string far_names::type_of_living(const holder& at, const key& name) {
  const peers* const by = by_.load();
  if (by == nullptr) exec::ended_error().raise();
  if (at.node == by->epoch()) {
    wait_settled(name);
    return exec::type_of_named(name.name, name.name_space);
  }
  const name_question what = about_name(name_act::type, name);
  return value_or_none<name_answer>(at.node,
                                    [&] { return ask_now(at.node, name_writer(what), answer_in); })
      .type;
}

exec::actor_core* far_names::find(const std::string& name, const std::string& name_space,
                                  const wanted& as) {
  if (exec::actor_core* const here = exec::actor_core::find(name, name_space, as.type)) {
    return here;
  }
  const key asked{name_space, name};
  const name_answer who = ask_head_now(about_name(name_act::where, asked));
  return who.node == 0 ? nullptr : living({who.node, who.number}, asked, as);
}

exec::actor_core* far_names::upgrade(const exec::known_actor& of, const exec::actor_ops* kind) {
  name_question what{static_cast<std::uint8_t>(name_act::lives), {}, {}, kind->type};
  what.node = of.id.high;
  what.number = of.id.low;
  return value_or_none<exec::actor_core*>(
      of.home, [&] { return ask_now(of.home, name_writer(what), handle_in(kind)); });
}

exec::actor_core* far_names::take(exec::actor_core* made, const spawn_asked& asked,
                                  const exec::actor_ops* kind) {
  const key name{asked.options.name_space, *asked.options.name};
  return take_by([&] { return made->is_afar() ? reserve(made, asked) : hold_now(made, name); },
                 name, asked.options.get_if_exists, {kind->type, kind});
}

exec::actor_core* far_names::take_here(exec::actor_core* made, const key& name, bool may_exist) {
  return take_by([&] { return hold_now(made, name); }, name, may_exist,
                 {made->kind().type, nullptr});
}

// Until it is taken, or somebody living is found to have it.
template <class Claim>
exec::actor_core* far_names::take_by(const Claim& claims, const key& name, bool may_exist,
                                     const wanted& as) {
  if (may_exist) {
    exec::actor_core* const here = exec::actor_core::find(name.name, name.name_space, as.type);
    if (here != nullptr) return here;
  }
  for (;;) {
    const holder has = claims();
    if (has == holder{}) return nullptr;
    if (may_exist) {
      if (exec::actor_core* const found = living(has, name, as)) return found;
    } else {
      const std::string type = type_of_living(has, name);
      if (!type.empty()) exec::raise_taken(name.name, name.name_space, type.c_str());
    }
    // It has ended there, and the head does not know it yet.
    name_question over = about_name(name_act::release, name);
    over.node = has.node;
    over.number = has.number;
    ask_head_now(over);
  }
}

// One that is to live in another node: its core is made there, if it may have the name.
far_names::holder far_names::reserve(exec::actor_core* made, const spawn_asked& asked) {
  const far_name at = far_actors::global().whereabouts(made);
  const spawn_asked there{asked.options, asked.construction,
                          far_actors::global().place_there(made)};
  const result<name_answer> got = ask_now(
      at.owner,
      [&](workbench& on, const base::id& request) {
        write_reservation(on, *made, there, at.id, request);
      },
      answer_in);
  if (!got) got.error().raise();
  const holder who{got->node, got->number};
  far_actors::global().reserved(made, at, who == holder{});
  if (who == holder{}) made->note_name();
  return who;
}

}  // namespace manta::inline v0::node
