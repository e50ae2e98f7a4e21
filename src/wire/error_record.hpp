// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <manta/spec/error.hpp>

#include "wire/views.hpp"

// Errors of this process as messages carry them, and back.
//
// Problem: an error may hold the user's exception, which can't leave its process, and that may have
// others nested in it.
// Idea: the exception is followed inwards and described, one description each; on the other side
// standard exceptions are made again, nested as they were, so that std::rethrow_if_nested works as
// it does here. A type that is not the standard's comes back as std::runtime_error with its type's
// name and text when it is needed to hold what is nested in it, and else not at all.
// Limits: limits::error_chain descriptions; what is nested deeper is left out.

namespace manta::inline v0::wire {

/// An error as a view, and what the view refers to. Immutable; any thread.
class error_record {
 public:
  /// May throw bad_alloc.
  explicit error_record(const error& from);
  /// Valid as long as this.
  error_view view() const noexcept { return {causes_}; }

 private:
  std::vector<error> errors_;
  std::vector<cause_view> causes_;
};

/// The error that a view tells of. The view has passed check(): its chain is not empty.
error to_error(const error_view& from);

}  // namespace manta::inline v0::wire
