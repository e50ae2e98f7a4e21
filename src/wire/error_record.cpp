// SPDX-License-Identifier: Apache-2.0
#include "wire/error_record.hpp"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <manta/base/check.hpp>

namespace manta::inline v0::wire {

namespace {

std::exception_ptr nested_in(const std::exception_ptr& outer) {
  if (outer == nullptr) return nullptr;
  try {
    std::rethrow_exception(outer);
  } catch (const std::nested_exception& holder) {
    return holder.nested_ptr();
  } catch (...) {
    return nullptr;
  }
}

// `inner` happened where `outer` did.
error describe(const std::exception_ptr& inner, const task_failure& outer) {
  try {
    std::rethrow_exception(inner);
  } catch (...) {
    error described = describe_current_exception(outer.function.c_str(), outer.attempt);
    if (described.failure() == nullptr) return described;
    task_failure moved = *described.failure();
    moved.node = outer.node;
    return error(std::move(moved));
  }
}

cause_view to_view(const error& from) {
  cause_view out;
  out.code = from.code();
  out.message = from.message();
  const task_failure* failure = from.failure();
  if (failure == nullptr) return out;
  out.has_failure = true;
  out.attempt = failure->attempt;
  out.type_name = failure->type_name;
  out.text = failure->message;
  out.function = failure->function;
  out.node = failure->node;
  return out;
}

template <class Exception>
std::exception_ptr make(const std::exception_ptr& inner, Exception&& made) {
  if (inner == nullptr) return std::make_exception_ptr(std::forward<Exception>(made));
  try {
    std::rethrow_exception(inner);
  } catch (...) {
    try {
      std::throw_with_nested(std::forward<Exception>(made));
    } catch (...) {
      return std::current_exception();
    }
  }
}

// libstdc++'s name for an exception that others are nested in.
std::string_view without_nesting(std::string_view type) {
  constexpr std::string_view before = "std::_Nested_exception<";
  if (!type.starts_with(before) || !type.ends_with('>')) return type;
  return type.substr(before.size(), type.size() - before.size() - 1);
}

// The exception that a description is of; null when it can't be made and holds nothing.
std::exception_ptr remake(const cause_view& from, const std::exception_ptr& inner) {
  const std::string text(from.text);
  const std::string_view type = without_nesting(from.type_name);
  if (type == "std::runtime_error") return make(inner, std::runtime_error(text));
  if (type == "std::logic_error") return make(inner, std::logic_error(text));
  if (type == "std::out_of_range") return make(inner, std::out_of_range(text));
  if (type == "std::invalid_argument") return make(inner, std::invalid_argument(text));
  if (type == "std::domain_error") return make(inner, std::domain_error(text));
  if (type == "std::length_error") return make(inner, std::length_error(text));
  if (type == "std::range_error") return make(inner, std::range_error(text));
  if (type == "std::overflow_error") return make(inner, std::overflow_error(text));
  if (type == "std::underflow_error") return make(inner, std::underflow_error(text));
  if (type == "std::bad_alloc") return make(inner, std::bad_alloc());
  if (inner == nullptr) return nullptr;
  return make(inner, std::runtime_error(std::string(type) + ": " + text));
}

error remake_error(const cause_view& from, std::exception_ptr cause) {
  if (!from.has_failure) return error(from.code, std::string(from.message));
  task_failure failure;
  failure.type_name = from.type_name;
  failure.message = from.text;
  failure.function = from.function;
  failure.node = from.node;
  failure.attempt = from.attempt;
  failure.cause = std::move(cause);
  return error(std::move(failure));
}

std::exception_ptr thrown_by(const error& from) {
  try {
    from.raise();
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

error_record::error_record(const error& from) {
  errors_.push_back(from);
  while (errors_.size() < limits::error_chain) {
    const task_failure* failure = errors_.back().failure();
    const std::exception_ptr inner = nested_in(failure == nullptr ? nullptr : failure->cause);
    if (inner == nullptr) break;
    errors_.push_back(describe(inner, *failure));
  }
  causes_.reserve(errors_.size());
  for (const error& one : errors_) causes_.push_back(to_view(one));
}

error to_error(const error_view& from) {
  MANTA_CHECK(!from.chain.empty());
  std::exception_ptr inner;
  for (std::size_t i = from.chain.size() - 1; i > 0; --i) {
    const cause_view& one = from.chain[i];
    inner = one.has_failure ? remake(one, inner) : thrown_by(remake_error(one, nullptr));
  }
  const cause_view& first = from.chain.front();
  return remake_error(first, first.has_failure ? remake(first, inner) : nullptr);
}

}  // namespace manta::inline v0::wire
