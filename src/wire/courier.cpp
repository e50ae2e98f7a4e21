// SPDX-License-Identifier: Apache-2.0
#include "wire/courier.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <manta/base/check.hpp>

namespace manta::inline v0::wire {

namespace {

enum class kind : std::uint32_t { request = 1, answer = 2, fenced = 3 };

constexpr std::chrono::nanoseconds first_dial_wait = std::chrono::milliseconds(10);
constexpr std::chrono::nanoseconds longest_dial_wait = std::chrono::seconds(1);
// From here on a request is copied once only, into what leaves.
constexpr std::size_t long_request = std::size_t{16} << 10U;
constexpr std::size_t most_put_off = 64;
constexpr std::size_t most_put_off_bytes = std::size_t{64} << 10U;

}  // namespace

// As it lies in a message.
struct courier::head {
  kind is = kind::request;
  std::uint32_t sending = 0;
  std::uint64_t epoch = 0;
  base::id sender = {};
  base::id request = {};
  std::uint64_t number = 0;
  std::uint64_t acknowledged = 0;
};

courier::courier(settings how, visitor& with)
    : how_(std::move(how)), visitor_(with), out_(how_.out), in_(how_.in) {
  static_assert(sizeof(head) == segment_alignment);
}

courier::~courier() {
  link_ptr last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(link_);
  }
  // A pump of the loop's thread may hold it still, but is not running any more after this.
  if (last != nullptr) last->on_arrival(nullptr);
}

result<void> courier::request(const base::id& id,
                              std::span<const std::span<const std::byte>> pieces, std::size_t size,
                              bool ignores_limits) {
  MANTA_CHECK(id != base::id{});
  std::vector<std::byte> bytes;
  std::shared_ptr<frame_buffer> kept;
  if (size >= long_request) {
    kept = std::make_shared<frame_buffer>();
    std::byte* to = kept->reset(outbox::head_room + size).data() + outbox::head_room;
    for (const auto piece : pieces) to = std::copy(piece.begin(), piece.end(), to);
  } else {
    bytes.reserve(size);
    for (const auto piece : pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  const std::lock_guard lock(mutex_);
  if (fenced_.has_value()) return *fenced_;
  const result<std::uint64_t> number = kept != nullptr
                                           ? out_.add(id, std::move(kept), ignores_limits)
                                           : out_.add(id, std::move(bytes), ignores_limits);
  if (!number) return number.error();
  try {
    if (link_ != nullptr) send_due(*link_, how_.clock());
  } catch (const std::bad_alloc&) {
    // It is taken, and leaves with a later pump.
  }
  return {};
}

void courier::answer(const arrival& to, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (!in_.answer(to.head.epoch, to.number, std::move(bytes)) || link_ == nullptr) return;
  const head of{kind::answer, 0, to.head.epoch, how_.peer, to.head.request, to.number, 0};
  if (in_.answer_of(to.number).empty() && puts_off(to, of)) return;
  // What does not leave is asked for again.
  send(*link_, of, in_.answer_of(to.number));
}

// With the lock. A result is mostly a request of its own and comes a moment later: a message less,
// and one that has not to wait until the other side has taken the first.
bool courier::puts_off(const arrival& to, const head& of) {
  if (how_.answers_wait == std::chrono::nanoseconds()) return false;
  try {
    put_off_.push_back(of);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (put_off_.size() == 1) put_off_until_ = how_.clock() + how_.answers_wait;
  put_off_bytes_ += to.message.size();
  if (put_off_.size() >= most_put_off || put_off_bytes_ >= most_put_off_bytes) send_answers(*link_);
  return true;
}

// With the lock. What a full link does not take waits once more.
void courier::send_answers(link& to) {
  auto at = put_off_.begin();
  while (at != put_off_.end() && send(to, *at, {})) ++at;
  put_off_.erase(put_off_.begin(), at);
  if (put_off_.empty()) {
    put_off_bytes_ = 0;
  } else {
    put_off_until_ = how_.clock() + how_.answers_wait;
  }
}

void courier::attach(std::unique_ptr<link> next) {
  use(std::move(next));
  pump(how_.clock());
}

void courier::use(link_ptr next) {
  if (how_.on_arrival) {
    next->on_arrival(how_.on_arrival);
  } else {
    next->on_arrival([this] { pump(how_.clock()); });
  }
  link_ptr before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(link_, std::move(next));
    put_off_.clear();  // they are asked for again
    put_off_bytes_ = 0;
    out_.restart();
  }
  // Not under the lock, which what it tells would take.
  if (before != nullptr) before->on_arrival(nullptr);
}

// Who asks while one is at it leaves a note; that one looks again.
void courier::pump(base::time_point now) {
  if (asked_.fetch_add(1) > 0) return;
  std::uint32_t seen = 0;
  try {
    do {
      seen = asked_.load();
      work(now);
    } while (!asked_.compare_exchange_strong(seen, 0));
  } catch (...) {
    asked_.store(0);
    throw;
  }
}

courier::link_ptr courier::usable_link(base::time_point now) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_over = link_ == nullptr || link_->state().ended.has_value();
    if (!is_over || how_.dial == nullptr || now < dial_at_ || fenced_.has_value()) return link_;
    dial_wait_ = std::clamp(2 * dial_wait_, first_dial_wait, longest_dial_wait);
    dial_at_ = now + dial_wait_;
  }
  if (link_ptr next = how_.dial(); next != nullptr) use(std::move(next));
  const std::lock_guard lock(mutex_);
  return link_;
}

void courier::work(base::time_point now) {
  const link_ptr at = usable_link(now);
  if (at == nullptr) return;
  frame_buffer message;
  while (at->take(message) == link::got::message) {
    if (handle(*at, message, now)) continue;
    at->close();
    const std::lock_guard lock(mutex_);
    ++nonsense_;
    break;
  }
  const std::lock_guard lock(mutex_);
  out_.on_time(now);
  if (at != link_) return;
  if (!put_off_.empty() && now >= put_off_until_) send_answers(*at);
  send_due(*at, now);
}

// False: no courier sends that.
bool courier::handle(link& from, frame_buffer& memory, base::time_point now) {
  std::span<const std::byte> message = memory.bytes();
  head of;
  if (message.size() < sizeof of) return false;
  std::memcpy(&of, message.data(), sizeof of);
  message = message.subspan(sizeof of);
  switch (of.is) {
    case kind::request:
      return take_request(from, of, memory);
    case kind::answer:
      return take_answer(of, message, now);
    case kind::fenced: {
      if (of.sender != how_.self || of.epoch != how_.epoch) return true;  // of a life before
      const std::lock_guard lock(mutex_);
      fenced_ = error(errc::node_lost,
                      fmt::format("wire: the other process has heard of a later epoch of this one "
                                  "than {}, and takes nothing more from it; end this process",
                                  how_.epoch));
      return true;
    }
  }
  return false;
}

bool courier::take_request(link& from, const head& of, frame_buffer& memory) {
  if (of.sender != how_.peer || of.request == base::id{}) return false;
  {
    const std::lock_guard lock(mutex_);
    dial_wait_ = {};
    switch (in_.look({of.request, of.epoch, of.number, of.acknowledged})) {
      case dedup::verdict::fresh:
        break;
      case dedup::verdict::answered: {
        const head back{kind::answer, 0, of.epoch, of.sender, of.request, of.number, 0};
        send(from, back, in_.answer_of(of.number));
        return true;
      }
      case dedup::verdict::stale:
        send(from, {kind::fenced, 0, of.epoch, of.sender, of.request, of.number, 0}, {});
        return true;
      case dedup::verdict::wrong:
        return false;
      default:
        return true;
    }
  }
  const std::span<const std::byte> message = memory.bytes().subspan(sizeof of);
  visitor_.on_request({{of.request, of.epoch, of.sending}, of.number, message, &memory});
  return true;
}

bool courier::take_answer(const head& of, std::span<const std::byte> message,
                          base::time_point now) {
  if (of.sender != how_.self) return false;
  if (of.epoch != how_.epoch) return true;  // to a life before
  {
    const std::lock_guard lock(mutex_);
    dial_wait_ = {};
    if (!out_.on_answer(of.number, of.request, now)) return true;  // one more of them
  }
  visitor_.on_answer(of.request, message);
  return true;
}

void courier::send_due(link& to, base::time_point now) {
  while (const outbox::letter* const letter = out_.next()) {
    send_answers(to);
    if (!send(to, *letter)) return;  // full: when something is answered, or in time
    out_.sent(now);
  }
}

// A long one leaves as it lies there the first time. Any other time what has it may be at it still,
// and its head must not change.
bool courier::send(link& to, const outbox::letter& letter) const {
  const head of{kind::request,  letter.sending, how_.epoch,         how_.self,
                letter.request, letter.number,  out_.acknowledged()};
  if (letter.kept == nullptr || letter.sending > 0) return send(to, of, letter.bytes);
  static_assert(sizeof of == outbox::head_room);
  std::memcpy(letter.kept->room().data(), &of, sizeof of);
  return static_cast<bool>(to.send_kept(letter.kept));
}

bool courier::send(link& to, const head& of, std::span<const std::byte> message) const {
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(&of, 1)), message};
  return static_cast<bool>(to.send(pieces, sizeof of + message.size()));
}

base::deadline courier::due() const {
  const std::lock_guard lock(mutex_);
  const bool is_over = link_ == nullptr || link_->state().ended.has_value();
  if (is_over) return how_.dial == nullptr ? std::nullopt : base::deadline(dial_at_);
  base::deadline out = out_.due();
  if (!put_off_.empty() && (!out.has_value() || put_off_until_ < *out)) out = put_off_until_;
  return out;
}

bool courier::is_linked() const {
  const std::lock_guard lock(mutex_);
  if (link_ == nullptr) return false;
  const link_state is = link_->state();
  return !is.ended.has_value() && is.process != base::id{};
}

std::size_t courier::unanswered() const {
  const std::lock_guard lock(mutex_);
  return out_.unanswered();
}

std::size_t courier::unanswered_bytes() const {
  const std::lock_guard lock(mutex_);
  return out_.unanswered_bytes();
}

std::uint64_t courier::nonsense() const {
  const std::lock_guard lock(mutex_);
  return nonsense_;
}

}  // namespace manta::inline v0::wire
