// SPDX-License-Identifier: Apache-2.0
//
// Ray's microbenchmark by its own names; see ours/ray_rows.cpp. Method: a round of 1 s to warm up
// (printed as "cold"), then 4 rounds of at least 2 s.
#include "rivals/rows.hpp"

int main(int argc, char** argv) {
  bench::be_a_ray_node();
  bench::suite s("bench_ray_rows");
  bench::add_our_ray_rows(s);
  using bench::bar;
  s.add(bar{"put(0): 10 M/s", "single client put calls", "threads", 10e6});
  s.add(bar{"get: 50 M/s", "single client get calls", "threads", 50e6});
  const std::string list = "get of one list of 10 k futures: 10,000/s";
  s.add(bar{list, "single client get object containing 10k refs", "threads", 1e4});
  s.add(bar{list + ", with their values", "get of 10k futures at once", "threads", 1e4});
  s.add(bar{"wait row: 2,000/s", "single client wait 1k refs", "threads", 2e3});
  s.add(bar{"max_concurrency 16: at least 0.8 x plain", "1:1 actor calls concurrent", "threads",
            0.8, "threads", "1:1 actor calls async"});
  return s.run(argc, argv);
}
