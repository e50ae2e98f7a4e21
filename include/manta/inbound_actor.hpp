// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <manta/actor_jobs.hpp>
#include <manta/inbound.hpp>

// Constructions and calls of actors that come from another process. As with tasks (inbound.hpp)
// what comes is the parameters; a method's object and its type are the actor's.

namespace manta::inline v0::detail {

template <auto F, class T>
struct inbound_method {
  static exec::job* make(exec::actor_core* to, std::uint64_t group, const exec::extra_source& with,
                         codec::in_archive& in) {
    using sig = signature<decltype(F)>;
    using R = typename sig::result;
    using pack = typename inbound_pack<typename sig::parameters>::type;
    using call = method_call<F, R, T, pack>;
    call* const made =
        make_job_with<call, front_of_call<flat_t<R>>>(with, to, typename pack::arrived{in});
    if constexpr (stream_starter<R>::is_stream) made->seat = stream_starter<R>::make_seat();
    made->caller |= group << exec::actor_core::group_shift;
    return made;
  }
  static constexpr node::inbound value{.make_call = &make, .of = &actor_block<T>::ops};

  static constexpr const void* ops() noexcept {
    if constexpr (is_inbound<F>()) {
      return &value;
    } else {
      return nullptr;
    }
  }
};

template <class T, class... P>
struct inbound_constructor {
  static exec::actor_core* make_core(std::unique_ptr<exec::resource_claim> given) {
    exec::actor_core* const made = make_job<actor_block<T>>(&actor_block<T>::ops);
    actor_block<T>::claim_of(made) = std::move(given);
    return made;
  }
  static exec::job* make(exec::actor_core* of, codec::in_archive& in) {
    using pack = typename inbound_pack<type_list<P...>>::type;
    return make_job<construction<T, pack, P...>>(of, typename pack::arrived{in});
  }
  static constexpr node::inbound value{
      .make_core = &make_core, .make_construction = &make, .of = &actor_block<T>::ops};

  static constexpr const void* ops() noexcept {
    if constexpr (are_read_by_value(type_list<P...>{})) {
      return &value;
    } else {
      return nullptr;
    }
  }
};

}  // namespace manta::inline v0::detail
