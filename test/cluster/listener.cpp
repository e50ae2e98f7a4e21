// SPDX-License-Identifier: Apache-2.0
// Writes all that goes over a network interface into a file: listener INTERFACE FILE. Until
// SIGTERM.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <vector>

namespace {
volatile std::sig_atomic_t is_over = 0;
}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  struct sigaction stop {};
  stop.sa_handler = [](int) { is_over = 1; };
  sigaction(SIGTERM, &stop, nullptr);  // without SA_RESTART: recv returns
  const int file = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = static_cast<int>(if_nametoindex(argv[1]));
  const int room = 1 << 24;
  setsockopt(file, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  if (bind(file, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return 1;
  // A bridge shows its own packets only, unless it takes all.
  packet_mreq all{};
  all.mr_ifindex = at.sll_ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  setsockopt(file, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
  std::FILE* const to = std::fopen(argv[2], "wb");
  if (to == nullptr) return 1;
  std::puts("listening");
  std::fflush(stdout);
  std::vector<char> packet(1 << 16);
  while (is_over == 0) {
    const ssize_t got = recv(file, packet.data(), packet.size(), 0);
    if (got > 0) std::fwrite(packet.data(), 1, static_cast<std::size_t>(got), to);
  }
  return std::fclose(to) == 0 ? 0 : 1;
}
