// SPDX-License-Identifier: Apache-2.0
#include "bulk/station.hpp"

#include <new>
#include <string>

#include "bulk/bulk_support.hpp"
#include "bulk/connection.hpp"
#include "bulk/reactor.hpp"

namespace bulk_station_test {

namespace {

using namespace bulk_support;

constexpr std::size_t chunk = 4 * mib;

void goes_round(path_kind of, std::size_t size) {
  CAPTURE(size);
  house from(of);
  house to(of);
  const bytes all = random_bytes(size, 3);
  from.have.put({0, 5}, all);
  bytes got(size);
  REQUIRE_FALSE(to.fetch(5, got, {from.as_holder()}).has_value());
  CHECK((got == all));
}

const auto slow = [](std::uint64_t, std::span<std::byte>) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the fault: a slow network
  return true;
};

const auto one_line = [](bulk::station_settings& with) { with.lines = 1; };

// No memory is left when it ends.
class forgetful final : public bulk::connection {
 public:
  using connection::connection;
  bool was_told = false;

 private:
  turn advance() override { return turn::waits; }
  void on_over(const std::string& /*why*/) override {
    was_told = true;
    throw std::bad_alloc();
  }
};

}  // namespace

TEST_CASE("bytes of any size come as they are, over each kind of socket", "[bulk]") {
  for (const path_kind of : {path_kind::unix_socket, path_kind::tcp, path_kind::tls}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, chunk - 1, chunk, chunk + 1}) {
      goes_round(of, size);
    }
  }
  goes_round(path_kind::tcp, 100'000'000);
  goes_round(path_kind::tls, 30'000'001);
}

TEST_CASE("a connection that is cut is made again and only what is missing is asked", "[bulk]") {
  house from(path_kind::unix_socket);
  house to(path_kind::unix_socket, 1, one_line);
  const bytes all = random_bytes(8 * chunk, 3);
  from.have.put({0, 5}, all);
  path_between path(from.place(), [](std::uint64_t before, std::span<std::byte> piece) {
    const std::uint64_t cut = 10 * mib;
    return before > cut || before + piece.size() <= cut;
  });
  bytes got(all.size());
  REQUIRE_FALSE(to.fetch(5, got, {path.as_holder()}).has_value());
  CHECK((got == all));
  const bulk::station_counts did = to.is->counts();
  CHECK(did.lines_made == 2);
  CHECK(did.asked_chunks > 8);
  CHECK(did.asked_chunks <= 10);        // two were under way
  CHECK(did.came_bytes == all.size());  // none came twice
}

TEST_CASE("who sends slowly is no holder that sends nothing", "[bulk]") {
  house from(path_kind::tcp);
  house to(path_kind::tcp, 1, [](bulk::station_settings& with) {
    with.lines = 1;
    with.slow_limit = std::chrono::seconds(1);
  });
  // What the reader is woken for takes 1.6 s to come, and is part of one chunk. Several places of
  // the same: a machine that stands still for a second costs one connection.
  const bytes all = random_bytes(192U << 10U, 3);
  from.have.put({0, 5}, all);
  path_between path(from.place(), slow, 4U << 10U, path_kind::tcp);
  bulk::holder by = path.as_holder();
  by.places.resize(4, by.places.front());
  bytes got(all.size());
  REQUIRE_FALSE(to.fetch(5, got, {by}).has_value());
  CHECK((got == all));
}

TEST_CASE("who has sent less than a reader is woken for and sends no more sends nothing",
          "[bulk]") {
  house from(path_kind::tcp);
  house to(path_kind::tcp, 1, [](bulk::station_settings& with) {
    with.lines = 1;
    with.greeting_limit = with.slow_limit = std::chrono::milliseconds(200);
  });
  from.have.put({0, 5}, bytes(192U << 10U));
  gate still(20U << 10U);
  const auto ends = [&](std::uint64_t before, std::span<std::byte> piece) {
    return slow(before, piece) && still(before, piece);
  };
  path_between path(from.place(), ends, 4U << 10U, path_kind::tcp);
  bytes got(192U << 10U);
  const auto why = to.fetch(5, got, {path.as_holder()});
  still.open();
  REQUIRE(why.has_value());
  CHECK(why->code() == errc::node_lost);
}

TEST_CASE("a byte that was changed on its way is noticed and comes once more", "[bulk]") {
  house from(path_kind::unix_socket);
  house to(path_kind::unix_socket);
  const bytes all = random_bytes(3 * chunk, 3);
  from.have.put({0, 5}, all);
  bool always = false;
  const auto change = [&always](std::uint64_t before, std::span<std::byte> piece) {
    const std::uint64_t which = 5 * mib;
    if (always && piece.size() > 1000) piece[500] ^= std::byte{1};
    if (before <= which && which < before + piece.size()) piece[which - before] ^= std::byte{1};
    return true;
  };
  bytes got(all.size());
  {
    path_between path(from.place(), change);
    REQUIRE_FALSE(to.fetch(5, got, {path.as_holder()}).has_value());
    CHECK((got == all));
    CHECK(to.is->counts().wrong_chunks == 1);
  }
  always = true;
  path_between path(from.place(), change);
  const auto why = to.fetch(5, got, {path.as_holder(2)});
  REQUIRE(why.has_value());
  CHECK(why->code() == errc::decode_failed);
}

TEST_CASE("who has another token gets nothing and hears why", "[bulk]") {
  for (const path_kind of : {path_kind::tcp, path_kind::tls}) {
    house from(of, 1);
    house to(of, 2);
    from.have.put({0, 5}, bytes(10));
    bytes got(10);
    const auto why = to.fetch(5, got, {from.as_holder()});
    REQUIRE(why.has_value());
    CHECK(why->code() == errc::node_lost);
    CHECK_THAT(why->message(), Catch::Contains("token"));
    CHECK(from.have.asked == 0);
  }
}

TEST_CASE("a holder that is gone or has no such bytes ends the fetch with an error", "[bulk]") {
  house to(path_kind::tcp);
  bytes got(10 * chunk);
  bulk::holder gone;
  {
    house from(path_kind::tcp);
    from.have.put({0, 5}, bytes(100));
    gone = from.as_holder();
    for (const std::uint64_t object : {5U, 6U}) {  // shorter than asked for, and none
      const auto why = to.fetch(object, got, {from.as_holder()});
      REQUIRE(why.has_value());
      CHECK(why->code() == errc::object_lost);
    }
    from.have.put({0, 7}, bytes(got.size()));
    from.have.put({0, 8}, bytes(got.size()));
    REQUIRE_FALSE(to.fetch(7, got, {from.as_holder()}).has_value());
  }
  const auto why = to.fetch(8, got, {gone});
  REQUIRE(why.has_value());
  CHECK(why->code() == errc::node_lost);
}

TEST_CASE("a holder that ends in the middle of an object ends the fetch with an error", "[bulk]") {
  auto from = std::make_unique<house>(path_kind::unix_socket);
  house to(path_kind::unix_socket);
  from->have.put({0, 5}, bytes(16 * chunk));
  std::promise<void> half;
  std::atomic<bool> is_half{false};
  bytes got(16 * chunk);
  std::optional<house::wait> fetch;
  {
    path_between path(from->place(), [&](std::uint64_t before, std::span<std::byte>) {
      if (before > 8 * chunk && !is_half.exchange(true)) half.set_value();
      return !is_half.load();
    });
    fetch = to.begin_fetch(5, got, {path.as_holder()});
    REQUIRE(half.get_future().wait_for(long_enough) == std::future_status::ready);
  }
  const auto why = fetch->get();
  REQUIRE(why.has_value());
  CHECK(why->code() == errc::node_lost);
}

// It would be waited for until a limit, which here is none.
TEST_CASE("a holder that is lost with its connections open ends a fetch, which goes on elsewhere",
          "[bulk]") {
  house from(path_kind::unix_socket);
  house also(path_kind::unix_socket);
  house to(path_kind::unix_socket, 1, one_line);
  const bytes all = random_bytes(6 * chunk, 3);
  from.have.put({0, 5}, all);
  also.have.put({0, 5}, all);
  std::promise<void> goes_on;
  path_between path(from.place(), [is = goes_on.get_future().share()](std::uint64_t before,
                                                                      std::span<std::byte> piece) {
    if (before + piece.size() > 2 * chunk + chunk / 2) is.wait_for(long_enough);
    return true;
  });
  bytes got(all.size());
  bulk::chunks_here here;
  const auto fetch = [&](bulk::pull_id number, const bulk::holder& holder) {
    auto said = std::make_shared<std::promise<std::optional<manta::error>>>();
    std::future<std::optional<manta::error>> out = said->get_future();
    to.is->fetch({.number = number,
                  .object = {0, 5},
                  .to = got,
                  .holders = {holder},
                  .here = here,
                  .left = [&here](bulk::chunks_here left) { here = std::move(left); },
                  .done =
                      [said](const manta::error* why) {
                        said->set_value(why == nullptr ? std::nullopt : std::optional(*why));
                      }});
    return out;
  };
  auto first = fetch(1, path.as_holder(1));
  CHECK(manta_test::happens([&] { return to.is->counts().came_bytes == 2 * chunk; }));
  to.is->lose(77);  // of which nothing is asked
  to.is->lose(1);
  const bool has_ended = first.wait_for(long_enough) == std::future_status::ready;
  goes_on.set_value();
  REQUIRE(has_ended);
  CHECK(first.get().value().code() == errc::node_lost);
  CHECK(here == bulk::chunks_here{true, true, false, false, false, false});
  auto second = fetch(2, also.as_holder(2));
  REQUIRE(second.wait_for(long_enough) == std::future_status::ready);
  REQUIRE_FALSE(second.get().has_value());
  CHECK((got == all));
  CHECK(to.is->counts().came_bytes == all.size());  // none came twice
}

TEST_CASE("another process at the place of a holder is not asked", "[bulk]") {
  house from(path_kind::tcp);
  house to(path_kind::tcp);
  from.have.put({0, 5}, bytes(100));
  bytes got(100);
  bulk::holder other = from.as_holder();
  other.process = {1, 2};
  const auto why = to.fetch(5, got, {other});
  REQUIRE(why.has_value());
  CHECK(why->code() == errc::node_lost);
  CHECK(from.have.asked == 0);
}

TEST_CASE("a place where nobody listens is passed over", "[bulk]") {
  house from(path_kind::tcp);
  house to(path_kind::tcp);
  from.have.put({0, 5}, bytes(100));
  bytes got(100);
  bulk::holder two = from.as_holder();
  {
    const house gone(path_kind::unix_socket);
    two.places.insert(two.places.begin(), gone.place());
  }
  REQUIRE_FALSE(to.fetch(5, got, {two}).has_value());
}

TEST_CASE("what one holder lacks comes from another", "[bulk]") {
  house none(path_kind::tcp);
  house some(path_kind::tcp);
  house to(path_kind::tcp);
  const bytes all = random_bytes(5 * chunk, 3);
  some.have.put({0, 5}, all);
  bytes got(all.size());
  REQUIRE_FALSE(to.fetch(5, got, {none.as_holder(1), some.as_holder(2)}).has_value());
  CHECK((got == all));
}

TEST_CASE("who fetches hears when it begins and how much has come", "[bulk]") {
  house none(path_kind::tcp);
  house some(path_kind::tcp);
  house to(path_kind::tcp);
  const bytes all = random_bytes(5 * chunk + 3, 3);
  some.have.put({0, 5}, all);
  std::atomic<int> begun{0};
  std::atomic<std::uint64_t> came{0};
  std::atomic<bool> is_late{false};
  to.begins = [&] {
    ++begun;
    is_late = came > 0;
  };
  to.came = [&](std::uint64_t more) { came += more; };
  bytes got(all.size());
  REQUIRE_FALSE(to.fetch(5, got, {none.as_holder(1), some.as_holder(2)}).has_value());
  CHECK(begun == 1);
  CHECK_FALSE(is_late);
  CHECK(came == all.size());
  // Of nobody who is there nothing is asked.
  begun = 0;
  CHECK(to.fetch(5, got, {{7, {}, {}}}).has_value());
  CHECK(begun == 0);
  CHECK(came == all.size());
}

TEST_CASE("many objects at a time come through the same connections", "[bulk]") {
  house from(path_kind::tcp);
  house to(path_kind::tcp);
  std::vector<bytes> got(20);
  std::vector<house::wait> fetches;
  for (std::size_t i = 0; i < got.size(); ++i) {
    from.have.put({0, i}, random_bytes(i * mib / 2, i));
    got[i].resize(i * mib / 2);
    fetches.push_back(to.begin_fetch(i, got[i], {from.as_holder()}));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    REQUIRE_FALSE(fetches[i].get().has_value());
    CHECK((got[i] == random_bytes(i * mib / 2, i)));
  }
  CHECK(to.is->counts().lines_made == 2);
}

TEST_CASE("memory of a fetch that was dropped is let go while its bytes still come", "[bulk]") {
  std::promise<void> dropped;
  house from(path_kind::unix_socket);
  house to(path_kind::unix_socket, 1, one_line);
  // Of two that are asked for at a time: the second has to come still, and not the rest.
  from.have.on_find = [is = dropped.get_future().share()](int number) {
    if (number == 2) is.wait_for(long_enough);
  };
  from.have.put({0, 5}, bytes(64 * chunk));
  const bytes small = random_bytes(100, 1);
  from.have.put({0, 6}, small);
  auto room = std::make_shared<bytes>(64 * chunk);
  const std::weak_ptr<bytes> weak = room;
  auto fetch = to.begin_fetch(5, *room, {from.as_holder()}, room);
  room.reset();
  REQUIRE(manta_test::happens([&] { return from.have.asked > 1; }));
  to.is->drop(fetch.number);
  CHECK(manta_test::happens([&] { return weak.expired(); }));
  dropped.set_value();
  bytes got(small.size());
  REQUIRE_FALSE(to.fetch(6, got, {from.as_holder()}).has_value());
  CHECK((got == small));
  CHECK(from.have.asked <= 4);
  CHECK(fetch.is.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
}

TEST_CASE("a connection that ends without memory ends no process", "[bulk]") {
  bulk::reactor at;
  manta::node::bulk_guard by(settings_of(path_kind::unix_socket));
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  close(ends[1]);
  forgetful one(at, by, ends[0], bulk::line_end::listener, {});
  one.begin();
  at.post([&at] { at.stop(); });
  at.run();
  CHECK(one.was_told);
}

TEST_CASE("a connection that nobody needs is closed and made again when one does", "[bulk]") {
  house from(path_kind::tcp);
  house to(path_kind::tcp, 1,
           [](bulk::station_settings& with) { with.idle_after = std::chrono::milliseconds(50); });
  from.have.put({0, 5}, bytes(100));
  bytes got(100);
  for (int i = 0; i < 2; ++i) {
    REQUIRE_FALSE(to.fetch(5, got, {from.as_holder()}).has_value());
    CHECK(manta_test::happens([&] { return to.is->counts().lines_now == 0; }));
    CHECK(manta_test::happens([&] { return from.is->counts().served_now == 0; }));
  }
}

}  // namespace bulk_station_test
