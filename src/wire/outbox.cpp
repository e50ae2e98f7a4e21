// SPDX-License-Identifier: Apache-2.0
#include "wire/outbox.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <manta/base/check.hpp>

namespace manta::inline v0::wire {

result<std::uint64_t> outbox::add(const base::id& request, std::vector<std::byte> bytes,
                                  bool ignores_limits) {
  return add(entry{request, std::move(bytes), nullptr, 0, false}, ignores_limits);
}

result<std::uint64_t> outbox::add(const base::id& request, std::shared_ptr<frame_buffer> kept,
                                  bool ignores_limits) {
  return add(entry{request, {}, std::move(kept), 0, false}, ignores_limits);
}

result<std::uint64_t> outbox::add(entry&& one, bool ignores_limits) {
  const std::size_t size = one.bytes().size();
  const bool is_full =
      entries_.size() >= most_.requests || (unanswered_ > 0 && bytes_ + size > most_.bytes);
  if (is_full && !ignores_limits) {
    return error(errc::store_full,
                 fmt::format("wire: a request of {} bytes was to be sent, {} requests of {} bytes "
                             "have no answer, allowed are {} of {}; send it when some of them have",
                             size, unanswered_, bytes_, most_.requests, most_.bytes));
  }
  entries_.push_back(std::move(one));
  ++unanswered_;
  bytes_ += size;
  return first_ + entries_.size() - 1;
}

const outbox::letter* outbox::next() {
  while (cursor_ < entries_.size() && entries_[cursor_].is_answered) ++cursor_;
  if (cursor_ == entries_.size()) return nullptr;
  const entry& of = entries_[cursor_];
  letter_ = {of.request, first_ + cursor_, of.sendings, of.bytes(), of.kept};
  return &letter_;
}

void outbox::sent(base::time_point now) {
  MANTA_CHECK_VALUE(cursor_ < entries_.size(), cursor_);
  if (cursor_ == 0) since_ = now;
  ++entries_[cursor_].sendings;
  ++cursor_;
  letter_ = {};  // or it would keep a long one's bytes
}

void outbox::restart() noexcept {
  cursor_ = 0;
  wait_ = most_.first_wait;
}

base::deadline outbox::due() const noexcept {
  if (unanswered_ == 0 || cursor_ == 0) return std::nullopt;
  return since_ + wait_;
}

void outbox::on_time(base::time_point now) noexcept {
  const base::deadline at = due();
  if (!at.has_value() || now < *at) return;
  cursor_ = 0;
  since_ = now;
  wait_ = std::min(2 * wait_, most_.longest_wait);
}

bool outbox::on_answer(std::uint64_t number, const base::id& request, base::time_point now) {
  if (number < first_ || number - first_ >= entries_.size()) return false;
  entry& of = entries_[number - first_];
  if (of.is_answered || of.request != request || of.sendings == 0) return false;
  of.is_answered = true;
  bytes_ -= of.bytes().size();
  of.own = {};
  of.kept = nullptr;
  --unanswered_;
  since_ = now;
  wait_ = most_.first_wait;
  while (!entries_.empty() && entries_.front().is_answered) {
    entries_.pop_front();
    ++first_;
    cursor_ -= cursor_ > 0 ? 1 : 0;
  }
  return true;
}

}  // namespace manta::inline v0::wire
