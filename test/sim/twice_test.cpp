// SPDX-License-Identifier: Apache-2.0
// Every message handled twice is handled once: requests of each kind that the schema has, by the
// courier; heartbeats and bulletins by a cluster's deciders in a loop, all through the schema.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <capnp/schema.h>
#include <capnp/serialize.h>
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <wire/protocol.capnp.h>

#include "exec/support.hpp"
#include "life/roll.hpp"
#include "life/seat.hpp"
#include "node/cluster_mail.hpp"
#include "wire/courier.hpp"
#include "wire/messages.hpp"

namespace sim_twice_test {

namespace {

using namespace std::chrono_literals;
using manta::base::id;
using manta::base::time_point;
using manta::life::bulletin;
using manta::life::heartbeat;
using manta::life::roll;
using manta::life::seat;
using manta_test::dice;
namespace wire = manta::wire;
namespace node = manta::node;

// Those that say a state, and are no requests (decision 0022).
const std::set<std::string> states = {"bulletin", "heartbeat"};

std::set<std::string> in_schema() {
  std::set<std::string> out;
  const auto message = capnp::Schema::from<manta_wire_schema::Message>();
  for (const auto field : message.getUnionFields()) out.insert(field.getProto().getName().cStr());
  return out;
}

std::string kind_of(std::span<const std::byte> frame) {
  std::vector<capnp::word> words(frame.size() / sizeof(capnp::word));
  std::memcpy(words.data(), frame.data(), frame.size());
  capnp::FlatArrayMessageReader reader({words.data(), words.size()});
  const auto at = static_cast<std::uint16_t>(reader.getRoot<manta_wire_schema::Message>().which());
  for (const auto field : capnp::Schema::from<manta_wire_schema::Message>().getUnionFields()) {
    if (field.getProto().getDiscriminantValue() == at) return field.getProto().getName().cStr();
  }
  return {};
}

// ---- by the courier

// Both ends of a connection over which everything comes so many times.
struct wire_pair {
  using frames = std::deque<std::vector<std::byte>>;
  class end final : public wire::link {
   public:
    end(frames& in, frames& out, int times) : in_(in), out_(out), times_(times) {}
    manta::result<void> send(std::span<const std::span<const std::byte>> pieces,
                             std::size_t size) override {
      std::vector<std::byte> whole;
      whole.reserve(size);
      for (const auto piece : pieces) whole.insert(whole.end(), piece.begin(), piece.end());
      for (int i = 0; i < times_; ++i) out_.push_back(whole);
      return {};
    }
    got take(wire::frame_buffer& to) override {
      if (in_.empty()) return got::nothing;
      std::ranges::copy(in_.front(), to.reset(in_.front().size()).begin());
      in_.pop_front();
      return got::message;
    }
    bool wait(std::chrono::nanoseconds /*time*/) override { return false; }
    void on_arrival(std::function<void()> /*tell*/) override {}
    void close() override {}
    wire::link_state state() const override { return {}; }

   private:
    frames& in_;
    frames& out_;
    const int times_;
  };
  frames there;
  frames back;
};

// One side of a conversation: writes down what it handles, and answers with what that was.
struct side final : wire::courier::visitor {
  side(const id& self, const id& peer) : mail({.self = self, .peer = peer}, *this) {}
  void on_request(const wire::arrival& came) override {
    log += fmt::format("request {}: {} {} bytes\n", came.number, kind_of(came.message),
                       came.message.size());
    mail.answer(came, {came.message.begin(), came.message.end()});
  }
  void on_answer(const id& request, std::span<const std::byte> answer) override {
    const std::string_view text(reinterpret_cast<const char*>(answer.data()), answer.size());
    log += fmt::format("answer to {:x}: {}, {:x}\n", request.low, kind_of(answer),
                       std::hash<std::string_view>()(text));
  }
  std::string log;
  wire::courier mail;
};

// What two sides do when everything that either says comes so many times.
std::string told(const std::vector<std::vector<std::byte>>& requests, int times) {
  wire_pair between;
  side a({1, 1}, {2, 2});
  side b({2, 2}, {1, 1});
  a.mail.attach(std::make_unique<wire_pair::end>(between.back, between.there, times));
  b.mail.attach(std::make_unique<wire_pair::end>(between.there, between.back, times));
  std::uint64_t last = 0;
  for (const auto& one : requests) {
    const std::span<const std::byte> piece = one;
    REQUIRE(a.mail.request({1, ++last}, {&piece, 1}, one.size()));
  }
  for (int i = 0; i < 4; ++i) {
    b.mail.pump(time_point(1h));
    a.mail.pump(time_point(1h));
  }
  CHECK(a.mail.unanswered() == 0);
  return a.log + b.log;
}

// ---- by the deciders of a cluster

// A head and processes in one loop, without a network between them: each message goes through the
// schema and is handled so many times.
class small_cluster {
 public:
  small_cluster(std::uint64_t seed, int times)
      : times_(times), random_(seed), head_({}, {}, 0, now_) {}

  std::string run() {
    for (int step = 0; step < 1500; ++step) {
      now_ += 10ms;
      happen();
      for (auto& [number, one] : seats_) {
        one->on_time(now_);
        act(number, *one);
      }
      head_.on_time(now_);
      act();
    }
    log_ += fmt::format("revision {}, {} members\n", head_.revision(), head_.members().size());
    return std::move(log_);
  }

 private:
  // The same in each run of a seed, however often messages come.
  void happen() {
    if (random_.one_in(25)) {
      const std::uint64_t number = ++last_;
      const manta::spec::node_introduction who{
          .name = random_.one_in(40) ? std::string() : fmt::format("n{}", random_.below(6)),
          .address = std::string(random_.below(200), 'a'),
          .host = fmt::format("h{}", random_.below(1000)),
          .pid = static_cast<std::uint32_t>(random_.next())};
      seats_[number] = std::make_unique<seat>(with_, id{5, number}, who, now_);
    }
    if (seats_.empty()) return;
    const std::uint64_t whom = 1 + random_.below(last_);
    const auto one = seats_.find(whom);
    const bool is_load = random_.one_in(8);
    const bool drains = random_.one_in(60);
    const bool dies = random_.one_in(60);
    const manta::spec::node_load load{static_cast<std::uint32_t>(random_.next()), 3, 7ns};
    if (one == seats_.end()) return;
    if (is_load) one->second->set_load(load);
    if (drains) one->second->drain(300ms, now_);
    if (!dies) return;
    seats_.erase(one);
    head_.on_closed({5, whom}, now_);
  }

  template <class Said>
  std::vector<std::byte> frame_of(const Said& said) {
    frame_.clear();
    std::deque<std::vector<std::byte>> out;
    wire_pair::end to(out, out, 1);
    REQUIRE(post_.send(to, said));
    return out.front();
  }

  void act(std::uint64_t number, seat& of) {
    for (auto todo = of.take(); !todo.empty(); todo = of.take()) {
      for (const seat::action& one : todo) act(number, of, one);
    }
  }
  void act(std::uint64_t number, seat& of, const seat::action& one) {
    if (const auto* const said = std::get_if<heartbeat>(&one)) {
      frame_ = frame_of(*said);
      for (int i = 0; i < times_; ++i) {
        const auto& came = *post_.read(frame_);
        head_.on_heartbeat(node::to_heartbeat(came.head, std::get<wire::heartbeat_view>(came.body)),
                           now_);
      }
    } else if (std::holds_alternative<seat::dial>(one)) {
      of.on_connected(now_);
    } else if (const auto* const joined = std::get_if<seat::joined>(&one)) {
      note(number, fmt::format("joined {}", joined->epoch));
    } else if (const auto* const changed = std::get_if<seat::changed>(&one)) {
      note(number, "changed " + show(changed->member));
    } else if (const auto* const loaded = std::get_if<seat::loaded>(&one)) {
      note(number, "loaded " + show(loaded->member));
    } else if (const auto* const over = std::get_if<seat::over>(&one)) {
      note(number, "over " + (over->why ? over->why->message() : std::string()));
    }
  }
  void act() {
    for (auto todo = head_.take(); !todo.empty(); todo = head_.take()) {
      for (const roll::action& one : todo) {
        if (const auto* const row = std::get_if<roll::write>(&one)) {
          log_ += fmt::format("{} writes {} {}\n", now_.time_since_epoch() / 1ms, row->last_epoch,
                              show(row->member));
          head_.on_written(row->ticket, now_);
        } else {
          hear(std::get<bulletin>(one));
        }
      }
    }
  }
  void hear(const bulletin& said) {
    const auto whom = seats_.find(said.process.low);
    if (whom == seats_.end()) return;
    frame_ = frame_of(said);
    for (int i = 0; i < times_; ++i) {
      const auto& came = *post_.read(frame_);
      whom->second->on_bulletin(
          node::to_bulletin(came.head, std::get<wire::bulletin_view>(came.body)), now_);
    }
    act(whom->first, *whom->second);
  }

  static std::string show(const manta::spec::node_member& of) {
    return fmt::format("{} {:x}:{} {} {} on {}, {}", of.who.name, of.process.low, of.epoch,
                       static_cast<int>(of.is), of.load.queued, of.who.host, of.cause);
  }
  void note(std::uint64_t number, const std::string& what) {
    log_ += fmt::format("{} {:x} {}\n", now_.time_since_epoch() / 1ms, number, what);
  }

  const manta::life::membership_settings with_;
  const int times_;
  dice random_;
  time_point now_{1h};
  roll head_;
  node::cluster_post post_{{1, 1}};
  std::map<std::uint64_t, std::unique_ptr<seat>> seats_;
  std::uint64_t last_ = 0;
  std::vector<std::byte> frame_;
  std::string log_;
};

}  // namespace

TEST_CASE("every request of the schema is handled once, however often it comes", "[sim]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  wire_test::maker random(seed);
  wire::message_writer writer;
  std::vector<std::vector<std::byte>> requests;
  std::map<std::string, int> made;
  for (int i = 0; i < 400; ++i) {
    REQUIRE(wire_test::write(writer, random.message()));
    std::vector<std::byte> frame(writer.size_bytes());
    writer.flatten(frame);
    const std::string kind = kind_of(frame);
    ++made[kind];
    if (!states.contains(kind)) requests.push_back(std::move(frame));
  }
  for (const std::string& name : in_schema()) {
    CAPTURE(name);
    CHECK(made[name] > 0);  // else wire_test::maker does not know it
  }
  const std::string once = told(requests, 1);
  CHECK(std::ranges::count(once, '\n') == 2 * static_cast<std::ptrdiff_t>(requests.size()));
  CHECK(told(requests, 2) == once);
  CHECK(told(requests, 5) == once);
}

TEST_CASE("heartbeats and bulletins that come twice change nothing", "[sim]") {
  std::size_t lines = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const std::string once = small_cluster(seed, 1).run();
    lines += static_cast<std::size_t>(std::ranges::count(once, '\n'));
    CHECK((small_cluster(seed, 2).run() == once));
    CHECK((small_cluster(seed, 3).run() == once));
  }
  CHECK(lines > 1000);
}

}  // namespace sim_twice_test
