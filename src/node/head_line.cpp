// SPDX-License-Identifier: Apache-2.0
#include "node/head_line.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "control/kept_claims.hpp"
#include "node/facts_line.hpp"
#include "node/head_facts.hpp"
#include "node/journal.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

constexpr auto between_looks_at_guests = 1s;
constexpr auto between_looks_at_waiting = 5ms;
constexpr std::size_t most_letters = std::size_t{1} << 16U;
constexpr std::size_t most_letter_bytes = std::size_t{256} << 20U;
// What the high half of a request's id says.
constexpr std::uint64_t of_question = 1;
constexpr std::uint64_t of_answer = 2;

wire::courier::settings courier_to(const base::id& self, std::uint64_t epoch, const base::id& peer,
                                   const std::function<void()>& wake) {
  return {.self = self,
          .epoch = epoch,
          .peer = peer,
          .out = {.requests = most_letters, .bytes = most_letter_bytes},
          .in = {.requests = most_letters, .bytes = most_letter_bytes},
          .on_arrival = wake};
}

}  // namespace

// ---- a node's

head_line::head_line(settings how, head_line* before)
    : how_(std::move(how)),
      mail_(
          [this] {
            wire::courier::settings out = courier_to(how_.self, how_.epoch, how_.head, how_.wake);
            out.dial = how_.dial;
            return out;
          }(),
          *this) {
  if (before == nullptr) return;
  const std::lock_guard lock(before->mutex_);
  before->is_replaced_ = true;
  waiting_ = std::move(before->waiting_);
  waiting_bytes_ = std::exchange(before->waiting_bytes_, 0);
}

std::uint64_t head_line::posted() const {
  const std::lock_guard lock(mutex_);
  return posted_;
}

// Under the mutex. False: there is no room for it now.
bool head_line::post(std::uint64_t number, pieces message, std::size_t size) {
  if (!mail_.request({of_question, last_ + 1}, message, size)) return false;
  ++last_;
  posted_ = std::max(posted_, number);
  return true;
}

head_line::taken head_line::send(std::uint64_t number, pieces message, std::size_t size) {
  const std::lock_guard lock(mutex_);
  if (is_replaced_) return taken::replaced;
  if (waiting_.empty() && mail_.is_linked()) {
    if (!post(number, message, size)) return is_full();
    how_.wake();
    return taken::yes;
  }
  if (waiting_.size() >= most_letters || waiting_bytes_ + size > most_bytes) return is_full();
  letter kept{.number = number, .message = {}};
  kept.message.reserve(size);
  for (const std::span<const std::byte> one : message) {
    kept.message.insert(kept.message.end(), one.begin(), one.end());
  }
  waiting_.push_back(std::move(kept));
  waiting_bytes_ += size;
  how_.wake();
  return taken::yes;
}

// Under the mutex. Whether there is room by then is found out by who asks again.
head_line::taken head_line::is_full() noexcept {
  was_full_ = true;
  return taken::full;
}

void head_line::pump(base::time_point now) {
  mail_.pump(now);
  if (say_waiting()) head_facts::global().has_room();
}

// Whether somebody may be waiting for room.
bool head_line::say_waiting() {
  const std::lock_guard lock(mutex_);
  const bool was_full = std::exchange(was_full_, false);
  if (waiting_.empty() || !mail_.is_linked()) return was_full;
  bool has_said = false;
  while (!waiting_.empty()) {
    const letter& first = waiting_.front();
    const std::span<const std::byte> one = first.message;
    if (!post(first.number, {&one, 1}, one.size())) break;  // when there is room
    has_said = true;
    waiting_bytes_ -= one.size();
    waiting_.pop_front();
  }
  if (has_said) how_.wake();
  return was_full;
}

// Nobody tells when the other end has greeted.
base::deadline head_line::due() const {
  const base::deadline its = mail_.due();
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return its;
  return base::earlier(its, base::now() + between_looks_at_waiting);
}

// Not told here: what it ends may be the user's.
void head_line::on_request(const wire::arrival& came) {
  mail_.answer(came, {});
  if (came.head.request.high != of_answer) return;
  try {
    facts_line::of_answers().add(
        [kept = std::vector<std::byte>(came.message.begin(), came.message.end())] {
          head_facts::global().on_answer(kept);
        });
  } catch (...) {
    return;  // who asked hears of it when the runtime ends
  }
}

// ---- the head's

struct head_office::guest final : wire::courier::visitor {
  head_facts::asker who;
  std::mutex mutex;  // guards the next two
  std::uint64_t last = 0;
  bool is_over = false;
  std::function<void()> wake;
  std::unique_ptr<wire::courier> mail;

  void on_request(const wire::arrival& came) override;
  void on_answer(const base::id& /*request*/, std::span<const std::byte> /*answer*/) override {}
  void say(std::span<const std::span<const std::byte>> pieces, std::size_t size) {
    const std::lock_guard lock(mutex);
    if (is_over) return;
    // False is of one that is gone.
    static_cast<void>(mail->request({of_answer, ++last}, pieces, size, true));
    wake();
  }
  std::weak_ptr<guest> self;
};

void head_office::guest::on_request(const wire::arrival& came) {
  if (came.head.request.high == of_question) {
    head_facts::global().on_question(
        who,
        [to = self](std::span<const std::span<const std::byte>> pieces, std::size_t size) {
          if (const auto is = to.lock()) is->say(pieces, size);
        },
        came.message);
  }
  mail->answer(came, {});
}

head_office::head_office(const base::id& self, std::function<bool(const base::id&)> lives,
                         std::function<void()> wake)
    : self_(self), lives_(std::move(lives)), wake_(std::move(wake)) {}

head_office::~head_office() {
  for (const auto& [process, one] : guests_) {
    const std::lock_guard lock(one->mutex);
    one->is_over = true;
  }
}

// One that the head does not know dials again: its rows may not be read yet.
void head_office::accept(std::unique_ptr<wire::link> from, const wire::greeting& by) {
  if (!lives_(by.sender)) return;
  auto known = guests_.find(by.sender);
  if (known == guests_.end()) known = guests_.emplace(by.sender, made_for(by)).first;
  known->second->mail->attach(std::move(from));
  wake_();
}

std::shared_ptr<head_office::guest> head_office::made_for(const wire::greeting& by) {
  auto made = std::make_shared<guest>();
  made->self = made;
  made->who = {++last_, by.epoch};
  made->wake = wake_;
  made->mail = std::make_unique<wire::courier>(courier_to(self_, 1, by.sender, wake_), *made);
  return made;
}

void head_office::pump(base::time_point now) {
  if (now >= looks_at_) forget_ended(now);
  for (const auto& [process, one] : guests_) one->mail->pump(now);
}

void head_office::forget_ended(base::time_point now) {
  looks_at_ = now + between_looks_at_guests;
  for (auto at = guests_.begin(); at != guests_.end();) {
    const auto one = at++;
    if (lives_(one->first)) continue;
    {
      const std::lock_guard lock(one->second->mutex);
      one->second->is_over = true;
    }
    head_facts::global().on_gone(one->second->who.number, one->second->who.epoch);
    gone_.push_back(one->second->who.epoch);
    guests_.erase(one);
  }
  drop_claims();
}

// Behind all that they had asked for. What their actors would have said as they ended was said too
// late for most: at a runtime's end nothing is asked any more by then.
void head_office::drop_claims() noexcept {
  if (gone_.empty()) return;
  try {
    facts_line::global().add([of = gone_] {
      const auto store = journal::global().store();
      if (store != nullptr) static_cast<void>(control::drop_claims_of(*store, of));
    });
    gone_.clear();
  } catch (const std::exception&) {
    return;  // no memory, no thread: at the next look
  }
}

base::deadline head_office::due() const {
  base::deadline out;
  for (const auto& [process, one] : guests_) out = base::earlier(out, one->mail->due());
  return guests_.empty() ? out : base::earlier(out, looks_at_);
}

}  // namespace manta::inline v0::node
