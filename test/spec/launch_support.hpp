// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "spec/config_keys.hpp"
#include "spec/launch.hpp"

// Plans from environments as tables, for the tests of launches.

namespace launch_test {

using manta::config;
using manta::errc;
using manta::role_mode;
using manta::spec::complete;
using manta::spec::grants;
using manta::spec::launch_mark;
using manta::spec::launch_plan;
using manta::spec::machine_share;
using manta::spec::plan_launch;
using manta::spec::share_of;
using way = manta::spec::launch_plan::way;

using variables = std::map<std::string, std::string>;

// The two put together, those of `more` winning.
inline variables operator+(variables base, const variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

inline variables without(variables base, const std::string& name) {
  base.erase(name);
  return base;
}

// As runtime does it: the variables that are settings become a config, the rest is looked up.
inline manta::result<launch_plan> plan(const variables& environment, const config& given = {},
                                       std::int64_t pid = 100) {
  std::vector<manta::spec::setting> settings;
  const auto add = [&](const auto& keys) {
    for (const auto& key : keys) {
      const auto at = environment.find(key.variable);
      if (at != environment.end()) settings.push_back({key.name, at->second, key.variable});
    }
  };
  add(manta::spec::number_keys());
  add(manta::spec::text_keys());
  const auto settled = complete(given, {}, settings, 2);
  if (!settled) return settled.error();
  return plan_launch(
      *settled,
      [&](const char* name) -> std::optional<std::string> {
        const auto at = environment.find(name);
        if (at == environment.end()) return std::nullopt;
        return at->second;
      },
      pid);
}

}  // namespace launch_test
