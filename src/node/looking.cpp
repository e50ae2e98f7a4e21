// SPDX-License-Identifier: Apache-2.0
#include "node/looking.hpp"

#include <manta/exec/executor.hpp>
#include <manta/exec/parker.hpp>

namespace manta::inline v0::node {

void look_until(const looks& how, const std::function<bool()>& is_so) {
  for (std::uint64_t left = how.most; !is_so() && left > 0; --left) {
    exec::parker nap;
    exec::executor::sleep(nap, base::after(how.between));
  }
}

}  // namespace manta::inline v0::node
