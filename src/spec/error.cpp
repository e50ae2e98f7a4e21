// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/error.hpp>

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "spec/cluster.hpp"
#include "spec/own_node.hpp"

namespace manta::inline v0 {

namespace {

constexpr std::array<const char*, 24> names = {
    "task_error",       "worker_lost",    "node_lost",        "object_lost",    "actor_lost",
    "timed_out",        "cancelled",      "store_full",       "infeasible",     "decode_failed",
    "invalid_argument", "invalid_config", "no_runtime",       "not_unique",     "self_wait",
    "out_of_memory",    "name_taken",     "mailbox_full",     "channel_closed", "group_removed",
    "unsupported",      "encode_failed",  "unknown_function", "storage_failed"};

std::string compose(const task_failure& failure) {
  std::string text = fmt::format("{} threw {}", failure.function, failure.type_name);
  if (!failure.message.empty()) text += fmt::format(": {}", failure.message);
  text += fmt::format(" [node {}, attempt {}]", failure.node, failure.attempt);
  return text;
}

std::string demangled(const std::type_info* type) {
  if (type == nullptr) return "unknown";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  return text == nullptr ? type->name() : text.get();
}

template <class Exception>
[[noreturn]] void throw_as(const error& e) {
  throw Exception(e);
}

// An object of it must have an exception inside: std::rethrow_if_nested ends the program otherwise.
class nesting_task_error final : public task_error, public std::nested_exception {
 public:
  using task_error::nested_ptr;
  using task_error::rethrow_nested;
  using task_error::task_error;
};

// std::nested_exception captures the exception being handled, so the original is thrown and caught
// once to be the one.
[[noreturn]] void throw_task_error(const error& e) {
  const task_failure* failure = e.failure();
  if (failure == nullptr || failure->cause == nullptr) throw task_error(e);
  try {
    std::rethrow_exception(failure->cause);
  } catch (...) {
    throw nesting_task_error(e);
  }
}

}  // namespace

struct error::body {
  std::atomic<std::uint32_t> holders{1};
  errc code = errc::task_error;
  std::string message;
  task_failure failure;
  bool has_failure = false;
};

void task_error::rethrow_nested() const {
  if (const std::exception_ptr original = nested_ptr()) std::rethrow_exception(original);
  as_error().raise();
}

const char* to_string(errc code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return index < names.size() ? names[index] : "unknown";
}

error::error(errc code, std::string message) : body_(new body) {
  body_->code = code;
  body_->message = std::move(message);
}

error::error(task_failure failure) : body_(nullptr) {
  auto made = std::make_unique<body>();
  made->message = compose(failure);
  made->failure = std::move(failure);
  made->has_failure = true;
  body_ = made.release();
}

error::error(const error& other) noexcept : body_(other.body_) {
  // A new holder comes from an existing one, so no order is needed; the last one's delete is.
  if (body_ != nullptr) body_->holders.fetch_add(1, std::memory_order_relaxed);
}

error::~error() {
  if (body_ != nullptr && body_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete body_;
}

error error::out_of_memory() noexcept {
  // Built when the first runtime starts (or at the first use), so that it is there when needed.
  static const error prepared(errc::out_of_memory,
                              "out of memory: an allocation failed while a task was handled; free "
                              "memory or keep fewer futures");
  return prepared;
}

errc error::code() const noexcept { return body_->code; }
const std::string& error::message() const noexcept { return body_->message; }
const task_failure* error::failure() const noexcept {
  return body_->has_failure ? &body_->failure : nullptr;
}

void error::raise() const {
  switch (code()) {
    case errc::task_error:
      throw_task_error(*this);
    case errc::worker_lost:
      throw_as<manta::worker_lost>(*this);
    case errc::node_lost:
      throw_as<manta::node_lost>(*this);
    case errc::object_lost:
      throw_as<manta::object_lost>(*this);
    case errc::actor_lost:
      throw_as<manta::actor_lost>(*this);
    case errc::timed_out:
      throw_as<manta::timed_out>(*this);
    case errc::cancelled:
      throw_as<manta::cancelled>(*this);
    case errc::store_full:
      throw_as<manta::store_full>(*this);
    case errc::infeasible:
      throw_as<manta::infeasible>(*this);
    case errc::decode_failed:
      throw_as<manta::decode_failed>(*this);
    case errc::encode_failed:
      throw_as<manta::encode_failed>(*this);
    case errc::invalid_argument:
      throw_as<manta::invalid_argument>(*this);
    case errc::invalid_config:
      throw_as<manta::invalid_config>(*this);
    case errc::no_runtime:
      throw_as<manta::no_runtime>(*this);
    case errc::not_unique:
      throw_as<manta::not_unique>(*this);
    case errc::self_wait:
      throw_as<manta::self_wait>(*this);
    case errc::out_of_memory:
      throw_as<manta::out_of_memory>(*this);
    case errc::name_taken:
      throw_as<manta::name_taken>(*this);
    case errc::mailbox_full:
      throw_as<manta::mailbox_full>(*this);
    case errc::channel_closed:
      throw_as<manta::channel_closed>(*this);
    case errc::group_removed:
      throw_as<manta::group_removed>(*this);
    case errc::unsupported:
      throw_as<manta::unsupported>(*this);
    case errc::unknown_function:
      throw_as<manta::unknown_function>(*this);
    case errc::storage_failed:
      throw_as<manta::storage_failed>(*this);
  }
  throw_as<manta::exception>(*this);
}

exception::exception(const manta::error& error)
    : std::runtime_error(std::string("manta::") + to_string(error.code()) + ": " + error.message()),
      error_(error) {}

void raise(errc code, std::string message) { error(code, std::move(message)).raise(); }

namespace {

// Takes no memory: it is named when a runtime ends, too, and when one could not be made.
class node_name {
 public:
  std::string get() {
    const std::lock_guard lock(mutex_);
    return {name_.data(), size_};
  }
  void set(std::string_view name) noexcept {
    const std::lock_guard lock(mutex_);
    size_ = name.copy(name_.data(), name_.size());
  }

 private:
  std::mutex mutex_;
  std::array<char, spec::most_node_name> name_ = {'l', 'o', 'c', 'a', 'l'};
  std::size_t size_ = 5;
};

constinit node_name own_node;  // late threads ask it: nothing destroys it
static_assert(std::is_trivially_destructible_v<node_name>);

// May throw (bad_alloc, or a user's what() that throws); the caller is the net below.
error describe(const char* function, int attempt) {
  task_failure failure;
  failure.cause = std::current_exception();
  failure.type_name = demangled(abi::__cxa_current_exception_type());
  failure.function = readable_name(function);
  failure.node = own_node.get();
  failure.attempt = attempt;
  try {
    throw;
  } catch (const exception& e) {
    // The first cause stays visible through a chain of dependents.
    return e.as_error();
  } catch (const std::exception& e) {
    const char* text = e.what();
    if (text != nullptr) failure.message = text;
  } catch (...) {
    // Not an exception class: its type is all that can be said.
  }
  return error(std::move(failure));
}

}  // namespace

void spec::name_own_node(std::string_view name) noexcept { own_node.set(name); }
std::string spec::name_of_own_node() { return own_node.get(); }

error describe_current_exception(const char* function, int attempt) noexcept {
  try {
    return describe(function, attempt);
  } catch (...) {
    return error::out_of_memory();
  }
}

std::string readable_name(const char* spelled) {
  // Both compilers end the spelling with "[with auto F = name]" or "[F = name]"; T for a type.
  std::string_view text = spelled;
  const std::size_t close = text.rfind(']');
  std::size_t begin = std::string_view::npos;
  for (const std::string_view before : {"[with auto F = ", "[F = ", "[with T = ", "[T = "}) {
    const std::size_t found = text.find(before);
    if (found != std::string_view::npos) begin = std::min(begin, found + before.size());
  }
  if (begin == std::string_view::npos || close == std::string_view::npos || close < begin) {
    return std::string(text);
  }
  text = text.substr(begin, close - begin);
  if (!text.empty() && text.front() == '&') text.remove_prefix(1);
  return std::string(text);
}

}  // namespace manta::inline v0
