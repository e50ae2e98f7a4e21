// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/pending.hpp>

// split: the parts of one future as futures. The parts are futures filled by hand (pending.hpp),
// and one task, which waits for the source, fills them all.

namespace manta::inline v0 {

namespace detail {

[[nodiscard]] MANTA_API error wrong_size_error(std::size_t asked, std::size_t found);

/// Fills one part from an element of type E: moved when nobody else can see it, else copied.
template <class T, class E>
void fill_part(promise<T>& part, E& element, bool may_move) noexcept {
  if (may_move) {
    part.set(std::move(element));
  } else if constexpr (std::is_copy_constructible_v<T>) {
    part.set(std::as_const(element));
  } else {
    try {
      raise_not_unique(base::spelled_type<T>());
    } catch (...) {
      part.fail(describe_current_exception("split"));
    }
  }
}

/// The parts of a value whose number its type says.
template <class Tuple, class... T>
struct fixed_parts {
  std::tuple<promise<T>...> parts;

  explicit fixed_parts(future<T>&... out) : parts(promise<T>(out)...) {}
  void fail(const error& reason) noexcept {
    std::apply([&reason](auto&... part) { (part.fail(reason), ...); }, parts);
  }
  void fill(Tuple& value, bool may_move) noexcept {
    fill_each(value, may_move, std::index_sequence_for<T...>{});
  }

 private:
  template <std::size_t... I>
  void fill_each(Tuple& value, bool may_move, std::index_sequence<I...> /*all*/) noexcept {
    (fill_part(std::get<I>(parts), std::get<I>(value), may_move), ...);
  }
};

/// Parts of one type; their number is checked when the value is there.
template <class Sequence, class T>
struct equal_parts {
  std::vector<promise<T>> parts;

  template <class Futures>
  explicit equal_parts(Futures& out) {
    parts.reserve(out.size());
    for (future<T>& each : out) parts.emplace_back(each);
  }
  void fail(const error& reason) noexcept {
    for (promise<T>& part : parts) part.fail(reason);
  }
  void fill(Sequence& value, bool may_move) noexcept {
    if (value.size() != parts.size()) {
      fail(wrong_size_error(parts.size(), value.size()));
      return;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if constexpr (std::is_same_v<Sequence, std::vector<bool>>) {
        parts[i].set(static_cast<bool>(value[i]));
      } else {
        fill_part(parts[i], value[i], may_move);
      }
    }
  }
};

template <class Value, class Parts>
struct splitter {
  Parts parts;
  void operator()(future<Value>&& f) {
    const future<Value> ended = std::move(f);
    exec::job* const handle = access::job(ended);
    if (const error* e = failure_of(handle)) {
      parts.fail(*e);
      return;
    }
    exec::job* const owner = handle->outcome();
    try {
      [[maybe_unused]] const value_lease<Value> lease(owner);
      parts.fill(value_of<Value>(owner), handle->is_unique() && exec::may_take(owner));
    } catch (const exception& e) {
      parts.fail(e.as_error());
    }
  }
};

/// Fills the parts now when the source is there, else by a task.
template <class Value, class Parts, class... Out>
void split_into(future<Value>&& f, Out&... out) {
  if (!f.valid()) raise_empty_future();
  exec::executor::require();
  splitter<Value, Parts> work{Parts(out...)};
  if (f.is_ready()) {
    work(std::move(f));
  } else {
    // A deadline is the source's; late, this would leave the parts without an owner.
    const calls_until none(exec::executor::without_deadline());
    static_cast<void>(after(std::move(f), std::move(work)));
  }
}

}  // namespace detail

/// The parts of a future tuple as futures, without blocking:
///
///     auto [mean, deviation] = manta::split(manta::remote<statistics>(data));
///
/// When the source has ended, its elements are moved into the parts if nobody else holds it (pass
/// an rvalue), else copied; a move-only element that would have to be copied fails its part with
/// not_unique. A source that failed fails every part with the same error. Throws no_runtime,
/// invalid_argument (an empty future), std::bad_alloc. Any thread. To stop the work cancel the
/// source; a part can't be cancelled (cancel answers false), and ends when the source does. Cost:
/// one block for each part, and one task unless the source is ready.
template <class... T>
std::tuple<future<T>...> split(future<std::tuple<T...>> f) {
  using value = std::tuple<T...>;
  std::tuple<future<T>...> out;
  std::apply(
      [&f](future<T>&... each) {
        detail::split_into<value, detail::fixed_parts<value, T...>>(std::move(f), each...);
      },
      out);
  return out;
}
/// The same for a pair.
template <class A, class B>
std::pair<future<A>, future<B>> split(future<std::pair<A, B>> f) {
  using value = std::pair<A, B>;
  std::pair<future<A>, future<B>> out;
  detail::split_into<value, detail::fixed_parts<value, A, B>>(std::move(f), out.first, out.second);
  return out;
}
/// The same for an array.
template <class T, std::size_t N>
std::array<future<T>, N> split(future<std::array<T, N>> f) {
  using value = std::array<T, N>;
  std::array<future<T>, N> out;
  detail::split_into<value, detail::equal_parts<value, T>>(std::move(f), out);
  return out;
}
/// The same for a vector of `n` elements; one of another size fails every part with
/// invalid_argument. Cost: about 50 ns for each part.
template <class T>
std::vector<future<T>> split(future<std::vector<T>> f, std::size_t n) {
  using value = std::vector<T>;
  std::vector<future<T>> out(n);
  detail::split_into<value, detail::equal_parts<value, T>>(std::move(f), out);
  return out;
}

}  // namespace manta::inline v0
