// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/actor_end.hpp>

namespace manta::inline v0 {

const char* to_string(end_reason reason) noexcept {
  switch (reason) {
    case end_reason::ended:
      return "ended";
    case end_reason::killed:
      return "killed";
    case end_reason::exited:
      return "exited";
    case end_reason::constructor_failed:
      return "constructor_failed";
    case end_reason::runtime_ended:
      return "runtime_ended";
    case end_reason::process_lost:
      return "process_lost";
  }
  return "unknown";
}

}  // namespace manta::inline v0
