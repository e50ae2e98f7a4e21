// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/parallel.hpp>
#include <manta/pending.hpp>
#include <manta/split.hpp>

// map_reduce: what many inputs say about each key.
//
//   inputs --map--> pairs --shuffle by hash of the key--> partitions --reduce--> results
//
//     piece 0 ---> task --split--> [ part 0 | part 1 | part 2 ]
//     piece 1 ---> task --split--> [ part 0 | part 1 | part 2 ]
//                                      |        |        |
//                                    task     task     task     one for each partition: gathers
//                                      |        |        |      its parts, sorts, reduces each key
//                                   future   future   future

namespace manta::inline v0 {

/// How map_reduce divides its work.
struct map_reduce_options {
  /// Partitions of the keys, each reduced by one task. 1 or more.
  std::size_t partitions = 1;
  /// Inputs that one map task takes. 0: about 8 tasks for each worker.
  std::size_t grain = 0;
};

/// Where a map function puts its pairs: `emit(key, value)`. One task's.
template <class Key, class Value>
class emitter {
 public:
  /// One list of pairs for each partition.
  using parts = std::vector<std::vector<std::pair<Key, Value>>>;

  /// Starts with nothing in any of `partitions`.
  explicit emitter(std::size_t partitions) : parts_(partitions) {}
  /// Adds a pair to its key's partition.
  void operator()(Key key, Value value) {
    // Mixed, since std::hash of an integer is the integer, whose low bits may all be the same.
    std::uint64_t mixed = std::uint64_t{std::hash<Key>{}(key)} * 0x9e3779b97f4a7c15U;
    mixed ^= mixed >> 32U;
    parts_[mixed % parts_.size()].emplace_back(std::move(key), std::move(value));
  }
  /// What was emitted.
  parts take() noexcept { return std::move(parts_); }

 private:
  parts parts_;
};

namespace detail {

/// Throws invalid_argument for no partitions; the inputs for each map task.
MANTA_API std::size_t check_map_reduce(std::size_t inputs, const map_reduce_options& how);

/// Sorts the pairs of one partition by key, equal keys in the order of the inputs, and reduces
/// each.
template <class Key, class Value, class Reduce>
auto reduce_partition(std::vector<std::vector<std::pair<Key, Value>>>&& pieces, Reduce& reduce) {
  using result = std::invoke_result_t<Reduce&, const Key&, std::vector<Value>&&>;
  std::vector<std::pair<Key, Value>> all;
  std::size_t count = 0;
  for (const auto& piece : pieces) count += piece.size();
  all.reserve(count);
  for (auto& piece : pieces) {
    std::move(piece.begin(), piece.end(), std::back_inserter(all));
    piece = {};
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<Key, std::decay_t<result>>> out;
  for (std::size_t i = 0; i < all.size();) {
    std::vector<Value> values;
    std::size_t end = i;
    for (; end < all.size() && !(all[i].first < all[end].first); ++end) {
      values.push_back(std::move(all[end].second));
    }
    auto reduced = reduce(std::as_const(all[i].first), std::move(values));
    out.emplace_back(std::move(all[i].first), std::move(reduced));
    i = end;
  }
  return out;
}

/// What the tasks run, with the names that errors show.
template <class F>
struct map_step {
  static constexpr const char* task_name = "map_reduce: map";
  F run;
  decltype(auto) operator()() { return run(); }
};
template <class F>
struct reduce_step {
  static constexpr const char* task_name = "map_reduce: reduce";
  F run;
  template <class Pieces>
  decltype(auto) operator()(Pieces&& pieces) {
    return run(std::forward<Pieces>(pieces));
  }
};

/// The task of one piece of the inputs.
template <class F>
auto start_map(F run) {
  using callee = named_callee<map_step<F>>;
  using R = std::invoke_result_t<F&>;
  return start_task<R, plain_task<callee, R, argument_pack<>>>(callee{{std::move(run)}});
}

/// The task of one partition: waits for its part of every piece.
template <class Key, class Value, class Reduce>
auto start_reduce(std::vector<future<std::vector<std::pair<Key, Value>>>> parts,
                  std::shared_ptr<Reduce> reduce) {
  using piece = std::vector<std::pair<Key, Value>>;
  auto run = [reduce = std::move(reduce)](std::vector<piece>&& pieces) {
    return reduce_partition<Key, Value>(std::move(pieces), *reduce);
  };
  using callee = named_callee<reduce_step<decltype(run)>>;
  using R = std::invoke_result_t<decltype(run)&&, std::vector<piece>&&>;
  using pack = argument_pack<gather_argument<std::vector<piece>, piece>>;
  return start_task<R, plain_task<callee, R, pack>>(callee{{std::move(run)}}, std::move(parts));
}

}  // namespace detail

/// Maps every input to pairs and reduces the values of each key, on all cores, without blocking:
///
///     auto parts = manta::map_reduce<std::string, int>(
///         documents,
///         [](const document& d, auto& emit) { for (const auto& w : d.words) emit(w, 1); },
///         [](const std::string& word, std::vector<int>&& counts) { return counts.size(); },
///         {.partitions = 4});
///
/// `map(const Input&, emitter<Key, Value>&)` is called for each input; `reduce(const Key&,
/// std::vector<Value>&&)` once for each key with its values in the order of the inputs. Both may be
/// called by several threads at once. Key needs std::hash and <. Gives a future for each partition:
/// its keys in order, each with what `reduce` returned; which keys share a partition depends on
/// their hash alone. What map or reduce throws arrives at the futures of the partitions that needed
/// it.
///
/// All of it stays in this process, so that map and reduce may capture what they like.
///
/// The inputs are moved in, or copied from an lvalue; the pairs are moved. Throws no_runtime,
/// invalid_argument (no partitions), std::bad_alloc. Any thread. Cost: a task for each piece of the
/// inputs and for each partition, and a block for each pair of these.
template <class Key, class Value, class Input, class Map, class Reduce>
auto map_reduce(std::vector<Input> inputs, Map&& map, Reduce&& reduce,
                const map_reduce_options& how = {}) {
  using part = std::vector<std::pair<Key, Value>>;
  using reducer = std::decay_t<Reduce>;
  using mapper = std::decay_t<Map>;
  const std::size_t grain = detail::check_map_reduce(inputs.size(), how);
  struct source {
    std::vector<Input> inputs;
    mapper map;
  };
  const auto from = std::make_shared<source>(source{std::move(inputs), std::forward<Map>(map)});
  std::vector<std::vector<future<part>>> parts(how.partitions);
  for (std::size_t first = 0; first < from->inputs.size(); first += grain) {
    auto piece = detail::start_map([from, first, grain, partitions = how.partitions] {
      emitter<Key, Value> emit(partitions);
      const std::size_t end = std::min(first + grain, from->inputs.size());
      for (std::size_t i = first; i < end; ++i) from->map(std::as_const(from->inputs[i]), emit);
      return emit.take();
    });
    auto split_piece = split(std::move(piece), how.partitions);
    for (std::size_t p = 0; p < parts.size(); ++p) parts[p].push_back(std::move(split_piece[p]));
  }
  const auto to = std::make_shared<reducer>(std::forward<Reduce>(reduce));
  std::vector<decltype(detail::start_reduce<Key, Value>(parts[0], to))> out;
  out.reserve(parts.size());
  for (auto& each : parts) out.push_back(detail::start_reduce<Key, Value>(std::move(each), to));
  return out;
}

}  // namespace manta::inline v0
