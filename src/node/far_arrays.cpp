// SPDX-License-Identifier: Apache-2.0
#include "node/far_arrays.hpp"

#include <algorithm>
#include <new>
#include <optional>

#include "node/array_home.hpp"
#include "node/copy_cache.hpp"
#include "node/far_ids.hpp"
#include "node/far_pulls.hpp"
#include "node/resting_array.hpp"
#include "own/room_limits.hpp"

namespace manta::inline v0::node {

namespace {

// The place of an array in a message to another node has these for the segment's name.
constexpr std::uint64_t name_of_file(std::uint32_t file, std::uint32_t inode) noexcept {
  return std::uint64_t{file} << 32U | inode;
}

void drop_all(const std::vector<placed_block*>& all) noexcept {
  for (placed_block* const one : all) one->drop();
}

}  // namespace

/// A segment of another node, as long as something in it is read here.
class far_arrays::mapped_segment {
 public:
  explicit mapped_segment(store::segment_view view) noexcept : view_(std::move(view)) {}
  ~mapped_segment() { array_home::global().forget_segment(key_); }
  mapped_segment(const mapped_segment&) = delete;
  mapped_segment& operator=(const mapped_segment&) = delete;

  const store::segment_view& view() const noexcept { return view_; }
  /// What isolated workers of this node call it: no other segment here has that.
  std::uint64_t key() const noexcept { return key_; }

 private:
  static std::uint64_t next_key() noexcept {
    constexpr std::uint64_t of_others = std::uint64_t{1} << 63U;
    static std::atomic<std::uint64_t> last{0};
    return of_others | ++last;
  }
  const std::uint64_t key_ = next_key();
  const store::segment_view view_;
};

/// An array that lies in another node's segment.
class far_arrays::view_block final : public placed_block {
 public:
  struct source {
    base::id id = {};
    std::uint64_t owner = 0;
    spec::array_place place = {};  // there
  };
  view_block(std::shared_ptr<const mapped_segment> in, const source& from) noexcept
      : placed_block(in->view().bytes().subspan(static_cast<std::size_t>(from.place.at),
                                                static_cast<std::size_t>(from.place.bytes))),
        in_(std::move(in)),
        from_(from) {}

  void name(spec::reference& to) override {
    to.what = array_names::global().name(this);
    to.place = place();
  }
  spec::array_place place() const noexcept override {
    return {in_->key(), from_.place.at, from_.place.bytes};
  }
  int file() const noexcept override { return in_->view().file().number(); }
  bool is_read_in(std::uint64_t node) const noexcept override {
    return global().reaches(*this, node);
  }
  const source& from() const noexcept { return from_; }
  /// The runtime whose nodes count it; 0: its owner was lost before it came.
  std::uint64_t run() const noexcept { return run_; }
  void counts_in(std::uint64_t run) noexcept { run_ = run; }

 private:
  void end() noexcept override {
    array_names::global().forget(this);
    global().left(*this);
    delete this;
  }

  const std::shared_ptr<const mapped_segment> in_;
  const source from_;
  std::uint64_t run_ = 0;  // before others know it
};

far_arrays& far_arrays::global() {
  static auto* const made = new far_arrays;
  return *made;
}

std::uint64_t far_arrays::open(bool maps) noexcept {
  const std::lock_guard lock(mutex_);
  machine_ = maps ? machine_number() : 0;
  return machine_;
}

// ---- the others

void far_arrays::begin() {
  sweep();
  const std::lock_guard lock(mutex_);
  neighbours_.clear();
  living_.clear();
  views_.clear();
  segments_.clear();
  is_open_ = true;
}

void far_arrays::joined(const spec::node_member& one) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_open_ || machine_ == 0 || one.who.machine != machine_) return;
  try {
    other& with = neighbours_[one.epoch];
    if (with.is != nullptr) return;
    with = {one.who.pid, neighbour::find(one.who.pid)};
    if (with.is != nullptr) living_.emplace(one.epoch, with.is);
  } catch (const std::bad_alloc&) {
    return;  // it is lent copies
  }
}

// What it read it may read on, if it lives, and has not heard that it is no member any more.
void far_arrays::gone(std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  const auto found = neighbours_.find(node);
  if (found == neighbours_.end()) return;
  // One that could not be opened was lent nothing, but a third node may have handed it something.
  neighbour_ptr& lost = found->second.is;
  if (lost != nullptr && !living_.contains(node)) return;  // told once more
  if (lost == nullptr) lost = neighbour::find(found->second.pid);
  if (lost != nullptr && !lost->has_exited()) keep_for({lost});
  living_.erase(node);
}

// Under the mutex.
void far_arrays::keep_for(std::vector<neighbour_ptr> by) {
  kept out{std::move(by), {}};
  out.blocks.reserve(lent_.size());
  for (const auto& [id, one] : lent_) out.blocks.insert(one.block);
  kept_.reserve(kept_.size() + 1);
  for (placed_block* const one : out.blocks) ++pins_.find(one)->second.reasons;
  kept_.push_back(std::move(out));
  keeps_.store(true);
}

// Under the mutex, for one reason less. True: the hold is the caller's now.
bool far_arrays::lets_go(placed_block& of) noexcept {
  const auto found = pins_.find(&of);
  if (--found->second.reasons > 0) return false;
  pins_.erase(found);
  pinned_bytes_ -= of.bytes().size();
  return true;
}

void far_arrays::sweep() noexcept {
  if (!keeps()) return;
  const auto is_over = [](const kept& one) {
    return std::ranges::all_of(one.by,
                               [](const neighbour_ptr& each) { return each->has_exited(); });
  };
  std::vector<placed_block*> left;
  {
    const std::lock_guard lock(mutex_);
    const auto first =
        std::partition(kept_.begin(), kept_.end(), [&](const kept& one) { return !is_over(one); });
    try {
      left.reserve(pins_.size());
    } catch (const std::bad_alloc&) {
      return;  // the next time
    }
    for (auto at = first; at != kept_.end(); ++at) {
      for (placed_block* const one : at->blocks) {
        if (lets_go(*one)) left.push_back(one);
      }
    }
    kept_.erase(first, kept_.end());
    keeps_.store(!kept_.empty());
  }
  drop_all(left);
}

// Nobody counts from here on, so what others have is kept for all that may have it.
void far_arrays::close() noexcept {
  std::vector<placed_block*> left;
  {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
    std::vector<neighbour_ptr> by;
    try {
      left.reserve(lent_.size());
      for (const auto& [node, one] : living_) by.push_back(one);
      for (const kept& one : kept_) by.insert(by.end(), one.by.begin(), one.by.end());
      std::erase_if(by, [](const neighbour_ptr& one) { return one->has_exited(); });
      if (!by.empty() && !lent_.empty()) keep_for(std::move(by));
    } catch (const std::bad_alloc&) {
      return;  // all of it is kept
    }
    for (const auto& [id, one] : lent_) {
      pins_.find(one.block)->second.id = {};
      if (lets_go(*one.block)) left.push_back(one.block);
    }
    lent_.clear();
  }
  drop_all(left);
}

// ---- of this node

bool stored_block::is_read_in(std::uint64_t node) const noexcept {
  return far_arrays::global().lends(*this, node);
}

bool far_arrays::lends(const stored_block& block, std::uint64_t node) const noexcept {
  const std::uint64_t most = own::room_limits::most_lent(array_home::global().limit_bytes());
  const std::lock_guard lock(mutex_);
  if (pins_.contains(&block)) return is_open_ && living_.contains(node);
  return may_lend(block.bytes().size(), node, most);
}

bool stored_block::may_stay(std::uint64_t node) const noexcept {
  return far_arrays::global().keeps_for(node);
}

// A neighbour has it to read in place, or as bytes. With others there may be more than half of the
// store: then they are asked to take it, and until they do who makes more waits for room.
bool far_arrays::keeps_for(std::uint64_t node) const noexcept {
  const std::lock_guard lock(mutex_);
  return is_open_ && !living_.contains(node);
}

bool far_arrays::is_crowded() const noexcept {
  const std::uint64_t bytes = pinned_bytes_.load(std::memory_order_relaxed);
  return bytes > 0 && bytes > own::room_limits::most_lent(array_home::global().limit_bytes());
}

bool far_arrays::has_room(std::uint64_t bytes, std::uint64_t node) const noexcept {
  const std::uint64_t most = own::room_limits::most_lent(array_home::global().limit_bytes());
  const std::lock_guard lock(mutex_);
  return may_lend(bytes, node, most);
}

// Under the mutex.
bool far_arrays::may_lend(std::uint64_t bytes, std::uint64_t node,
                          std::uint64_t most) const noexcept {
  const bool is_meant = is_open_ && bytes >= least_lent && living_.contains(node);
  return is_meant && pinned_bytes_ + bytes <= most;
}

far_name far_arrays::name(workbench& on, placed_block& block, spec::reference& to) {
  if (const auto* const view = dynamic_cast<const view_block*>(&block)) {
    to.place = view->from().place;
    return {view->from().id, view->from().owner};
  }
  if (auto* const far = dynamic_cast<distant_block*>(&block)) {
    on.lent.reserve_one();
    if (far_pulls::global().begin_naming(*far)) {
      on.lent.put(far->from().id);
      to.place = {0, on.names_contents() ? far->from().contents : 0, far->from().bytes};
      return {far->from().id, far->from().owner};
    }
    // It was taken since its writer asked for it.
    array_block* const one = far;
    const bool is_away = far->taken() != nullptr &&
                         !far_pulls::wake_taken({&one, 1}, far_pulls::global().may_wait());
    if (is_away) raise_on_disk();
    array_block* const is = far->here();
    if (is == nullptr || is->is_copied()) raise_array_away();  // its runtime has ended
    return name(on, static_cast<placed_block&>(*is), to);
  }
  const auto file = static_cast<std::uint32_t>(block.file());
  const std::uint64_t mapped_as = name_of_file(file, inode_of(block.file()));
  to.place = block.place();
  on.lent.reserve_one();
  const std::uint64_t contents = on.names_contents() ? block.contents() : 0;
  const std::uint64_t self = far_handles::global().self();
  const std::lock_guard lock(mutex_);
  if (!is_open_) exec::ended_error().raise();
  // Who does not map it fetches it.
  to.place = living_.contains(on.goes_to)
                 ? spec::array_place{mapped_as, to.place.at, to.place.bytes}
                 : spec::array_place{0, contents, to.place.bytes};
  const auto [at, is_new] = pins_.try_emplace(&block);
  pin& of = at->second;
  if (of.id != base::id{}) {
    ++lent_.find(of.id)->second.naming;
  } else {
    const base::id id = far_array_id(self, ++last_);
    try {
      lent_.emplace(id, lent{.block = &block, .naming = 1});
    } catch (...) {
      if (is_new) pins_.erase(at);
      throw;
    }
    of.id = id;
    ++of.reasons;
  }
  if (is_new) {
    block.hold();
    pinned_bytes_ += block.bytes().size();
  }
  on.lent.put(of.id);
  return {of.id, self};
}

// Under the mutex. The block, whose hold is the caller's now; null: it is still needed.
placed_block* far_arrays::end_if_unneeded(const base::id& id) noexcept {
  const auto found = lent_.find(id);
  if (found == lent_.end() || found->second.naming > 0) return nullptr;
  if (far_handles::global().is_lent(id)) return nullptr;
  placed_block* const block = found->second.block;
  pin& of = pins_.find(block)->second;
  try {
    // Those that were given up may have been handed it, but for what was named and stayed.
    for (kept& each : kept_) {
      if (found->second.has_left && each.blocks.insert(block).second) ++of.reasons;
    }
  } catch (const std::bad_alloc&) {
    return nullptr;  // it is lent until this node ends
  }
  of.id = {};
  lent_.erase(found);
  return lets_go(*block) ? block : nullptr;
}

void far_arrays::lends_out(std::span<const spec::reference> all) noexcept {
  const auto is_array = [](const spec::reference& one) {
    return one.kind == spec::reference_kind::array;
  };
  if (std::ranges::none_of(all, is_array)) return;
  const std::lock_guard lock(mutex_);
  for (const spec::reference& one : all) {
    const auto found = is_array(one) ? lent_.find(one.what) : lent_.end();
    if (found != lent_.end()) found->second.has_left = true;
  }
}

void far_arrays::named(const base::id& id) noexcept {
  placed_block* last = nullptr;
  bool is_here = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = lent_.find(id);
    is_here = found != lent_.end();
    if (is_here) {
      --found->second.naming;
      last = end_if_unneeded(id);
    }
  }
  if (last != nullptr) last->drop();
  // One of another node (far_pulls::begin_naming); of what is gone nothing is counted any more.
  if (!is_here) far_handles::global().lost_core(id);
}

void far_arrays::freed(const base::id& id) noexcept {
  placed_block* last = nullptr;
  {
    const std::lock_guard lock(mutex_);
    last = end_if_unneeded(id);
  }
  if (last != nullptr) last->drop();
}

far_arrays::stayed far_arrays::measure_stayed() const {
  const far_handles& counts = far_handles::global();
  const std::uint64_t self = counts.self();
  stayed out;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, one] : lent_) {
    if (one.naming == 0 && !counts.is_lent(id)) continue;  // it is about to end
    const auto lendings = counts.lendings_of(id);
    // A neighbour that has it from one which does not map it does not, either.
    const auto is_mapped = [&](const own::references::lending& of) {
      return living_.contains(of.borrower) && (of.lender == self || living_.contains(of.lender));
    };
    // Without any it is in doubt who has it, or it is just named.
    if (!lendings.empty() && std::ranges::all_of(lendings, is_mapped)) continue;
    ++out.arrays;
    out.bytes += one.block->bytes().size();
    for (const own::references::lending& of : lendings) {
      if (!is_mapped(of)) out.in.insert(of.borrower);
    }
  }
  return out;
}

array_block* far_arrays::block_of(const base::id& id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = lent_.find(id);
  if (found == lent_.end()) return nullptr;
  found->second.block->hold();
  return found->second.block;
}

// ---- of others

array_block* far_arrays::view_named(const base::id& id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = views_.find(id);
  if (found == views_.end() || found->second == nullptr) return nullptr;
  return found->second->try_hold() ? found->second : nullptr;
}

namespace {

copy_cache::key copy_of(const spec::reference& came, std::uint64_t owner) noexcept {
  return {owner, came.place.at, came.place.bytes};
}

}  // namespace

array_block* far_arrays::borrow(const spec::reference& came) {
  if (!is_far_array_id(came.what)) return nullptr;
  far_arrivals::one* const from = far_arrivals::find(came.what);
  if (from == nullptr) return nullptr;
  array_block* out = from->array;
  if (out == nullptr) {
    if (from->owner == far_handles::global().self()) return nullptr;
    const bool is_mapped = came.place.segment != 0;
    if (!is_mapped) out = copy_cache::global().find(copy_of(came, from->owner), base::now());
    if (out == nullptr) {
      out = is_mapped ? static_cast<array_block*>(view_of(came, *from))
                      : far_pulls::global().view_of(came, *from);
    }
  }
  from->is_left = false;
  // Without the mutex, since others may be freed by it.
  if (from->is_counted) far_handles::global().read(came.what);
  return out;
}

far_arrays::view_block* far_arrays::view_of(const spec::reference& came,
                                            const far_arrivals::one& from) {
  const std::lock_guard lock(mutex_);
  if (!is_open_) exec::ended_error().raise();  // its owner's counts have ended, or end
  const auto known_view = views_.find(came.what);
  if (known_view != views_.end() && known_view->second != nullptr &&
      known_view->second->try_hold()) {
    return known_view->second;
  }
  std::shared_ptr<const mapped_segment> in = segment_of(from.owner, came.place.segment);
  const std::uint64_t whole = in->view().bytes().size();
  const spec::array_place& at = came.place;
  if (at.at > whole || at.bytes > whole - at.at || at.at % store::allocator::unit != 0) {
    raise(errc::decode_failed, "an array came whose place is not in its segment");
  }
  // What is thrown here ends the block without its word that it is gone.
  std::unique_ptr<view_block> made(new view_block(std::move(in), {came.what, from.owner, at}));
  view_block*& known = views_[came.what];
  if (from.is_counted) made->counts_in(far_handles::global().has_view(came.what));
  known = made.get();
  return made.release();
}

// Under the mutex.
std::shared_ptr<const far_arrays::mapped_segment> far_arrays::segment_of(std::uint64_t owner,
                                                                         std::uint64_t named) {
  const std::pair key{owner, named};
  if (const auto known = segments_.find(key); known != segments_.end()) {
    if (std::shared_ptr<const mapped_segment> is = known->second.lock()) return is;
  }
  const auto found = neighbours_.find(owner);
  // For lack of descriptors, it may be.
  if (found != neighbours_.end() && found->second.is == nullptr) {
    found->second.is = neighbour::find(found->second.pid);
  }
  if (found == neighbours_.end() || found->second.is == nullptr) {
    raise(errc::decode_failed,
          "an array came to be read in place from a node whose process can't be opened here; with "
          "map-arrays = no (MANTA_MAP_ARRAYS=no) it comes as a copy");
  }
  result<store::segment_view> view = found->second.is->map(static_cast<std::uint32_t>(named >> 32U),
                                                           static_cast<std::uint32_t>(named));
  if (!view) view.error().raise();
  auto made = std::make_shared<const mapped_segment>(*std::move(view));
  std::erase_if(segments_, [](const auto& one) { return one.second.expired(); });
  segments_[key] = made;
  return made;
}

bool far_arrays::reaches(const view_block& block, std::uint64_t node) const noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_open_ || block.run() == 0 || block.run() != far_handles::global().run()) return false;
  const std::uint64_t owner = block.from().owner;
  return living_.contains(owner) && (owner == node || living_.contains(node));
}

void far_arrays::left(const view_block& block) noexcept {
  {
    const std::lock_guard lock(mutex_);
    // Another view may have the id by now.
    const auto at = views_.find(block.from().id);
    if (at != views_.end() && at->second == &block) views_.erase(at);
  }
  if (block.run() != 0) far_handles::global().lost_view(block.from().id, block.run());
}

}  // namespace manta::inline v0::node
