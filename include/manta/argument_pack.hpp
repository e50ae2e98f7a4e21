// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/argument.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/context.hpp>

// The arguments of a job, all together, in its block: from the call until it has run.

namespace manta::inline v0::detail {

/// A last parameter of type std::stop_token that the caller did not fill: the task's own token.
struct stop_argument {
  static constexpr bool is_linked = false;
  static constexpr bool is_kept = true;
  static constexpr bool is_copyable = true;
  void write(codec::out_archive& /*out*/) const {}
  void write_parameter(codec::out_archive& /*out*/) const {}
  void renew(codec::in_archive& /*in*/) {}
  void link(exec::job* /*job*/) {}
  const error* failure() noexcept { return nullptr; }
  std::stop_token pass() { return exec::stop_token_of(*exec::this_thread.current); }
};

/// A parameter that came from another process.
template <class Holder>
Holder read_holder([[maybe_unused]] codec::in_archive& in) {
  if constexpr (std::is_same_v<Holder, stop_argument>) {
    return {};
  } else {
    return Holder(codec::read<typename Holder::stored>(in));
  }
}

/// Whether an argument waits for a value with arrays, which may be on the disk.
template <class Holder>
constexpr bool awaits_arrays() {
  if constexpr (requires { Holder::awaits_arrays; }) {
    return Holder::awaits_arrays;
  } else {
    return false;
  }
}

/// The arguments of a job, in its block until it has run.
template <class... Holders>
class argument_pack {
 public:
  static constexpr bool has_arrays = (awaits_arrays<Holders>() || ... || false);
  /// What came from another process, read in order.
  struct arrived {
    codec::in_archive& in;
  };
  explicit argument_pack([[maybe_unused]] arrived from) {
    new (&holders_) std::tuple<Holders...>{read_holder<Holders>(from.in)...};
  }
  template <class... A>
  explicit argument_pack(A&&... args) {
    if constexpr (sizeof...(A) < sizeof...(Holders)) {
      new (&holders_) std::tuple<Holders...>(std::forward<A>(args)..., stop_argument{});
    } else {
      new (&holders_) std::tuple<Holders...>(std::forward<A>(args)...);
    }
  }
  ~argument_pack() {}  // dropped by hand, when the job has run

  static constexpr bool is_linked = (Holders::is_linked || ... || false);

  void link(exec::job* j) {
    std::apply([j](auto&... h) { (h.link(j), ...); }, holders_);
  }
  void write(codec::out_archive& out) {
    std::apply([&out](auto&... h) { (h.write(out), ...); }, holders_);
  }
  void renew(codec::in_archive& in) {
    std::apply([&in](auto&... h) { (h.renew(in), ...); }, holders_);
  }
  void write_parameters(codec::out_archive& out) {
    std::apply([&out](auto&... h) { (h.write_parameter(out), ...); }, holders_);
  }
  const error* failure() noexcept {
    const error* found = nullptr;
    std::apply([&found](auto&... h) { ((found == nullptr ? found = h.failure() : found), ...); },
               holders_);
    return found;
  }
  /// Has the arrays of awaited values in memory until drop(); see carrier::wake_arguments.
  bool wake([[maybe_unused]] bool waits, [[maybe_unused]] std::uint64_t reader = 0) {
    if constexpr (has_arrays) {
      if (!awake_.all.empty() && (awake_.reader == 0 || awake_.reader == reader)) return true;
      rest();
      std::vector<node::rested> all = rested();
      if (!waits && !node::try_begin_reading(all, reader)) return false;
      if (waits) node::begin_reading(all, reader);
      awake_ = {std::move(all), reader};
    }
    return true;
  }
  /// Those values, when all are there.
  std::vector<node::rested> rested() {
    std::vector<node::rested> all;
    std::apply([&all](auto&... h) { (add_rested(h, all), ...); }, holders_);
    return all;
  }
  /// Ends that.
  void rest() noexcept {
    if constexpr (has_arrays) {
      for (const node::rested& one : std::exchange(awake_.all, {})) node::end_reading(one);
    }
  }
  template <class F>
  decltype(auto) call(F&& f) {
    wake(true);
    return std::apply([&f](auto&... h) -> decltype(auto) { return f(h.pass()...); }, holders_);
  }
  /// The same with copies of what the function would take out of the arguments.
  template <class F>
  decltype(auto) call_copied(F&& f) {
    if constexpr (is_kept) {
      return call(std::forward<F>(f));
    } else {
      wake(true);
      std::tuple<Holders...> copies(holders_);
      return std::apply([&f](auto&... h) -> decltype(auto) { return f(h.pass()...); }, copies);
    }
  }
  void drop() noexcept {
    rest();  // its memory, too: no destructor of this is called
    std::destroy_at(&holders_);
  }

  /// No parameter takes its argument away.
  static constexpr bool is_kept = (Holders::is_kept && ... && true);
  static constexpr bool can_repeat = is_kept || (Holders::is_copyable && ... && true);

 private:
  template <class Holder>
  static void add_rested([[maybe_unused]] Holder& of,
                         [[maybe_unused]] std::vector<node::rested>& to) {
    if constexpr (awaits_arrays<Holder>()) of.add_rested(to);
  }

  union {
    std::tuple<Holders...> holders_;
  };
  struct awake_for {
    std::vector<node::rested> all;
    std::uint64_t reader = 0;
  };
  using awake_list = std::conditional_t<has_arrays, awake_for, no_rest>;
  [[no_unique_address]] awake_list awake_;
};

}  // namespace manta::inline v0::detail
