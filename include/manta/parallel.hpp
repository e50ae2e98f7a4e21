// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/async.hpp>
#include <manta/base/clock.hpp>
#include <manta/exec/context.hpp>
#include <manta/future.hpp>
#include <manta/pending.hpp>
#include <manta/spec/error.hpp>

// Loops over ranges on all cores: parallel_for, parallel_map, parallel_reduce.
//
// Problem. A loop has to be cut into pieces: too few leave cores idle, too many cost more than they
// carry, and how long an item takes is not known.
//
// Idea. The range is a binary tree of pieces whose leaves hold `grain` items. The caller walks it
// like a serial program, left before right, but before it goes left it looks whether its queue is
// empty, which means that somebody has taken what it offered last: then it offers the right half as
// a task. So there are as many tasks as there were thefts and a few more, each as large as what was
// left at the time, and a loop nobody helps with costs a branch for each piece.
//
//     [0, 64) --offer--> [32, 64)  taken by another worker, who does the same
//        |
//     [0, 32) --offer--> [16, 32)  not taken: run by the caller when it comes to it
//        |
//     [0, 16)  the queue is not empty: no offer, both halves in turn
//
// The tree depends on the number of items and the grain alone, and parallel_reduce combines along
// it: with a given grain the result is the same in every run, on every machine, floating point
// included.
// Source: the idea is that of lazy binary splitting (Tzannes et al., PPoPP 2010).

namespace manta::inline v0 {

/// How a parallel loop is cut.
struct loop_options {
  /// Items that one thread takes at least. 0: about 128 pieces for each worker.
  std::size_t grain = 0;
};

namespace detail {

/// The grain to use for `items`. Throws no_runtime.
MANTA_API std::size_t choose_grain(std::size_t items, const loop_options& how);
[[noreturn]] MANTA_API void raise_negative_range();

/// Whether the last offer of this thread was taken.
inline bool is_offer_wanted() noexcept { return exec::this_thread.queue->jobs.is_empty(); }

/// How many items a piece's left part has: a multiple of the grain, about half.
inline std::size_t left_part(std::size_t items, std::size_t grain) noexcept {
  const std::size_t leaves = (items + grain - 1) / grain;
  return (leaves + 1) / 2 * grain;
}

/// A task for the right part of a piece; the scope does not end before it has. A deadline ends a
/// future while its task still runs, and this one uses the caller's stack: so the task has none.
/// What it calls has the caller's.
template <class F>
class offer {
 public:
  explicit offer(F& right) : task_(start(right)) {}
  offer(const offer&) = delete;
  offer& operator=(const offer&) = delete;
  ~offer() {
    // Left by an exception: the task uses what is on this stack.
    if (task_.valid()) static_cast<void>(task_.try_get());
  }
  /// What the task returned or threw.
  auto get() {
    try {
      return std::move(task_).get();
    } catch (const task_error& e) {
      if (const std::exception_ptr& cause = e.as_error().failure()->cause) {
        std::rethrow_exception(cause);
      }
      throw;
    }
  }

 private:
  static auto start(F& right) {
    const base::time_point by = exec::this_thread.current->deadline;
    const calls_until none(exec::executor::without_deadline());
    return async([&right, by] {
      const calls_until same(by);
      return right();
    });
  }

  decltype(async(std::declval<F&>())) task_;
};

/// Walks [first, first + items): `leaf(first, items)` for each leaf, `join` over results.
template <class Leaf>
void for_pieces(std::size_t first, std::size_t items, std::size_t grain, Leaf& leaf) {
  if (items <= grain) {
    leaf(first, items);
    return;
  }
  const std::size_t left = left_part(items, grain);
  auto right = [&] { for_pieces(first + left, items - left, grain, leaf); };
  if (is_offer_wanted()) {
    offer<decltype(right)> offered(right);
    for_pieces(first, left, grain, leaf);
    offered.get();
  } else {
    for_pieces(first, left, grain, leaf);
    right();
  }
}

template <class R, class Leaf, class Join>
R reduce_pieces(std::size_t first, std::size_t items, std::size_t grain, Leaf& leaf, Join& join) {
  if (items <= grain) return leaf(first, items);
  const std::size_t left = left_part(items, grain);
  auto right = [&] { return reduce_pieces<R>(first + left, items - left, grain, leaf, join); };
  if (is_offer_wanted()) {
    offer<decltype(right)> offered(right);
    R a = reduce_pieces<R>(first, left, grain, leaf, join);
    return join(std::move(a), offered.get());
  }
  R a = reduce_pieces<R>(first, left, grain, leaf, join);
  return join(std::move(a), right());
}

/// The value of one leaf, 1 item or more. Long ones are walked at four places at once, so that the
/// processor need not wait for one operation before it begins the next; the order of the operands
/// is kept.
template <class R, class Iterator, class Transform, class Join>
R reduce_leaf(Iterator at, std::size_t items, Transform& transform, Join& join) {
  using difference = typename std::iterator_traits<Iterator>::difference_type;
  const auto nth = [&](std::size_t i) -> R { return transform(at[static_cast<difference>(i)]); };
  constexpr bool is_cheap = std::is_arithmetic_v<R>;
  std::size_t i = 1;
  if constexpr (is_cheap) {
    if (items >= 64) {
      const std::size_t q = items / 4;
      R a = nth(0);
      R b = nth(q);
      R c = nth(2 * q);
      R d = nth(3 * q);
      for (; i < q; ++i) {
        a = join(std::move(a), nth(i));
        b = join(std::move(b), nth(q + i));
        c = join(std::move(c), nth(2 * q + i));
        d = join(std::move(d), nth(3 * q + i));
      }
      R all = join(join(std::move(a), std::move(b)), join(std::move(c), std::move(d)));
      for (i = 4 * q; i < items; ++i) all = join(std::move(all), nth(i));
      return all;
    }
  }
  R all = nth(0);
  for (; i < items; ++i) all = join(std::move(all), nth(i));
  return all;
}

/// Whether [first, last) is none as a range of Index: an end may have changed its sign.
template <class Index, class First, class Last>
constexpr bool is_negative_range(First first, Last last) noexcept {
  const auto from = static_cast<Index>(first);
  const auto to = static_cast<Index>(last);
  if constexpr (std::is_unsigned_v<Index>) {
    if constexpr (std::is_signed_v<First>) {
      if (first < 0) return true;
    }
    if constexpr (std::is_signed_v<Last>) {
      if (last < 0) return true;
    }
  }
  return to < from;
}

template <class Range>
concept random_access = requires(Range& r) {
  { std::size(r) } -> std::convertible_to<std::size_t>;
  { std::begin(r) } -> std::random_access_iterator;
};

struct unchanged {
  template <class X>
  X&& operator()(X&& x) const noexcept {
    return std::forward<X>(x);
  }
};

}  // namespace detail

/// Calls `function(i)` for each integer i in [first, last), on all cores; returns when all calls
/// have ended. The calling thread works, too. `grain` calls or more are made by one thread in a
/// row; in which order pieces run is not said, so what the calls share must bear that. An exception
/// ends the loop early: calls that have not begun may not happen, and one of the exceptions is
/// thrown. A deadline does not end the loop, it is for what the loop calls: all that has begun is
/// waited for. The type of i is the common type
/// of both ends, so that none is cut off. Throws no_runtime, and invalid_argument for last < first
/// or an end that this type can't hold. Cost: a branch for each piece and a task for each theft.
template <std::integral First, std::integral Last, class F>
requires std::invocable<F&, std::common_type_t<First, Last>>
void parallel_for(First first, Last last, F&& function, const loop_options& how = {}) {
  using Index = std::common_type_t<First, Last>;
  if (detail::is_negative_range<Index>(first, last)) detail::raise_negative_range();
  const auto items = static_cast<std::size_t>(last) - static_cast<std::size_t>(first);
  const std::size_t grain = detail::choose_grain(items, how);
  if (items == 0) return;
  auto leaf = [first, &function](std::size_t from, std::size_t count) {
    for (std::size_t i = from; i < from + count; ++i) {
      function(static_cast<Index>(static_cast<std::size_t>(first) + i));
    }
  };
  detail::for_pieces(0, items, grain, leaf);
}
/// Calls `function(x)` for each element x of a random-access range; as above.
template <detail::random_access Range, class F>
void parallel_for(Range&& range, F&& function, const loop_options& how = {}) {
  const auto items = static_cast<std::size_t>(std::size(range));
  const std::size_t grain = detail::choose_grain(items, how);
  if (items == 0) return;
  const auto at = std::begin(range);
  using difference = typename std::iterator_traits<std::decay_t<decltype(at)>>::difference_type;
  auto leaf = [at, &function](std::size_t from, std::size_t count) {
    for (std::size_t i = from; i < from + count; ++i) function(at[static_cast<difference>(i)]);
  };
  detail::for_pieces(0, items, grain, leaf);
}

/// The results of `function(x)` for each element x of a random-access range, in the range's order;
/// as parallel_for. Results that can't be default-made are moved once more.
template <detail::random_access Range, class F>
auto parallel_map(Range&& range, F&& function, const loop_options& how = {}) {
  using R = std::decay_t<std::invoke_result_t<F&, decltype(*std::begin(range))>>;
  static_assert(!std::is_void_v<R>,
                "manta::parallel_map: the function returns nothing; use "
                "parallel_for");
  const auto items = static_cast<std::size_t>(std::size(range));
  const auto at = std::begin(range);
  using difference = typename std::iterator_traits<std::decay_t<decltype(at)>>::difference_type;
  const auto fill = [&](auto* to) {
    parallel_for(
        std::size_t{0}, items,
        [&](std::size_t i) { to[i] = function(at[static_cast<difference>(i)]); }, how);
  };
  if constexpr (std::is_same_v<R, bool>) {
    // Neighbours of a std::vector<bool> share a byte.
    const auto flags = std::make_unique<bool[]>(items);
    fill(flags.get());
    return std::vector<bool>(flags.get(), flags.get() + items);
  } else if constexpr (std::is_default_constructible_v<R> && std::is_move_assignable_v<R>) {
    std::vector<R> out(items);
    fill(out.data());
    return out;
  } else {
    std::vector<std::optional<R>> made(items);
    parallel_for(
        std::size_t{0}, items,
        [&](std::size_t i) { made[i].emplace(function(at[static_cast<difference>(i)])); }, how);
    std::vector<R> out;
    out.reserve(items);
    for (std::optional<R>& one : made) out.push_back(std::move(*one));
    return out;
  }
}

/// init + t(x0) + t(x1) + ... over a random-access range, where + is `join(R, R)` and t is
/// `transform(x)`, whose result converts to the type R of `init`. `join` must be associative; the
/// order of the operands is kept, so it need not be commutative. With a grain given the operations
/// are grouped the same way in every run, so that even a sum of doubles is always the same; with
/// the automatic grain that holds for the same number of workers. Otherwise as parallel_for.
template <detail::random_access Range, class R, class Transform, class Join>
requires std::invocable<Join&, R, R> R parallel_reduce(Range&& range, R init, Transform&& transform,
                                                       Join&& join, const loop_options& how = {}) {
  const auto items = static_cast<std::size_t>(std::size(range));
  const std::size_t grain = detail::choose_grain(items, how);
  if (items == 0) return init;
  const auto begin = std::begin(range);
  using difference = typename std::iterator_traits<std::decay_t<decltype(begin)>>::difference_type;
  auto leaf = [&](std::size_t first, std::size_t count) {
    return detail::reduce_leaf<R>(begin + static_cast<difference>(first), count, transform, join);
  };
  return join(std::move(init), detail::reduce_pieces<R>(0, items, grain, leaf, join));
}
/// init + x0 + x1 + ...; as above.
template <detail::random_access Range, class R, class Join>
requires std::invocable<Join&, R, R> R parallel_reduce(Range&& range, R init, Join&& join,
                                                       const loop_options& how = {}) {
  return parallel_reduce(std::forward<Range>(range), std::move(init), detail::unchanged{},
                         std::forward<Join>(join), how);
}

}  // namespace manta::inline v0
