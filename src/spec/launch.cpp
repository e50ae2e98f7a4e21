// SPDX-License-Identifier: Apache-2.0
#include "spec/launch.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "spec/launchers.hpp"
#include "spec/texts.hpp"

namespace manta::inline v0::spec {

namespace {

using way = launch_plan::way;
using maybe_word = std::optional<launcher_word>;

template <class... Parts>
error bad_launch(fmt::format_string<Parts...> form, Parts&&... parts) {
  return {errc::invalid_config, "launch: " + fmt::format(form, std::forward<Parts>(parts)...)};
}

const char* name_of(role_mode role) noexcept {
  switch (role) {
    case role_mode::driver:
      return "driver";
    case role_mode::node:
      return "node";
    case role_mode::head:
      return "head";
    case role_mode::observer:
      return "observer";
  }
  return "unknown";
}

bool is_unix(const std::optional<std::string>& address) {
  return address && address->starts_with("unix:");
}

// Whether a setting is what its variable says: then that is where it came from, as far as one sees.
bool is_from(const environment_lookup& environment, const char* variable, std::string_view value) {
  const auto found = environment(variable);
  return found && *found == value;
}

std::string source_of(const environment_lookup& environment, const char* variable,
                      std::string_view value) {
  return is_from(environment, variable, value) ? variable : "config";
}

// The part that the settings rank and world-size give.
result<maybe_word> ask_settings(const config& settled, const environment_lookup& environment) {
  if (settled.rank == -1) return maybe_word();
  if (settled.world_size == -1) {
    return bad_launch("found rank={} and no world-size; set MANTA_WORLD_SIZE, too", settled.rank);
  }
  if (settled.rank >= settled.world_size) {
    return bad_launch("found rank={} and world-size={}, but ranks are 0 to {}; mend MANTA_RANK",
                      settled.rank, settled.world_size, settled.world_size - 1);
  }
  launcher_word word;
  word.rank = settled.rank;
  word.size = settled.world_size;
  word.is_one_machine =
      is_unix(settled.address) || word.size == 1 || settled.nodes == settled.world_size;
  word.source = source_of(environment, "MANTA_RANK", std::to_string(settled.rank));
  word.variables = "rank and world-size";
  return maybe_word(std::move(word));
}

// With world-size and no rank: a launcher that agrees, or one that numbers without a size.
result<maybe_word> ask_for_rank(const config& settled, const environment_lookup& environment,
                                const maybe_word& launcher) {
  const int size = settled.world_size;
  if (launcher) {
    if (launcher->size == size) return launcher;
    return bad_launch(
        "found world-size={}, and {} has started {} ({}); leave world-size out, or start {}", size,
        launcher->source, launcher->size, launcher->variables, size);
  }
  auto numbered = ask_numberers(environment, size);
  if (!numbered) return numbered.error();
  if (!*numbered) {
    return bad_launch(
        "found world-size={}, and nothing that says which of them this is; set MANTA_RANK", size);
  }
  if ((*numbered)->rank >= size) {
    return bad_launch("found {}={} and world-size={}, but ranks are 0 to {}; mend MANTA_WORLD_SIZE",
                      (*numbered)->source, (*numbered)->rank, size, size - 1);
  }
  return numbered;
}

// The place among ranks that this process was given, or none when it is by itself.
result<maybe_word> find_rank(const config& settled, const environment_lookup& environment) {
  auto asked = ask_settings(settled, environment);
  if (!asked || *asked) return asked;
  if (settled.world_size == 1) return maybe_word();
  auto launcher = ask_launchers(environment);
  if (!launcher) return launcher;
  if (settled.world_size != -1) return ask_for_rank(settled, environment, *launcher);
  if (*launcher && (*launcher)->size == 1) return maybe_word();
  const auto space = environment("PMIX_NAMESPACE");
  if (!*launcher && environment("PMIX_RANK") && space && !space->starts_with("slurm.")) {
    return bad_launch(
        "found PMIX_RANK={}, and nothing that says how many there are; set MANTA_WORLD_SIZE",
        shown(*environment("PMIX_RANK")));
  }
  return launcher;
}

// What a part is called in a mark: the same for two processes only if they would take the same.
// Empty: who takes it has nothing to do with others.
std::string part_name(const launch_plan& plan) {
  const bool is_private = !plan.address && !plan.listen && plan.role == role_mode::driver;
  if (plan.by == way::alone && is_private) return {};
  std::string place = plan.job;
  if (plan.address) place = *plan.address;
  if (place.empty() && plan.listen) place = *plan.listen;
  return fmt::format("{}:{}:{}/{}:{}", static_cast<int>(plan.by), name_of(plan.role), plan.rank,
                     plan.size, place);
}

// Whether the process that started this one has taken this part already.
bool is_taken(const launch_plan& plan, const config& settled, const environment_lookup& environment,
              std::int64_t own_pid) {
  const auto mark = environment(launch_mark_variable);
  const std::string part = part_name(plan);
  if (!mark || part.empty() || *mark == launch_mark(plan, own_pid)) return false;
  // A program that says itself how many nodes it wants has not inherited that.
  if (plan.by == way::spawns &&
      !is_from(environment, "MANTA_NODES", std::to_string(settled.nodes))) {
    return false;
  }
  const std::size_t blank = mark->find(' ');
  return blank != std::string::npos && std::string_view(*mark).substr(blank + 1) == part;
}

// A folder that all ranks know, where there is a need of one.
std::optional<error> add_rendezvous(launch_plan& plan, const config& settled,
                                    const environment_lookup& environment) {
  const bool is_looked_up = !plan.address && !plan.job.empty() && plan.by != way::spawns;
  if (!is_looked_up) return std::nullopt;
  if (settled.rendezvous) {
    plan.rendezvous = *settled.rendezvous;
    return std::nullopt;
  }
  const auto home = environment("HOME");
  if (!home || !home->starts_with('/')) {
    return bad_launch(
        "asked a folder where the ranks find each other, found HOME=\"{}\"; set MANTA_RENDEZVOUS",
        shown(home.value_or("")));
  }
  plan.rendezvous = *home + "/.cache/manta/rendezvous";
  return std::nullopt;
}

// Where who hosts the head waits for other machines.
std::optional<error> add_listen(launch_plan& plan, const config& settled) {
  if (!plan.hosts_head()) return std::nullopt;
  const bool has_tcp_address = plan.address && !is_unix(plan.address);
  const bool needs_tcp = plan.by == way::ranked && !plan.is_one_machine;
  if (settled.listen && *settled.listen != "none") {
    plan.listen = settled.listen;
  } else if (settled.listen && (needs_tcp || has_tcp_address)) {
    return bad_launch("found listen=none, and {}; leave listen out",
                      has_tcp_address ? "address=" + *plan.address
                                      : fmt::format("{} ranks on several machines", plan.size));
  } else if (!settled.listen && has_tcp_address) {
    plan.listen = plan.address;
  } else if (!settled.listen && needs_tcp) {
    plan.listen = ":0";
  }
  return std::nullopt;
}

result<launch_plan> plan_ranked(launch_plan plan, const config& settled, const launcher_word& word,
                                const environment_lookup& environment) {
  plan.by = way::ranked;
  plan.rank = word.rank;
  plan.size = word.size;
  plan.is_one_machine = word.is_one_machine;
  plan.source = word.source;
  if (plan.job.empty()) plan.job = word.key;
  if (settled.nodes != -1 && settled.nodes != word.size) {
    return bad_launch("found nodes={}, and {} says {} ({}); leave nodes out, or start {}",
                      settled.nodes, word.source, word.size, word.variables, settled.nodes);
  }
  const role_mode usual = word.rank == 0 ? role_mode::driver : role_mode::node;
  plan.role = settled.role.value_or(usual);
  // Nodes that a driver has started come by the same main to the same settings: what it says of
  // itself there is not said of them.
  if (word.rank > 0 && settled.nodes == word.size) {
    if (plan.role == role_mode::driver && !environment("MANTA_ROLE")) plan.role = usual;
    if (!environment("MANTA_MEMBER_NAME")) plan.member_name.clear();
  }
  if (plan.role == role_mode::head || plan.role == role_mode::observer) {
    return bad_launch("found role={} and rank {} of {} ({}); start it by itself, without a rank",
                      name_of(plan.role), word.rank, word.size, word.source);
  }
  if (plan.role == role_mode::driver && word.rank > 0) {
    return bad_launch(
        "found role=driver and rank {} of {} ({}), but rank 0 is the driver; leave "
        "role out, or set spmd=yes for main to run in every rank",
        word.rank, word.size, word.source);
  }
  if (plan.role == role_mode::node && word.rank == 0) {
    if (!plan.address) {
      return bad_launch(
          "found role=node and rank 0 of {} ({}), and no driver; leave role out, or "
          "set MANTA_ADDRESS to where there is a head",
          word.size, word.source);
    }
    plan.by = way::joins;
  }
  if (is_unix(plan.address) && !plan.is_one_machine) {
    return bad_launch(
        "found address={} and {} ranks, not all on this machine ({}); set "
        "MANTA_ADDRESS to host:port, or leave it out",
        *plan.address, word.size, word.source);
  }
  if (!plan.address && plan.job.empty() && word.size > 1) {
    return bad_launch(
        "found rank {} of {} ({}), and nothing that names the job; set MANTA_JOB to a "
        "name that only these ranks have, or MANTA_ADDRESS",
        word.rank, word.size, word.source);
  }
  if (plan.member_name.empty()) plan.member_name = fmt::format("rank-{}", word.rank);
  return plan;
}

result<launch_plan> plan_spawns(launch_plan plan, const config& settled,
                                const environment_lookup& environment) {
  plan.by = way::spawns;
  plan.size = settled.nodes;
  plan.source = source_of(environment, "MANTA_NODES", std::to_string(settled.nodes));
  if (settled.world_size != -1) {
    return bad_launch("found nodes={} and world-size={}; leave one of them out", settled.nodes,
                      settled.world_size);
  }
  if (settled.role && *settled.role != role_mode::driver) {
    return bad_launch(
        "found nodes={} and role={}, but who starts nodes is their driver; leave one "
        "of them out",
        settled.nodes, name_of(*settled.role));
  }
  if (plan.address) {
    return bad_launch(
        "found nodes={}, which are started around a head of their own, and "
        "address={}; leave one of them out",
        settled.nodes, *plan.address);
  }
  if (plan.member_name.empty()) plan.member_name = "rank-0";
  return plan;
}

// A process that has no rank.
result<launch_plan> plan_single(launch_plan plan, const config& settled,
                                const environment_lookup& environment) {
  const bool has_listen = settled.listen && *settled.listen != "none";
  const bool is_head = settled.role == role_mode::head;
  const bool is_guest = settled.role == role_mode::node || settled.role == role_mode::observer;
  plan.is_one_machine = plan.address ? is_unix(plan.address) : !has_listen;
  if (is_head && !plan.address && !has_listen && plan.job.empty()) {
    return bad_launch(
        "found role=head, and nothing by which others find it; set MANTA_ADDRESS or MANTA_JOB");
  }
  // Who looks may look around on this machine.
  const bool looks_around =
      settled.role == role_mode::observer && !plan.address && plan.job.empty();
  if (is_guest && !plan.address && plan.job.empty() && !looks_around) {
    return bad_launch("found role={}, and no head to go to; set MANTA_ADDRESS or MANTA_JOB",
                      name_of(*settled.role));
  }
  if (is_head) {
    plan.role = role_mode::head;
    plan.source = source_of(environment, "MANTA_ROLE", "head");
  } else if (plan.address) {
    plan.by = way::joins;
    plan.role = settled.role.value_or(role_mode::node);
    plan.source = source_of(environment, "MANTA_ADDRESS", *plan.address);
  } else if (is_guest) {
    plan.by = way::joins;
    plan.role = *settled.role;
    plan.is_one_machine = looks_around;
    plan.source = looks_around ? source_of(environment, "MANTA_ROLE", "observer")
                               : source_of(environment, "MANTA_JOB", *settled.job);
  }
  return plan;
}

result<launch_plan> plan_part(const config& settled, const environment_lookup& environment) {
  launch_plan plan;
  plan.address = settled.address;
  plan.member_name = settled.member_name.value_or("");
  if (settled.job) plan.job = "job-" + *settled.job;
  const auto word = find_rank(settled, environment);
  if (!word) return word.error();
  if (*word) return plan_ranked(std::move(plan), settled, **word, environment);
  if (settled.nodes > 1) return plan_spawns(std::move(plan), settled, environment);
  return plan_single(std::move(plan), settled, environment);
}

// The same, and where it listens.
result<launch_plan> plan_whole(const config& settled, const environment_lookup& environment) {
  result<launch_plan> part = plan_part(settled, environment);
  if (!part) return part;
  launch_plan plan = *std::move(part);
  if (auto wrong = add_listen(plan, settled)) return *std::move(wrong);
  return plan;
}

// The part of a program that a process of the job has started: it looks, if it was told to, and is
// by itself otherwise, for the address is inherited, too.
result<launch_plan> plan_child(const config& settled, const environment_lookup& environment) {
  launch_plan plan;
  if (settled.role == role_mode::observer) {
    plan.address = settled.address;
    if (settled.job) plan.job = "job-" + *settled.job;
    plan.member_name = settled.member_name.value_or("");
    return plan_single(std::move(plan), settled, environment);
  }
  plan.source = launch_mark_variable;
  return plan;
}

}  // namespace

result<launch_plan> plan_launch(const config& settled, const environment_lookup& environment,
                                std::int64_t own_pid) {
  // An observer has no rank, and may have inherited that of who started it.
  config inherited = settled;
  if (settled.role == role_mode::observer && environment(launch_mark_variable)) {
    inherited.role.reset();
  }
  result<launch_plan> part = plan_whole(inherited, environment);
  if (part && is_taken(*part, settled, environment, own_pid)) {
    part = plan_child(settled, environment);
  } else if (inherited.role != settled.role) {
    part = plan_whole(settled, environment);
  }
  if (!part) return part;
  launch_plan plan = *std::move(part);
  if (auto wrong = add_rendezvous(plan, settled, environment)) return *std::move(wrong);
  return plan;
}

std::string launch_mark(const launch_plan& taken, std::int64_t own_pid) {
  const std::string part = part_name(taken);
  return part.empty() ? part : fmt::format("{} {}", own_pid, part);
}

machine_share share_of(int all, int rank, int size) noexcept {
  const int each = all / size;
  const int more = all % size;
  return {rank * each + std::min(rank, more), each + (rank < more ? 1 : 0)};
}

grants share_of(const grants& machine, int rank, int size) noexcept {
  grants own = machine;
  own.cores = std::max(1, machine.cores / size);
  own.memory_bytes = machine.memory_bytes / size;
  own.gpus = share_of(machine.gpus, rank, size).count;
  return own;
}

}  // namespace manta::inline v0::spec
