// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "bulk/guard.hpp"
#include "wire/secret.hpp"
#include "wire/socket_link.hpp"

// Who may be at the other end of a connection of bulk/, as of any other link: at a unix socket this
// user's processes, over TCP who proves that it has the cluster's token, inside of TLS where a link
// would have that. The proofs have a key of their own, so that none of a link fits here.
//
// Threads: one at a time.

namespace manta::inline v0::node {

class bulk_guard final : public bulk::guard {
 public:
  explicit bulk_guard(wire::socket_settings of);

  bool admits(int socket) override;
  bool asks_for_proof(int socket) override;
  bool encrypts(int socket) override;
  std::unique_ptr<bulk::cipher> encrypt(int socket, bulk::line_end as) override;
  bulk::proof_block proof_of(bulk::line_end by, const bulk::hello_block& dialler,
                             const bulk::hello_block& listener) override;
  void draw(std::span<std::byte> nonce) override { wire::fill_random(nonce); }

 private:
  const wire::socket_settings of_;
  const wire::secret key_;  // zeroes where there is no TCP
};

}  // namespace manta::inline v0::node
