// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/codec/obstacle.hpp>

// What can never leave its process, and so is refused as parameter and result of remote functions,
// actors and put: each kind in one line that says what to do; the compiler's lines around it name
// the type, which may be deep inside of the one that was passed.

namespace manta::inline v0::detail {

/// Refuses in one line. T: what keeps a value from travelling.
template <class T, codec::obstacle Kind>
constexpr bool refuse_travel() {
  using codec::obstacle;
  static_assert(Kind != obstacle::pointer,
                "manta: a raw pointer, inside a container or struct too, means nothing in another "
                "process; take or return the objects themselves, or use manta::async");
  static_assert(Kind != obstacle::function,
                "manta: a std::function or std::packaged_task can't travel to another process: "
                "nobody can write down what it captures; pass the data and call a function by "
                "remote<f>, or use manta::async");
  static_assert(Kind != obstacle::any,
                "manta: a std::any can't travel to another process, where its type is not known; "
                "use a std::variant, or manta::async");
  static_assert(Kind != obstacle::thread,
                "manta: a std::thread or std::jthread can't travel to another process; use "
                "manta::async for work that needs it");
  static_assert(Kind != obstacle::atomic,
                "manta: a std::atomic can't travel to another process, where it would be another "
                "one; take and return plain values, or use manta::async");
  static_assert(Kind != obstacle::reference,
                "manta: a std::reference_wrapper means nothing in another process; take the object "
                "by value or const T&, or use manta::async");
  static_assert(
      Kind != obstacle::lock,
      "manta: a std mutex, lock, condition variable, semaphore, latch, barrier, future or "
      "promise can't travel to another process; use an actor, a manta::semaphore, "
      "manta::channel or manta::future, or manta::async");
  static_assert(Kind != obstacle::view,
                "manta: a span, string_view or initializer_list inside of a value would outlive "
                "what it shows; use a vector or string");
  static_assert(Kind != obstacle::closure,
                "manta: a lambda with captures can't travel to another process: nobody can write "
                "down what it captures; pass the data, or use manta::async");
  static_assert(Kind != obstacle::polymorphic,
                "manta: a pointer to a polymorphic class can't travel, for what it points to may "
                "be more than its type says; use a std::variant, or make the class final");
  static_assert(Kind != obstacle::deleter,
                "manta: a std::unique_ptr with a deleter of its own, or to an array, can't travel; "
                "use std::unique_ptr<T> or a vector");
  static_assert(Kind != obstacle::full_base,
                "manta: a struct with fields in a base class shows none of them; give it a "
                "serialize function for cereal, or make the base a field");
  static_assert(Kind != obstacle::many_fields,
                "manta: a struct with more than 32 fields, or with fields that can't be counted, "
                "needs a serialize function for cereal");
  static_assert(Kind != obstacle::ambiguous,
                "manta: a class has several functions for cereal; say which counts with "
                "cereal::specialize");
  static_assert(Kind != obstacle::open_enum,
                "manta: an enum without a fixed type may not hold any number that arrives; give "
                "it one (enum E : int), or say its first and last value with manta::enum_range");
  static_assert(Kind != obstacle::stranger,
                "manta: there is no way to turn this type into bytes: it is neither trivially "
                "copyable, nor an aggregate, nor one of std's that can be, nor has it functions "
                "for cereal; give it serialize, or save and load, or use manta::async");
  return true;
}

/// Refuses in one line a T that can never leave its process.
template <class T>
constexpr bool check_travel() {
  using culprit = decltype(codec::find_obstacle<std::remove_cv_t<T>>());
  return refuse_travel<typename culprit::type, culprit::kind>();
}

}  // namespace manta::inline v0::detail
