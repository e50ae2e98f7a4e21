// SPDX-License-Identifier: Apache-2.0
#include "node/placing.hpp"

#include <string>

#include <fmt/format.h>

#include <manta/base/clock.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/spec/error.hpp>

#include "life/membership.hpp"
#include "node/desk.hpp"
#include "node/looking.hpp"

namespace manta::inline v0::node {

// Who gave the name may have heard of that node before this one does.
void wait_for_node(const std::function<bool()>& there) {
  const base::time_point limit = base::after(life::until_heard_of);
  look_until({}, [&] { return there() || base::now() >= limit; });
}

std::uint64_t node_named(const peers& among, const std::atomic<bool>& is_open,
                         const placement& where) {
  const std::string& name = *where.node;
  const std::string own = desk::global().node_name();
  // "local" is this one whatever its name is.
  if (name == own || name == "local") return 0;
  std::uint64_t found = 0;
  wait_for_node([&] {
    if (!is_open.load()) exec::ended_error().raise();
    found = among.named(name);
    return found != 0 || where.is_soft || among.has_ended(name);
  });
  if (found != 0 || where.is_soft) return found;
  std::string known = own;
  for (const std::string& one : among.names()) known += ", " + one;
  raise(errc::infeasible,
        fmt::format("where: asked for the node \"{}\"; those that take tasks and actors are {}",
                    name, known));
}

}  // namespace manta::inline v0::node
