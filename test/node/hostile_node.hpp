// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <variant>

#include <catch2/catch.hpp>

#include <manta/barrier.hpp>
#include <manta/channel.hpp>
#include <manta/semaphore.hpp>

#include "node/node_things.hpp"
#include "node/peer_node.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "wire/error_record.hpp"
#include "wire/link_support.hpp"

// A node that is no honest one, and what it asks: node_things_test.cpp.

namespace manta_test::node_things_test {

using namespace std::chrono_literals;
using manta::base::id;
using manta::node::node_things;
using manta::node::peers;
using manta::node::thing_op;
namespace spec = manta::spec;

// What was answered under each number: the code of an error, or the state of what happened.
class answers {
 public:
  void put(std::span<const std::byte> message) {
    const manta::node::borrowed_workbench on;
    const auto read = on->reader.read(message);
    if (!read) return;
    const auto* const came = std::get_if<wire::result_view>(&read->body);
    if (came == nullptr) return;
    std::string what = "no value";
    if (const auto* const failure = std::get_if<wire::error_view>(&came->outcome)) {
      what = manta::to_string(wire::to_error(*failure).code());
    } else if (const auto* const value = std::get_if<spec::parcel_view>(&came->outcome)) {
      manta::codec::in_archive in(*value);
      const auto said = manta::codec::read<manta::node::thing_answer>(in);
      what = "state " + std::to_string(said.state) + ", " + std::to_string(said.value);
    }
    const std::lock_guard lock(mutex_);
    all_.emplace(read->head.request.low, what);  // who asked has taken the first one
  }
  // Waits for it: for long, it may be behind all questions that fit.
  std::string of(std::uint64_t number) const {
    const auto limit = std::chrono::steady_clock::now() + 100s;
    while (std::chrono::steady_clock::now() < limit) {
      {
        const std::lock_guard lock(mutex_);
        const auto found = all_.find(number);
        if (found != all_.end()) return found->second;
      }
      std::this_thread::yield();
    }
    return "nothing";
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::string> all_;
};

// Gives questions to the things of this process, and answers to who waits for them.
class things_ear final : public deaf_ear {
 public:
  explicit things_ear(answers* to = nullptr) : to_(to) {}
  void on_message(peers& /*by*/, std::uint64_t from, const id& about,
                  const peers::kept_message& message) override {
    if (to_ != nullptr) return to_->put(message.bytes);
    if (peers::topic_of(about) != peers::thing) return;
    node_things::global().on_question(from, message, nullptr);
  }

 private:
  answers* const to_;
};

using things_node = peer_node<things_ear>;

// A home and who asks it; three things of the home's, which are lent as long as this lives.
class hostile_case {
 public:
  hostile_case() {
    home.sees(guest);
    guest.sees(home);
    home.on_loop([this] { manta::node::far_handles::global().begin(home.others()); });
    node_things::global().open(home.others());
    on_->write_for(2);
    of_numbers = lend(numbers);
    of_texts = lend(texts);
    of_permits = lend(permits);
    of_meeting = lend(meeting);
  }
  ~hostile_case() {
    node_things::global().close();
    on_->lent.clear();
    node_things::global().stop_answering();
    manta::node::far_handles::global().close();
  }
  hostile_case(const hostile_case&) = delete;
  hostile_case& operator=(const hostile_case&) = delete;

  // Its number.
  std::uint64_t ask(const id& of, std::uint8_t op, std::uint64_t value = 0,
                    const std::string& behind = {}, std::uint64_t number = 0) {
    const manta::node::borrowed_workbench on;
    on->out.clear();
    manta::codec::write(on->out, manta::node::thing_question{of.high, of.low, op, value});
    for (const char c : behind) on->out.raw(static_cast<std::uint8_t>(c));
    on->out.finish();
    if (number == 0) number = ++last;
    manta::node::write_question(*on, {1, number}, wire::question::thing, "a test");
    send(*on);
    return number;
  }
  std::uint64_t ask(const id& of, thing_op op, std::uint64_t value = 0,
                    const std::string& behind = {}) {
    return ask(of, static_cast<std::uint8_t>(op), value, behind);
  }
  std::uint64_t send_text(const id& of, const std::string& item, thing_op op = thing_op::send,
                          std::uint64_t value = 0) {
    const manta::node::borrowed_workbench on;
    on->write_for(1);
    on->out.clear();
    const manta::node::thing_question asked{of.high, of.low, static_cast<std::uint8_t>(op), value};
    manta::codec::write(on->out, asked);
    manta::codec::write(on->out, item);
    on->out.finish();
    const std::uint64_t number = ++last;
    manta::node::write_question(*on, {1, number}, wire::question::thing, "a test");
    send(*on);
    return number;
  }
  std::string answer_of(const id& of, thing_op op, std::uint64_t value = 0,
                        const std::string& behind = {}) {
    return came.of(ask(of, op, value, behind));
  }
  void send(manta::node::workbench& on) {
    const auto is = speaks->others().send_when_room(1, {peers::thing, ++last}, on.writer.pieces(),
                                                    on.writer.size_bytes());
    if (!is) FAIL(is.error().message());
  }
  // As if it had come from the guest.
  void takes_back(const id& of, std::uint64_t number, thing_op as = thing_op::withdraw) {
    const manta::node::borrowed_workbench on;
    on->out.clear();
    const auto op = static_cast<std::uint8_t>(as);
    manta::codec::write(on->out, manta::node::thing_question{of.high, of.low, op, number});
    on->out.finish();
    manta::node::write_question(*on, {1, ++last}, wire::question::thing, "a test");
    const auto kept = std::make_shared<wire::frame_buffer>();
    kept->reset(on->writer.size_bytes());
    std::byte* to = kept->room().data();
    for (const auto piece : on->writer.pieces()) to = std::ranges::copy(piece, to).out;
    home.on_loop([&] { node_things::global().on_question(2, {kept, kept->bytes()}, nullptr); });
  }
  // The loop hears that the guest is gone.
  void lose_guest() {
    home.on_loop([] { node_things::global().on_gone(2); });
  }

  answers came;
  folder at;
  things_node home{1, (at.path() / "a" / "s").string()};
  things_node guest{2, (at.path() / "b" / "s").string(), &came};
  things_node* speaks = &guest;
  manta::channel<int> numbers{4};
  manta::channel<std::string> texts{4};
  manta::semaphore permits{3};
  manta::barrier meeting{2};
  id of_numbers;
  id of_texts;
  id of_permits;
  id of_meeting;
  std::uint64_t last = 0;

 private:
  template <class H>
  id lend(const H& handle) {
    manta::codec::out_archive out;
    manta::codec::write(out, handle);
    const auto& thing =
        *reinterpret_cast<const manta::node::shared_thing*>(out.lent().front().as.local);
    return node_things::global().name(*on_, thing, "a test").id;
  }
  manta::node::borrowed_workbench on_;
};

inline constexpr const char* nonsense = "decode_failed";

// The number of a question of what asks in that life of its: worker_questions::life_of.
constexpr std::uint64_t in_life(std::uint64_t life, std::uint64_t number) {
  return life << 40U | number;
}

}  // namespace manta_test::node_things_test
