// SPDX-License-Identifier: Apache-2.0
#include "wire/proof.hpp"

#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace manta::inline v0::wire {

result<std::shared_ptr<const trust>> trust::from(const secret& token, bool allows_plaintext) {
  std::shared_ptr<const tls_identity> identity;
  if (!allows_plaintext) {
    result<std::shared_ptr<const tls_identity>> made = tls_identity::make(token);
    if (!made) return made.error();
    identity = *std::move(made);
  }
  return std::shared_ptr<const trust>(
      new trust(derive(token, "manta: proof of the token"), std::move(identity)));
}

mac trust::proof_of(end_of_link by, const greeting_block& dialler,
                    const greeting_block& listener) const {
  const std::string_view label = by == end_of_link::dialler ? "dialler" : "listener";
  const std::array<std::span<const std::byte>, 3> pieces{std::as_bytes(std::span(label)),
                                                         std::span(dialler), std::span(listener)};
  return authenticate(key_, pieces);
}

}  // namespace manta::inline v0::wire
