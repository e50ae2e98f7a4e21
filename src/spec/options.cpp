// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/options.hpp>

#include <set>
#include <string_view>

#include <fmt/format.h>

#include <manta/spec/error.hpp>

namespace manta::inline v0::spec {

namespace {

constexpr std::size_t longest_name = 1024;  // of a call, an actor, a namespace or a group

// What tasks and actors share: the fields, and what they say together.
template <class Options>
void check_resource_fields(const Options& asked, isolation_mode by_default) {
  if (asked.cpus) check_cpus("option cpus", *asked.cpus);
  check_gpus("option gpus", asked.gpus);
  if (asked.memory_bytes) check_memory("option memory_bytes", *asked.memory_bytes);
  if (!asked.resources.empty()) check_resources("option resources", asked.resources);
  if (asked.where.by != placement::rule::anywhere) check(asked.where);
  const isolation_mode where = asked.isolation.value_or(by_default);
  if (where > isolation_mode::processes) {
    raise(errc::invalid_argument,
          fmt::format("option isolation: asked {}, allowed threads and processes",
                      static_cast<int>(where)));
  }
  if (!asked.enforce_memory) return;
  if (where == isolation_mode::processes) {
    if (asked.memory_bytes && *asked.memory_bytes > 0) return;
    raise(errc::invalid_argument,
          "option enforce_memory: asked without memory_bytes, which is what it enforces; give it");
  }
  raise(errc::unsupported,
        "option enforce_memory: asked to enforce memory_bytes, but it runs in threads of this "
        "process, which share their memory; leave it unset to have memory accounted, or run it in "
        "an isolated worker: .isolation = manta::isolation_mode::processes beside it, or for all "
        "calls the setting isolation = processes");
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

// Groups are numbered with 16 bits, the default group among them.
constexpr std::size_t most_groups = 65535;
constexpr int most_at_a_time = 65536;
constexpr std::size_t largest_credits = std::size_t{1} << 31U;
constexpr std::size_t largest_cap = std::size_t{1} << 30U;

void check_limit(const std::string& key, int limit) {
  if (limit >= 1 && limit <= most_at_a_time) return;
  raise(errc::invalid_argument,
        fmt::format("option {}: asked {}, allowed 1 to {}", key, limit, most_at_a_time));
}

void check_name(const char* field, const std::optional<std::string>& name) {
  if (!name || (!name->empty() && name->size() <= longest_name)) return;
  if (name->empty()) {
    raise(errc::invalid_argument,
          fmt::format("option {}: asked an empty name; leave it unset for none", field));
  }
  raise(errc::invalid_argument, fmt::format("option {}: asked a name of {} bytes, allowed 1 to {}",
                                            field, name->size(), longest_name));
}

void check_groups(const std::vector<concurrency_group>& groups) {
  if (groups.size() > most_groups) {
    raise(errc::invalid_argument,
          fmt::format("option groups: asked {}, allowed up to {}", groups.size(), most_groups));
  }
  std::set<std::string_view> seen;
  for (const concurrency_group& g : groups) {
    check_name("groups", g.name);
    check_limit(fmt::format("groups, group \"{}\"", g.name), g.limit);
    if (seen.insert(g.name).second) continue;
    raise(errc::invalid_argument,
          fmt::format("option groups: \"{}\" is given twice; once is enough", g.name));
  }
}

void check_naming(const actor_options& asked) {
  if (asked.name_space.size() > longest_name) {
    raise(errc::invalid_argument,
          fmt::format("option name_space: asked a namespace of {} bytes, allowed 0 to {}",
                      asked.name_space.size(), longest_name));
  }
  if (asked.name) return;
  if (asked.detached) {
    raise(errc::invalid_argument,
          "option detached: asked without a name; give one, by which others find it later");
  }
  if (asked.get_if_exists) {
    raise(errc::invalid_argument,
          "option get_if_exists: asked without a name; give the name to look for");
  }
  if (!asked.name_space.empty()) {
    raise(errc::invalid_argument,
          fmt::format("option name_space: asked \"{}\" without a name; give a name, too",
                      asked.name_space));
  }
}

void check_mailbox(const actor_options& asked) {
  if (asked.mailbox_cap > largest_cap) {
    raise(errc::invalid_argument, fmt::format("option mailbox_cap: asked {}, allowed 0 to {}",
                                              asked.mailbox_cap, largest_cap));
  }
  if (asked.on_full > full_policy::refuse) {
    raise(errc::invalid_argument, fmt::format("option on_full: asked {}, allowed wait and refuse",
                                              static_cast<int>(asked.on_full)));
  }
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

void check_stream_credits(std::size_t asked) {
  if (asked >= 1 && asked <= largest_credits) return;
  raise(errc::invalid_argument,
        fmt::format("stream credits: asked {}, allowed 1 to {} items", asked, largest_credits));
}

void check(const options& asked, isolation_mode by_default) {
  check_resource_fields(asked, by_default);
  check_count("max_retries", asked.max_retries);
  check_timeout(asked.timeout);
  check_priority(asked.priority);
  check_name("name", asked.name);
  check_stream_credits(asked.stream_credits);
}

void check(const call_options& asked) {
  check_timeout(asked.timeout);
  check_name("name", asked.name);
  check_stream_credits(asked.stream_credits);
  check_name("group", asked.group);
}

void check(const actor_options& asked, isolation_mode by_default) {
  check_resource_fields(asked, by_default);
  check_count("max_restarts", asked.max_restarts);
  check_name("name", asked.name);
  check_naming(asked);
  check_limit("max_concurrency", asked.max_concurrency);
  check_groups(asked.groups);
  check_mailbox(asked);
}

demand to_demand(const options& asked) { return demand_of(asked); }
demand to_demand(const actor_options& asked) { return demand_of(asked); }

}  // namespace manta::inline v0::spec
