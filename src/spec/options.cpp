// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/options.hpp>

#include <fmt/format.h>

#include <manta/spec/error.hpp>

namespace manta::inline v0::spec {

namespace {

// What tasks and actors share: the fields, and what they say together.
template <class Options>
void check_resource_fields(const Options& asked) {
  if (asked.cpus) check_cpus("option cpus", *asked.cpus);
  check_gpus("option gpus", asked.gpus);
  if (asked.memory_bytes) check_memory("option memory_bytes", *asked.memory_bytes);
  if (!asked.resources.empty()) check_resources("option resources", asked.resources);
  if (asked.where.by != placement::rule::anywhere) check(asked.where);
  if (!asked.enforce_memory) return;
  raise(errc::unsupported,
        "option enforce_memory: asked to enforce memory_bytes, but a task is a thread of this "
        "process here and threads share their memory; leave it unset to have memory accounted, or "
        "run it in an isolated worker (isolation = processes), which has a limit of its own");
}

template <class Options>
demand demand_of(const Options& asked) {
  const bool has_list = asked.gpus != 0 || asked.memory_bytes || !asked.resources.empty();
  if (!has_list && asked.cpus.value_or(0) == 0) return {};
  return to_demand(
      bundle{asked.cpus.value_or(0), asked.gpus, asked.memory_bytes.value_or(0), asked.resources});
}

void check_count(const char* key, int value) {
  if (value >= 0) return;
  raise(errc::invalid_argument, fmt::format("option {}: asked {}, allowed 0 or more", key, value));
}

void check_name(const std::optional<std::string>& name) {
  if (!name || !name->empty()) return;
  raise(errc::invalid_argument, "option name: asked an empty name; leave it unset for none");
}

void check_timeout(const std::optional<duration>& timeout) {
  if (!timeout || *timeout > duration::zero()) return;
  raise(errc::invalid_argument,
        fmt::format("option timeout: asked {} ns, allowed more than 0; leave it unset for none",
                    timeout->count()));
}

void check_priority(priority level) {
  if (level <= priority::high) return;
  raise(errc::invalid_argument, fmt::format("option priority: asked {}, allowed low, normal, high",
                                            static_cast<int>(level)));
}

}  // namespace

void check(const options& asked) {
  check_resource_fields(asked);
  check_count("max_retries", asked.max_retries);
  check_timeout(asked.timeout);
  check_priority(asked.priority);
  check_name(asked.name);
}

void check(const call_options& asked) {
  check_timeout(asked.timeout);
  check_name(asked.name);
}

void check(const actor_options& asked) {
  check_resource_fields(asked);
  check_count("max_restarts", asked.max_restarts);
  check_name(asked.name);
}

demand to_demand(const options& asked) { return demand_of(asked); }
demand to_demand(const actor_options& asked) { return demand_of(asked); }

}  // namespace manta::inline v0::spec
