// SPDX-License-Identifier: Apache-2.0
#include "node/far_names.hpp"

#include <exception>
#include <memory>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/parker.hpp>
#include <manta/node/carrier.hpp>

#include "exec/named_actors.hpp"
#include "node/far_actors.hpp"
#include "node/far_handles.hpp"
#include "node/resident_actors.hpp"
#include "node/trade.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_questions.hpp"
#include "wire/error_record.hpp"

namespace manta::inline v0::node {

namespace {

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
// A handle alone, or nothing.
auto handle_in(const exec::actor_ops* kind) {
  return [kind](const wire::result_view& came) -> exec::actor_core* {
    const spec::parcel_view& value = parcel_in(came);
    return value.references.empty() ? nullptr
                                    : borrow_far_actor(value.references.front().what, kind);
  };
}

}  // namespace

far_names& far_names::global() {
  static auto* const made = new far_names;
  return *made;
}

void far_names::open(peers& by, std::uint64_t head) {
  const std::lock_guard lock(mutex_);
  head_.store(head);
  known_ = {};
  claims_.clear();
  by_.store(&by);
}

void far_names::close() noexcept {
  std::unordered_map<std::uint64_t, asked_one> asked;
  std::map<key, std::vector<std::function<void()>>> waiting;
  {
    const std::lock_guard lock(mutex_);
    by_.store(nullptr);
    asked.swap(asked_);
    waiting.swap(unsettled_);
  }
  try {
    const wire::error_record record(exec::ended_error());
    const wire::result_view said{.task = {1, 1}, .outcome = record.view()};
    for (const auto& [number, one] : asked) one.then(said);
  } catch (const std::bad_alloc&) {
    std::terminate();  // who asked would wait for ever
  }
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
    if (by == nullptr) exec::ended_error().raise();
    asked_.emplace(number, asked_one{node, std::move(then)});
  }
  try {
    const borrowed_workbench on;
    const base::id request{peers::name, number};
    write(*on, request);
    const result<void> is =
        by->send_when_room(node, request, on->writer.pieces(), on->writer.size_bytes());
    if (!is && drop_asked(number)) is.error().raise();
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

// What `read` makes of the answer, or why there is none. It is called by the looker, which hears
// the answers.
template <class Read>
auto far_names::ask_now(std::uint64_t node, const writer& write, Read read) {
  using value = std::invoke_result_t<Read, const wire::result_view&>;
  struct waiting {
    exec::parker nap;
    std::optional<result<value>> got;
  };
  if (trade::is_looker()) {
    raise(errc::unsupported,
          "find_actor: asked for a name while a value from another node is read; ask for it "
          "before, or in the task");
  }
  const auto until = std::make_shared<waiting>();
  try {
    ask(node, write, [until, read](const wire::result_view& came) {
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
  std::vector<taker> waiting;
  {
    const std::lock_guard lock(mutex_);
    const peers* const by = by_.load();
    if (by != nullptr && !by->has(node)) known_.gone(node);
    std::erase_if(asked_, [&](auto& one) {
      if (one.second.of != node) return false;
      waiting.push_back(std::move(one.second.then));
      return true;
    });
  }
  if (waiting.empty()) return;
  facts_line::global().add([waiting = std::move(waiting)] {
    const wire::error_record record(
        error(errc::node_lost, "the node that was asked for an actor's name is lost"));
    const wire::result_view said{.task = {1, 1}, .outcome = record.view()};
    for (const taker& then : waiting) then(said);
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
  result<name_answer> got = ask_now(head_.load(), name_writer(what), answer_in);
  if (!got) got.error().raise();
  return *std::move(got);
}

// ---- names of this node's actors

void far_names::hold(exec::actor_core* core, const key& name, const told& then) {
  const peers* by = nullptr;
  {
    const std::lock_guard lock(mutex_);
    by = by_.load();
    if (by == nullptr) exec::ended_error().raise();
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
    what.number = mine.number;
    if (is_head()) {
      const name_answer got = answer_as_head(mine.node, what);
      return claimed(core, name, mine, holder{got.node, got.number}, then);
    }
    ask(head_.load(), name_writer(what), [=, this](const wire::result_view& came) {
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
  const auto nap = std::make_shared<exec::parker>();
  when_settled(name, [nap] { nap->signal(); });
  worker_questions::wait(*nap);
}

far_names::holder far_names::hold_now(exec::actor_core* core, const key& name) {
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

// The head may not hear of it when there is no room: who finds the name there then is sent here,
// and says so.
void far_names::let_go(const exec::actor_core* core) noexcept {
  try {
    claim over;
    peers* by = nullptr;
    {
      const std::lock_guard lock(mutex_);
      by = by_.load();
      const auto found = claims_.find(core);
      if (found == claims_.end()) return;
      over = std::move(found->second);
      claims_.erase(found);
    }
    if (by == nullptr) return;
    name_question what = about_name(name_act::release, over.name);
    what.node = by->epoch();
    what.number = over.number;
    if (is_head()) return static_cast<void>(answer_as_head(what.node, what));
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

// What is here, or in a node that is gone by now: nothing.
template <class T>
T far_names::value_or_none(result<T> got, std::uint64_t of) const {
  if (got) return *std::move(got);
  const peers* const by = by_.load();
  const bool is_gone = got.error().code() == errc::node_lost && by != nullptr && !by->has(of);
  if (!is_gone) got.error().raise();
  return T{};
}

exec::actor_core* far_names::living(const holder& at, const key& name, const wanted& as) {
  const peers* const by = by_.load();
  if (by == nullptr) exec::ended_error().raise();
  if (at.node == by->epoch()) {
    wait_settled(name);
    return exec::actor_core::find(name.name, name.name_space, as.type);
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
  return value_or_none(ask_now(at.node, name_writer(what), handle_in(as.kind)), at.node);
}

std::string far_names::type_of_living(const holder& at, const key& name) {
  const peers* const by = by_.load();
  if (by == nullptr) exec::ended_error().raise();
  if (at.node == by->epoch()) {
    wait_settled(name);
    return exec::type_of_named(name.name, name.name_space);
  }
  return value_or_none(ask_now(at.node, name_writer(about_name(name_act::type, name)), answer_in),
                       at.node)
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
  const result<name_answer> got = ask_now(
      at.owner,
      [&](workbench& on, const base::id& request) {
        write_reservation(on, *made, asked, at.id, request);
      },
      answer_in);
  if (!got) got.error().raise();
  const holder who{got->node, got->number};
  far_actors::global().reserved(made, who == holder{});
  if (who == holder{}) made->note_name();
  return who;
}

// ---- other nodes' questions

namespace {

void say_name(peers& by, std::uint64_t to, std::uint64_t number, const name_answer& what) noexcept {
  try {
    const borrowed_workbench on;
    on->out.clear();
    write_answer(*on, {peers::name_answer, number}, codec::encode(on->out, what));
    static_cast<void>(by.send_when_room(to, {peers::name_answer, number}, on->writer.pieces(),
                                        on->writer.size_bytes()));
  } catch (...) {
    return;  // no memory: who asked hears of it when one of the two nodes ends
  }
}

void say_name(peers& by, std::uint64_t to, std::uint64_t number, const error& why) noexcept {
  try {
    const borrowed_workbench on;
    write_failure(*on, {1, 1}, {peers::name_answer, number}, why);
    static_cast<void>(by.send_when_room(to, {peers::name_answer, number}, on->writer.pieces(),
                                        on->writer.size_bytes()));
  } catch (...) {
    return;  // as above
  }
}

}  // namespace

// Not on the loop's thread: answers may have to wait for room.
void far_names::on_question(peers& by, std::uint64_t from, std::uint64_t number,
                            const peers::kept_message& message) {
  facts_line::global().add(
      [this, &by, from, number, message] { hear(by, from, number, message.bytes); });
}

void far_names::hear(peers& by, std::uint64_t from, std::uint64_t number,
                     std::span<const std::byte> message) noexcept {
  try {
    const borrowed_workbench on;
    const neutral_caller nobody;
    const result<const wire::message_view&> read = on->reader.read(message);
    if (!read) return;
    if (const auto* const asked = std::get_if<wire::spawn_view>(&read->body)) {
      resident_actors::global().reserve(
          by, from, *asked, [&by, from, number](const result<holder>& who) {
            if (!who) return say_name(by, from, number, who.error());
            say_name(by, from, number, name_answer{who->node, who->number});
          });
    } else if (const auto* const ask = std::get_if<wire::ask_view>(&read->body)) {
      hear_question(by, from, number, codec::decode<name_question>(ask->with));
    }
  } catch (...) {
    say_name(by, from, number, describe_current_exception("a question of another node"));
  }
}

void far_names::hear_question(peers& by, std::uint64_t from, std::uint64_t number,
                              const name_question& what) {
  const auto act = static_cast<name_act>(what.act);
  if (act == name_act::find || act == name_act::type) {
    return when_settled({what.name_space, what.name},
                        [&by, from, number, what] { answer_living(by, from, number, what); });
  }
  if (!is_head()) raise(errc::node_lost, "the node that knew who has which name is leaving");
  const name_answer got = answer_as_head(from, what);
  if (number != 0) say_name(by, from, number, got);
}

void far_names::answer_living(peers& by, std::uint64_t to, std::uint64_t number,
                              const name_question& what) noexcept {
  exec::actor_core* found = nullptr;
  try {
    const borrowed_workbench on;
    on->goes_to = to;
    on->references.clear();
    on->out.clear();
    spec::parcel_view value;
    if (static_cast<name_act>(what.act) == name_act::type) {
      const name_answer out{.type = exec::type_of_named(what.name, what.name_space)};
      value = codec::encode(on->out, out);
    } else {
      found = exec::actor_core::find(what.name, what.name_space, what.type.c_str());
    }
    if (found != nullptr) {
      const far_name known = name_of_actor(found, to, "manta::find_actor()");
      spec::reference named;
      named.what = known.id;
      named.owner = {known.owner, 0};
      named.kind = spec::reference_kind::actor;
      on->references.push_back(named);
    }
    value.references = on->references;
    const base::id request{peers::name_answer, number};
    write_answer(*on, request, value);
    // False is of one that is gone.
    static_cast<void>(far_handles::global().send(by, request, *on, true));
  } catch (...) {
    say_name(by, to, number, describe_current_exception("manta::find_actor()"));
  }
  if (found != nullptr) found->drop_handle();
}

}  // namespace manta::inline v0::node
