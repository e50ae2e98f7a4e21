// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>
#include <type_traits>
#include <utility>

#include <manta/argument.hpp>
#include <manta/carriers.hpp>
#include <manta/signature.hpp>
#include <manta/task.hpp>

// Calls that come from another process: each function that is called remotely has one job type for
// them, whatever its callers passed, since what comes is its parameters
// (carrier::write_parameters).

namespace manta::inline v0::detail {

template <auto F>
struct constant_callee;

/// The pack of parameters P; a last stop token is the task's own.
template <class List, class... Holders>
struct inbound_pack;
template <class P, class... Rest, class... Holders>
struct inbound_pack<type_list<P, Rest...>, Holders...>
    : inbound_pack<type_list<Rest...>, Holders..., argument_t<P, parameter_t<P>>> {};
template <class... Holders>
struct inbound_pack<type_list<std::stop_token>, Holders...> {
  using type = argument_pack<Holders..., stop_argument>;
};
template <class... Holders>
struct inbound_pack<type_list<>, Holders...> {
  using type = argument_pack<Holders...>;
};

/// Whether a P can be read from bytes and be put into its job.
template <class P>
constexpr bool is_read_by_value() {
  if constexpr (std::is_same_v<P, std::stop_token>) {
    return true;
  } else if constexpr (std::is_pointer_v<std::remove_cvref_t<P>> ||
                       is_string_view<std::remove_cvref_t<P>> ||
                       !std::is_constructible_v<parameter_t<P>, parameter_t<P>&&>) {
    return false;
  } else {
    return node::can_travel<parameter_t<P>>;
  }
}
template <class... P>
constexpr bool are_read_by_value(type_list<P...> /*parameters*/) {
  return (is_read_by_value<P>() && ... && true);
}

/// Whether calls of F can come in; where not, who gives one away hears of it.
template <auto F>
constexpr bool is_inbound() {
  using sig = signature<std::remove_cv_t<decltype(F)>>;
  if constexpr (sig::is_known) {
    return are_read_by_value(typename sig::parameters{});
  } else {
    return false;
  }
}

template <auto F, codec::entry_kind Kind>
struct inbound_call {
  static constexpr const void* ops() noexcept { return nullptr; }
};

template <auto F>
struct inbound_call<F, codec::entry_kind::task> {
  static exec::job* make(const exec::extra_source& with, codec::in_archive& in) {
    using sig = signature<std::remove_cv_t<decltype(F)>>;
    using R = typename sig::result;
    using pack = typename inbound_pack<typename sig::parameters>::type;
    if constexpr (stream_starter<R>::is_stream) {
      using starter = stream_starter<R>;
      using callee = typename starter::template callee<F>;
      using job = task<callee, R, pack, false>;
      return make_job_with<job>(with, callee{starter::make_seat()}, typename pack::arrived{in});
    } else {
      using job = task<constant_callee<F>, R, pack, false>;
      return make_job_with<job>(with, constant_callee<F>{}, typename pack::arrived{in});
    }
  }
  static constexpr node::inbound value{&make};

  static constexpr const void* ops() noexcept {
    if constexpr (is_inbound<F>()) {
      return &value;
    } else {
      return nullptr;
    }
  }
};

}  // namespace manta::inline v0::detail
