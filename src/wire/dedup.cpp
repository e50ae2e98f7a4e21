// SPDX-License-Identifier: Apache-2.0
#include "wire/dedup.hpp"

#include <utility>

#include <manta/base/check.hpp>

namespace manta::inline v0::wire {

// False: some of them have no answer.
bool dedup::acknowledge(std::uint64_t number) {
  if (number <= acknowledged_) return true;
  if (number - acknowledged_ > window_.size()) return false;
  for (std::uint64_t i = 0; i < number - acknowledged_; ++i) {
    if (!window_[i].is_answered) return false;
  }
  for (; acknowledged_ < number; ++acknowledged_) {
    bytes_ -= window_.front().answer.size();
    window_.pop_front();
  }
  return true;
}

dedup::verdict dedup::look(const numbered& at) {
  if (at.epoch < epoch_) return verdict::stale;
  if (at.number == 0 || at.acknowledged >= at.number) return verdict::wrong;
  if (at.epoch > epoch_) {
    epoch_ = at.epoch;
    acknowledged_ = 0;
    window_.clear();
    bytes_ = 0;
  }
  if (!acknowledge(at.acknowledged)) return verdict::wrong;
  if (at.number <= acknowledged_) return verdict::over;
  const std::uint64_t place = at.number - acknowledged_ - 1;
  if (place > window_.size()) return verdict::early;
  if (place == window_.size()) {
    if (window_.size() >= most_.requests || bytes_ >= most_.bytes) return verdict::full;
    window_.push_back({at.request, false, {}});
    return verdict::fresh;
  }
  const entry& found = window_[place];
  if (found.request != at.request) return verdict::wrong;
  return found.is_answered ? verdict::answered : verdict::under_way;
}

bool dedup::answer(std::uint64_t epoch, std::uint64_t number, std::vector<std::byte> bytes) {
  if (epoch != epoch_ || number <= acknowledged_) return false;
  if (number - acknowledged_ > window_.size()) return false;
  entry& found = window_[number - acknowledged_ - 1];
  if (std::exchange(found.is_answered, true)) return false;
  bytes_ += bytes.size();
  found.answer = std::move(bytes);
  return true;
}

std::span<const std::byte> dedup::answer_of(std::uint64_t number) const {
  const std::uint64_t place = number - acknowledged_ - 1;
  MANTA_CHECK_VALUE(place < window_.size(), number);
  return window_[place].answer;
}

}  // namespace manta::inline v0::wire
