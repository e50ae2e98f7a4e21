// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/exec/job.hpp>
#include <manta/future.hpp>
#include <manta/node/carrier.hpp>
#include <manta/parameter.hpp>
#include <manta/signature.hpp>
#include <manta/travel.hpp>

// How an argument travels from the call to the function: by value, or as a future whose value the
// job waits for. A holder is part of the job's block and has three steps:
//   link(job)     registers with what is not ready yet; each adds one to job.needs
//   failure()     after all is ready: the error that the job inherits, or null
//   pass()        the argument for the function's parameter P
//   add_rested(list)  where awaits_arrays: the values whose arrays have to be in memory before that
// and for its way into another process: before it is linked write(archive), renew(archive); after
// all is ready write_parameter(archive), which writes what the parameter gets.

namespace manta::inline v0 {

namespace detail {

template <class T, class... Outer>
constexpr bool is_copied_whole();

/// is_repeatable where it is not specialised, which `is_general` tells. The answer is found when it
/// is asked for, not before: a type may be inside of itself.
template <class T>
struct copied_whole {
  using is_general = void;
  static constexpr bool value = is_copied_whole<T>();
};

}  // namespace detail

/// Whether an argument of type T can be copied for another run of its task, see
/// options::retry_exceptions. It looks into std containers, pairs, tuples and optionals, and into
/// aggregates up to their 16th field. Specialise it as std::false_type for another class that looks
/// copyable and whose copy constructor does not compile (it has a vector of move-only elements).
template <class T>
struct is_repeatable : detail::copied_whole<T> {};

namespace detail {

/// For unevaluated code: becomes any field of an aggregate.
struct any_field {
  template <class U>
  operator U() const;
};
template <std::size_t>
using any_field_at = any_field;

/// Becomes only a field that can't be copied. `Outer`: the types that it is inside of.
template <class... Outer>
struct uncopied_field {
  template <class U>
  requires(!is_copied_whole<U, Outer...>()) operator U() const;
};

template <class T, class... Outer, std::size_t... Before>
constexpr bool has_uncopied_field(std::index_sequence<Before...> /*fields before it*/) {
  return requires { T{any_field_at<Before>{}..., uncopied_field<T, Outer...>{}}; };
}
template <class T, class... Outer, std::size_t... At>
constexpr bool has_uncopied_fields(std::index_sequence<At...> /*places to look at*/) {
  return (has_uncopied_field<T, Outer...>(std::make_index_sequence<At>{}) || ... || false);
}

/// The types that a std template other than a container is made of.
template <class T>
struct made_of : type_list<> {};
template <class A, class B>
struct made_of<std::pair<A, B>> : type_list<A, B> {};
template <class... P>
struct made_of<std::tuple<P...>> : type_list<P...> {};
template <class P>
struct made_of<std::optional<P>> : type_list<P> {};

template <class T, class... Outer, class... P>
constexpr bool are_copied_whole(type_list<P...> /*parts*/) {
  return (is_copied_whole<std::remove_cv_t<P>, T, Outer...>() && ... && true);
}

/// The general answer of is_repeatable. A type inside of itself does not decide.
template <class T, class... Outer>
constexpr bool is_copied_whole() {
  if constexpr ((std::is_same_v<T, Outer> || ...)) {
    return true;
  } else if constexpr (!requires { typename is_repeatable<T>::is_general; }) {
    return is_repeatable<T>::value;
  } else if constexpr (!std::is_copy_constructible_v<T>) {
    return false;
  } else if constexpr (codec::container<T>) {
    return are_copied_whole<T, Outer...>(type_list<typename T::value_type>{});
  } else if constexpr (std::is_aggregate_v<T> && std::is_class_v<T>) {
    return !has_uncopied_fields<T, Outer...>(std::make_index_sequence<16>{});
  } else {
    return are_copied_whole<T, Outer...>(made_of<T>{});
  }
}

}  // namespace detail

}  // namespace manta::inline v0

namespace manta::inline v0::detail {

/// Tells a job that one thing it needs is there.
struct dependency : exec::waiter {
  exec::job* dependent = nullptr;

  /// Adds one need unless `on` is ready already.
  void link(exec::job* j, exec::job* on) {
    dependent = j;
    fire = [](exec::waiter* w) noexcept { static_cast<dependency*>(w)->met(); };
    j->needs.fetch_add(1, std::memory_order_relaxed);
    if (!on->add_waiter(this)) j->needs.fetch_sub(1, std::memory_order_relaxed);
  }
  void met() noexcept {
    // Acquire and release: the job's runner sees every value that was waited for.
    exec::job* const j = dependent;
    if (j->needs.fetch_sub(1, std::memory_order_acq_rel) == 1) j->ops->ready(j);
  }
};

/// A job's failure, followed through aliases; null when it is done.
inline const error* failure_of(exec::job* j) noexcept {
  exec::job* const end = j->outcome();
  return (end->word() & exec::job_bits::failed) != 0 ? &end->failure() : nullptr;
}

/// A value for parameter P; a future is passed through as a value like any other.
template <class P>
struct value_argument {
  using stored = std::remove_cvref_t<P>;
  stored value;

  template <class A>
  requires(!std::is_same_v<std::remove_cvref_t<A>, value_argument>) explicit value_argument(A&& a)
      : value(static_cast<stored>(std::forward<A>(a))) {}
  static constexpr bool is_linked = false;
  static constexpr bool is_kept = std::is_lvalue_reference_v<P> || std::is_scalar_v<stored>;
  static constexpr bool is_copyable = is_repeatable<stored>::value;
  void write(codec::out_archive& out) const { node::write(out, value); }
  void write_parameter(codec::out_archive& out) const { node::write(out, value); }
  void renew(codec::in_archive& in) { node::renew(value, in); }
  void link(exec::job* /*job*/) {}
  const error* failure() noexcept { return nullptr; }
  decltype(auto) pass() noexcept {
    if constexpr (std::is_lvalue_reference_v<P>) {
      return std::as_const(value);
    } else {
      return std::move(value);
    }
  }
};

/// True when P reads the value where it is: const T&, or a view of it.
template <class P, class U>
inline constexpr bool reads_in_place = (std::is_lvalue_reference_v<P> &&
                                        std::is_same_v<std::remove_cvref_t<P>, U>) ||
                                       is_const_span<P>;

/// A future<U> whose value P takes.
template <class P, class U>
struct future_argument {
  future<U> from;
  dependency node;

  explicit future_argument(future<U> f) : from(std::move(f)) {
    if (!from.valid()) raise_empty_future();
  }
  static constexpr bool is_linked = true;
  static constexpr bool is_kept = reads_in_place<P, U>;
  static constexpr bool is_copyable = is_repeatable<U>::value;
  static constexpr bool awaits_arrays = holds_arrays<U>;
  void add_rested(std::vector<node::rested>& to) {
    constexpr bool goes_as_it_is = std::is_same_v<std::remove_cvref_t<P>, U>;
    to.push_back(rested_in<U>(access::job(from)->outcome(), goes_as_it_is));
  }
  void write(codec::out_archive& out) const { node::write(out, from); }
  void write_parameter(codec::out_archive& out) const {
    const U& value = value_of<U>(access::job(from)->outcome());
    using element = std::remove_cv_t<span_element_t<P>>;
    if constexpr (is_const_span<P> &&
                  (std::is_same_v<U, std::vector<element>> || is_array_of<U, element>)) {
      write_span_values<element>(out, value);
    } else if constexpr (is_const_span<P>) {
      write_elements_as<parameter_t<P>, element>(out, static_cast<std::remove_cvref_t<P>>(value));
    } else {
      node::write_as<parameter_t<P>>(out, value);
    }
  }
  void renew(codec::in_archive& in) { node::renew(from, in); }
  void link(exec::job* j) {
    exec::job* const on = access::job(from);
    if (!on->is_ready()) node.link(j, on);
  }
  const error* failure() noexcept { return failure_of(access::job(from)); }
  decltype(auto) pass() {
    exec::job* const handle = access::job(from);
    exec::job* const owner = handle->outcome();
    if constexpr (reads_in_place<P, U>) {
      return std::as_const(value_of<U>(owner));
    } else {
      return take_value<U>(handle, owner);
    }
  }
};

/// Walks a list of jobs and needs one until all are ready, with one node for the whole list.
struct gather_node : exec::waiter {
  exec::job* dependent = nullptr;
  exec::job* const* next_job = nullptr;
  exec::job* const* last = nullptr;

  void link(exec::job* j, exec::job* const* begin, exec::job* const* end) {
    dependent = j;
    next_job = begin;
    last = end;
    fire = [](exec::waiter* w) noexcept {
      auto* const self = static_cast<gather_node*>(w);
      exec::job* const of = self->dependent;
      if (self->advance()) return;
      if (of->needs.fetch_sub(1, std::memory_order_acq_rel) == 1) of->ops->ready(of);
    };
    j->needs.fetch_add(1, std::memory_order_relaxed);
    if (!advance()) j->needs.fetch_sub(1, std::memory_order_relaxed);
  }
  /// True when it waits for another one. Once it does, this object may be gone on return.
  bool advance() noexcept {
    while (next_job != last) {
      exec::job* const on = *next_job++;
      if (!on->is_ready() && on->add_waiter(this)) return true;
    }
    return false;
  }
};

/// A std::vector<future<U>> for a parameter std::vector<T>, const std::vector<T>& or span of const
/// T.
template <class P, class U>
struct gather_argument {
  std::vector<future<U>> from;
  gather_node node;
  std::vector<U> values;

  explicit gather_argument(std::vector<future<U>> f) : from(std::move(f)) {
    for (const future<U>& one : from) {
      if (!one.valid()) raise_empty_future();
    }
  }
  static constexpr bool is_linked = true;
  static constexpr bool is_kept = false;
  static constexpr bool is_copyable = is_repeatable<U>::value;
  static constexpr bool awaits_arrays = holds_arrays<U>;
  void add_rested(std::vector<node::rested>& to) {
    using element = std::remove_cv_t<typename std::remove_cvref_t<P>::value_type>;
    for (const future<U>& one : from) {
      to.push_back(rested_in<U>(access::job(one)->outcome(), std::is_same_v<element, U>));
    }
  }
  void write(codec::out_archive& out) const { node::write(out, from); }
  void write_parameter(codec::out_archive& out) const {
    // By a reference to each value: the elements are converted where they are not of one type.
    std::vector<std::reference_wrapper<const U>> found;
    found.reserve(from.size());
    for (const future<U>& one : from) {
      found.emplace_back(value_of<U>(access::job(one)->outcome()));
    }
    write_elements_as<parameter_t<P>, U>(out, found);
  }
  void renew(codec::in_archive& in) { node::renew(from, in); }
  exec::job* const* begin() const noexcept {
    // A future is one pointer to its job.
    static_assert(sizeof(future<U>) == sizeof(exec::job*) && std::is_standard_layout_v<future<U>>);
    return reinterpret_cast<exec::job* const*>(from.data());
  }
  void link(exec::job* j) { node.link(j, begin(), begin() + from.size()); }
  const error* failure() noexcept {
    for (const future<U>& one : from) {
      if (const error* e = failure_of(access::job(one))) return e;
    }
    return nullptr;
  }
  decltype(auto) pass() {
    values.reserve(from.size());
    for (const future<U>& one : from) {
      exec::job* const handle = access::job(one);
      values.push_back(take_value<U>(handle, handle->outcome()));
    }
    if constexpr (std::is_lvalue_reference_v<P> || is_const_span<P>) {
      return std::as_const(values);
    } else {
      return std::move(values);
    }
  }
};

/// Chooses the holder for parameter P and an argument of type A.
template <class P, class A>
struct choose_argument {
  using type = value_argument<P>;
};
template <class P, class A>
requires(is_const_span<P>) struct choose_argument<P, A> {
  using type = span_argument<std::remove_cv_t<span_element_t<P>>>;
};
template <class P, class U>
requires(!is_future<std::remove_cvref_t<P>>::value) struct choose_argument<P, future<U>> {
  using type = future_argument<P, U>;
};

template <class T>
struct list_of_futures : std::false_type {};
template <class U>
struct list_of_futures<std::vector<future<U>>> : std::true_type {};

template <class P, class U>
requires(!list_of_futures<std::remove_cvref_t<P>>::value) struct choose_argument<
    P, std::vector<future<U>>> {
  using type = gather_argument<P, U>;
};

template <class P, class A>
using argument_t = typename choose_argument<P, std::remove_cvref_t<A>>::type;

/// Whether an argument A can become parameter P: directly, through its future, or gathered.
template <class P, class A>
constexpr bool is_accepted() {
  using plain = std::remove_cvref_t<A>;
  using holder = argument_t<P, A>;
  if constexpr (!std::is_constructible_v<holder, A&&>) {
    return false;
  } else if constexpr (holder::is_linked) {
    return std::is_convertible_v<decltype(std::declval<holder&>().pass()), P>;
  } else {
    return is_const_span<P> || std::is_convertible_v<A&&, std::remove_cvref_t<P>> ||
           std::is_same_v<plain, std::remove_cvref_t<P>>;
  }
}

template <class P, class A>
constexpr bool check_argument() {
  static_assert(
      is_accepted<P, A>(),
      "manta: an argument does not fit its parameter: it must convert to it, or be a future "
      "(or a vector of futures) of something that does; see P and A in the next line");
  return true;
}

}  // namespace manta::inline v0::detail
