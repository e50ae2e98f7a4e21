// SPDX-License-Identifier: Apache-2.0
#include "node/check_copy.hpp"

#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <manta/base/check.hpp>
#include <manta/codec/codec.hpp>
#include <manta/codec/digest.hpp>
#include <manta/codec/identity.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/error.hpp>

#include "node/asked.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "wire/error_record.hpp"

// The check-copy mode: see node/carrier.hpp. One message at a time for each thread, on buffers that
// are used again. A user's constructor may make calls while its value is read, so the buffers are
// taken out while they are in use.

namespace manta::inline v0::node {

namespace {

using body_view = wire::body_view;

wire::envelope envelope_of(const base::id& name) noexcept { return {name, 1, 0}; }

/// Writes a message and reads it back.
template <class Body>
const wire::message_view& through_wire(workbench& on, const wire::envelope& head,
                                       const Body& body) {
  const result<void> written = on.writer.write(head, body);
  if (!written) raise(errc::encode_failed, written.error().message());
  const std::span<std::byte> frame = on.frame.reset(on.writer.size_bytes());
  on.writer.flatten(frame);
  const result<const wire::message_view&> read = on.reader.read(frame);
  if (!read) read.error().raise();
  return *read;
}

/// What arrived, with the handles of this process, which do not travel, put back beside.
class arrived {
 public:
  arrived(const codec::out_archive& sent, const spec::parcel_view& received)
      : references_(received.references.begin(), received.references.end()), parcel_(received) {
    MANTA_CHECK_VALUE(references_.size() == sent.lent().size(), references_.size());
    for (std::size_t i = 0; i < references_.size(); ++i) {
      references_[i].local = sent.lent()[i].as.local;
      references_[i].values = sent.lent()[i].as.values;
      MANTA_CHECK(references_[i] == sent.lent()[i].as);
    }
    parcel_.references = references_;
  }
  const spec::parcel_view& parcel() const noexcept { return parcel_; }

 private:
  std::vector<spec::reference> references_;
  spec::parcel_view parcel_;
};

/// Reads with `read(job, archive)` all that a parcel has.
void read_all(exec::job* j, const spec::parcel_view& from,
              void (*read)(exec::job*, codec::in_archive&)) {
  codec::in_archive in(from);
  try {
    read(j, in);
    in.finish();
  } catch (...) {
    codec::raise_decode_failed(j->ops->function);
  }
}

/// The function that an id means is the one that was named by it.
spec::function_id checked_identity(const codec::entry& of) {
  const spec::function_id id = codec::id_of(of);
  const result<const codec::entry*> found = codec::find(id);
  if (!found) found.error().raise();
  MANTA_CHECK(*found == &of);
  return id;
}

template <class View>
const View& body_as(const wire::message_view& message) {
  const View* const body = std::get_if<View>(&message.body);
  MANTA_CHECK(body != nullptr);
  return *body;
}

void pass_task(workbench& on, exec::job* j, const carrier& by) {
  wire::task_view sent;
  sent.id = exec::id_of(*j);
  sent.parent = j->parent;
  sent.call_index = j->index;
  sent.function = checked_identity(*by.entry);
  sent.arguments = on.out.view();
  sent.digest = codec::digest(sent.arguments);
  const std::string name = by.entry->name();
  sent.name = name;
  exec::call_extra* const with = j->extra();  // a construction has none
  std::optional<asked_options> options;
  if (with != nullptr) sent.options = options.emplace(*with).view();
  const auto& got = body_as<wire::task_view>(through_wire(on, envelope_of(sent.id), sent));
  MANTA_CHECK(got.id == sent.id && got.parent == sent.parent && got.function == sent.function);
  MANTA_CHECK((got.options == nullptr) == (sent.options == nullptr));
  if (got.options != nullptr) take_over(*with, *got.options);
  const arrived here(on.out, got.arguments);
  MANTA_CHECK(codec::digest(here.parcel()) == got.digest);
  read_all(j, here.parcel(), by.renew_arguments);
}

void pass_call(workbench& on, exec::job* j, const carrier& by) {
  const exec::call_origin origin = j->ops->origin(j);
  wire::call_view sent;
  sent.actor = {reinterpret_cast<std::uint64_t>(origin.actor), 1};
  sent.incarnation = 1;
  sent.caller = {origin.caller, 1};
  sent.call_number = j->index + std::uint64_t{1};
  sent.method = checked_identity(*by.entry);
  exec::call_extra* const with = j->extra();
  MANTA_CHECK(with != nullptr);
  sent.timeout = time_left(*with);
  if (with->name != nullptr) sent.name = *with->name;
  sent.arguments = on.out.view();
  const auto& got = body_as<wire::call_view>(through_wire(on, envelope_of(exec::id_of(*j)), sent));
  MANTA_CHECK(got.actor == sent.actor && got.method == sent.method);
  MANTA_CHECK(got.timeout == sent.timeout);
  take_over_name(*with, got.name);
  const arrived here(on.out, got.arguments);
  read_all(j, here.parcel(), by.renew_arguments);
}

/// The result of a job, or an object, through its message.
void pass_value(exec::job* j, const carrier& by) {
  const borrowed_workbench on;
  by.write_value(j, on->out);
  on->out.finish();
  wire::result_view sent;
  sent.task = exec::id_of(*j);
  sent.outcome = on->out.view();
  const auto& got = body_as<wire::result_view>(through_wire(*on, envelope_of(sent.task), sent));
  const auto* const value = std::get_if<spec::parcel_view>(&got.outcome);
  MANTA_CHECK(value != nullptr);
  const arrived here(on->out, *value);
  read_all(j, here.parcel(), by.renew_value);
}

error passed(exec::job* j, const error& failure) {
  const borrowed_workbench on;
  const wire::error_record record(failure);
  wire::result_view sent;
  sent.task = exec::id_of(*j);
  sent.outcome = record.view();
  const auto& got = body_as<wire::result_view>(through_wire(*on, envelope_of(sent.task), sent));
  const auto* const arrived_error = std::get_if<wire::error_view>(&got.outcome);
  MANTA_CHECK(arrived_error != nullptr);
  return wire::to_error(*arrived_error);
}

void replace_error(exec::job* j) noexcept {
  auto* const failure = static_cast<error*>(j->slot(1));
  try {
    *failure = passed(j, *failure);
  } catch (...) {
    *failure = describe_current_exception(j->ops->function);
  }
}

}  // namespace

namespace {

// One time in 64 up to 200 us, else nothing: others run meanwhile, in orders that are rare else.
void delay() noexcept {
  constexpr std::uint64_t one_in = 64;
  constexpr std::uint64_t most_us = 200;
  // Any thread: the timer's is no caller of anything.
  thread_local std::uint64_t state = 0;
  if (state == 0) state = 0x9e3779b97f4a7c15U ^ reinterpret_cast<std::uintptr_t>(&state);
  state ^= state << 13U;
  state ^= state >> 7U;
  state ^= state << 17U;
  if (state % one_in == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(state / one_in % most_us));
  }
}

}  // namespace

std::uint64_t pass_outcome(exec::job* /*j*/, std::uint64_t bits) noexcept { return bits; }

std::uint64_t check_outcome_slowly(exec::job* j, std::uint64_t bits) noexcept {
  if (carrier_of(j) != nullptr) delay();
  return check_outcome(j, bits);
}

std::uint64_t check_outcome(exec::job* j, std::uint64_t bits) noexcept {
  const carrier* const by = carrier_of(j);
  if (by == nullptr || by->entry == nullptr || (j->word() & exec::job_bits::aliased) != 0) {
    return bits;
  }
  if ((bits & exec::job_bits::failed) != 0) {
    replace_error(j);
    return bits;
  }
  if (by->write_value == nullptr) return bits;
  try {
    pass_value(j, *by);
    return bits;
  } catch (...) {
    error failure = describe_current_exception(j->ops->function);
    if (j->ops->drop_value != nullptr) j->ops->drop_value(j);
    new (j->slot(1)) error(std::move(failure));
    return bits | exec::job_bits::failed;
  }
}

namespace {

bool copies(exec::outcome_check by) noexcept { return by != nullptr && by != &pass_outcome; }

void copy_arguments(exec::job* j, const carrier* by) {
  const exec::outcome_check check = exec::executor::check_of_outcomes();
  if (by == nullptr || !copies(check)) return;
  if (check == &check_outcome_slowly) delay();
  const borrowed_workbench on;
  by->write_arguments(j, on->out);
  on->out.finish();
  if (j->ops->origin != nullptr) {
    pass_call(*on, j, *by);
  } else {
    pass_task(*on, j, *by);
  }
}

}  // namespace

void check_arguments(exec::job* j) {
  const carrier* const by = carrier_of(j);
  if (by != nullptr) send_away(j, *by);
  copy_arguments(j, by);
}

void check_construction(exec::job* j, bool is_away) {
  const carrier* const by = carrier_of(j);
  if (is_away && by != nullptr) check_leaves(*by);
  copy_arguments(j, by);
}

void check_object(exec::job* j) {
  const carrier* const by = carrier_of(j);
  if (by == nullptr || !copies(exec::executor::check_of_outcomes())) return;
  pass_value(j, *by);
}

}  // namespace manta::inline v0::node
