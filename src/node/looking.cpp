// SPDX-License-Identifier: Apache-2.0
#include "node/looking.hpp"

#include <manta/exec/executor.hpp>
#include <manta/exec/parker.hpp>

namespace manta::inline v0::node {

void nap_between(const looks& how) noexcept {
  exec::parker nap;
  exec::executor::sleep(nap, base::after(how.between));
}

}  // namespace manta::inline v0::node
