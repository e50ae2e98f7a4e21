// SPDX-License-Identifier: Apache-2.0
#include "node/head_facts.hpp"

#include <utility>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/exec/executor.hpp>

#include "node/workbench.hpp"
#include "wire/error_record.hpp"

namespace manta::inline v0::node {

namespace {

bool is_of_workers(wire::question asked) noexcept {
  return asked == wire::question::find_actor || asked == wire::question::actor_end ||
         asked == wire::question::thing || asked == wire::question::delegation ||
         asked == wire::question::future_value || asked == wire::question::cancel_future;
}

void send_answer(peers& by, std::uint64_t to, std::uint64_t question, std::uint64_t number,
                 const wire::result_view& answer) noexcept {
  try {
    const borrowed_workbench on;
    if (!on->writer.write({{1, question}, 1, 0}, answer)) return;
    static_cast<void>(
        by.send_anyway(to, {peers::answer, number}, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    // No memory: who asked hears of it when one of the two nodes ends.
  }
}

}  // namespace

head_facts& head_facts::global() {
  static auto* const made = new head_facts;
  return *made;
}

void head_facts::ask_of(peers& with, std::uint64_t head) {
  head_.store(head);
  with_.store(&with);
  auto made = std::make_shared<worker_questions>(1, &head_facts::send, this, is_making_);
  const std::lock_guard lock(mutex_);
  asks_ = std::move(made);
}

std::shared_ptr<worker_questions> head_facts::asks() noexcept {
  const std::lock_guard lock(mutex_);
  return asks_;
}

void head_facts::close() noexcept {
  with_.store(nullptr);
  if (const auto asked = asks()) asked->end(exec::ended_error());
}

// A store may answer later: it finds no way then.
void head_facts::stop_answering() noexcept {
  std::unordered_map<std::uint64_t, std::shared_ptr<worker_facts>> gone;
  std::shared_ptr<way> back;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(facts_);
    back = std::exchange(back_, nullptr);
    if (asks_ != nullptr) {
      asks_->leave();
      ended_.push_back(std::move(asks_));
      asks_ = nullptr;
    }
  }
  if (back != nullptr) {
    const std::lock_guard lock(back->mutex);
    back->by = nullptr;
  }
  for (const auto& [node, one] : gone) one->end();
  facts_line::of_ends().close();  // what it ends may ask the other one
  facts_line::global().close();
}

void head_facts::send(void* self, workbench& on) noexcept {
  auto* const here = static_cast<head_facts*>(self);
  const base::id request{peers::question, ++here->last_};
  peers* const with = here->with_.load();
  if (with == nullptr) return;  // and what was asked has ended
  const result<void> is =
      with->send_when_room(here->head_.load(), request, on.writer.pieces(), on.writer.size_bytes());
  if (is) return;
  if (const auto asked = here->asks()) asked->end(is.error());
}

std::shared_ptr<worker_facts> head_facts::facts_of(peers& by, std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<worker_facts>& of = facts_[node];
  if (back_ == nullptr) {
    back_ = std::make_shared<way>();
    back_->by = &by;
  }
  if (of == nullptr) {
    of = std::make_shared<worker_facts>(
        [this, back = back_, node](std::uint64_t number, const wire::result_view& answer) {
          const std::lock_guard held(back->mutex);
          if (back->by != nullptr) send_answer(*back->by, node, number, ++last_, answer);
        });
  }
  return of;
}

void head_facts::on_question(peers& by, std::uint64_t from, std::span<const std::byte> frame) {
  std::uint64_t number = 0;
  try {
    const borrowed_workbench on;
    const result<const wire::message_view&> read = on->reader.read(frame);
    if (!read) return;
    number = read->head.request.low;
    const auto* const asked = std::get_if<wire::ask_view>(&read->body);
    if (asked == nullptr || is_of_workers(asked->what)) {
      raise(errc::decode_failed, "a question that no other node asks the head's");
    }
    facts_of(by, from)->ask(number, *asked);
  } catch (...) {
    const wire::error_record record(describe_current_exception("a question of another node"));
    send_answer(by, from, number, ++last_, {.task = {1, 1}, .outcome = record.view()});
  }
}

void head_facts::on_gone(std::uint64_t node) {
  if (const auto asked = node == head_.load() ? asks() : nullptr) {
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
