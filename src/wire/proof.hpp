// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <manta/spec/error.hpp>

#include "wire/greeting.hpp"
#include "wire/secret.hpp"
#include "wire/tls.hpp"

// That both ends of a connection have the token, without either of them saying it.
//
// Idea. Each greets with a number that it has drawn. Who dials sends a MAC over both greetings, and
// the other end answers with one of its own only when that is right: so nobody learns anything who
// does not have the token, and what was recorded fits no other connection. The ends have labels of
// their own, or a proof could be sent back to who made it.
//
//   dialler --greeting--> <--greeting-- listener
//           --MAC(key, "dialler", both)-->   wrong: closed without a word
//           <--MAC(key, "listener", both)--
//
// Threads: any; values.

namespace manta::inline v0::wire {

/// Which end of a connection.
enum class end_of_link : std::uint8_t { dialler, listener };

/// What the processes of a cluster that talk over TCP have in common.
class trust {
 public:
  /// From the token of a cluster. `allows_plaintext`: nothing is encrypted, to wherever it goes.
  static result<std::shared_ptr<const trust>> from(const secret& token, bool allows_plaintext);

  /// What `by` has to send, over both greetings as they were sent.
  mac proof_of(end_of_link by, const greeting_block& dialler, const greeting_block& listener) const;
  /// A key for proofs of another kind, which fits nothing that proof_of has to do with.
  secret key_for(std::string_view use) const { return derive(key_, use); }
  bool allows_plaintext() const noexcept { return identity_ == nullptr; }
  /// Null: nothing is encrypted.
  const std::shared_ptr<const tls_identity>& identity() const noexcept { return identity_; }

 private:
  trust(const secret& key, std::shared_ptr<const tls_identity> identity)
      : key_(key), identity_(std::move(identity)) {}

  secret key_;
  std::shared_ptr<const tls_identity> identity_;
};

}  // namespace manta::inline v0::wire
