// SPDX-License-Identifier: Apache-2.0
#include "node/placing.hpp"

#include <string>

#include <fmt/format.h>

#include <manta/spec/error.hpp>

#include "node/desk.hpp"

namespace manta::inline v0::node {

std::uint64_t node_named(const peers& among, const placement& where) {
  const std::string& name = *where.node;
  const std::string own = desk::global().node_name();
  // "local" is this one whatever its name is.
  if (name == own || name == "local") return 0;
  std::string known = own;
  for (const auto& [one, epoch] : among.names()) {
    if (one == name) return epoch;
    known += ", " + one;
  }
  if (where.is_soft) return 0;
  raise(errc::infeasible,
        fmt::format("where: asked for the node \"{}\"; those that take tasks and actors are {}",
                    name, known));
}

}  // namespace manta::inline v0::node
