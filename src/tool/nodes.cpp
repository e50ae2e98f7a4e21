// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <manta/node/runtime.hpp>
#include <manta/spec/config.hpp>
#include <manta/spec/node_info.hpp>
#include <CLI/App.hpp>
#include <fmt/format.h>

#include "tool/control.hpp"

namespace manta::tool {

namespace {

/// What the verbs were given.
struct place {
  std::string address;
  std::string job;
  std::string token_file;
  int limit_ms = 3000;
  bool is_plain = false;
  bool has_json = false;
};

constexpr std::array roles = {"driver", "node", "head", "observer"};
constexpr std::array standings = {"alive", "suspected", "draining"};

const char* name_of(role_mode role) { return roles[static_cast<std::size_t>(role)]; }
const char* name_of(node_standing is) { return standings[static_cast<std::size_t>(is)]; }

config observer_of(const place& at) {
  config with;
  with.role = role_mode::observer;
  with.workers = 1;
  with.join_ms = at.limit_ms;
  if (!at.address.empty()) with.address = at.address;
  if (!at.job.empty()) with.job = at.job;
  if (!at.token_file.empty()) with.token_file = at.token_file;
  if (at.is_plain) with.insecure_plaintext = true;
  return with;
}

int finish() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_good;
  fmt::print(stderr, "manta: can't write the output; see where it goes to\n");
  return exit_problem;
}

void print_json(const node_info& one) {
  fmt::print(
      "{{\"name\":{},\"host\":{},\"pid\":{},\"role\":\"{}\",\"standing\":\"{}\",\"epoch\":{},"
      "\"queued\":{}}}\n",
      json_string(one.name), json_string(one.host), one.pid, name_of(one.role),
      name_of(one.standing), one.epoch, one.queued);
}

int list(const place& at, const std::vector<node_info>& nodes) {
  if (at.has_json) {
    for (const node_info& one : nodes) print_json(one);
    return finish();
  }
  fmt::print("{:<24} {:<16} {:>8} {:<8} {:<10} {:>6} {:>8}\n", "NAME", "HOST", "PID", "ROLE",
             "STANDING", "EPOCH", "QUEUED");
  for (const node_info& one : nodes) {
    fmt::print("{:<24} {:<16} {:>8} {:<8} {:<10} {:>6} {:>8}\n", escaped(one.name),
               escaped(one.host), one.pid, name_of(one.role), name_of(one.standing), one.epoch,
               one.queued);
  }
  return finish();
}

int summary(const place& at, const std::vector<node_info>& nodes) {
  std::array<std::size_t, roles.size()> by_role{};
  std::array<std::size_t, standings.size()> by_standing{};
  std::uint64_t queued = 0;
  for (const node_info& one : nodes) {
    ++by_role[static_cast<std::size_t>(one.role)];
    ++by_standing[static_cast<std::size_t>(one.standing)];
    queued += one.queued;
  }
  if (at.has_json) {
    fmt::print(
        "{{\"members\":{},\"drivers\":{},\"nodes\":{},\"alive\":{},\"suspected\":{},"
        "\"draining\":{},\"queued\":{}}}\n",
        nodes.size(), by_role[0], by_role[1], by_standing[0], by_standing[1], by_standing[2],
        queued);
    return finish();
  }
  fmt::print("{} members: {} drivers, {} nodes; {} alive, {} suspected, {} draining; {} tasks\n",
             nodes.size(), by_role[0], by_role[1], by_standing[0], by_standing[1], by_standing[2],
             queued);
  return finish();
}

using report = int (*)(const place&, const std::vector<node_info>&);

int look(const place& at, report tell) {
  try {
    const runtime here(observer_of(at));
    return tell(at, here.nodes());
  } catch (const exception& why) {
    fmt::print(stderr, "manta: {}\n", why.as_error().message());
    return exit_problem;
  }
}

}  // namespace

void add_nodes(CLI::App& to, int& exit_code) {
  const auto add = [&](const char* name, const char* does, report tell) {
    auto given = std::make_shared<place>();
    CLI::App& verb = *to.add_subcommand(name, does);
    verb.add_option("--address", given->address,
                    "Where the head is: host:port or unix:/path; else MANTA_ADDRESS, else the one "
                    "job of this user on this machine");
    verb.add_option("--job", given->job, "The name of a job on this machine");
    verb.add_option("--token-file", given->token_file, "The cluster's token");
    verb.add_option("--timeout-ms", given->limit_ms, "How long the head may take to answer")
        ->check(CLI::Range(100, 3'600'000));
    verb.add_flag("--insecure-plaintext", given->is_plain, "As the cluster was started");
    verb.add_flag("--json", given->has_json, "One JSON object a line");
    verb.callback([given, tell, &exit_code] { exit_code = look(*given, tell); });
  };
  add("nodes", "Lists the members of a cluster", &list);
  add("status", "Counts the members of a cluster", &summary);
}

}  // namespace manta::tool
