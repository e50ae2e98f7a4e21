// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "base/id_hash.hpp"
#include "wire/bundle.hpp"
#include "wire/courier.hpp"
#include "wire/greeting.hpp"
#include "wire/link.hpp"

// What nodes ask a head of its own, which is no member and does no work: head_facts.hpp's
// questions.
//
// A head in a driver is a member, and asked as the others are, over peers. One of its own may be
// killed and started again while its members live on, so each has a line to whichever it is:
//
//   node: head_line --question--> head_office :head --> head_facts --> store
//              <------answer------'
//
// While the head is away questions wait here. Those it was asked before, and has not answered, are
// told to nobody else: whether it has done what they say is not known. Over a connection that was
// lost alone they go again, and are handled once (wire/courier.hpp).
//
// Threads: any for send; the loop's for the rest.

namespace manta::inline v0::node {

/// A node's.
class head_line final : private wire::courier::visitor {
 public:
  static constexpr std::size_t most_bytes = std::size_t{64} << 20U;
  struct settings {
    base::id self = {};       ///< this process
    std::uint64_t epoch = 1;  ///< and its member
    base::id head = {};       ///< the process that is asked
    std::function<std::unique_ptr<wire::link>()> dial = {};
    std::function<void()> wake = {};  ///< pump, soon
  };
  /// `before`: the line to the head that was there, or null; what waits there goes by this one, and
  /// it takes nothing any more.
  head_line(settings how, head_line* before);
  head_line(const head_line&) = delete;
  head_line& operator=(const head_line&) = delete;
  ~head_line() = default;

  const base::id& head() const noexcept { return how_.head; }
  enum class taken : std::uint8_t { yes, full, replaced };
  using pieces = wire::bundle::pieces_view;
  /// A question of that number. Throws std::bad_alloc.
  taken send(std::uint64_t number, pieces message, std::size_t size);
  void pump(base::time_point now);
  base::deadline due() const;
  /// The largest number of those that the head may have been told.
  std::uint64_t posted() const;

 private:
  void on_request(const wire::arrival& came) override;
  void on_answer(const base::id& /*request*/, std::span<const std::byte> /*answer*/) override {}
  struct letter {
    std::uint64_t number = 0;
    std::vector<std::byte> message;
  };
  bool post(std::uint64_t number, pieces message, std::size_t size);
  taken is_full() noexcept;
  bool say_waiting();

  const settings how_;
  mutable std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::uint64_t posted_ = 0;
  bool is_replaced_ = false;
  bool was_full_ = true;        // somebody may wait for room: also from before there was this line
  std::deque<letter> waiting_;  // for a connection
  std::size_t waiting_bytes_ = 0;
  wire::courier mail_;
};

/// The head's.
class head_office {
 public:
  /// `lives`: whether that process is a member; `wake`: pump, soon.
  head_office(const base::id& self, std::function<bool(const base::id&)> lives,
              std::function<void()> wake);
  head_office(const head_office&) = delete;
  head_office& operator=(const head_office&) = delete;
  /// Nobody is answered any more.
  ~head_office();

  void accept(std::unique_ptr<wire::link> from, const wire::greeting& by);
  void pump(base::time_point now);
  base::deadline due() const;

 private:
  struct guest;
  std::shared_ptr<guest> made_for(const wire::greeting& by);
  void forget_ended(base::time_point now);
  void drop_claims() noexcept;

  const base::id self_;
  const std::function<bool(const base::id&)> lives_;
  const std::function<void()> wake_;
  std::unordered_map<base::id, std::shared_ptr<guest>, base::id_hash> guests_;  // by process
  std::vector<std::uint64_t> gone_;  // epochs of members that have ended, whose claims are there
  std::uint64_t last_ = 0;
  base::time_point looks_at_{};
};

}  // namespace manta::inline v0::node
