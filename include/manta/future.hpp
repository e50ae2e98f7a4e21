// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <manta/base/clock.hpp>
#include <manta/base/type_name.hpp>
#include <manta/cell.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/named_jobs.hpp>
#include <manta/handles.hpp>
#include <manta/spec/error.hpp>

// future<T>: a handle to a value that is there or will be. One pointer to the job's block
// (exec/job.hpp), where the value itself lives.

namespace manta::inline v0 {

template <class T>
class future;

namespace detail {

template <class T>
struct is_future : std::false_type {};
template <class T>
struct is_future<future<T>> : std::true_type {};

/// The type that get() answers for a function that returns R: futures of futures flatten.
template <class R>
struct flat {
  using type = R;
};
template <class T>
struct flat<future<T>> : flat<T> {};
template <class R>
using flat_t = typename flat<R>::type;

/// Whether these holds are the only ones once a deadline's timer, or who kills an actor, has let
/// go: they hold what they ask to stop for a moment.
MANTA_API bool is_sole_soon(exec::job* handle, exec::job* owner) noexcept;

[[noreturn]] MANTA_API void raise_empty_future();
[[noreturn]] MANTA_API void raise_not_unique(const char* type);
MANTA_API error not_unique_error(const char* type);
MANTA_API error timed_out_error(duration timeout);
MANTA_API error empty_future_error();

struct access;

/// The value of a ready job, moved when `handle` is the only hold on it, else copied. `owner` is
/// where the value lives: `handle` itself or what it is an alias of.
template <class T>
T take_value(exec::job* handle, exec::job* owner) {
  [[maybe_unused]] const value_lease<T> lease(owner);
  T& value = value_of<T>(owner);
  if (handle->is_unique() && exec::may_take(owner)) return std::move(value);
  if constexpr (std::is_copy_constructible_v<T>) {
    return std::as_const(value);
  } else {
    if (is_sole_soon(handle, owner) && exec::may_take(owner)) return std::move(value);
    raise_not_unique(base::spelled_type<T>());
  }
}

}  // namespace detail

/// A copyable handle to an immutable value of type T (or void), or to an error.
///
/// Any thread may use a future and its copies; one future object is externally synchronised, like a
/// std::shared_ptr. Copying costs one atomic increment. A default-made future is empty: it is good
/// for assignment, and anything else throws manta::invalid_argument. Inside of a value that goes to
/// an isolated worker, or comes from one, it is the same future there.
///
/// Errors of get: what the task failed with (see error.hpp).
template <class T>
class [[nodiscard]] future {
  static_assert(!std::is_reference_v<T>, "manta::future holds values; T must not be a reference");
  static_assert(!std::is_const_v<T>, "manta::future<const T>: the value is immutable already");

 public:
  /// What get() gives.
  using value_type = T;
  /// const T&, or void.
  using reference =
      std::conditional_t<std::is_void_v<T>, void, std::add_lvalue_reference_t<std::add_const_t<T>>>;

  future() noexcept = default;

  /// Waits and gives the value in place. The reference lives as long as any future to the value. A
  /// waiting thread may run the awaited task itself; a worker that has to sleep lends its core.
  /// Cost: a load and a branch when ready. Arrays in the value stay in memory from then on, as long
  /// as there is a future to it; they come back from the disk first if they were spilled
  /// (store_full, object_lost), whatever the timeout is.
  reference get() const& {
    exec::job* const j = ready_job();
    if constexpr (!std::is_void_v<T>) return detail::seen_value<T>(j);
  }
  /// Waits and gives the value itself, and leaves the future empty: moved out when no other future
  /// and no pending task holds it, else copied. Throws not_unique when it would have to copy a
  /// move-only T.
  T get() && { return take(ready_job()); }
  /// As get() const&, but throws timed_out after `timeout`; runs nothing on this thread. Zero asks
  /// without waiting. An error that is there already is thrown whatever the timeout is. A large
  /// array that has stayed in the node which made it is fetched within the same time: it comes also
  /// when that is over, so that a later get finds it here. Beyond it come the copying of what had
  /// arrived, 100 ms when the store has no room, and the disk; of one that came before anybody read
  /// it, and went to the disk, up to config::store_wait_ms for room.
  reference get(duration timeout) const& {
    detail::time_limit limit(timeout);
    return get_within(limit);
  }
  /// As get() &&, with that limit: what timed out or failed leaves the future as it was.
  T get(duration timeout) && {
    detail::time_limit limit(timeout);
    return take(ready_job(limit), &limit);
  }

  /// get() that answers with the error instead of throwing it. Throws nothing but self_wait and
  /// std::bad_alloc.
  result<reference> try_get() const& {
    const std::optional<error> missing = wait_for_outcome();
    return missing ? result<reference>(*missing) : outcome();
  }
  /// The same with a limit, as get(timeout) has it: timed_out is one of the errors.
  result<reference> try_get(duration timeout) const& {
    detail::time_limit limit(timeout);
    const std::optional<error> missing = wait_for_outcome(&limit);
    return missing ? result<reference>(*missing) : outcome(&limit);
  }
  /// The value itself, as get() && gives it; not_unique is one of the errors, and any error but
  /// that leaves the future as it was. Throws what copying the value does, too.
  result<T> try_get() && {
    const std::optional<error> missing = wait_for_outcome();
    return missing ? result<T>(*missing) : taken_outcome();
  }
  /// The same with a limit: timed_out is one of the errors.
  result<T> try_get(duration timeout) && {
    detail::time_limit limit(timeout);
    const std::optional<error> missing = wait_for_outcome(&limit);
    return missing ? result<T>(*missing) : taken_outcome(&limit);
  }

  /// Whether the value or the error is there. Never waits.
  bool is_ready() const {
    exec::job* const j = job();
    return j->is_ready() || j->look_again();
  }
  /// Whether this is a handle to something.
  bool valid() const noexcept { return static_cast<bool>(job_); }

  /// Two futures are equal when they are handles to the same value.
  friend bool operator==(const future& a, const future& b) noexcept {
    return a.job_.get() == b.job_.get();
  }

 private:
  friend struct detail::access;

  explicit future(exec::job_ref j) noexcept : job_(std::move(j)) {}

  exec::job* job() const {
    if (!job_) [[unlikely]]
      detail::raise_empty_future();
    return job_.get();
  }

  /// Waits; throws the error, or gives the job that has the value.
  exec::job* ready_job() const {
    using bits = exec::job_bits;
    exec::job* j = job();
    std::uint64_t word = j->word();
    if ((word & bits::ready) == 0) {
      exec::executor::wait(j, {});
      word = j->word();
    }
    if ((word & (bits::failed | bits::aliased)) != 0) [[unlikely]] {
      j = j->outcome();
      if ((j->word() & bits::failed) != 0) j->failure().raise();
    }
    return j;
  }

  exec::job* ready_job(detail::time_limit& limit) const {
    exec::job* const j = job();
    if (!j->is_ready() && !exec::executor::wait(j, limit.end())) {
      detail::raise_timed_out(limit.asked());
    }
    return ready_job();
  }

  reference get_within(detail::time_limit& limit) const& {
    exec::job* const j = ready_job(limit);
    if constexpr (!std::is_void_v<T>) return detail::seen_value<T>(j, &limit);
  }

  /// The value that lives in `owner`; leaves the future empty.
  T take(exec::job* owner, detail::time_limit* limit = nullptr) {
    detail::value_lease<T> lease(owner, 0, limit);
    const exec::job_ref keep(std::move(job_));
    [[maybe_unused]] const detail::value_lease<T> ends_before(std::move(lease));
    if constexpr (!std::is_void_v<T>) {
      return detail::take_value<T>(keep.get(), owner);
    } else {
      static_cast<void>(owner);
    }
  }

  /// Waits; why there will be no outcome to look at, if so.
  std::optional<error> wait_for_outcome(detail::time_limit* limit = nullptr) const {
    if (!job_) return detail::empty_future_error();
    if (job_->is_ready()) return {};
    if (limit == nullptr) {
      exec::executor::wait(job_.get(), {});
    } else if (!exec::executor::wait(job_.get(), limit->end())) {
      return detail::timed_out_error(limit->asked());
    }
    return {};
  }

  result<reference> outcome([[maybe_unused]] detail::time_limit* limit = nullptr) const {
    exec::job* const j = job_->outcome();
    if ((j->word() & exec::job_bits::failed) != 0) return error(j->failure());
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      if (auto why = detail::try_see<T>(j, limit)) return *std::move(why);
      return static_cast<const T&>(detail::value_of<T>(j));
    }
  }

  result<T> taken_outcome([[maybe_unused]] detail::time_limit* limit = nullptr) {
    exec::job* const j = job_->outcome();
    if ((j->word() & exec::job_bits::failed) != 0) return error(j->failure());
    if constexpr (std::is_void_v<T>) {
      job_ = exec::job_ref();  // Clang 14 never ends a {} that is assigned here
      return {};
    } else {
      if constexpr (!std::is_copy_constructible_v<T>) {
        if (!job_->is_unique() || !j->is_unique()) {
          job_ = exec::job_ref();
          return detail::not_unique_error(base::spelled_type<T>());
        }
      }
      if constexpr (detail::holds_arrays<T>) {
        try {
          return result<T>(std::in_place, take(j, limit));
        } catch (const exception& e) {
          return e.as_error();
        }
      } else {
        return result<T>(std::in_place, take(j, limit));
      }
    }
  }

  exec::job_ref job_;
};

namespace detail {

/// The way into a future for the rest of the library.
struct access {
  /// get(timeout) with a time that goes on.
  template <class T>
  static typename future<T>::reference get_within(const future<T>& f, time_limit& limit) {
    return f.get_within(limit);
  }
  template <class T>
  static exec::job* job(const future<T>& f) noexcept {
    return f.job_.get();
  }
  template <class T>
  static exec::job* release(future<T>& f) noexcept {
    return f.job_.release();
  }
  template <class T>
  static future<T> make(exec::job* holding) noexcept {
    return future<T>(exec::job_ref(holding));
  }
};

}  // namespace detail
}  // namespace manta::inline v0

namespace manta::inline v0::codec {

/// A future goes as a hold of its job; between processes as a name of it.
template <class T>
struct custom<future<T>> {
  static void write(out_archive& out, const future<T>& f) {
    exec::job* const j = detail::access::job(f);
    out.raw(static_cast<std::uint8_t>(j != nullptr));
    if (j == nullptr) return;
    j->hold();
    out.refer({{.what = exec::id_of(*j),
                .owner = {},
                .type = type_hash<future<T>>,
                .local = reinterpret_cast<std::uint64_t>(j),
                .kind = spec::reference_kind::future,
                .values = reinterpret_cast<std::uint64_t>(detail::carrier_of_values<T>())},
               [](const spec::reference& lent) noexcept {
                 reinterpret_cast<exec::job*>(lent.local)->drop();
               }});
  }
  static future<T> read(in_archive& in) {
    constexpr const char* type = name_of<future<T>>();
    if (!in.flag(type)) return {};
    const spec::reference& found =
        in.reference(spec::reference_kind::future, type_hash<future<T>>, type);
    auto* const here = reinterpret_cast<exec::job*>(found.local);
    if (here != nullptr) here->hold();
    exec::job* const j =
        here != nullptr ? here : node::borrow_future(found.what, found.type, detail::make_far<T>);
    if (j == nullptr) in.refuse("nobody here knows that future", type);
    return detail::access::make<T>(j);
  }
};

}  // namespace manta::inline v0::codec
