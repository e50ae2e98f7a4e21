// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <manta/exec/context.hpp>
#include <manta/exec/executor.hpp>
#include <manta/future.hpp>
#include <manta/signature.hpp>
#include <manta/task.hpp>

// put: a value becomes an object that many tasks can use.

namespace manta::inline v0 {

namespace detail {

/// A job that is done from the start.
template <class T>
struct put_object : cell<T> {
  template <class U>
  explicit put_object(U&& from) : cell<T>(&ops, 1) {
    new (&value_of<T>(this)) T(std::forward<U>(from));
    rest_value<T>(this);
    this->finish(exec::job_bits::claimed | exec::job_bits::ready, 0);
  }
  static const exec::job_ops ops;
};

template <class T>
const exec::job_ops put_object<T>::ops = value_ops<T>(sizeof(put_object), 0,
                                                      &value_carrier<T>::value);

/// What a value is kept as: itself, or a string for text.
template <class U>
using put_t = std::conditional_t<std::is_same_v<std::decay_t<U>, const char*> ||
                                     std::is_same_v<std::decay_t<U>, char*>,
                                 std::string, std::decay_t<U>>;

}  // namespace detail

/// Stores `value` once and gives a future to it that is ready: pass that to many tasks instead of
/// the value. Text becomes a std::string. Throws no_runtime, std::bad_alloc, and what copying or
/// moving the value throws. Any thread. Cost: one block; one copy or move of the value.
template <class U>
auto put(U&& value) -> future<detail::put_t<U>> {
  using T = detail::put_t<U>;
  static_assert(!detail::is_future<T>::value, "manta::put: this is a future already; pass it on");
  static_assert(detail::check_result<T>() && detail::check_travel<T>());
  exec::executor::require();
  auto* const object = detail::make_job<detail::put_object<T>>(std::forward<U>(value));
  exec::name_child(object);
  future<T> out = detail::access::make<T>(object);
  if (exec::inherits_extra()) [[unlikely]]
    node::check_object(object);
  return out;
}

}  // namespace manta::inline v0
