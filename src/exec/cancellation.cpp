// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/cancellation.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <manta/exec/call_extra.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/named_jobs.hpp>
#include <manta/exec/observer.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/suspension.hpp>
#include <manta/exec/theft.hpp>

namespace manta::inline v0::exec {

constinit std::atomic<caller_listener> listens_to_callers{nullptr};
constinit std::atomic<std::uint64_t> cancelled_filter{0};

namespace {

// The low words of cancelled callers' ids. Readers take no lock: a slot is 0 or a key. When the
// newer half is full the older one is emptied, so that what is asked for lately is there.
class id_table {
 public:
  bool has(std::uint64_t key) const noexcept {
    return has(halves_[0], key) || has(halves_[1], key) || (key != 0 && has_all());
  }
  void insert_all() noexcept { has_all_.store(true); }
  bool has_all() const noexcept { return has_all_.load(std::memory_order_relaxed); }

  /// False when it was there, or there is no memory for it.
  bool insert(std::uint64_t key) noexcept {
    if (key == 0 || has(key)) return false;
    if (halves_[0].load() == nullptr && !allocate()) return false;
    if (count_ == half_full) {
      current_ ^= 1U;
      count_ = 0;
      for (auto& slot : *halves_[current_].load()) slot.store(0, std::memory_order_relaxed);
    }
    half& into = *halves_[current_].load();
    std::size_t at = place_of(key);
    while (into[at].load(std::memory_order_relaxed) != 0) at = (at + 1) % slots;
    into[at].store(key, std::memory_order_release);
    ++count_;
    return true;
  }
  void clear() noexcept {
    for (auto& h : halves_) {
      if (h.load() == nullptr) continue;
      for (auto& slot : *h.load()) slot.store(0, std::memory_order_relaxed);
    }
    count_ = 0;
    has_all_.store(false);
  }

 private:
  static constexpr std::size_t slots = 65536;
  static constexpr std::size_t half_full = 32768;
  using half = std::array<std::atomic<std::uint64_t>, slots>;

  static std::size_t place_of(std::uint64_t key) noexcept {
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15U >> 48U) % slots;
  }
  static bool has(const std::atomic<half*>& in, std::uint64_t key) noexcept {
    const half* const table = in.load(std::memory_order_acquire);
    if (table == nullptr) return false;
    std::size_t at = place_of(key);
    for (;;) {
      const std::uint64_t found = (*table)[at].load(std::memory_order_acquire);
      if (found == key) return true;
      if (found == 0) return false;
      at = (at + 1) % slots;
    }
  }
  bool allocate() noexcept {
    auto* const first = new (std::nothrow) half{};
    auto* const second = new (std::nothrow) half{};
    if (first == nullptr || second == nullptr) {
      delete first;
      delete second;
      return false;
    }
    halves_[1].store(second);
    halves_[0].store(first);
    return true;
  }

  std::array<std::atomic<half*>, 2> halves_{};
  std::atomic<bool> has_all_{false};
  std::size_t current_ = 0;
  std::size_t count_ = 0;
};

// 0 means none; one id in 2^64 can't be cancelled with its children.
std::uint64_t key_of(const base::id& id) noexcept { return id.low; }

base::id id_of(const job* j) noexcept { return id_of(*j); }

}  // namespace

// Everything about cancelled callers, under one mutex but for the table's readers.
struct families {
  struct stop_entry {
    std::uint64_t caller = 0;
    std::stop_source source{std::nostopstate};
  };

  std::mutex mutex;
  id_table cancelled;
  std::unordered_map<const job*, stop_entry> stops;

  static families& global() {
    static auto* const made = new families;
    return *made;
  }

  bool enter(std::uint64_t key) noexcept {
    if (!cancelled.insert(key)) return false;
    cancelled_filter.fetch_or(std::uint64_t{1} << (key & 63U), std::memory_order_seq_cst);
    return true;
  }

  /// A running child of a cancelled caller is cancelled: its id is entered. True when it was new.
  bool look_at(const running_place& place) noexcept {
    const std::uint64_t caller = place.caller.load(std::memory_order_acquire);
    if (caller == 0) return false;
    const std::uint64_t self = place.self.load(std::memory_order_acquire);
    // The pair belongs together when the caller is still the same, or is a sibling's.
    if (self == 0 || place.caller.load(std::memory_order_acquire) != caller) return false;
    return cancelled.has(caller) && enter(self);
  }

  void enter_descendants() noexcept {
    for (bool again = true; again;) {
      heavy_barrier();
      again = false;
      executor::each_queue([&](work_queue& q) {
        for (const running_place& place : q.places) again |= look_at(place);
      });
      // Coroutines that have suspended are on no thread's stack.
      struct look {
        families& at;
        bool& again;
      } all{*this, again};
      each_coroutine(
          [](void* to, const running_place& place) {
            auto& of = *static_cast<look*>(to);
            of.again |= of.at.look_at(place);
          },
          &all);
    }
  }

  /// Suspended coroutines, `only` or those of cancelled callers, go on with manta::cancelled.
  suspension* interrupt(const job* only, bool with_children) noexcept {
    struct choice {
      const families& of;
      const job* only;
      bool with_children;
    } const chosen{*this, only, with_children};
    return interrupt_coroutines(
        [](const void* by, job& j, const running_place& place) {
          const auto& c = *static_cast<const choice*>(by);
          const bool is_child =
              c.with_children && c.of.cancelled.has(place.caller.load(std::memory_order_relaxed));
          if (&j != c.only && !is_child) return false;
          j.ask_to_stop();
          return true;
        },
        &chosen);
  }

  std::vector<std::stop_source> sources(const job* only, bool with_children) {
    std::vector<std::stop_source> found;
    for (const auto& [of, entry] : stops) {
      if (of == only || (with_children && cancelled.has(entry.caller))) {
        found.push_back(entry.source);
      }
    }
    return found;
  }
};

bool is_cancelled_caller(const base::id& caller) noexcept {
  return families::global().cancelled.has(key_of(caller));
}

namespace {

// Never destroyed: late threads may need it.
const error* make_cancelled_error() noexcept {
  try {
    return new error(errc::cancelled, "cancelled before it began; it never ran");
  } catch (const std::bad_alloc&) {
    static const error instead = error::out_of_memory();
    return &instead;
  }
}

}  // namespace

const error& cancelled_error() noexcept {
  static const error* const made = make_cancelled_error();
  return *made;
}

namespace {

// Under the families' mutex: those who are asked to stop, `only` or children of cancelled callers.
// The users' callbacks run without that mutex, in tell().
struct asked_to_stop {
  std::vector<std::stop_source> sources;
  suspension* interrupted = nullptr;

  asked_to_stop(families& f, const job* only, bool with_children) noexcept
      : interrupted(f.interrupt(only, with_children)) {
    try {
      sources = f.sources(only, with_children);
    } catch (const std::bad_alloc&) {
      // Tasks that poll are told all the same.
    }
  }
  void tell() noexcept {
    for (std::stop_source& s : sources) s.request_stop();
  }
};

}  // namespace

void request_stop(job* j, bool with_children) noexcept {
  families& f = families::global();
  std::unique_lock lock(f.mutex);
  // First: who sees that it is to stop, and calls something then, has its calls cancelled.
  if (with_children) f.enter(key_of(id_of(j)));
  j->ask_to_stop();
  if (with_children) f.enter_descendants();
  asked_to_stop asked(f, j, with_children);
  lock.unlock();
  queue_interrupted(asked.interrupted);
  if (const call_extra* const with = j->extra(); with != nullptr && with->is_outside) {
    if (outside* const away = elsewhere.load(std::memory_order_acquire)) away->stop(j);
  }
  if (far_thief* const afar = thief_from_afar.load(std::memory_order_acquire)) {
    if ((j->word() & job_bits::escaped) != 0) afar->stop(j, with_children);
    if (with_children) afar->stop_children();
  }
  asked.tell();
}

bool is_all_cancelled() noexcept { return families::global().cancelled.has_all(); }

void cancel_all() noexcept {
  families& f = families::global();
  std::unique_lock lock(f.mutex);
  f.cancelled.insert_all();
  cancelled_filter.store(~std::uint64_t{0}, std::memory_order_seq_cst);
  heavy_barrier();
  asked_to_stop asked(f, nullptr, true);
  lock.unlock();
  queue_interrupted(asked.interrupted);
  asked.tell();
}

namespace {

// An actor's call that has not begun ends now; the actor drops its arguments when it comes to it.
bool withdraw_call(job* call, const error& reason) noexcept {
  call->ask_to_stop();
  heavy_barrier();
  if (call->needs.load(std::memory_order_relaxed) == job::begun || !call->try_claim()) return false;
  new (call->slot(1)) error(reason);
  call->finish(job_bits::ready | job_bits::failed, 0);
  return true;
}

bool is_open_alias(const job* j) noexcept {
  return (j->word() & (job_bits::aliased | job_bits::ready)) == job_bits::aliased;
}

}  // namespace

bool withdraw_job(job* j, const error& reason) noexcept {
  return j->ops->origin != nullptr ? withdraw_call(j, reason) : j->withdraw(reason);
}

bool cancel_job(job* j, bool with_children) noexcept {
  for (;;) {
    const job_ref end(j->awaited());
    // Nobody runs what somebody fills by hand: the part of a split future, a monitor.
    if (end->is_ready()) return false;
    if (end->ops->run == nullptr) return cancel_far(end.get(), {.with_children = with_children});
    if (withdraw_job(end.get(), cancelled_error())) return true;
    // A call was asked to stop by that already, and may have obeyed.
    if (end->ops->origin == nullptr && end->is_ready()) return false;
    request_stop(end.get(), with_children);
    if (!is_open_alias(end.get())) return true;  // else it delegated meanwhile
  }
}

namespace {

const char* what_is_awaited(const job& j, const call_extra& with) noexcept {
  if (with.claim != nullptr && with.claim->is_waiting()) return "the resources it asked for";
  if (j.ops->origin != nullptr) return "its actor";
  return j.needs.load(std::memory_order_relaxed) != 0 ? "its arguments" : "a worker";
}

error timed_out_error_of(const job* j, bool has_begun) noexcept {
  try {
    const call_extra* const with = j->extra();
    const std::string name = with->name != nullptr ? *with->name : readable_name(j->ops->function);
    return error(
        errc::timed_out,
        has_begun
            ? fmt::format("{} had not ended at its deadline; it was asked to stop. Give it more "
                          "time, or make it look at this_task::is_cancelled()",
                          name)
            : fmt::format("{} had not begun at its deadline, and will not: it waited for {}. Give "
                          "it more time, or the machine less to do",
                          name, what_is_awaited(*j, *with)));
  } catch (...) {
    return error::out_of_memory();
  }
}

// One that waits elsewhere: who hears that it has timed out may rely on it that it never begins.
bool take_back(job* j, const error& reason) noexcept {
  const call_extra* const with = j->extra();
  if (j->ops->origin != nullptr || with == nullptr || !with->is_outside) return false;
  outside* const away = elsewhere.load(std::memory_order_acquire);
  return away != nullptr && away->take_back(j, reason);
}

}  // namespace

void expire_job(job* j) noexcept {
  if (j->is_ready()) return;
  const error not_begun = timed_out_error_of(j, false);
  if (withdraw_job(j, not_begun) || take_back(j, not_begun)) return;
  const job_ref end(j->awaited());
  if (!j->end_late(timed_out_error_of(j, true))) return;
  if (end.get() == j) {
    request_stop(j, true);
  } else {
    cancel_job(end.get(), true);
  }
}

bool is_stop_requested(context& of) noexcept {
  const job* const j = of.running;
  if (j == nullptr) return false;
  if ((j->word() & job_bits::cancel) != 0) return true;
  return may_be_cancelled(j->parent) && is_cancelled_caller(j->parent);
}

namespace {

std::stop_source source_of(context& of) {
  families& f = families::global();
  const std::lock_guard lock(f.mutex);
  families::stop_entry& entry = f.stops[of.running];
  if ((of.endings & context_endings::stop) == 0) {
    entry.caller = key_of(of.running->parent);
    entry.source = std::stop_source();
    of.endings |= context_endings::stop;
  }
  return entry.source;
}

}  // namespace

std::stop_token stop_token_of(context& of) {
  if (of.running == nullptr) return {};
  std::stop_source source = source_of(of);
  // The canceller set its mark before it looked for the source, or finds it.
  if (is_stop_requested(of)) source.request_stop();
  return source.get_token();
}

void end_stop(context& of) noexcept {
  if ((of.endings & context_endings::stop) == 0) return;
  of.endings &= static_cast<std::uint8_t>(~context_endings::stop);
  families& f = families::global();
  const std::lock_guard lock(f.mutex);
  f.stops.erase(of.running);
}

namespace {

// A caller that begins to call was perhaps cancelled with its own caller: then its children are.
void follow_cancelled(const context& caller) noexcept {
  if (!detail::has_membarrier.load(std::memory_order_relaxed)) detail::full_barrier();
  if (!is_cancelled_caller(caller.running->parent)) return;
  families& f = families::global();
  const std::lock_guard lock(f.mutex);
  f.enter(key_of(caller.self));
}

}  // namespace

void begin_calling(context& caller) noexcept {
  const job& j = *caller.running;
  caller.self = id_of(j);
  const std::uint32_t depth = this_thread.depth;
  running_place* place = caller.turn != nullptr ? caller.turn->place : nullptr;
  if (place == nullptr && depth < most_places) place = this_thread.places + depth;
  if (place != nullptr) [[likely]] {
    place->self.store(0, std::memory_order_relaxed);
    place->caller.store(j.parent.low, std::memory_order_release);
    place->self.store(caller.self.low, std::memory_order_release);
  }
  // Before its first child may leave.
  if (const caller_listener tell = listens_to_callers.load(std::memory_order_acquire)) {
    tell(caller.self, j.parent);
  }
  // The pair of the canceller's heavy barrier; where there is none, the filter always says yes, and
  // follow_cancelled has the full one.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (may_be_cancelled(j.parent)) [[unlikely]]
    follow_cancelled(caller);
}

void reset_cancellation() noexcept {
  families& f = families::global();
  const std::lock_guard lock(f.mutex);
  f.cancelled.clear();
  // Without the heavy barrier callers have to be careful always; and who watches all runs is told
  // of them by that way.
  const bool is_open = !detail::has_membarrier.load() || watches_runs.load();
  cancelled_filter.store(is_open ? ~std::uint64_t{0} : 0);
}

}  // namespace manta::inline v0::exec
