// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/spec/options.hpp>

#include "wire/views.hpp"

// What a call asked for beside its arguments, as its message has it, and back again.

namespace manta::inline v0::node {

/// The options of a call with an extra, borrowed from it; as long as the extra stays.
class asked_options {
 public:
  /// Throws encode_failed for a retry filter that other processes don't know, std::bad_alloc.
  explicit asked_options(const exec::call_extra& with);
  /// Of an actor: what it asked for (null: nothing) and its name.
  asked_options(const exec::resource_claim* claim, std::string_view name);
  asked_options(const spec::demand& asked, const placement& where, std::string_view name);
  /// Of a generator.
  void add_credits(std::uint32_t credits) noexcept;
  /// What is no claim's; of an actor.
  void add_isolation(const std::optional<isolation_mode>& isolation, bool enforces_memory) noexcept;
  /// Null: all defaults.
  const wire::options_view* view() const noexcept { return is_default_ ? nullptr : &view_; }

 private:
  void add_claim(const exec::resource_claim& claim);
  void add_demand(const spec::demand& asked, const placement& where);

  bool is_default_ = true;
  wire::options_view view_;
  std::vector<wire::amount_view> amounts_;
  std::vector<wire::label_view> labels_;
};

/// Where it is asked to run; null: it says nothing.
std::optional<isolation_mode> isolation_of(const wire::options_view* asked) noexcept;

/// What is left until the call's deadline; none when it has none.
std::optional<duration> time_left(const exec::call_extra& with) noexcept;

/// The same as the options of a task, its retry filter left out. Throws std::bad_alloc.
options to_options(const wire::options_view& asked);

/// Puts what arrived in the place of what was sent. Throws decode_failed when it can't be this
/// call's, unknown_function, std::bad_alloc.
void take_over(exec::call_extra& with, const wire::options_view& arrived);
/// The name alone.
void take_over_name(exec::call_extra& with, std::string_view arrived);

}  // namespace manta::inline v0::node
