// SPDX-License-Identifier: Apache-2.0
#include "node/asked.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include <manta/base/check.hpp>
#include <manta/codec/errors.hpp>
#include <manta/codec/identity.hpp>

#include "node/desk.hpp"

namespace manta::inline v0::node {

namespace {

// What is over is not sent: a message that is made at the last moment has a moment left.
constexpr duration least_left{1};

spec::function_id id_of_filter(const exception_filter& f) {
  if (!codec::is_known(f)) {
    raise(
        errc::encode_failed,
        "encode: option retry_exceptions: a filter that was made by hand is known in this process "
        "only; use manta::any_exception() or manta::exceptions<E...>()");
  }
  return codec::id_of(*f.entry);
}

// Fields that the rule does not name may hold anything, and do not travel.
void check_same(const placement& asked, const wire::placement_view& arrived) {
  using rule = placement::rule;
  MANTA_CHECK(arrived.by == asked.by && arrived.is_soft == asked.is_soft);
  if (asked.by == rule::node) MANTA_CHECK(arrived.node == asked.node);
  if (asked.by == rule::group) {
    MANTA_CHECK(arrived.group == asked.group && arrived.bundle == asked.bundle);
  }
  if (asked.by != rule::labels) return;
  MANTA_CHECK(std::ranges::equal(arrived.labels, asked.labels, [](const auto& a, const auto& b) {
    return a.key == b.first && a.value == b.second;
  }));
}

// What a claim says has a place in the desk's books, which the message does not name.
void check_same(const exec::resource_claim& claim, const wire::options_view& arrived) {
  const spec::demand& asked = desk::asked_by(claim);
  MANTA_CHECK(arrived.cpus == asked.cpus && arrived.gpus == asked.gpus);
  MANTA_CHECK(arrived.memory_bytes == asked.memory_bytes);
  MANTA_CHECK(std::ranges::equal(arrived.resources, asked.custom, [](const auto& a, const auto& b) {
    return a.key == b.first && a.amount == b.second;
  }));
  check_same(desk::place_of(claim), arrived.where);
}

}  // namespace

std::optional<duration> time_left(const exec::call_extra& with) noexcept {
  if (!exec::is_limited(with.deadline)) return std::nullopt;
  return std::max<duration>(with.deadline - base::now(), least_left);
}

namespace {

wire::asked_isolation asked_of(const std::optional<isolation_mode>& isolation) noexcept {
  if (!isolation) return wire::asked_isolation::unset;
  return *isolation == isolation_mode::threads ? wire::asked_isolation::threads
                                               : wire::asked_isolation::processes;
}

}  // namespace

std::optional<isolation_mode> isolation_of(const wire::options_view* asked) noexcept {
  if (asked == nullptr || asked->isolation == wire::asked_isolation::unset) return std::nullopt;
  return asked->isolation == wire::asked_isolation::threads ? isolation_mode::threads
                                                            : isolation_mode::processes;
}

void asked_options::add_isolation(const std::optional<isolation_mode>& isolation,
                                  bool enforces_memory) noexcept {
  view_.isolation = asked_of(isolation);
  view_.enforce_memory = enforces_memory;
  if (isolation || enforces_memory) is_default_ = false;
}

asked_options::asked_options(const exec::resource_claim* claim, std::string_view name) {
  view_.name = name;
  if (claim != nullptr) add_claim(*claim);
  is_default_ = claim == nullptr && name.empty();
}

asked_options::asked_options(const exec::call_extra& with) {
  view_.timeout = time_left(with);
  if (with.name != nullptr) view_.name = *with.name;
  view_.losable = with.losable;
  view_.priority = with.level;
  if (with.may_repeat()) {
    view_.retry_filter = id_of_filter(with.retry);
  }
  const bool has_retries = with.retries_left != wire::options_view{}.max_retries;
  view_.max_retries = with.retries_left;
  if (with.claim != nullptr) add_claim(*with.claim);
  is_default_ = !view_.timeout && view_.name.empty() && !view_.losable && !with.may_repeat() &&
                !has_retries && view_.priority == priority::normal && with.claim == nullptr;
  add_isolation(with.isolation, with.enforces_memory);
}

asked_options::asked_options(const spec::demand& asked, const placement& where,
                             std::string_view name) {
  view_.name = name;
  add_demand(asked, where);
  is_default_ = false;
}

void asked_options::add_credits(std::uint32_t credits) noexcept {
  is_default_ = is_default_ && credits == view_.stream_credits;
  view_.stream_credits = credits;
}

void asked_options::add_claim(const exec::resource_claim& claim) {
  add_demand(desk::asked_by(claim), desk::place_of(claim));
}

void asked_options::add_demand(const spec::demand& asked, const placement& where) {
  view_.cpus = asked.cpus;
  view_.gpus = asked.gpus;
  view_.memory_bytes = asked.memory_bytes;
  for (const auto& [key, amount] : asked.custom) amounts_.push_back({key, amount});
  view_.resources = amounts_;
  for (const auto& [key, value] : where.labels) labels_.push_back({key, value});
  view_.where = {.by = where.by,
                 .is_soft = where.is_soft,
                 .node = where.node ? std::string_view(*where.node) : std::string_view(),
                 .labels = labels_,
                 .group = where.group,
                 .bundle = where.bundle};
}

void take_over_name(exec::call_extra& with, std::string_view arrived) {
  with.name = arrived.empty() ? nullptr : std::make_unique<std::string>(arrived);
}

void take_over(exec::call_extra& with, const wire::options_view& arrived) {
  take_over_name(with, arrived.name);
  with.level = arrived.priority;
  with.losable = arrived.losable;
  MANTA_CHECK(isolation_of(&arrived) == with.isolation);
  MANTA_CHECK(arrived.enforce_memory == with.enforces_memory);
  if (with.claim != nullptr) check_same(*with.claim, arrived);
  MANTA_CHECK(arrived.timeout.has_value() == exec::is_limited(with.deadline));
  with.retry = {};
  if (arrived.retry_filter == spec::function_id{}) return;
  const result<const codec::entry*> found = codec::find(arrived.retry_filter);
  if (!found) found.error().raise();
  with.retry = codec::filter_of(**found);
  with.retries_left = arrived.max_retries;
}

namespace {

double amount_of(std::int64_t thousandths) noexcept {
  return static_cast<double>(thousandths) / 1000;
}

}  // namespace

options to_options(const wire::options_view& asked) {
  options out;
  if (asked.cpus != 0) out.cpus = amount_of(asked.cpus);
  out.gpus = amount_of(asked.gpus);
  if (asked.memory_bytes != 0) out.memory_bytes = static_cast<std::size_t>(asked.memory_bytes);
  for (const wire::amount_view& one : asked.resources) {
    out.resources.emplace_back(std::string(one.key), amount_of(one.amount));
  }
  out.max_retries = static_cast<int>(asked.max_retries);
  out.losable = asked.losable;
  out.isolation = isolation_of(&asked);
  out.enforce_memory = asked.enforce_memory;
  if (asked.timeout) out.timeout = *asked.timeout;
  out.priority = asked.priority;
  if (!asked.name.empty()) out.name = std::string(asked.name);
  return out;
}

}  // namespace manta::inline v0::node
