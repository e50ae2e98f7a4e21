// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// What can travel: arguments, results, what is put and what is yielded can go to another process.

namespace {

// A struct of such things, as it is: no macro, no function, up to 32 fields.
struct order {
  std::string item;
  int pieces = 0;
  std::optional<double> limit;
  std::map<std::string, std::vector<int>> notes;
};

int pieces_of(const std::vector<order>& all) {
  int sum = 0;
  for (const order& each : all) sum += each.pieces;
  return sum;
}

// A class with private parts has functions for cereal; they are all that it needs.
class account {
 public:
  account() = default;
  account(std::string owner, std::int64_t cents) : owner_(std::move(owner)), cents_(cents) {}
  const std::string& owner() const { return owner_; }
  std::int64_t cents() const { return cents_; }

 private:
  friend class cereal::access;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(owner_, cents_);
  }

  std::string owner_;
  std::int64_t cents_ = 0;
};

account with_interest(const account& of) { return {of.owner(), of.cents() + of.cents() / 100}; }

enum class direction : std::uint8_t { north, east, south, west };

direction right_of(direction from) {
  return static_cast<direction>((static_cast<unsigned>(from) + 1) % 4);
}

}  // namespace

// Bytes from another process that are no direction are refused, instead of becoming one.
template <>
struct manta::enum_range<direction> {
  static constexpr direction first = direction::north;
  static constexpr direction last = direction::west;
};

TEST_CASE("travel: a struct needs nothing") {
  manta::runtime rt;
  const std::vector<order> all = {{"bolt", 200, 0.05, {{"shelf", {1, 2}}}}, {"nut", 150, {}, {}}};
  CHECK(manta::remote<pieces_of>(all).get() == 350);
}

TEST_CASE("travel: a class by its cereal functions") {
  manta::runtime rt;
  const manta::future<account> later = manta::remote<with_interest>(account("ann", 20'000));
  CHECK((later.get().owner() == "ann" && later.get().cents() == 20'200));
}

TEST_CASE("travel: an enumeration that has no other values") {
  manta::runtime rt;
  CHECK(manta::remote<right_of>(direction::west).get() == direction::north);
}

TEST_CASE("travel: what can't, stays with async") {
  manta::runtime rt;
  int calls = 0;
  const auto count = [&calls] { return ++calls; };  // refused by remote: nobody sees its captures
  CHECK(manta::async(count).get() == 1);
}

TEST_CASE("travel: a test that sends everything through bytes, inside of one process") {
  manta::config settings;
  settings.check = manta::check_mode::copy;  // or MANTA_CHECK=copy for a program as it is
  CHECK((settings.check != manta::check_mode::none && settings.check != manta::check_mode::slow));
  // MANTA_CHECK=far, with MANTA_NODES=2: tasks run in the other node, and
  // actors live there; far-tasks: tasks alone.
  CHECK(
      (settings.check != manta::check_mode::far && settings.check != manta::check_mode::far_tasks));
  const manta::runtime rt(settings);
  CHECK(manta::remote<pieces_of>(std::vector<order>{{"bolt", 3, {}, {}}}).get() == 3);
}
