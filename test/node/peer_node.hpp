// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "node/peers.hpp"
#include "wire/link_support.hpp"

// A node in this process that others reach over a unix socket, with whoever hears what they say.

namespace manta_test {

inline manta::spec::node_member peer_member(std::uint64_t number, const std::string& path) {
  manta::spec::node_member out;
  out.who.name = "rank-" + std::to_string(number);
  out.who.address = "unix:" + path;
  out.who.workers = 1;
  out.process = {number, 1};
  out.epoch = number;
  return out;
}

/// Hears nothing; what a test wants to hear it overrides.
class deaf_ear : public manta::node::peers::visitor {
 public:
  using peers = manta::node::peers;
  void on_begin(peers& /*by*/) override {}
  void on_joined(peers& /*by*/, const manta::spec::node_member& /*one*/) override {}
  manta::base::deadline on_turn(peers& /*by*/, manta::base::time_point /*now*/) override {
    return std::nullopt;
  }
  void on_message(peers& /*by*/, std::uint64_t /*from*/, const manta::base::id& /*about*/,
                  const peers::kept_message& /*message*/) override {}
  void on_gone(peers& /*by*/, std::uint64_t /*node*/, const std::string& /*why*/) override {}
  void on_news(peers& /*by*/) override {}

 protected:
  ~deaf_ear() = default;
};

template <class Ear>
class peer_node {
 public:
  using peers = manta::node::peers;

  /// `with`: what its ear is made of.
  template <class... With>
  peer_node(std::uint64_t number, std::string path, With&&... with)
      : path_(std::move(path)),
        number_(number),
        ear_(std::forward<With>(with)...),
        loop_(*wire::loop::start({})),
        others_(std::make_unique<peers>(
            *loop_, peers::settings{.self = {number, 1}, .cluster = &peer_node::cluster}, ear_)) {
    auto opened = wire::socket_listener::open(
        *loop_, {.path = path_}, someone(number),
        [this](link_ptr from, const wire::greeting& by) { others_->accept(std::move(from), by); });
    if (!opened) FAIL(opened.error().message());
    listener_ = *std::move(opened);
    on_loop([this] { others_->begin(number_); });
  }
  ~peer_node() {
    listener_.reset();
    others_.reset();
  }
  peer_node(const peer_node&) = delete;
  peer_node& operator=(const peer_node&) = delete;

  void sees(const peer_node& other) { sees(other.as_member()); }
  void sees(const manta::spec::node_member& other) {
    on_loop([&] { others_->see(other); });
  }
  /// As a head tells them: in any order, and nothing else is done between.
  void sees(const std::vector<manta::spec::node_member>& all) {
    on_loop([&] {
      for (const manta::spec::node_member& one : all) others_->see(one);
    });
  }
  /// The head says that it is a member no more.
  void sees_end_of(const peer_node& other) {
    manta::spec::node_member is = other.as_member();
    is.is = manta::spec::node_state::ended;
    sees(is);
  }
  void on_loop(const std::function<void()>& what) {
    std::promise<void> done;
    loop_->post([&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }
  peers& others() { return *others_; }
  Ear& hears() { return ear_; }
  std::uint64_t number() const { return number_; }

 private:
  static manta::base::id cluster() { return {7, 7}; }
  manta::spec::node_member as_member() const { return peer_member(number_, path_); }

  const std::string path_;
  const std::uint64_t number_;
  Ear ear_;
  std::unique_ptr<wire::loop> loop_;
  std::unique_ptr<peers> others_;
  std::unique_ptr<wire::socket_listener> listener_;
};

}  // namespace manta_test
