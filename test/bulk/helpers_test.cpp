// SPDX-License-Identifier: Apache-2.0
// Readers that give on what has come to them, and what becomes of an object where they don't.
#include <map>
#include <string>

#include "bulk/bulk_support.hpp"

namespace bulk_helpers_test {

namespace {

using namespace bulk_support;

constexpr std::size_t chunk = 4 * mib;
constexpr std::size_t size = 6 * chunk + 1000;

// One is given the object by its maker, all others by another reader; nobody is impatient, and who
// reads late is told of the others still.
void patient(bulk::station_settings& with) {
  with.told.fan_out = 1;
  with.told.told_for = long_enough;
  with.soon_limit = with.helper_limit = long_enough;
}

/// A maker and two readers, of which the second one is told of the first, at that place.
struct party {
  explicit party(const std::function<void(bulk::station_settings&)>& change = patient,
                 path_kind of = path_kind::unix_socket)
      : maker(of, 1, change), first(of, 1, change), second(of, 1, change) {
    maker.have.put({0, 5}, all);
    first.reader = 1;
    second.reader = 2;
    first_at = first.as_holder(1);
    second.find_reader = [this](std::uint64_t reader) {
      return reader == 1 ? first_at : bulk::holder{};
    };
    second.unreached = [this](std::uint64_t reader) { unreached.push_back(reader); };
  }
  void first_has_all() {
    REQUIRE_FALSE(first.fetch(5, got_first, {maker.as_holder()}).has_value());
    CHECK((got_first == all));
  }
  void second_has_all() {
    REQUIRE_FALSE(second.fetch(5, got_second, {maker.as_holder()}).has_value());
    CHECK((got_second == all));
  }
  bool second_was_helped(std::uint64_t bytes) {
    return manta_test::happens([&] { return second.is->counts().helped_bytes >= bytes; });
  }

  const bytes all = random_bytes(size, 3);
  bytes got_first = bytes(size);
  bytes got_second = bytes(size);
  house maker;
  house first;
  house second;
  bulk::holder first_at;
  std::vector<std::uint64_t> unreached;  // by the second, as it was told; after its fetch
};

/// Keeps a station's thread from all else, from when it is made until go_on().
class hold_up {
 public:
  explicit hold_up(bulk::station& of) {
    const auto does = [begun = begun_, goes_on = on_](const manta::error* /*why*/) {
      begun->set_value();
      goes_on.wait_for(long_enough);
    };
    of.fetch({.number = std::uint64_t{1} << 60U, .object = {0, 999}, .done = does});
    begun_->get_future().wait_for(long_enough);
  }
  void go_on() { said_.set_value(); }

 private:
  std::shared_ptr<std::promise<void>> begun_ = std::make_shared<std::promise<void>>();
  std::promise<void> said_;
  std::shared_future<void> on_ = said_.get_future().share();
};

/// Its thread has heard all that has come to its sockets: each time it looks at them at least once.
void hears_all(const bulk::station& of) {
  for (int i = 0; i < 3; ++i) static_cast<void>(of.counts());
}

void give_to_many(path_kind of) {
  const bytes all = random_bytes(size, 3);
  house maker(of, 1, patient);
  maker.have.put({0, 5}, all);
  constexpr std::size_t count = 6;
  std::vector<std::unique_ptr<house>> readers;
  std::vector<bytes> got(count, bytes(size));
  for (std::size_t i = 0; i < count; ++i) {
    readers.push_back(std::make_unique<house>(of, 1, patient));
    readers.back()->reader = i + 1;
    readers.back()->find_reader = [&](std::uint64_t one) { return readers[one - 1]->as_holder(); };
    // What a reader has when it is done is its own to keep.
    readers.back()->have.put({0, 5}, all);
  }
  std::vector<house::wait> fetches;
  for (std::size_t i = 0; i < count; ++i) {
    fetches.push_back(readers[i]->begin_fetch(5, got[i], {maker.as_holder()}));
  }
  std::uint64_t helped = 0;
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE_FALSE(fetches[i].get().has_value());
    CHECK((got[i] == all));
    const bulk::station_counts did = readers[i]->is->counts();
    CHECK(did.came_bytes == size);
    CHECK(did.helpers_left == 0);
    helped += did.helped_bytes;
  }
  static_cast<void>(maker.is->counts());  // what it has sent it has counted
  CHECK(maker.is->sent_bytes() == size);
  CHECK(helped == (count - 1) * size);
}

}  // namespace

TEST_CASE("a reader gives on what has come to it and no chunk that is in the middle of coming",
          "[bulk]") {
  party p([](bulk::station_settings& with) {
    patient(with);
    with.lines = 1;
    // Else the second asks for two and hears of the first twice: where the first answer is long
    // before the other, it asks there for chunk 2, which is in the middle of coming, before 1.
    with.chunks.credits = 1;
  });
  // On one connection chunks come one after the other: two, and half of a third.
  gate half(2 * chunk + chunk / 2);
  path_between path(p.maker.place(), std::ref(half));
  auto first = p.first.begin_fetch(5, p.got_first, {path.as_holder()});
  CHECK(manta_test::happens([&] { return p.first.is->counts().came_bytes == 2 * chunk; }));
  auto second = p.second.begin_fetch(5, p.got_second, {p.maker.as_holder()});
  CHECK(p.second_was_helped(2 * chunk));
  CHECK(p.second.is->counts().helped_bytes == 2 * chunk);
  half.open();
  REQUIRE_FALSE(first.get().has_value());
  REQUIRE_FALSE(second.get().has_value());
  CHECK((p.got_first == p.all));
  CHECK((p.got_second == p.all));
}

TEST_CASE("many readers have an object from each other and its maker gives it once", "[bulk]") {
  for (const path_kind of : {path_kind::unix_socket, path_kind::tls}) give_to_many(of);
}

TEST_CASE("an object of one chunk is given by who has made it", "[bulk]") {
  party p;
  p.maker.have.put({0, 6}, bytes(chunk));
  bytes got(chunk);
  for (house* const one : {&p.first, &p.second}) {
    REQUIRE_FALSE(one->fetch(6, got, {p.maker.as_holder()}).has_value());
  }
  CHECK(p.maker.is->counts().told_of_others == 0);
}

TEST_CASE("what a reader has no more comes from the maker, which tells nobody of it again",
          "[bulk]") {
  party p;
  p.first_has_all();
  p.second_has_all();
  const std::uint64_t told = p.maker.is->counts().told_of_others;
  CHECK(p.maker.is->sent_bytes() == 2 * size);  // what it has sent it has counted by now
  CHECK(p.second.is->counts().helpers_left == 1);
  CHECK(told > 0);
  house third(path_kind::unix_socket, 1, patient);
  third.reader = 3;
  std::vector<std::uint64_t> asked;
  third.find_reader = [&asked](std::uint64_t reader) {
    asked.push_back(reader);
    return bulk::holder{};
  };
  bytes got(size);
  REQUIRE_FALSE(third.fetch(5, got, {p.maker.as_holder()}).has_value());
  CHECK((got == p.all));
  CHECK(asked.empty());
}

TEST_CASE("a reader that is nowhere, has another token or is another process is done without",
          "[bulk]") {
  for (int how = 0; how < 5; ++how) {
    CAPTURE(how);
    const auto change = [](bulk::station_settings& with) {
      patient(with);
      with.helper_limit = std::chrono::milliseconds(300);  // nobody answers for the last one
    };
    party p(change, path_kind::tcp);
    house stranger(path_kind::tcp, 2);
    const bulk::place_of_holder nobody = house(path_kind::tcp).place();
    p.first_has_all();
    if (how == 0) p.first_at = {};
    if (how == 1) p.first_at = stranger.as_holder();
    if (how == 2) p.first_at.process = {1, 2};
    if (how == 3) p.first_at.places = {nobody};
    if (how == 4) p.first.is.reset();  // of which the maker hears, sooner or later
    p.second_has_all();
    CHECK(p.second.is->counts().helped_bytes == 0);
    CHECK(stranger.have.asked == 0);
    // Who is known to be nowhere was not looked for.
    const std::vector<std::uint64_t> first(how == 0 ? 0 : 1, 1);
    if (how != 4) CHECK(p.unreached == first);
  }
}

TEST_CASE("a reader that ends while it gives on costs the way to the maker alone", "[bulk]") {
  party p;
  p.first_has_all();
  p.first.have.put({0, 5}, p.all);
  bool is_cut = false;
  path_between path(p.first.place(), [&is_cut](std::uint64_t before, std::span<std::byte> piece) {
    is_cut = is_cut || before + piece.size() > 2 * chunk + 5;
    return !is_cut;
  });
  p.first_at = path.as_holder();
  p.second_has_all();
  CHECK(p.unreached.empty());
  const bulk::station_counts did = p.second.is->counts();
  CHECK(did.helpers_left == 1);
  CHECK(did.came_bytes == size);
}

TEST_CASE("a wrong chunk of a reader is asked of the maker and is no damage", "[bulk]") {
  party p;
  p.first_has_all();
  p.first.have.put({0, 5}, p.all);
  path_between path(p.first.place(), [](std::uint64_t before, std::span<std::byte> piece) {
    if (before > 1000 && piece.size() > 100) piece[50] ^= std::byte{1};
    return true;
  });
  p.first_at = path.as_holder();
  p.second_has_all();
  CHECK(p.unreached.empty());
  const bulk::station_counts did = p.second.is->counts();
  CHECK(did.helpers_left == 1);
  CHECK(did.wrong_chunks >= 1);
}

TEST_CASE("a reader that stands still is done without soon", "[bulk]") {
  party p([](bulk::station_settings& with) {
    patient(with);
    with.helper_limit = std::chrono::milliseconds(200);
  });
  p.first_has_all();
  p.first.have.put({0, 5}, p.all);
  gate still(chunk + 5);
  path_between path(p.first.place(), std::ref(still));
  p.first_at = path.as_holder();
  p.second_has_all();
  CHECK(p.unreached.empty());
  CHECK(p.second.is->counts().helpers_left == 1);
  still.open();
}

TEST_CASE("nobody waits for long for what a reader waits for itself, and others are told of it",
          "[bulk]") {
  const auto change = [](bulk::station_settings& with) {
    patient(with);
    with.lines = 1;  // what is said to the maker is heard there in its order
    with.soon_limit = std::chrono::milliseconds(100);
  };
  party p(change);
  gate still(chunk / 2);
  path_between path(p.maker.place(), std::ref(still));
  auto first = p.first.begin_fetch(5, p.got_first, {path.as_holder()});
  CHECK(manta_test::happens([&] { return p.maker.have.asked > 0; }));
  p.second_has_all();
  CHECK(p.second.is->counts().helpers_left == 1);
  house third(path_kind::unix_socket, 1, change);
  third.reader = 3;
  std::vector<std::uint64_t> told_of;
  third.find_reader = [&told_of](std::uint64_t reader) {
    told_of.push_back(reader);
    return bulk::holder{};
  };
  bytes got(size);
  REQUIRE_FALSE(third.fetch(5, got, {p.maker.as_holder()}).has_value());
  CHECK((got == p.all));
  CHECK(told_of.size() == 1);
  still.open();
  REQUIRE_FALSE(first.get().has_value());
  CHECK((p.got_first == p.all));
}

TEST_CASE("who waits for a chunk of a fetch that ends hears of it", "[bulk]") {
  party p;
  gate still(chunk / 2);
  path_between path(p.maker.place(), std::ref(still));
  const auto first = p.first.begin_fetch(5, p.got_first, {path.as_holder()});
  CHECK(manta_test::happens([&] { return p.maker.have.asked > 0; }));
  auto second = p.second.begin_fetch(5, p.got_second, {p.maker.as_holder()});
  CHECK(manta_test::happens([&] { return p.first.is->counts().served_now > 0; }));
  p.first.is->drop(first.number);
  REQUIRE_FALSE(second.get().has_value());
  CHECK((p.got_second == p.all));
  still.open();
}

TEST_CASE("the memory of a fetch that was dropped stays while a chunk of it is given on",
          "[bulk]") {
  party p;
  gate end(size - 10);
  gate middle(chunk / 2);
  path_between to_first(p.maker.place(), std::ref(end));
  path_between to_second(p.first.place(), std::ref(middle));
  p.first_at = to_second.as_holder();
  auto room = std::make_shared<bytes>(size);
  const std::weak_ptr<bytes> weak = room;
  const auto first = p.first.begin_fetch(5, *room, {to_first.as_holder()}, room);
  room.reset();
  CHECK(manta_test::happens([&] { return p.first.is->counts().came_bytes > 0; }));
  auto second = p.second.begin_fetch(5, p.got_second, {p.maker.as_holder()});
  CHECK(manta_test::happens([&] { return p.first.is->counts().served_now > 0; }));
  CHECK(manta_test::happens([&] { return weak.use_count() > 1; }));
  p.first.is->drop(first.number);
  static_cast<void>(p.first.is->counts());  // it has heard of it
  CHECK(weak.use_count() > 0);
  middle.open();
  REQUIRE_FALSE(second.get().has_value());
  CHECK((p.got_second == p.all));
  CHECK(manta_test::happens([&] { return weak.expired(); }));
  end.open();
}

TEST_CASE("who fetches many objects has some from helpers and the others from their maker",
          "[bulk]") {
  constexpr std::uint32_t small = 64U << 10U;
  constexpr std::uint64_t whole = 2 * small;
  constexpr std::size_t count = 24;
  constexpr std::size_t most = 16;
  party p([](bulk::station_settings& with) {
    patient(with);
    with.chunks.chunk_bytes = small;
  });
  const bytes all = random_bytes(whole, 4);
  gate closed(0);
  p.first.have.on_find = [&closed](int /*number*/) { closed(1, {}); };  // it answers nobody yet
  for (std::uint64_t one = 10; one < 10 + count; ++one) {
    bytes got(whole);
    p.maker.have.put({0, one}, all);
    p.first.have.put({0, one}, all);
    REQUIRE_FALSE(p.first.fetch(one, got, {p.maker.as_holder()}).has_value());
  }
  std::vector<bytes> got(count, bytes(whole));
  std::vector<house::wait> fetches;
  for (std::size_t i = 0; i < count; ++i) {
    fetches.push_back(p.second.begin_fetch(10 + i, got[i], {p.maker.as_holder()}));
  }
  const auto others = (count - most) * whole;
  const bool others_came =
      manta_test::happens([&] { return p.second.is->counts().came_bytes == others; });
  const bulk::station_counts then = p.second.is->counts();
  closed.open();
  CHECK(others_came);
  CHECK(then.helped_bytes == 0);
  CHECK(then.lines_now == 2 + 2 * most);
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE_FALSE(fetches[i].get().has_value());
    CHECK((got[i] == all));
  }
  CHECK(p.second.is->counts().helped_bytes == most * whole);
}

// The bytes of a chunk have come from a helper, and its sum comes as the fetch is dropped: the
// connection has nothing to hear any more, and is still there.
TEST_CASE("the sum of a chunk comes from a helper whose fetch has just been dropped", "[bulk]") {
  constexpr std::uint32_t small = 64U << 10U;
  party p([](bulk::station_settings& with) {
    patient(with);
    with.lines = 1;
    with.chunks.chunk_bytes = small;
  });
  p.maker.have.put({0, 6}, bytes(3 * small));
  p.first.have.put({0, 6}, bytes(3 * small));
  bytes got(3 * small);
  REQUIRE_FALSE(p.first.fetch(6, got, {p.maker.as_holder()}).has_value());
  constexpr std::uint64_t sum_at = bulk::hello_bytes + bulk::answer_bytes + small;
  gate sum(sum_at);
  path_between path(p.first.place(), std::ref(sum), 8);
  p.first_at = path.as_holder();
  const auto second = p.second.begin_fetch(6, got, {p.maker.as_holder()});
  REQUIRE(manta_test::happens([&] { return path.passed_back() == sum_at; }));
  hears_all(*p.second.is);
  hold_up busy(*p.second.is);
  sum.open();
  CHECK(manta_test::happens([&] { return path.passed_back() >= sum_at + bulk::sum_bytes; }));
  p.second.is->drop(second.number);
  busy.go_on();
  CHECK(manta_test::happens([&] { return p.second.is->counts().lines_now == 1; }));
  CHECK(p.second.is->counts().helped_bytes == 0);
  p.second_has_all();
}

TEST_CASE("a fetch is dropped at any moment while it is helped", "[bulk]") {
  dice random(manta_test::run_seed());
  for (const path_kind of : {path_kind::unix_socket, path_kind::tls}) {
    party p(patient, of);
    p.first_has_all();
    p.first.have.put({0, 5}, p.all);
    for (int i = 0; i < manta_test::repeats(10, 500); ++i) {
      const std::uint64_t before = p.second.is->counts().helped_bytes;
      auto room = std::make_shared<bytes>(size);
      const auto fetch = p.second.begin_fetch(5, *room, {p.maker.as_holder()}, room);
      const std::uint64_t some = random.below(size);
      // A moment that is told by nothing: what is under way has no count.
      CHECK(manta_test::happens([&] {
        const auto now = p.second.is->counts();
        return now.helped_bytes - before >= some / chunk * chunk ||
               fetch.is.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      }));
      p.second.is->drop(fetch.number);
    }
    p.second_has_all();
  }
}

}  // namespace bulk_helpers_test
