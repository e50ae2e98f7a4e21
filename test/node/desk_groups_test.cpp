// SPDX-License-Identifier: Apache-2.0
// Other nodes, and placement groups over them, as the desk hears of them: node/desk.hpp,
// node/bookings.hpp.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <manta/exec/context.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "node/desk.hpp"
#include "node/facts_line.hpp"

namespace desk_groups_test {

using manta::exec::job;
using manta::exec::job_ops;
using manta::exec::resource_claim;
using manta::exec::resource_gate;
using manta::node::booked_bundle;
using manta::node::booking_act;
using manta::node::booking_letter;
using manta::node::booking_note;
using manta::node::desk;

constexpr std::uint64_t other = 7;
constexpr std::int64_t cpu = 1000;

int went_on = 0;
int were_refused = 0;
int data_looks = 0;  // at where a task's arrays lie

const job_ops group_job_ops = {
    .execute = nullptr,
    .run = nullptr,
    .ready = [](job*) noexcept { ++went_on; },
    .cancel = [](job*, const manta::error&) noexcept { ++were_refused; },
    .drop_arguments = nullptr,
    .drop_value = nullptr,
    .alias = nullptr,
    .origin = nullptr,
    .size = 0,
    .front = 0,
    .in_place = true,
    .function = "group",
    .function_hash = 1,
};

/// A runtime's accounts, 2 cpus and 1 MB, without the runtime; another node has 2 cpus, too.
struct open_desk {
  open_desk() {
    went_on = were_refused = data_looks = 0;
    manta::config settings;
    settings.workers = 2;
    settings.gpus = 0;
    settings.memory_bytes = 1'000'000;
    desk& d = desk::global();
    d.open(settings);
    d.open_to_others([](const job&) noexcept { return desk::departure::yes; },
                     [](const job&) noexcept {
                       ++data_looks;
                       return std::uint64_t{0};
                     },
                     false, nullptr);
    manta::spec::node_introduction who;
    who.name = "other";
    who.workers = 2;
    d.add_other({other, true}, who);
  }
  ~open_desk() {
    desk::global().close_to_others();
    settle();
  }
  open_desk(const open_desk&) = delete;
  open_desk& operator=(const open_desk&) = delete;

  /// What was let through goes on by a thread of its own: until it has.
  static void settle() { manta::node::facts_line::of_ends().close(); }
  static bool is_all_free() {
    const auto report = desk::global().report();
    return report.free == report.total;
  }

 private:
  manta::exec::context caller_;
  manta::exec::context_scope scope_{caller_};
};

/// One bundle of a cpu in each of the two nodes.
struct made_group {
  made_group() {
    const auto one = manta::spec::to_demand(manta::bundle{1, 0, 0, {}});
    claim = desk::global().make_group({one, one}, manta::strategy::strict_spread, false, id);
    has_place = claim->request(&work);
  }
  ~made_group() {
    desk::global().remove_group(id);
    open_desk::settle();
  }
  made_group(const made_group&) = delete;
  made_group& operator=(const made_group&) = delete;

  manta::sched::group_id id = 0;
  job work{&group_job_ops, 1};
  std::unique_ptr<resource_claim> claim;
  bool has_place = false;
};

/// A task that asks for cpus, of whichever node.
struct asking_task {
  explicit asking_task(double cpus)
      : claim(
            resource_gate::claim(manta::spec::to_demand(manta::bundle{cpus, 0, 0, {}}), {}, false)),
        has_them(claim->request(&work)) {}
  ~asking_task() {
    if (!claim->withdraw()) claim->release();
  }
  asking_task(const asking_task&) = delete;
  asking_task& operator=(const asking_task&) = delete;
  std::uint64_t node() const { return claim->elsewhere.node; }

  job work{&group_job_ops, 1};
  std::unique_ptr<resource_claim> claim;
  bool has_them = false;
};

std::vector<booking_letter> letters(manta::duration later = {}) {
  manta::base::deadline due;
  return desk::global().letters(manta::base::now() + later, due);
}

bool is(const booking_letter& of, booking_act act) {
  return of.node == other && of.what.act == static_cast<std::uint8_t>(act);
}

booking_note note_of(booking_act act, std::uint64_t group, std::uint64_t number,
                     std::vector<booked_bundle> bundles = {}) {
  booking_note out;
  out.act = static_cast<std::uint8_t>(act);
  out.group = group;
  out.number = number;
  out.bundles = std::move(bundles);
  return out;
}

booking_note asks(std::uint64_t number, std::vector<booked_bundle> bundles) {
  return note_of(booking_act::book, 1, number, std::move(bundles));
}

TEST_CASE("bundles of another node's group are set aside until it drops them", "[desk]") {
  const open_desk open;
  desk& d = desk::global();
  CHECK(d.book(other, asks(1, {{0, cpu, 0, 0, {}}, {2, cpu, 0, 0, {}}})));
  CHECK_FALSE(d.book(other, asks(2, {{0, 1, 0, 0, {}}})));  // no cpu is left
  CHECK(d.place_of_guest(other, 1, 2).bundle == 1);
  CHECK_THROWS_AS(d.place_of_guest(other, 1, 1), manta::group_removed);  // not one of those
  CHECK_THROWS_AS(d.place_of_guest(other, 2, 0), manta::group_removed);
  CHECK_THROWS_AS(d.place_of_guest(other + 1, 1, 0), manta::group_removed);
  d.drop_guest(other + 1, 1);  // another's
  CHECK_FALSE(open_desk::is_all_free());
  d.drop_guest(other, 1);
  d.drop_guest(other, 1);
  CHECK(open_desk::is_all_free());
  CHECK_THROWS_AS(d.place_of_guest(other, 1, 0), manta::group_removed);
}

TEST_CASE("a lost maker's bundles are free, and others' are not", "[desk]") {
  const open_desk open;
  desk& d = desk::global();
  CHECK(d.book(other, asks(1, {{0, cpu / 2, 0, 0, {}}})));
  CHECK(d.book(other, asks(2, {{0, cpu / 2, 0, 0, {}}})));
  CHECK(d.book(other + 1, asks(1, {{0, cpu, 0, 0, {}}})));
  d.lose_maker(other);
  CHECK(d.report().free.cpus == 1);
  d.lose_maker(other + 1);
  CHECK(open_desk::is_all_free());
}

TEST_CASE("bookings that make no sense get no answer but no", "[desk]") {
  const open_desk open;
  desk& d = desk::global();
  CHECK(d.book(other, asks(1, {{0, 1, 0, 0, {}}})));
  const std::vector<booking_note> odd = {
      asks(0, {{0, 1, 0, 0, {}}}),                             // number 0 is nobody's
      asks(1, {{0, 1, 0, 0, {}}}),                             // it has that one
      asks(2, {}),                                             //
      asks(2, {{0, 0, 0, 0, {}}}),                             // asks for nothing
      asks(2, {{0, -1, 0, 0, {}}}),                            //
      asks(2, {{0, 1, 0, INT64_MAX, {}}}),                     //
      asks(2, {{0, 1, 1500, 0, {}}}),                          // one and a half gpus
      asks(2, {{1, 1, 0, 0, {}}, {0, 1, 0, 0, {}}}),           // not in order
      asks(2, {{1, 1, 0, 0, {}}, {1, 1, 0, 0, {}}}),           // twice
      asks(2, {{UINT32_MAX, 1, 0, 0, {}}}),                    //
      asks(2, {{0, 1, 0, 0, {{"tape", 1}}}}),                  // there is none
      asks(2, {{0, 1, 0, 0, {{"tape", 1}, {"tape", 1}}}}),     //
      asks(2, {{0, 1, 0, 0, {{"tape", 1}, {"licence", 1}}}}),  // not in order
      asks(2, {{0, 1, 0, 0, {{"tape", 0}}}}),                  //
  };
  for (std::size_t i = 0; i < odd.size(); ++i) {
    CAPTURE(i);
    CHECK_FALSE(d.book(other, odd[i]));
  }
  d.drop_guest(other, 0);
  d.drop_guest(other, 1);
  CHECK(open_desk::is_all_free());
}

TEST_CASE("one maker has so many bundles here, and not more", "[desk]") {
  const open_desk open;
  desk& d = desk::global();
  std::vector<booked_bundle> many;
  for (std::uint32_t i = 0; i < 1000; ++i) many.push_back({i, 0, 0, 1, {}});
  std::uint64_t number = 1;
  while (number < 100 && d.book(other, asks(number, many))) ++number;
  CHECK(number == 66);
  CHECK(d.book(other + 1, asks(1, many)));  // another one
  d.lose_maker(other);
  d.lose_maker(other + 1);
  CHECK(open_desk::is_all_free());
  number = 1;
  while (number < 10'000 && d.book(other, asks(number, {{0, 0, 0, 1, {}}}))) ++number;
  CHECK(number == 4097);
}

TEST_CASE("who leaves promises nothing more", "[desk]") {
  const open_desk open;
  desk::global().close_door();
  CHECK_FALSE(desk::global().book(other, asks(1, {{0, 1, 0, 0, {}}})));
}

TEST_CASE("a group goes on when all that were asked have said yes", "[desk]") {
  const open_desk open;
  desk& d = desk::global();
  const made_group g;
  CHECK_FALSE(g.has_place);
  CHECK(d.unmet().size() == 1);  // in no line, and waits all the same
  const auto asked = letters();
  REQUIRE(asked.size() == 1);
  REQUIRE(is(asked[0], booking_act::book));
  REQUIRE(asked[0].what.bundles.size() == 1);
  CHECK(asked[0].what.bundles[0].cpus == cpu);
  const std::uint64_t number = asked[0].what.number;
  CHECK(letters().empty());  // said once
  // Nobody's, of no try, of another one, and of another group.
  d.booked(other + 1, note_of(booking_act::yes, g.id, number));
  d.booked(other, note_of(booking_act::yes, g.id, 0));
  d.booked(other, note_of(booking_act::yes, g.id, number + 1));
  d.booked(other, note_of(booking_act::no, g.id, number + 1));
  d.booked(other, note_of(booking_act::yes, g.id + 1, number));
  open_desk::settle();
  CHECK(went_on == 0);
  CHECK_FALSE(d.node_in_group(manta::spec::to_demand(manta::bundle{1, 0, 0, {}}),
                              {.by = manta::placement::rule::group, .group = g.id})
                  .has_value());
  d.booked(other, note_of(booking_act::yes, g.id, number));
  open_desk::settle();
  CHECK(went_on == 1);
  CHECK(d.unmet().empty());
  // Once more, or otherwise: too late.
  d.booked(other, note_of(booking_act::yes, g.id, number));
  d.booked(other, note_of(booking_act::no, g.id, number));
  CHECK(letters().empty());
  CHECK(d.remove_group(g.id));
  const auto said = letters();
  REQUIRE(said.size() == 1);
  CHECK(is(said[0], booking_act::drop));
  CHECK(said[0].what.number == number);
  CHECK(open_desk::is_all_free());
}

TEST_CASE("a group that is refused rests, and asks anew under another number", "[desk]") {
  const open_desk open;
  desk& d = desk::global();
  const made_group g;
  const std::uint64_t first = letters().at(0).what.number;
  d.booked(other, note_of(booking_act::no, g.id, first));
  CHECK(open_desk::is_all_free());  // it has nothing meanwhile
  CHECK(d.unmet().size() == 1);
  const auto dropped = letters();
  REQUIRE(dropped.size() == 1);
  CHECK(is(dropped[0], booking_act::drop));
  d.booked(other, note_of(booking_act::yes, g.id, first));  // late, and dropped by then
  const auto again = letters(std::chrono::seconds(1));
  REQUIRE(again.size() == 1);
  REQUIRE(is(again[0], booking_act::book));
  const std::uint64_t second = again[0].what.number;
  CHECK(second != first);
  d.booked(other, note_of(booking_act::yes, g.id, first));
  open_desk::settle();
  CHECK(went_on == 0);
  d.booked(other, note_of(booking_act::yes, g.id, second));
  open_desk::settle();
  CHECK(went_on == 1);
}

TEST_CASE("a node that takes no work any more is not waited for", "[desk]") {
  const open_desk open;
  desk& d = desk::global();
  const made_group g;
  const std::uint64_t first = letters().at(0).what.number;
  d.see_others({{other, false}});
  const auto dropped = letters();
  REQUIRE(dropped.size() == 1);
  CHECK(is(dropped[0], booking_act::drop));
  CHECK(letters(std::chrono::seconds(1)).empty());  // there is no place now
  d.see_others({{other, true}});
  const auto again = letters(std::chrono::seconds(3));
  REQUIRE(again.size() == 1);
  CHECK(is(again[0], booking_act::book));
  CHECK(again[0].what.number != first);
}

TEST_CASE("a group ends when its last node is lost while it is asked", "[desk]") {
  const open_desk open;
  desk& d = desk::global();
  const made_group g;
  CHECK(letters().size() == 1);
  d.lose_other(other);
  open_desk::settle();
  CHECK(were_refused == 1);
  CHECK(went_on == 0);
  CHECK(d.unmet().empty());
  CHECK(open_desk::is_all_free());
}

TEST_CASE("where a task's data lies is not looked at when its own node has what it asks for",
          "[desk]") {
  const open_desk open;
  const asking_task here(1);
  CHECK(here.has_them);
  CHECK(here.node() == 0);
  CHECK(data_looks == 0);
  const asking_task there(2);
  CHECK(there.has_them);
  CHECK(there.node() == other);
  CHECK(data_looks == 1);
  const asking_task waits(2);
  CHECK_FALSE(waits.has_them);
  CHECK(data_looks == 2);
  const asking_task behind(1);  // which is free here, and reserved for the one that waits
  CHECK_FALSE(behind.has_them);
  CHECK(data_looks == 3);
}

}  // namespace desk_groups_test
