// SPDX-License-Identifier: Apache-2.0
//
// Messages between two processes on two cores over the bodies of the wire's link, beside a unix
// socket and TCP with epoll and nothing else.
#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_rows(suite& s) {
  row r{link_one, "One message of 128 bytes there and back", unit::microseconds};
  r.note =
      "Each process is pinned to a core of its own, with all its threads. Epoll: both sides sleep "
      "in "
      "epoll_wait. Sockets: the other side answers on its loop's thread; here a thread waits.";
  s.add(r);
  r = row{link_rest, "The same after 2 ms of rest", unit::microseconds};
  s.add(r);
  r = row{link_many, "Messages of 128 bytes there and back, 100 under way", unit::per_second};
  s.add(r);
}

void add_bars(suite& s) {
  s.add(bar{"link over sockets: at most 2 x a unix socket with epoll", link_one, "manta, sockets",
            2, "unix socket, epoll"});
  s.add(bar{"link over TCP: at most 2.5 x raw TCP with epoll", link_one, "manta, TCP", 2.5,
            "TCP, epoll"});
  s.add(bar{"10,000 half-open connections: 0.9 of the rate", link_many,
            "manta, TCP, 10,000 half-open", 0.9, "manta, TCP"});
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::suite s("bench_link");
  bench::add_rows(s);
  bench::add_bars(s);
  bench::add_epoll(s);
  bench::add_our_links(s);
  return s.run(argc, argv);
}
