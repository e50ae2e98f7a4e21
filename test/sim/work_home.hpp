// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <manta/codec/codec.hpp>

#include "node/peers.hpp"
#include "sim/work_post.hpp"

namespace sim::work {

using topic = manta::node::peers::topic;

/// What the parts of a node share.
class home {
 public:
  home(stage& on, node_number own, post::on_message tell)
      : in(on), self(own), mail(on, own, tell) {}
  home(const home&) = delete;
  home& operator=(const home&) = delete;

  dice& random() const { return in.time.random(); }
  void note(entry one) const {
    one.node = self;
    in.note(one);
  }
  id next_request(topic about) { return {about, ++last_request_}; }
  /// While the node lives; not while it is stopped, but then.
  void later(duration wait, std::function<void()> what) {
    in.time.after(wait, [this, weak = std::weak_ptr(lives_), what = std::move(what)] {
      if (weak.expired()) return;
      if (mail.timer.is_stopped()) {
        put_off_.push_back(what);
      } else {
        what();
      }
    });
  }
  void go_on() {
    for (const auto& one : std::exchange(put_off_, {})) one();
  }

  stage& in;
  const node_number self;
  post mail;
  bool keeps = true;  ///< handles that come
  manta::wire::message_writer writer;
  manta::codec::out_archive out;

 private:
  std::uint64_t last_request_ = 0;
  std::vector<std::function<void()>> put_off_;
  std::shared_ptr<int> lives_ = std::make_shared<int>(0);
};

}  // namespace sim::work
