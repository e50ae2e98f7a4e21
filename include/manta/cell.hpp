// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <manta/at_rest.hpp>
#include <manta/base/type_name.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/job.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/error.hpp>

// The typed part of a job: the slot for its value, how that travels, the cell of a future whose
// value comes from another process, and what is done for values with arrays, which leave memory
// while nobody reads them (node/rest.hpp). For others that is nothing.

namespace manta::inline v0::detail {

/// What a cell keeps for a value of T.
template <class T>
using stored_t = std::conditional_t<std::is_void_v<T>, std::byte, T>;

/// A job whose slot fits a T, an error or an alias target. The slot is filled and emptied by hand.
template <class T>
struct cell : exec::job {
  union {
    stored_t<T> value;
    void* other;
  };
  [[no_unique_address]] rest_note_t<T> rest;
  cell(const exec::job_ops* kind, unsigned holders) noexcept : job(kind, holders) {}
  ~cell() {}  // the slot is emptied by job::destroy
};

template <class T>
stored_t<T>& value_of(exec::job* j) noexcept {
  static_assert(alignof(stored_t<T>) <= 64, "manta: values aligned to more than 64 bytes");
  return *static_cast<stored_t<T>*>(j->slot(alignof(cell<T>)));
}

template <class T>
void drop_value(exec::job* j) noexcept {
  std::destroy_at(&value_of<T>(j));
}

/// Null where nothing has to be destroyed, which lets a job's block be freed at once.
template <class T>
constexpr auto value_dropper() noexcept -> void (*)(exec::job*) noexcept {
  if constexpr (std::is_void_v<T> || std::is_trivially_destructible_v<T>) {
    return nullptr;
  } else {
    return &drop_value<T>;
  }
}

/// The value in a cell, which has arrays. `as_handles`: see node::rested.
template <class T>
node::rested rested_in(exec::job* owner, bool as_handles = false) noexcept {
  return {&static_cast<cell<T>*>(owner)->rest, &value_of<T>(owner), &visit_handles<T>, as_handles};
}

/// By who has just put a value into its cell.
template <class T>
void rest_value([[maybe_unused]] exec::job* owner) noexcept {
  if constexpr (holds_arrays<T>) node::put_to_rest(rested_in<T>(owner));
}

[[noreturn]] MANTA_API void raise_timed_out(duration timeout);

/// How long a value is waited for, with its arrays that have stayed elsewhere; null: as long as it
/// takes. It begins when it is looked at first.
class time_limit {
 public:
  explicit time_limit(duration asked) noexcept : asked_(asked) {}
  duration asked() const noexcept { return asked_; }
  const base::deadline& end() {
    if (!end_) end_ = base::after(asked_);
    return end_;
  }
  static base::deadline end_of(time_limit* of) { return of != nullptr ? of->end() : std::nullopt; }

 private:
  const duration asked_;
  base::deadline end_;
};

/// The value, for whoever sees it as long as it is there. Throws store_full, object_lost,
/// node_lost, timed_out, std::bad_alloc.
template <class T>
stored_t<T>& seen_value(exec::job* owner, [[maybe_unused]] time_limit* limit = nullptr) {
  if constexpr (holds_arrays<T>) {
    const node::rested what = rested_in<T>(owner);
    if (!what.note->is_seen() && !node::see(what, time_limit::end_of(limit))) {
      raise_timed_out(limit->asked());
    }
  }
  return value_of<T>(owner);
}

/// Why seen_value would throw.
template <class T>
std::optional<error> try_see([[maybe_unused]] exec::job* owner,
                             [[maybe_unused]] time_limit* limit = nullptr) {
  if constexpr (holds_arrays<T>) {
    try {
      seen_value<T>(owner, limit);
    } catch (const exception& e) {
      return e.as_error();
    }
  }
  return std::nullopt;
}

/// Keeps the arrays of a value in memory until it ends; the value's cell lives longer. `reader`:
/// for whom it is written, with its handles; see node/rest.hpp. Made as seen_value throws.
template <class T, bool HasArrays = holds_arrays<T>>
class value_lease {
 public:
  explicit value_lease(exec::job* /*owner*/, std::uint64_t /*reader*/ = 0,
                       time_limit* /*limit*/ = nullptr) noexcept {}
};
template <class T>
class value_lease<T, true> {
 public:
  explicit value_lease(exec::job* owner, std::uint64_t reader = 0, time_limit* limit = nullptr)
      : of_(owner) {
    const node::rested what = rested_in<T>(owner, true);
    if (!node::begin_reading({&what, 1}, reader, time_limit::end_of(limit))) {
      raise_timed_out(limit->asked());
    }
  }
  value_lease(value_lease&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
  value_lease& operator=(value_lease&&) = delete;
  ~value_lease() {
    if (of_ != nullptr) node::end_reading(rested_in<T>(of_));
  }

 private:
  exec::job* of_;
};

/// The operations of a job that is only a value, made by who has it: there is nothing to run.
template <class T>
constexpr exec::job_ops value_ops(std::size_t size, std::size_t front,
                                  const void* carrier) noexcept {
  return {
      .execute = nullptr,
      .run = nullptr,
      .ready = nullptr,
      .cancel = nullptr,
      .drop_arguments = nullptr,
      .drop_value = value_dropper<T>(),
      .alias = nullptr,
      .origin = nullptr,
      .size = static_cast<std::uint32_t>(size),
      .front = static_cast<std::uint32_t>(front),
      .in_place = false,
      .function = base::spelled_type<T>(),
      .function_hash = base::hash_name(base::spelled_type<T>()),
      .carrier = carrier,
  };
}

/// A new job of type Job, constructed from `args`, with Front bytes before it. Throws
/// std::bad_alloc, or what Job's constructor does.
template <class Job, std::size_t Front = 0, class... Args>
Job* make_job(Args&&... args) {
  auto* const block = static_cast<char*>(exec::allocate_block(Front + sizeof(Job)));
  try {
    return new (block + Front) Job(std::forward<Args>(args)...);
  } catch (...) {
    exec::free_block(block, Front + sizeof(Job));
    throw;
  }
}

/// The same with options, which lie before all that.
template <class Job, std::size_t Front = 0, class... Args>
[[gnu::noinline, gnu::cold]] Job* make_job_with(const exec::extra_source& with, Args&&... args) {
  constexpr std::size_t before = exec::job::extra_size + Front;
  auto* const block = static_cast<char*>(exec::allocate_block(before + sizeof(Job)));
  bool has_extra = false;
  try {
    exec::make_extra(block, with);
    has_extra = true;
    Job* const made = new (block + before) Job(std::forward<Args>(args)...);
    made->has_extra();
    return made;
  } catch (...) {
    if (has_extra) exec::drop_extra(block);
    exec::free_block(block, before + sizeof(Job));
    throw;
  }
}

/// The value in the slot of a job.
template <class T>
struct value_carrier {
  static void write(exec::job* j, codec::out_archive& out) {
    [[maybe_unused]] const value_lease<T> lease(j, out.into_cell() ? node::any_cell : out.node());
    if constexpr (holds_arrays<T>) {
      if (out.into_cell()) name_those_that_stay(j, out);
    }
    node::write(out, value_of<T>(j));
  }
  static void renew(exec::job* j, codec::in_archive& in) {
    [[maybe_unused]] const value_lease<T> lease(j);
    node::renew(value_of<T>(j), in);
  }
  static void read(exec::job* j, codec::in_archive& in) {
    const bool before = in.into_cell(holds_arrays<T>);
    node::read_at(&value_of<T>(j), in);
    in.into_cell(before);
    rest_value<T>(j);
  }
  static const node::carrier value;

 private:
  // What a type hides of its arrays, its readers do not ask for.
  static void name_those_that_stay(exec::job* j,
                                   codec::out_archive& out) requires(holds_arrays<T>) {
    visit_arrays(value_of<T>(j), [&out](node::array_block*& one) {
      if (one->bytes().size() >= node::least_staying || one->is_away(0)) out.may_stay(&one);
    });
  }
};
template <>
struct value_carrier<void> {
  static constexpr void (*write)(exec::job*, codec::out_archive&) = nullptr;
  static constexpr void (*renew)(exec::job*, codec::in_archive&) = nullptr;
  static constexpr void (*read)(exec::job*, codec::in_archive&) = nullptr;
  static constexpr node::carrier value{};
};
template <class T>
const node::carrier value_carrier<T>::value{
    .write_value = write, .renew_value = renew, .read_value = read, .stays = stays_in_node<T>};

/// Null for a value that can't leave its process.
template <class T>
const node::carrier* carrier_of_values() noexcept {
  if constexpr (std::is_void_v<T>) {
    return &value_carrier<void>::value;
  } else if constexpr (node::can_travel<T>) {
    return &value_carrier<T>::value;
  } else {
    return nullptr;
  }
}

/// What a future has whose value is in another process, until it comes: claimed from the start by
/// who fetches that.
template <class T>
struct far_object : cell<T> {
  far_object() : cell<T>(&ops, 1) { this->try_claim(); }
  static const exec::job_ops ops;
};

template <class T>
constexpr const void* far_carrier() noexcept {
  if constexpr (std::is_void_v<T>) {
    return &value_carrier<void>::value;
  } else {
    return &value_carrier<T>::value;
  }
}

template <class T>
const exec::job_ops far_object<T>::ops = value_ops<T>(sizeof(far_object), 0, far_carrier<T>());

/// One of those, with a hold. Throws std::bad_alloc.
template <class T>
exec::job* make_far() {
  return make_job<far_object<T>>();
}

}  // namespace manta::inline v0::detail
