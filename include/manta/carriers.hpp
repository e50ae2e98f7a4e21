// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/base/type_name.hpp>
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
};

/// The value in the slot of a job.
template <class T>
struct value_carrier {
  static void write(exec::job* j, codec::out_archive& out) { node::write(out, value_of<T>(j)); }
  static void renew(exec::job* j, codec::in_archive& in) { node::renew(value_of<T>(j), in); }
  static void read(exec::job* j, codec::in_archive& in) { node::read_at(&value_of<T>(j), in); }
  static const node::carrier value;
};
template <>
struct value_carrier<void> {
  static constexpr void (*write)(exec::job*, codec::out_archive&) = nullptr;
  static constexpr void (*renew)(exec::job*, codec::in_archive&) = nullptr;
  static constexpr void (*read)(exec::job*, codec::in_archive&) = nullptr;
};
template <class T>
const node::carrier value_carrier<T>::value{
    .write_value = write, .renew_value = renew, .read_value = read};

template <class Job, class T, class Described>
const node::carrier carrier_for<Job, T, Described>::value{
    .entry = &codec::registered<Described>::value,
    .write_arguments = write_arguments,
    .renew_arguments = renew_arguments,
    .write_value = value_carrier<T>::write,
    .renew_value = value_carrier<T>::renew,
    .read_value = value_carrier<T>::read,
    .write_parameters = write_parameters,
    .failure = failure};

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
