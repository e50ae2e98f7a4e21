// SPDX-License-Identifier: Apache-2.0
#include "control/checks.hpp"

#include <fmt/format.h>

namespace manta::inline v0::control {

namespace {

error out_of_range(const char* what, std::uint64_t asked, std::uint64_t least, std::uint64_t most,
                   const char* advice) {
  return {errc::invalid_argument, fmt::format("control: {}: asked {}, allowed are {} to {}; {}",
                                              what, asked, least, most, advice)};
}

result<void> check_key(const std::string& key) {
  if (!key.empty() && key.size() <= limits::key_bytes) return {};
  return out_of_range("bytes of a key", key.size(), 1, limits::key_bytes,
                      "keep what is long in the value");
}

result<void> check_change(const change& one) {
  if (result<void> good = check_key(one.key); !good) return good;
  if (one.value.size() <= limits::value_bytes) return {};
  return out_of_range("bytes of a value", one.value.size(), 0, limits::value_bytes,
                      "keep it in parts, or in a file, and here where that is");
}

std::uint64_t bytes_of(const batch& what) noexcept {
  std::uint64_t sum = 0;
  for (const condition& one : what.conditions) sum += one.key.size();
  for (const change& one : what.changes) sum += one.key.size() + one.value.size();
  return sum;
}

}  // namespace

result<void> check(const batch& what) {
  if (what.changes.empty() || what.changes.size() > limits::batch_changes) {
    return out_of_range("changes of a batch", what.changes.size(), 1, limits::batch_changes,
                        "make several batches");
  }
  if (what.conditions.size() > limits::batch_conditions) {
    return out_of_range("conditions of a batch", what.conditions.size(), 0,
                        limits::batch_conditions, "ask one key that stands for the others");
  }
  for (const condition& one : what.conditions) {
    if (result<void> good = check_key(one.key); !good) return good;
  }
  for (const change& one : what.changes) {
    if (result<void> good = check_change(one); !good) return good;
  }
  const std::uint64_t bytes = bytes_of(what);
  if (bytes <= limits::batch_bytes) return {};
  return out_of_range("bytes of a batch", bytes, 1, limits::batch_bytes, "make several batches");
}

result<void> check(const std::vector<std::string>& keys) {
  if (keys.empty() || keys.size() > limits::read_keys) {
    return out_of_range("keys of a read", keys.size(), 1, limits::read_keys, "read in parts");
  }
  for (const std::string& key : keys) {
    if (result<void> good = check_key(key); !good) return good;
  }
  return {};
}

result<void> check_prefix(const std::string& prefix) {
  if (prefix.size() <= limits::key_bytes) return {};
  return out_of_range("bytes of a prefix", prefix.size(), 0, limits::key_bytes,
                      "no key is longer than that");
}

result<void> check(const range& of) {
  if (result<void> good = check_prefix(of.prefix); !good) return good;
  if (of.after.size() > limits::key_bytes) {
    return out_of_range("bytes of the key that a page begins after", of.after.size(), 0,
                        limits::key_bytes, "give the last key of the page before");
  }
  if (of.most >= 1 && of.most <= limits::page_records) return {};
  return out_of_range("records of a page", of.most, 1, limits::page_records,
                      "ask for the rest behind the last key of a page");
}

error too_much_to_read() {
  return {
      errc::invalid_argument,
      fmt::format("control: a read found more than {} bytes; read in parts", limits::read_bytes)};
}

error no_replicas() {
  return {errc::unsupported,
          "control: asked for a replicated batch, this store has one copy; ask for durable"};
}

error closed_error() {
  return {errc::cancelled, "control: the store was closed; open it again before using it"};
}

}  // namespace manta::inline v0::control
