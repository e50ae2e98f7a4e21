// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/spec/isolation.hpp>
#include <manta/spec/resources.hpp>

// What a call may ask for beside its arguments. Every field is checked at the call; a bad one
// throws manta::invalid_argument there, with the field, the value and the allowed range.

namespace manta::inline v0 {

/// Where a task stands in the queues that all workers look at. See `options::priority`.
enum class priority : std::uint8_t { low, normal, high };

namespace codec {
class entry;
}

/// Which of a user's exceptions make a task run again: none (the default), any_exception(), or
/// exceptions<E...>() (exceptions.hpp). One made by hand has a test alone and can't travel.
struct exception_filter {
  /// Null matches nothing.
  bool (*test)(const std::exception_ptr& thrown) = nullptr;
  /// What other processes know it by; null for one that stays here.
  const codec::entry* entry = nullptr;
  /// Whether it matches anything at all.
  explicit operator bool() const noexcept { return test != nullptr; }
  /// Whether `thrown` is one of those.
  bool matches(const std::exception_ptr& thrown) const { return test != nullptr && test(thrown); }
};

/// How many items a generator makes before they are taken, unless told.
inline constexpr std::size_t default_stream_credits = 64;

/// Options of one task: `remote<f>.with({.cpus = 2, .name = "fit"})(x)`. With GCC 12, which copies
/// the bytes of what is written in braces inside of a co_await and destroys it twice, options with
/// a name, resources or a place are kept in a variable there:
///     const manta::options fit{.name = "fit"};
///     co_await manta::remote<f>.with(fit)(x);
struct options {
  /// Cores the task needs to run, fractions allowed. Tasks that say so run only while their sum
  /// fits this node's cores; a task that leaves it unset takes a worker and is not counted. 0 or
  /// more; more than this node has throws manta::infeasible, or is as follows.
  /// A task that waits in get or wait gives its cores to others meanwhile, and nothing else.
  ///
  /// Where nodes share their resources (config::share_resources), what this one has not free is
  /// asked of others, and the task runs where it is given; one that asks for cores alone and whose
  /// arrays take longer to fetch there than they are worth waits for this node's, and one that may
  /// not run again (max_retries = 0) goes only where this one never can. More than any node has
  /// throws manta::infeasible; while nodes of the job are still joining after 2 s. In a job that
  /// any number may join it waits for one that has it, with a line on stderr.
  std::optional<double> cpus = std::nullopt;
  /// GPUs the task needs: 0, a fraction below 1 (which shares a GPU with other fractions), or a
  /// whole number. this_task::gpus() says which. More than any node has: as cpus.
  double gpus = 0;
  /// Memory the task needs, in bytes: accounted, so that tasks that say so run together only when
  /// all fits. More than any node has: as cpus.
  std::optional<std::size_t> memory_bytes = std::nullopt;
  /// Where the task runs, if not where the runtime's setting `isolation` says. In an isolated
  /// worker that setting means the same as in main: what a task there calls without this option
  /// runs where the runtime says. Throws manta::unsupported where no isolated worker can be made.
  std::optional<isolation_mode> isolation = std::nullopt;
  /// memory_bytes is a limit, too: a task that uses more beside what its isolated worker had, store
  /// and libraries not counted, loses its worker, and ends with worker_lost after its runs.
  /// Looked at four times a second. Threads of one process can't be limited one by one: there this
  /// throws manta::unsupported; without memory_bytes it throws invalid_argument.
  bool enforce_memory = false;
  /// Amounts under names that a node was given (config.hpp): {{"license", 1}}. A name that none
  /// has, or more than any has: as cpus.
  resource_list resources = {};
  /// Runs after the first one that a failure may cost: a failure of the system, which inside one
  /// process never happens, or an exception that retry_exceptions names. 0 or more. While a run may
  /// follow, arguments that the function takes by value or T&& are copied for each run; one that
  /// can't be copied is refused together with retry_exceptions.
  int max_retries = 3;
  /// User exceptions after which the task runs again, at most max_retries times. Throws
  /// invalid_argument for a generator: its items are out.
  exception_filter retry_exceptions = {};
  /// The result need not be made again when it is lost with its node. Without effect in one
  /// process.
  bool losable = false;
  /// The future ends with manta::timed_out this long after the call. Queued work then never runs;
  /// what runs is asked to stop, and its result is dropped. Calls that the task makes inherit the
  /// deadline. More than 0.
  std::optional<duration> timeout = std::nullopt;
  /// high: taken before what is queued otherwise; low: when nothing else is, or once in a while.
  /// It orders what waits in the queues common to all workers. A worker that runs a task goes on
  /// with what that task made, whatever its priority; children do not inherit it; a task that
  /// somebody waits for may be run in place at any priority.
  manta::priority priority = manta::priority::normal;
  /// Shown in errors, by this_task::name and in logs instead of the function's name. 1 to 1024
  /// bytes when set.
  std::optional<std::string> name = std::nullopt;
  /// Where the task wants to run: spread(), on_node(name), with_labels({...}) or in_group(g, i).
  placement where = {};
  /// How many items a generator makes before they are taken, as stream::credits says it later.
  /// Without effect on other functions. 1 to 2^31.
  std::size_t stream_credits = default_stream_credits;
};

/// Options of one call of an actor's method: `remote<&T::m>.with({.timeout = 1s})(handle, x)`.
struct call_options {
  /// As for tasks; the method that runs is asked to stop, and the actor goes on when it returns. A
  /// call that has to wait for a place in a full mailbox waits as long at most, and then throws
  /// manta::timed_out; the time begins once more when it has its place.
  std::optional<duration> timeout = std::nullopt;
  /// As for tasks.
  std::optional<std::string> name = std::nullopt;
  /// The concurrency group whose limit the call counts for; the actor's default group when unset.
  /// Throws invalid_argument when the actor has no such group. 1 to 1024 bytes when set.
  std::optional<std::string> group = std::nullopt;
  /// As for tasks.
  std::size_t stream_credits = default_stream_credits;
};

/// Some of an actor's methods that share a limit of their own; see actor_options::groups.
struct concurrency_group {
  /// What calls name it by. Not empty, and once only in an actor.
  std::string name;
  /// How many calls of the group may run at a time; 1 to 65,536.
  int limit = 1;
};

/// What a call does that finds an actor's mailbox at its cap.
enum class full_policy : std::uint8_t {
  wait,    ///< the caller waits for a place; a worker lends its core meanwhile
  refuse,  ///< the call throws manta::mailbox_full
};

/// Options of one actor: `spawn<T>.with({.name = "shard 3"})(x)`.
struct actor_options {
  /// Cores as in `options`; an actor that asks for some holds them all its life, but for the time
  /// its method waits in get or wait.
  std::optional<double> cpus = std::nullopt;
  /// GPUs as in `options`, held all the actor's life; its methods are told which.
  double gpus = 0;
  /// Memory as in `options`, held all the actor's life.
  std::optional<std::size_t> memory_bytes = std::nullopt;
  /// Where the actor lives, as in `options`.
  std::optional<isolation_mode> isolation = std::nullopt;
  /// As in `options`; it ends with actor_lost, or is made anew as max_restarts says.
  bool enforce_memory = false;
  /// Amounts as in `options`, held all the actor's life.
  resource_list resources = {};
  /// How often the actor is made anew by its constructor after the loss of its process: calls that
  /// had begun fail, all others run then, in their order. Inside one process none is ever needed.
  /// 0 or more.
  int max_restarts = 0;
  /// What find_actor finds it by and errors call it, instead of the type's name. At most one living
  /// actor of a namespace has it; it is free again when that one ended. 1 to 1024 bytes.
  std::optional<std::string> name = std::nullopt;
  /// Where the actor wants to live, as in `options`. In another node it is lost with that one,
  /// whatever max_restarts says, and of the handles inside of its calls' arguments and results only
  /// those of actors go there: a call with others fails with manta::unsupported.
  placement where = {};
  /// Where the name is unique. Names of different namespaces do not meet. At most 1024 bytes.
  std::string name_space = {};
  /// Gives the living actor of that name, if there is one, instead of making another; the arguments
  /// are dropped then. Needs a name.
  bool get_if_exists = false;
  /// Lives on without handles and driver, in the node where it was made, until it is killed or that
  /// node ends; others find it by its name, which it needs. Throws manta::unsupported where the
  /// cluster has no head of its own, or the actor would live in its driver's process.
  bool detached = false;
  /// Calls that may run at a time; 1 to 65,536. With more than 1 calls may start in any order, and
  /// the object has to protect itself. A call that blocks in manta lends its core.
  int max_concurrency = 1;
  /// Groups of calls with limits of their own: `.groups = {{"io", 4}}`, and at the call
  /// `remote<&T::m>.with({.group = "io"})(handle)`. Calls that name none have max_concurrency. At
  /// most 65,535; in another node or an isolated worker 255.
  std::vector<concurrency_group> groups = {};
  /// Calls that may wait in the mailbox, those that wait for arguments included; 0 for no cap, at
  /// most 2^30.
  std::size_t mailbox_cap = 0;
  /// What a call does that finds the mailbox at its cap.
  full_policy on_full = full_policy::wait;
};

/// How long and for how many `wait` waits.
struct wait_options {
  /// Return as soon as this many are ready; between 1 and the number of futures (0 for none).
  std::size_t count = 1;
  /// Return after this time with what is ready; unset means for ever.
  std::optional<duration> timeout = std::nullopt;
};

namespace spec {

/// Throws manta::invalid_argument or manta::unsupported. `by_default`: where what does not say it
/// runs.
MANTA_API void check(const options& asked, isolation_mode by_default = isolation_mode::threads);
MANTA_API void check(const call_options& asked);
MANTA_API void check(const actor_options& asked,
                     isolation_mode by_default = isolation_mode::threads);
MANTA_API void check_stream_credits(std::size_t asked);

/// What checked options ask of a node.
MANTA_API demand to_demand(const options& asked);
MANTA_API demand to_demand(const actor_options& asked);

}  // namespace spec
}  // namespace manta::inline v0
