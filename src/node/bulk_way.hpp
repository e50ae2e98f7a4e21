// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "bulk/station.hpp"
#include "wire/endpoint.hpp"
#include "wire/socket_link.hpp"
#include "wire/socket_place.hpp"

// This process's part of bulk/: its station, which gives others the arrays that are lent
// (far_arrays.hpp) and those that were fetched (far_pulls.hpp), and where they find it: beside each
// place at which it listens for messages, at `<path>.bulk` or at any port of the same address.
//
// Where that can't be, others ask for such bytes by messages (far_pulls.hpp).
//
// Threads: any; it ends when nobody uses it.

namespace manta::inline v0::node {

/// What a unix socket's name has more when it is that of bulk connections.
inline constexpr const char* bulk_mark = ".bulk";

class bulk_way {
 public:
  /// Errors as bulk::station::start.
  static result<std::unique_ptr<bulk_way>> open(const base::id& self,
                                                const std::vector<wire::socket_address>& beside,
                                                const wire::socket_settings& how);
  bulk_way(const bulk_way&) = delete;
  bulk_way& operator=(const bulk_way&) = delete;
  ~bulk_way();

  bulk::station& station() noexcept { return *station_; }
  /// As an introduction has it; empty: others don't reach it.
  const std::string& text() const noexcept { return text_; }

 private:
  class lent_source;
  explicit bulk_way(const wire::socket_settings& how);
  void listen(const std::vector<wire::socket_address>& beside);

  std::unique_ptr<bulk::guard> guard_;
  std::unique_ptr<bulk::source> source_;
  std::vector<wire::socket_place> places_;
  std::string text_;
  std::unique_ptr<bulk::station> station_;  // last: it uses the others
};

}  // namespace manta::inline v0::node
