// SPDX-License-Identifier: Apache-2.0
#include "node/resting_array.hpp"

#include <new>
#include <utility>

#include <manta/spec/error.hpp>

#include "node/far_copies.hpp"

namespace manta::inline v0::node {

namespace {

// The blocks that were pinned so far; given back unless they are taken.
class pinned_blocks {
 public:
  explicit pinned_blocks(std::size_t count) : all_(count) {}
  ~pinned_blocks() {
    for (array_block* const one : all_) {
      if (one != nullptr) one->drop();
    }
  }
  pinned_blocks(const pinned_blocks&) = delete;
  pinned_blocks& operator=(const pinned_blocks&) = delete;
  bool has(std::size_t index) const noexcept { return all_[index] != nullptr; }
  void put(std::size_t index, array_block* one) noexcept { all_[index] = one; }
  std::vector<array_block*> take() noexcept { return std::exchange(all_, {}); }

 private:
  std::vector<array_block*> all_;
};

}  // namespace

stored_block::stored_block(resting_array* of, store::object_store::located at,
                           store::reading reads) noexcept
    : placed_block(reads.bytes().first(static_cast<std::size_t>(of->size()))),
      of_(of),
      segment_(std::move(at.in)),
      view_(std::move(at.view)),
      place_{of->home().key_of(at.at.segment), at.at.at, of->size()},
      reads_(std::move(reads)) {
  of_->hold();
}

void stored_block::name(spec::reference& to) {
  to.what = array_names::global().name(this);
  to.place = place_;
}

void stored_block::end() noexcept {
  array_names::global().forget(this);
  resting_array* const of = of_;
  of->left(this);
  delete this;
  of->drop();
}

stored_block* resting_array::if_pinned() {
  const std::lock_guard lock(mutex_);
  return now_ != nullptr && now_->try_hold() ? now_ : nullptr;
}

stored_block* resting_array::pinned(store::reading reads) {
  // It stays there: it is read.
  auto* const made = new stored_block(this, in_.in->locate(id_), std::move(reads));
  stored_block* first = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (now_ != nullptr && now_->try_hold()) {
      first = now_;
    } else {
      now_ = made;
    }
  }
  if (first == nullptr) return made;
  made->drop();
  return first;
}

void resting_array::left(const stored_block* block) noexcept {
  const std::lock_guard lock(mutex_);
  if (now_ == block) now_ = nullptr;
}

void resting_array::note_lost(const error& why) noexcept {
  const std::lock_guard lock(mutex_);
  lost_ = why;
}

std::optional<error> resting_array::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void resting_array::end() noexcept {
  if (named_ != base::id{}) far_copies::global().left(*this);
  in_.in->erase(id_);
  delete this;
}

stored_block* make_stored_block(const array_home::stored& in, store::reading reads,
                                std::uint64_t size) {
  const store::object_id id = reads.id();
  resting_array* of = nullptr;
  try {
    of = new resting_array(in, id, size);
  } catch (...) {
    in.in->erase(id);
    throw;
  }
  try {
    stored_block* const made = of->pinned(std::move(reads));
    of->drop();
    return made;
  } catch (...) {
    of->drop();
    throw;
  }
}

namespace {

// Those of one store, all together. False: it would take time.
bool wake_of(store::object_store& in, const std::vector<resting_array*>& all, bool waits,
             pinned_blocks& out) {
  std::vector<store::object_id> asked;
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]->home().in.get() != &in) continue;
    asked.push_back(all[i]->id());
    at.push_back(i);
  }
  std::optional<std::vector<store::reading>> got = in.try_read(asked);
  if (!got && !waits) return false;
  if (!got) {
    result<std::vector<store::reading>> read = in.read(asked);
    if (!read) {
      // Which of several it was is not said: each says so itself when it is asked for.
      if (at.size() == 1 && read.error().code() == errc::object_lost) {
        all[at.front()]->note_lost(read.error());
      }
      read.error().raise();
    }
    got = *std::move(read);
  }
  for (std::size_t i = 0; i < at.size(); ++i) {
    out.put(at[i], all[at[i]]->pinned(std::move((*got)[i])));
  }
  return true;
}

}  // namespace

std::optional<std::vector<array_block*>> wake_arrays(const std::vector<resting_array*>& all,
                                                     bool waits) {
  for (const resting_array* const one : all) {
    if (const auto why = one->lost()) why->raise();
  }
  pinned_blocks out(all.size());
  // Nearly always of one store; arrays that outlived their runtime are in another.
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (out.has(i)) continue;
    if (!wake_of(*all[i]->home().in, all, waits, out)) return std::nullopt;
  }
  return out.take();
}

}  // namespace manta::inline v0::node
