// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/base/type_name.hpp>
#include <manta/cell.hpp>
#include <manta/codec/identity.hpp>
#include <manta/exec/job.hpp>
#include <manta/future.hpp>
#include <manta/node/carrier.hpp>

// The carriers (node/carrier.hpp) of the front's jobs: which function each is, and how its
// arguments and its value are written and read.

namespace manta::inline v0::detail {

/// How a job of type Job with a value of type T travels; `Described`: see codec/identity.hpp.
template <class Job, class T, class Described>
struct carrier_for {
  static const node::carrier value;

  static void write_arguments(exec::job* j, codec::out_archive& out) {
    Job::self(j)->arguments.write(out);
  }
  static void renew_arguments(exec::job* j, codec::in_archive& in) {
    Job::self(j)->arguments.renew(in);
  }
  static void write_parameters(exec::job* j, codec::out_archive& out) {
    Job::self(j)->arguments.write_parameters(out);
  }
  static const error* failure(exec::job* j) noexcept { return Job::self(j)->arguments.failure(); }
  static bool wake(exec::job* j, bool waits, std::uint64_t reader) {
    return Job::self(j)->arguments.wake(waits, reader);
  }
  static std::vector<node::rested> rested(exec::job* j) { return Job::self(j)->arguments.rested(); }
  static void rest(exec::job* j) { Job::self(j)->arguments.rest(); }
  static constexpr auto waker() noexcept -> bool (*)(exec::job*, bool, std::uint64_t) {
    return decltype(Job::arguments)::has_arrays ? &wake : nullptr;
  }
  static constexpr auto lister() noexcept -> std::vector<node::rested> (*)(exec::job*) {
    return decltype(Job::arguments)::has_arrays ? &rested : nullptr;
  }
  static constexpr auto rester() noexcept -> void (*)(exec::job*) {
    return decltype(Job::arguments)::has_arrays ? &rest : nullptr;
  }
};

/// What a function that returns R has of streams: nothing, unless it is a generator (stream.hpp).
template <class R>
struct stream_starter;

/// The stream of a job of type Job whose function returns Job::returned.
template <class Job>
struct stream_carrier {
  static constexpr bool is_stream = false;
};
template <class Job>
requires(stream_starter<typename Job::returned>::is_stream) struct stream_carrier<Job> {
  using starter = stream_starter<typename Job::returned>;
  static constexpr bool is_stream = true;
  static exec::stream_core* core(exec::job* j) noexcept {
    return starter::core_of(Job::self(j)->generator_seat());
  }
};

/// The same with the stream of its jobs, if they have one.
template <class Job>
constexpr node::carrier with_stream(node::carrier made) noexcept {
  using of = stream_carrier<Job>;
  if constexpr (of::is_stream) {
    made.stream = &of::core;
    made.stays = stays_in_node<typename Job::returned::value_type>;  // of its items
    made.read_item = &of::starter::read_item;
    made.fail_item = &of::starter::fail_item;
  }
  return made;
}

template <class Job, class T, class Described>
const node::carrier carrier_for<Job, T, Described>::value =
    with_stream<Job>({.entry = &codec::registered<Described>::value,
                      .write_arguments = write_arguments,
                      .renew_arguments = renew_arguments,
                      .write_value = value_carrier<T>::write,
                      .renew_value = value_carrier<T>::renew,
                      .read_value = value_carrier<T>::read,
                      .stays = stays_in_node<T>,
                      .write_parameters = write_parameters,
                      .failure = failure,
                      .wake_arguments = waker(),
                      .rest_arguments = rester(),
                      .rested_arguments = lister()});

/// How calls of F that come from another process become jobs; see inbound.hpp.
template <auto F, codec::entry_kind Kind>
struct inbound_call;

/// A function, method or constructor as codec/identity.hpp wants it.
template <auto F, codec::entry_kind Kind>
struct described_function {
  static constexpr codec::entry_kind kind = Kind;
  static constexpr const char* function() noexcept { return base::spelled_function<F>(); }
  static constexpr const char* type() noexcept { return base::spelled_type<decltype(F)>(); }
  static constexpr const void* ops() noexcept { return inbound_call<F, Kind>::ops(); }
};

/// Null for a callable that never leaves its process.
template <class Callee, class Task, class T>
constexpr const void* carrier_of_callee() noexcept {
  if constexpr (requires { typename Callee::described; }) {
    return &carrier_for<Task, T, typename Callee::described>::value;
  } else {
    return nullptr;
  }
}

}  // namespace manta::inline v0::detail
