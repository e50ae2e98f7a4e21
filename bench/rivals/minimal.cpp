// SPDX-License-Identifier: Apache-2.0
#include "rivals/minimal_pool.hpp"
#include "rivals/pool_rows.hpp"

namespace bench {

void add_minimal(suite& s) {
  for (int threads : {1, 2}) {
    const std::string name = "minimal pool, " + std::to_string(threads) + " thr";
    s.add(many<std::uint8_t, minimal_pool>(name, threads, true));
    s.add(many<std::uint64_t, minimal_pool>(name, threads, true));
    s.add(many<bytes_64, minimal_pool>(name, threads, true));
    s.add(many<std::string, minimal_pool>(name, threads, true));
    s.add(two_at_once<minimal_pool>(name, threads, true));
    s.add(one_by_one<minimal_pool>(one, name, threads, 20000));
    s.add(queued<minimal_pool>(name, threads, true));
  }
  s.add(one_by_one<minimal_pool>(one_hot, "minimal pool, 1 thr", 1, 20000));
  s.add(one_by_one<minimal_pool>(one_asleep, "minimal pool, 1 thr", 1, 0));
}

}  // namespace bench
