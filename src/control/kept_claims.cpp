// SPDX-License-Identifier: Apache-2.0
#include "control/kept_claims.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "control/ask.hpp"
#include "control/rows.hpp"

namespace manta::inline v0::control {

namespace {

struct found_claim {
  name_holder by;
  std::uint64_t at = 0;  // the revision that wrote it
};

std::string claim_key(const claimed_name& of) {
  return std::string(keys::claims) + digits(of.name_space.size()) + of.name_space + of.name;
}

std::string claim_bytes(const name_holder& by) { return digits(by.node) + digits(by.number); }

result<std::optional<found_claim>> find_claim(store& in, const std::string& key) {
  const auto found = read_one(in, key);
  if (!found) return found.error();
  if (!*found) return std::optional<found_claim>();
  const std::string_view bytes = (*found)->value;
  constexpr std::size_t half = 16;
  if (bytes.size() != 2 * half) {
    return error(errc::decode_failed, "control: the record of a name's claim is not one of those");
  }
  const name_holder by{number_of(bytes.substr(0, half)), number_of(bytes.substr(half))};
  return std::optional(found_claim{by, (*found)->at});
}

// False: it was changed since that revision.
result<bool> write_claim(store& in, const std::string& key, std::uint64_t at,
                         const name_holder* by) {
  batch what;
  what.conditions.push_back({key, at});
  const auto kind = by != nullptr ? change::kind::put : change::kind::del;
  what.changes.push_back({kind, key, by != nullptr ? claim_bytes(*by) : std::string()});
  what.how = durability::buffered;
  const result<outcome> got = commit_now(in, std::move(what));
  if (!got) return got.error();
  return !got->refused;
}

}  // namespace

result<name_holder> keep_claim(store& in, const claimed_name& of, const name_holder& by) {
  const std::string key = claim_key(of);
  for (;;) {
    const auto has = find_claim(in, key);
    if (!has) return has.error();
    if (*has) return (*has)->by;
    const result<bool> is = write_claim(in, key, 0, &by);
    if (!is) return is.error();
    if (*is) return by;
  }
}

result<name_holder> kept_claim(store& in, const claimed_name& of) {
  const auto has = find_claim(in, claim_key(of));
  if (!has) return has.error();
  return *has ? (*has)->by : name_holder{};
}

result<void> drop_claim(store& in, const claimed_name& of, const name_holder& by) {
  const std::string key = claim_key(of);
  const auto has = find_claim(in, key);
  if (!has) return has.error();
  if (!*has || (*has)->by != by) return {};
  const result<bool> is = write_claim(in, key, (*has)->at, nullptr);
  if (!is) return is.error();
  return {};  // or somebody else has done that
}

}  // namespace manta::inline v0::control
