// SPDX-License-Identifier: Apache-2.0
#include "node/passed_job.hpp"

#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <variant>

#include <manta/base/check.hpp>
#include <manta/base/type_name.hpp>
#include <manta/codec/errors.hpp>
#include <manta/codec/identity.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/spec/options.hpp>

#include "node/actor_names.hpp"
#include "node/asked.hpp"
#include "node/future_names.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"

namespace manta::inline v0::node {

namespace {

constexpr const char* shown_name = "a task of an isolated worker";
constexpr const char* shown_call = "a call of an isolated worker";
constexpr const char* shown_value = "a value of an isolated worker";
constexpr const char* shown_spawn = "an actor of an isolated worker";

// It was written by this process, or was read before: it can be read again.
const wire::message_view& read_again(workbench& on, const wire::frame_buffer& frame) {
  const result<const wire::message_view&> read = on.reader.read(frame.bytes());
  MANTA_CHECK(read.has_value());
  return *read;
}

// As the front makes its jobs: the extra lies before the job in its block, and between them what a
// mailbox needs.
passed_job* make_job(const exec::extra_source& with, const exec::job_ops* kind) {
  const std::size_t before = exec::job::extra_size + kind->front;
  const std::size_t size = before + sizeof(passed_job);
  auto* const block = static_cast<char*>(exec::allocate_block(size));
  try {
    exec::make_extra(block, with);
  } catch (...) {
    exec::free_block(block, size);
    throw;
  }
  auto* const made = new (block + before) passed_job(kind);
  made->has_extra();
  return made;
}

void write_again(workbench& on, const base::id& request, const wire::result_view& body) {
  const result<void> written = on.writer.write({request, 1, 0}, body);
  if (!written) raise(errc::encode_failed, written.error().message());
}

void drop_message(exec::job* j) noexcept { passed_job::self(j)->task.reset(); }
void drop_result(exec::job* j) noexcept { std::destroy_at(&passed_job::self(j)->result); }
// What it stands for runs in another process.
std::uint64_t run_nothing(exec::job* /*j*/) noexcept { std::abort(); }

}  // namespace

passed_job::passed_job(const exec::job_ops* kind) noexcept : job(kind, 2) {}

const exec::job_ops passed_job::ops = {
    // Only one that was withdrawn while it waited for resources comes to a queue.
    .execute =
        [](exec::job* j) noexcept {
          MANTA_CHECK(j->is_claimed());
          j->drop_entry();
        },
    .run = run_nothing,
    .ready = exec::ready_task,
    .cancel = [](exec::job* j, const error& reason) noexcept { j->cancel_unclaimed(reason); },
    .drop_arguments = drop_message,
    .drop_value = drop_result,
    .alias = nullptr,
    .origin = nullptr,
    .size = sizeof(passed_job),
    .front = 0,
    .in_place = false,
    .function = shown_name,
    .function_hash = base::hash_name(shown_name),
    .carrier = nullptr,
};

const exec::job_ops passed_job::call_ops = {
    .execute = exec::actor_core::execute_call,
    .run = run_nothing,
    .ready = [](exec::job* /*j*/) noexcept { MANTA_CHECK(false); },
    .cancel = exec::actor_core::cancel_call,
    .drop_arguments = drop_message,
    .drop_value = drop_result,
    .alias = nullptr,
    .origin = [](exec::job* j) noexcept -> exec::call_origin {
      return {self(j)->actor, self(j)->caller};
    },
    .size = sizeof(passed_job) + sizeof(exec::job*),
    .front = sizeof(exec::job*),
    .in_place = false,
    .function = shown_call,
    .function_hash = base::hash_name(shown_call),
    .carrier = nullptr,
};

const exec::job_ops passed_job::spawn_ops = {
    .execute =
        [](exec::job* j) noexcept {
          exec::actor_core* const of = self(j)->actor;
          if (!of->claim_start()) {
            spawn_ops.cancel(j, exec::cancelled_error());
            return;
          }
          j->try_claim();
          exec::construct_elsewhere(of, j);
        },
    .run = run_nothing,
    .ready = exec::executor::resume,
    .cancel =
        [](exec::job* j, const error& reason) noexcept {
          exec::actor_core* const of = self(j)->actor;
          of->kind().release(of);
          j->cancel_unclaimed(reason);
          j->drop();
          of->abandon_start(reason);
        },
    .drop_arguments = drop_message,
    .drop_value = drop_result,
    .alias = nullptr,
    .origin = nullptr,
    .size = sizeof(passed_job),
    .front = 0,
    .in_place = false,
    .function = shown_spawn,
    .function_hash = base::hash_name(shown_spawn),
    .carrier = nullptr,
};

const exec::job_ops passed_job::owed_ops = {
    .execute = nullptr,
    .run = nullptr,
    .ready = nullptr,
    .cancel = nullptr,
    .drop_arguments = nullptr,
    .drop_value = drop_result,
    .alias = nullptr,
    .origin = nullptr,
    .size = sizeof(passed_job),
    .front = 0,
    .in_place = false,
    .function = shown_value,
    .function_hash = base::hash_name(shown_value),
    .carrier = nullptr,
};

passed_job* make_owed() {
  const neutral_caller nobody;
  auto* const made = make_job(exec::inherited_extra, &passed_job::owed_ops);
  made->extra()->is_outside = true;  // it may stand for another one there
  made->try_claim();
  return made;
}

kept_message::kept_message(std::span<const std::byte> frame,
                           std::span<const spec::reference> handles) {
  std::memcpy(frame_.reset(frame.size()).data(), frame.data(), frame.size());
  held_.reserve(handles.size());
  arrays_.reserve(handles.size());
  for (const spec::reference& one : handles) {
    held_.push_back(one.what);
    if (!is_array(one.what)) {
      lend_name(one.what, 1);
    } else if (placed_block* const block = array_names::global().find(one.what)) {
      arrays_.push_back(block);
    }
  }
}

kept_message::~kept_message() {
  for (const base::id& one : held_) {
    if (!is_array(one)) give_back_name(one, 1);
  }
  for (placed_block* const one : arrays_) one->drop();
}

std::span<const spec::reference> handles_of(const wire::message_view& read) noexcept {
  if (const auto* const item = std::get_if<wire::item_view>(&read.body)) {
    return item->value.references;
  }
  if (const auto* const task = std::get_if<wire::task_view>(&read.body)) {
    return task->arguments.references;
  }
  if (const auto* const call = std::get_if<wire::call_view>(&read.body)) {
    return call->arguments.references;
  }
  if (const auto* const spawn = std::get_if<wire::spawn_view>(&read.body)) {
    return spawn->arguments.references;
  }
  if (const auto* const asked = std::get_if<wire::ask_view>(&read.body)) {
    return asked->with.references;
  }
  const auto* const ended = std::get_if<wire::result_view>(&read.body);
  const auto* const value =
      ended == nullptr ? nullptr : std::get_if<spec::parcel_view>(&ended->outcome);
  return value == nullptr ? std::span<const spec::reference>{} : value->references;
}

passed_job* make_passed(std::span<const std::byte> frame, const wire::message_view& arrived) {
  const auto* const task = std::get_if<wire::task_view>(&arrived.body);
  const auto* const call = std::get_if<wire::call_view>(&arrived.body);
  const auto* const spawn = std::get_if<wire::spawn_view>(&arrived.body);
  std::optional<options> asked;
  call_options of_call;
  if (task != nullptr && task->options != nullptr) asked = to_options(*task->options);
  if (call != nullptr && call->timeout) of_call.timeout = *call->timeout;
  if (call != nullptr && !call->name.empty()) of_call.name = std::string(call->name);
  const exec::extra_source source{.task = asked ? &*asked : nullptr,
                                  .call = call != nullptr ? &of_call : nullptr};
  const exec::job_ops& kind = call != nullptr    ? passed_job::call_ops
                              : spawn != nullptr ? passed_job::spawn_ops
                                                 : passed_job::ops;
  auto* const made = [&] {
    const neutral_caller there(task != nullptr ? task->parent : base::id{});
    return make_job(source, &kind);
  }();
  try {
    made->task = std::make_unique<kept_message>(frame, handles_of(arrived));
  } catch (...) {
    made->try_claim();
    made->fail(error::out_of_memory(), 1);
    made->drop();
    throw;
  }
  made->allowed = call != nullptr                               ? call->stream_credits
                  : task != nullptr && task->options != nullptr ? task->options->stream_credits
                                                                : default_stream_credits;
  const auto name = [made](const auto& by) {
    made->parent = by.parent;
    made->index = static_cast<std::uint32_t>(by.call_index);
  };
  if (call != nullptr) name(*call);
  if (spawn != nullptr) name(*spawn);
  if (task != nullptr) {
    name(*task);
    made->id = task->id;
  }
  made->extra()->is_outside = true;
  return made;
}

namespace {

void note_handles(workbench& on, const wire::message_view& read) {
  const std::span<const spec::reference> handles = handles_of(read);
  on.references.assign(handles.begin(), handles.end());
}

}  // namespace

std::span<const int> gpus_of(const exec::job& j) noexcept {
  const exec::resource_claim* claim = nullptr;
  if (is_passed_spawn(&j)) {
    exec::actor_core* const of = static_cast<const passed_job&>(j).actor;
    claim = of->kind().claim(of);
  } else if (j.extra() != nullptr) {
    claim = j.extra()->claim.get();
  }
  return claim == nullptr ? std::span<const int>{} : claim->gpus();
}

void write_passed(workbench& on, passed_job* j, const base::id& request) {
  const wire::message_view& kept = read_again(on, j->task->frame());
  note_handles(on, kept);
  result<void> written;
  const std::uint32_t credits = j->credits.load(std::memory_order_relaxed);
  if (const auto* const kept_call = std::get_if<wire::call_view>(&kept.body)) {
    wire::call_view call = *kept_call;
    if (credits != 0) call.stream_credits = credits;
    written = on.writer.write({request, 1, 0}, call);
  } else if (const auto* const spawn = std::get_if<wire::spawn_view>(&kept.body)) {
    wire::spawn_view made = *spawn;
    made.gpus = gpus_of(*j);
    written = on.writer.write({request, 1, 0}, made);
  } else {
    wire::task_view task = std::get<wire::task_view>(kept.body);
    task.attempt = j->extra()->attempt;
    task.gpus = gpus_of(*j);
    wire::options_view options = task.options != nullptr ? *task.options : wire::options_view{};
    if (credits != 0) {
      options.stream_credits = credits;
      task.options = &options;
    }
    written = on.writer.write({request, 1, task.attempt}, task);
  }
  if (!written) raise(errc::encode_failed, written.error().message());
}

std::string passed_name(const passed_job& j) {
  if (j.task == nullptr) return {};
  const borrowed_workbench on;
  const auto* const task = std::get_if<wire::task_view>(&read_again(*on, j.task->frame()).body);
  if (task == nullptr) return {};
  const result<const codec::entry*> found = codec::find(task->function);
  return found ? (*found)->name() : std::string();
}

std::uint64_t fill_passed(passed_job* j, std::span<const std::byte> frame,
                          const wire::result_view& arrived) noexcept {
  const auto* const value = std::get_if<spec::parcel_view>(&arrived.outcome);
  try {
    auto kept = std::make_unique<kept_message>(
        frame, value == nullptr ? std::span<const spec::reference>{} : value->references);
    new (&j->result) std::unique_ptr<kept_message>(std::move(kept));
    return exec::job_bits::ready;
  } catch (const std::bad_alloc&) {
    return fill_slot(j, error::out_of_memory());
  }
}

void write_passed_result(workbench& on, passed_job* j, const base::id& request) {
  if ((j->word() & exec::job_bits::failed) != 0) {
    write_failure(on, {1, 1}, request, j->failure());
    return;
  }
  const wire::message_view& kept = read_again(on, j->result->frame());
  note_handles(on, kept);
  write_again(on, request, std::get<wire::result_view>(kept.body));
}

std::uint64_t fill_from_kept(exec::job* j, passed_job* ended) noexcept {
  if ((ended->word() & exec::job_bits::failed) != 0) return fill_slot(j, error(ended->failure()));
  try {
    const borrowed_workbench on;
    const wire::message_view& kept = read_again(*on, ended->result->frame());
    return fill_slot(j, std::get<wire::result_view>(kept.body));
  } catch (const std::bad_alloc&) {
    return fill_slot(j, error::out_of_memory());
  }
}

}  // namespace manta::inline v0::node
