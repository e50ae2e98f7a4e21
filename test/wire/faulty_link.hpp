// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "exec/support.hpp"
#include "wire/link.hpp"

namespace manta_test {

namespace wire = manta::wire;

/// How often each fault happens: one message in so many; 0 is never.
struct fault_map {
  std::size_t lose = 0;
  std::size_t repeat = 0;
  std::size_t delay = 0;  ///< behind up to 20 that are sent, or looks for messages, later
  std::size_t cut = 0;    ///< the link ends
};

/// What has landed.
struct fault_counts {
  int lost = 0;
  int repeated = 0;
  int delayed = 0;
  int cuts = 0;
};

/// A link that loses, repeats, delays and ends, by a schedule that comes from a seed. Faults are on
/// what is sent here, so wrap both ends: then requests as well as answers meet them.
class faulty_link final : public wire::link {
 public:
  /// `counts` is shared by all links of a test, under their own lock.
  struct record {
    std::mutex mutex;
    fault_counts counts;
  };

  faulty_link(std::unique_ptr<wire::link> inner, const fault_map& faults, std::uint64_t seed,
              std::shared_ptr<record> into)
      : inner_(std::move(inner)), faults_(faults), roll_(seed), record_(std::move(into)) {}

  manta::result<void> send(std::span<const std::span<const std::byte>> pieces,
                           std::size_t size) override {
    const std::lock_guard lock(mutex_);
    if (swallows(pieces, size)) return {};
    return inner_->send(pieces, size);
  }
  manta::result<void> send_kept(const std::shared_ptr<const wire::frame_buffer>& message) override {
    const std::lock_guard lock(mutex_);
    const std::span<const std::byte> all = message->bytes();
    if (swallows({&all, 1}, all.size())) return {};
    return inner_->send_kept(message);
  }
  got take(wire::frame_buffer& to) override {
    {
      const std::lock_guard lock(mutex_);
      release();
    }
    return inner_->take(to);
  }
  bool wait(std::chrono::nanoseconds time) override { return inner_->wait(time); }
  void on_arrival(std::function<void()> tell) override { inner_->on_arrival(std::move(tell)); }
  void close() override { inner_->close(); }
  wire::link_state state() const override { return inner_->state(); }

 private:
  struct delayed {
    std::size_t left;
    std::vector<std::byte> bytes;
  };

  bool happens_now(std::size_t one_in, int fault_counts::*what) {
    if (one_in == 0 || !roll_.one_in(one_in)) return false;
    const std::lock_guard lock(record_->mutex);
    ++(record_->counts.*what);
    return true;
  }
  // Whether that is all that becomes of it for now.
  bool swallows(std::span<const std::span<const std::byte>> pieces, std::size_t size) {
    release();
    if (happens_now(faults_.cut, &fault_counts::cuts)) inner_->close();
    if (happens_now(faults_.lose, &fault_counts::lost)) return true;
    if (happens_now(faults_.delay, &fault_counts::delayed)) {
      std::vector<std::byte> copy;
      for (const auto piece : pieces) copy.insert(copy.end(), piece.begin(), piece.end());
      delayed_.push_back({1 + roll_.below(20), std::move(copy)});
      return true;
    }
    if (happens_now(faults_.repeat, &fault_counts::repeated)) (void)inner_->send(pieces, size);
    return false;
  }
  void release() {
    for (std::size_t i = 0; i < delayed_.size();) {
      if (--delayed_[i].left > 0) {
        ++i;
        continue;
      }
      const std::span<const std::byte> piece(delayed_[i].bytes);
      (void)inner_->send({&piece, 1}, piece.size());
      delayed_.erase(delayed_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const std::unique_ptr<wire::link> inner_;
  const fault_map faults_;
  std::mutex mutex_;  // guards what follows
  dice roll_;
  std::deque<delayed> delayed_;
  const std::shared_ptr<record> record_;
};

}  // namespace manta_test
