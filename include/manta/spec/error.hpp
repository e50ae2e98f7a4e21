// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <manta/base/export.hpp>
#include <manta/base/result.hpp>

// What can go wrong, as values and as exceptions. A future that fails holds an `error`; `get`
// throws the exception type that belongs to its code, `try_get` returns it.

namespace manta::inline v0 {

/// The kinds of failure. Each has one exception type of the same name.
enum class errc {
  task_error,        ///< the user's function threw
  worker_lost,       ///< the isolated worker that ran the task died
  node_lost,         ///< the node that ran the task died
  object_lost,       ///< a value is gone and could not be made again
  actor_lost,        ///< the actor ended, or its constructor failed
  timed_out,         ///< the deadline passed first
  cancelled,         ///< cancelled, or the runtime ended before the task began
  store_full,        ///< no room for the object in bounded time
  infeasible,        ///< no node can ever give what was asked for
  decode_failed,     ///< bytes that are not a valid value
  invalid_argument,  ///< a call was made with something that it does not take
  invalid_config,    ///< a setting is out of its range
  no_runtime,        ///< used before a manta::runtime exists or after it ended
  not_unique,        ///< a move-only value was to be moved out while others still hold it
  self_wait,         ///< a task or an actor waits for itself
  out_of_memory,     ///< an allocation of the engine failed
  name_taken,        ///< an actor of that name is alive already
  mailbox_full,      ///< the actor's mailbox is at its cap
  channel_closed,    ///< nothing more can be sent, or is left to be received
  group_removed,     ///< the placement group was removed or is gone
  unsupported,       ///< this way of running cannot do what was asked; the message says which can
  encode_failed,     ///< a value that can't be turned into bytes
  unknown_function,  ///< this process has no such function; it runs another build
  storage_failed,    ///< a disk failed, or what is on it is damaged or not ours
};

/// "timed_out" and so on; static storage.
MANTA_API const char* to_string(errc code) noexcept;

/// What a failed task leaves: all of it is also in the message of the exception.
struct task_failure {
  std::string type_name;     ///< the exception's type, demangled; "unknown" when it has none
  std::string message;       ///< what(), or empty
  std::string function;      ///< the remote function's name
  std::string node;          ///< where it ran, as this_task::node() calls it
  int attempt = 0;           ///< 0 is the first run
  std::exception_ptr cause;  ///< the original exception, when it can be carried
};

/// A failure as a value: one counted pointer to an immutable body. Any thread. Copying never
/// throws.
class MANTA_API error {
 public:
  /// Shares the body of `other`.
  error(const error& other) noexcept;
  /// Takes the body over; `other` may only be assigned or destroyed then.
  error(error&& other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
  /// Takes the place of what this was.
  error& operator=(error other) noexcept {
    std::swap(body_, other.body_);
    return *this;
  }
  ~error();

  /// `message`: what was asked, what was found, what to do.
  error(errc code, std::string message);
  /// A user's exception that ended a task.
  explicit error(task_failure failure);
  /// The error for failed allocations; needs none itself.
  static error out_of_memory() noexcept;

  /// The kind of failure.
  errc code() const noexcept;
  /// What was asked, what was found, what to do; for a user's exception all of its task_failure.
  const std::string& message() const noexcept;
  /// Null unless a user's exception is the cause.
  const task_failure* failure() const noexcept;

  /// Throws the exception type of code(). A task_error nests the original exception.
  [[noreturn]] void raise() const;

 private:
  struct body;
  body* body_;  // null only after a move
};

/// A value or the error that took its place. T may be a reference or void.
template <class T>
using result = base::basic_result<T, error>;

/// The base of everything that manta throws.
class MANTA_API exception : public std::runtime_error {
 public:
  /// The exception for a failure; error::raise throws the type that belongs to the code.
  explicit exception(const manta::error& error);
  /// The kind of failure.
  errc code() const noexcept { return error_.code(); }
  /// The same failure as a value.
  const manta::error& as_error() const noexcept { return error_; }

 private:
  manta::error error_;
};

/// A user's exception that arrived at `get`. std::rethrow_if_nested gives the original where there
/// is one, and does nothing otherwise: an exception that is none of std's stays in the process that
/// threw it (src/docs/travel.md). What is thrown is a std::nested_exception, too, when it has one.
class MANTA_API task_error : public exception {
 public:
  using exception::exception;
  /// The original; null when it stayed in another process.
  std::exception_ptr nested_ptr() const noexcept { return as_error().failure()->cause; }
  /// Throws the original, or this failure once more when it has none.
  [[noreturn]] void rethrow_nested() const;
  /// The type of the exception, demangled; "unknown" when it has none.
  const std::string& type_name() const noexcept { return as_error().failure()->type_name; }
  /// Its what(), or empty.
  const std::string& message() const noexcept { return as_error().failure()->message; }
  /// The name of the function that threw, or the one given in the options.
  const std::string& function() const noexcept { return as_error().failure()->function; }
  /// Where it ran.
  const std::string& node() const noexcept { return as_error().failure()->node; }
  /// Which run threw: 0 is the first.
  int attempt() const noexcept { return as_error().failure()->attempt; }
};

// One type per code, so that a catch clause can tell them apart.
/// The isolated worker that ran the task died, or a node that a driver has started ended before it
/// had joined. Inside one process it never happens.
class MANTA_API worker_lost : public exception {
  using exception::exception;
};
/// The node that ran the task died. Inside one process it never happens.
class MANTA_API node_lost : public exception {
  using exception::exception;
};
/// A value is gone and could not be made again. Inside one process it never happens.
class MANTA_API object_lost : public exception {
  using exception::exception;
};
/// The actor ended before the call ran, or its constructor failed; the message says which.
class MANTA_API actor_lost : public exception {
  using exception::exception;
};
/// The deadline of a call, or the limit of a get, passed before there was a result.
class MANTA_API timed_out : public exception {
  using exception::exception;
};
/// The task was cancelled, or the runtime ended before the task began.
class MANTA_API cancelled : public exception {
  using exception::exception;
};
/// No room in bounded time: for an array, for what is kept under a key, or for one more question
/// where too many have no answer yet.
class MANTA_API store_full : public exception {
  using exception::exception;
};
/// No node can ever give the resources that were asked for. Thrown at the call; in the future where
/// another node has to say so, or the last one that had them is lost.
class MANTA_API infeasible : public exception {
  using exception::exception;
};
/// Bytes that are not a valid value.
class MANTA_API decode_failed : public exception {
  using exception::exception;
};
/// A value that can't be turned into bytes: too deep, or too much memory for its bytes.
class MANTA_API encode_failed : public exception {
  using exception::exception;
};
/// A call was made with something that it does not take. Thrown at the call.
class MANTA_API invalid_argument : public exception {
  using exception::exception;
};
/// A setting of the runtime is out of its range; thrown by its constructor.
class MANTA_API invalid_config : public exception {
  using exception::exception;
};
/// The engine was used before a manta::runtime existed or after it ended.
class MANTA_API no_runtime : public exception {
  using exception::exception;
};
/// A move-only value was to be moved out while others still hold it.
class MANTA_API not_unique : public exception {
  using exception::exception;
};
/// A task waits for its own result, or an actor's method for another call of the same actor, which
/// can't begin before it ends. Found when the wait begins, for what it waits for itself; a wait
/// that comes back to the waiter through other tasks is not found: give it a timeout.
class MANTA_API self_wait : public exception {
  using exception::exception;
};
/// An allocation of the engine failed while it ran a call.
class MANTA_API out_of_memory : public exception {
  using exception::exception;
};
/// An actor of that name is alive already, or another process listens where this one was to.
class MANTA_API name_taken : public exception {
  using exception::exception;
};
/// The mailbox of the actor is at its cap and its policy is to refuse.
class MANTA_API mailbox_full : public exception {
  using exception::exception;
};
/// Nothing more can be sent, or is left to be received.
class MANTA_API channel_closed : public exception {
  using exception::exception;
};
/// The placement group of a task or an actor was removed.
class MANTA_API group_removed : public exception {
  using exception::exception;
};
/// This way of running cannot do what was asked; the message says which can.
class MANTA_API unsupported : public exception {
  using exception::exception;
};
/// A call from another process means a function that this one does not have: it runs another build,
/// or has not loaded the library. Inside one process it never happens.
class MANTA_API unknown_function : public exception {
  using exception::exception;
};

/// What should be on a disk can't be written or read, or is damaged; the message says where, and
/// what repairs it.
class MANTA_API storage_failed : public exception {
  using exception::exception;
};

/// Throws the exception that belongs to `code`.
[[noreturn]] MANTA_API void raise(errc code, std::string message);

/// The exception being handled (call it in a catch block) as the failure of `function`; never
/// throws, whatever was thrown. A manta::exception that passed through the task keeps its own code
/// and first cause.
MANTA_API error describe_current_exception(const char* function, int attempt = 0) noexcept;

/// "double f(int)" out of the compiler's spelling of F (see base/type_name.hpp).
MANTA_API std::string readable_name(const char* spelled);

}  // namespace manta::inline v0
