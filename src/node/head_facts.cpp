// SPDX-License-Identifier: Apache-2.0
#include "node/head_facts.hpp"

#include <utility>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/exec/executor.hpp>

#include "control/kept_claims.hpp"
#include "node/journal.hpp"
#include "node/record_keeper.hpp"
#include "node/workbench.hpp"
#include "wire/error_record.hpp"

namespace manta::inline v0::node {

namespace {

bool is_of_workers(wire::question asked) noexcept {
  return asked == wire::question::find_actor || asked == wire::question::actor_end ||
         asked == wire::question::thing || asked == wire::question::delegation ||
         asked == wire::question::future_value || asked == wire::question::cancel_future;
}

// No memory: who asked hears of it when one of the two nodes ends.
void say_answer(const head_facts::voice& say, std::uint64_t question,
                const wire::result_view& answer) noexcept {
  try {
    const borrowed_workbench on;
    if (!on->writer.write({{1, question}, 1, 0}, answer)) return;
    say(on->writer.pieces(), on->writer.size_bytes());
  } catch (...) {
    return;
  }
}

}  // namespace

head_facts& head_facts::global() {
  static auto* const made = new head_facts;
  return *made;
}

void head_facts::ask_of(peers& with, std::uint64_t head) {
  ask_as(head, &with, {}, worker_questions::scope::all);
}

void head_facts::ask_by(poster line) {
  ask_as(0, nullptr, std::move(line), worker_questions::scope::keys);
}

void head_facts::ask_as(std::uint64_t head, peers* with, poster line,
                        worker_questions::scope what) {
  head_.store(head);
  with_.store(with);
  {
    const std::lock_guard lock(mutex_);
    line_ = std::move(line);
    // Others find it as soon as it is made; what they ask waits for the mutex, and finds the line.
    asks_ = std::make_shared<worker_questions>(1, &head_facts::send, this, is_making_, what);
  }
  has_room();
}

void head_facts::has_room() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ++rooms_;
  }
  room_.notify_all();
}

void head_facts::ask_name(const name_question& what, worker_questions::taker then) {
  const auto asked = asks();
  if (asked == nullptr) exec::ended_error().raise();
  asked->ask_raw(wire::question::find_actor, what, std::move(then));
}

// On a thread of its own, since what it ends may be the user's.
void head_facts::head_is_another(std::uint64_t asked) noexcept {
  const auto asks_on = asks();
  if (asks_on == nullptr || asked == 0) return;
  try {
    facts_line::of_answers().add([asks_on, asked] {
      asks_on->end_asked(error(errc::node_lost,
                               "the head of the cluster was lost before it answered, and another "
                               "one is there by now; whether it was done is not known"),
                         asked);
    });
  } catch (...) {
    return;  // they end with the runtime
  }
}

std::shared_ptr<worker_questions> head_facts::asks() noexcept {
  const std::lock_guard lock(mutex_);
  return asks_;
}

void head_facts::close() noexcept {
  with_.store(nullptr);
  {
    const std::lock_guard lock(mutex_);
    line_ = {};
  }
  has_room();
  if (const auto asked = asks()) asked->end(exec::ended_error());
}

// A store may answer later: it finds no way then.
void head_facts::stop_answering() noexcept {
  std::unordered_map<std::uint64_t, std::shared_ptr<worker_facts>> gone;
  std::shared_ptr<door> door;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(facts_);
    door = std::exchange(door_, nullptr);
    if (asks_ != nullptr) {
      asks_->leave();
      ended_.push_back(std::move(asks_));
      asks_ = nullptr;
    }
  }
  if (door != nullptr) {
    const std::lock_guard lock(door->mutex);
    door->is_open = false;
  }
  for (const auto& [node, one] : gone) one->end();
  facts_line::of_answers().close();
  facts_line::of_copies().close();
  facts_line::of_ends().close();  // what it ends may ask the other one
  facts_line::global().close();
}

void head_facts::send(void* self, workbench& on) noexcept {
  auto* const here = static_cast<head_facts*>(self);
  if (here->post(on)) return;
  const base::id request{peers::question, ++here->last_};
  peers* const with = here->with_.load();
  if (with == nullptr) return;  // and what was asked has ended
  const result<void> is =
      with->send_when_room(here->head_.load(), request, on.writer.pieces(), on.writer.size_bytes());
  if (is) return;
  if (const auto asked = here->asks()) asked->end(is.error());
}

// To a head of its own, when there is room. False: there is no line to one, or none any more.
bool head_facts::post(workbench& on) noexcept {
  for (;;) {
    poster line;
    std::uint64_t seen = 0;
    {
      const std::lock_guard lock(mutex_);
      line = line_;
      seen = rooms_;
    }
    if (!line) return false;
    if (line(on.question, on.writer.pieces(), on.writer.size_bytes())) return true;
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return rooms_ != seen; });
  }
}

std::shared_ptr<worker_facts> head_facts::facts_of(std::uint64_t node, const voice& say) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<worker_facts>& of = facts_[node];
  if (door_ == nullptr) door_ = std::make_shared<door>();
  if (of == nullptr) {
    of = std::make_shared<worker_facts>(
        [door = door_, say](std::uint64_t number, const wire::result_view& answer) {
          const std::lock_guard held(door->mutex);
          if (door->is_open) say_answer(say, number, answer);
        });
  }
  return of;
}

void head_facts::on_question(peers& by, std::uint64_t from, std::span<const std::byte> frame) {
  const auto say = [this, &by, from](pieces message, std::size_t size) {
    static_cast<void>(by.send_anyway(from, {peers::answer, ++last_}, message, size));
  };
  hear(from, say, frame, 0);
}

void head_facts::on_question(const asker& who, const voice& say, std::span<const std::byte> frame) {
  hear(who.number, say, frame, who.epoch);
}

namespace {

// What it claims is its own.
name_question checked(name_question what, std::uint64_t epoch) {
  if (static_cast<name_act>(what.act) != name_act::claim) return what;
  if (what.node == epoch && what.number != 0) return what;
  raise(errc::decode_failed, "a claim of a name for another node, or of none");
}

}  // namespace

void head_facts::hear(std::uint64_t from, const voice& say, std::span<const std::byte> frame,
                      std::uint64_t epoch) {
  std::uint64_t number = 0;
  try {
    const borrowed_workbench on;
    const result<const wire::message_view&> read = on->reader.read(frame);
    if (!read) return;
    number = read->head.request.low;
    const auto* const asked = std::get_if<wire::ask_view>(&read->body);
    if (epoch != 0 && asked != nullptr && asked->what == wire::question::find_actor) {
      const auto what = checked(codec::decode<name_question>(asked->with), epoch);
      return facts_of(from, say)->ask_else(number, asked->with,
                                           [say, number, what] { answer_name(say, number, what); });
    }
    if (asked == nullptr || is_of_workers(asked->what)) {
      raise(errc::decode_failed, "a question that no other node asks the head's");
    }
    const auto facts = facts_of(from, say);
    if (asked->what == wire::question::task_records) {
      return facts->ask_records(number, *asked, epoch != 0 ? epoch : from);
    }
    facts->ask(number, *asked);
  } catch (...) {
    const wire::error_record record(describe_current_exception("a question of another node"));
    say_answer(say, number, {.task = {1, 1}, .outcome = record.view()});
  }
}

namespace {

result<name_answer> answer_from_store(const name_question& what) {
  const auto store = journal::global().store();
  if (store == nullptr) return exec::ended_error();
  const control::claimed_name name{what.name_space, what.name};
  result<control::name_holder> who = control::name_holder{};
  switch (static_cast<name_act>(what.act)) {
    case name_act::claim:
      who = control::keep_claim(*store, name, {what.node, what.number});
      break;
    case name_act::where:
      who = control::kept_claim(*store, name);
      break;
    case name_act::release:
      if (result<void> is = control::drop_claim(*store, name, {what.node, what.number}); !is) {
        return is.error();
      }
      break;
    default:
      return error(errc::decode_failed, "a question of names that is none");
  }
  if (!who) return who.error();
  return name_answer{who->node, who->number};
}

}  // namespace

// The store may wait for its disk.
void head_facts::answer_name(const voice& say, std::uint64_t number, const name_question& what) {
  try {
    const result<name_answer> got = answer_from_store(what);
    if (!got) got.error().raise();
    const borrowed_workbench on;
    on->out.clear();
    say_answer(say, number, {.task = {1, 1}, .outcome = codec::encode(on->out, *got)});
  } catch (...) {
    const wire::error_record record(describe_current_exception("an actor's name"));
    say_answer(say, number, {.task = {1, 1}, .outcome = record.view()});
  }
}

// Its records stay, while there is room. The keeper may wait for its store just now.
void head_facts::tell_keeper(std::uint64_t gone) noexcept {
  if (!record_keeper::global().knows_any()) return;
  try {
    facts_line::global().add([gone] { record_keeper::global().gone(gone); });
  } catch (...) {
    return;  // they stay for longer, as a living node's
  }
}

void head_facts::on_gone(std::uint64_t node, std::uint64_t epoch) {
  tell_keeper(epoch);
  const bool was_head = node != 0 && node == head_.load();
  if (const auto asked = was_head ? asks() : nullptr) {
    asked->end(error(errc::node_lost, "the node with the cluster's keys and values is lost"));
  }
  std::shared_ptr<worker_facts> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = facts_.find(node);
    if (found == facts_.end()) return;
    gone = std::move(found->second);
    facts_.erase(found);
  }
  gone->end();
}

void head_facts::on_answer(std::span<const std::byte> frame) noexcept {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(frame);
  const auto* const came = read ? std::get_if<wire::result_view>(&read->body) : nullptr;
  const auto asked = asks();
  if (came != nullptr && asked != nullptr) asked->answer(read->head.request.low, *came);
}

}  // namespace manta::inline v0::node
