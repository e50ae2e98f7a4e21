// SPDX-License-Identifier: Apache-2.0
#include <manta/this_task.hpp>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include <manta/cancel.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/named_jobs.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/spec/error.hpp>

#include "node/desk.hpp"

namespace manta::inline v0 {

namespace {

exec::context* current() noexcept { return exec::this_thread.current; }

const exec::job* running() noexcept { return current() == nullptr ? nullptr : current()->running; }

}  // namespace

std::string to_string(const task_id& id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

namespace this_task {

bool is_inside() noexcept { return running() != nullptr; }

task_id id() {
  exec::executor::require();
  const exec::job* const j = running();
  if (j == nullptr) return current()->self;
  return exec::id_of(*j);
}

std::string name() {
  const exec::job* const j = running();
  if (j == nullptr) return "driver";
  const exec::call_extra* const with = j->extra();
  if (with != nullptr && with->name != nullptr) return *with->name;
  return readable_name(j->ops->function);
}

int attempt() noexcept {
  const exec::job* const j = running();
  const exec::call_extra* const with = j == nullptr ? nullptr : j->extra();
  return with == nullptr ? 0 : static_cast<int>(with->attempt);
}

std::string node() { return node::desk::global().node_name(); }

std::vector<int> gpus() {
  const exec::resource_claim* const held = exec::current_claim();
  if (held == nullptr) return {};
  std::vector<int> out = held->gpus();
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<std::chrono::steady_clock::time_point> deadline() noexcept {
  if (current() == nullptr || !exec::is_limited(current()->deadline)) return std::nullopt;
  return current()->deadline;
}

std::stop_token stop_token() {
  return current() == nullptr ? std::stop_token() : exec::stop_token_of(*current());
}

bool is_cancelled() noexcept { return current() != nullptr && exec::is_stop_requested(*current()); }

void check() {
  if (!is_cancelled()) return;
  raise(errc::cancelled, fmt::format("{} was asked to stop while it ran", name()));
}

void log(std::string_view text) {
  const std::string shown = is_inside() ? to_string(id()).substr(0, 8) : std::string("-");
  const std::string who = fmt::format("[{} {} #{}] ", name(), shown, attempt());
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::string lines;
  for (;;) {
    const std::size_t end = text.find('\n');
    lines.append(who).append(text.substr(0, end)).append(1, '\n');
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  // One write, so that nobody's come between.
  std::fwrite(lines.data(), 1, lines.size(), stderr);
}

}  // namespace this_task

namespace detail {

bool cancel_job(exec::job* j, const cancel_options& how) {
  const exec::job_ref end(j->awaited());
  const exec::call_extra* const with = end->extra();
  exec::outside* const away = exec::elsewhere.load(std::memory_order_acquire);
  if (end->ops->run == nullptr && (end->word() & exec::job_bits::named) != 0) {
    return exec::cancel_far(end.get(), {how.recursive, how.force, true});
  }
  const bool can_end = with != nullptr && with->is_outside && away != nullptr;
  if (how.force && !can_end) {
    raise(errc::unsupported,
          "cancel: force was asked for, but a thread can't be ended from outside; leave it off and "
          "let the task look at this_task::check(), or run it in an isolated worker: .isolation = "
          "manta::isolation_mode::processes in its options, or the setting isolation = processes");
  }
  const bool is_asked = exec::cancel_job(j, how.recursive);
  if (how.force && is_asked) away->end(end.get());
  return is_asked;
}

}  // namespace detail

deadline_scope::deadline_scope(duration within) {
  exec::executor::require();
  if (within <= duration::zero()) {
    raise(errc::invalid_argument,
          fmt::format("deadline_scope: asked {} ns, allowed more than 0", within.count()));
  }
  exec::context& caller = *exec::this_thread.current;
  before_ = caller.deadline;
  caller.deadline = exec::earlier(before_, base::after(within));
}

// The caller's context is asked for once more: a coroutine's moves when it suspends.
deadline_scope::~deadline_scope() { exec::this_thread.current->deadline = before_; }

}  // namespace manta::inline v0
