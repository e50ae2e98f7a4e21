// SPDX-License-Identifier: Apache-2.0
// Items of channels between nodes that are large, and senders that wait: settler.cpp.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "cluster/settling.hpp"

namespace settling {

namespace {

using texts = manta::channel<std::string>;

// More than a link takes at once.
constexpr std::size_t large = std::size_t{65} << 20U;

std::string first_of(const texts& a, const texts& b) {
  std::string out;
  const auto is = [&](const std::string& item) {
    out = std::to_string(item.size()) + item.front();
  };
  if (!manta::select(long_enough, manta::on_receive(a, is), manta::on_receive(b, is))) out = "none";
  return out;
}
std::string selects_large(const texts& a, const texts& b, const std::string& began) {
  manta::kv::put(began, 1).get();
  return first_of(a, b);
}

// Both cases of a select happen at the home before it can hear that one of them has: the other
// item comes back as it came, and what is said to the home behind it comes, too.
void check_large_losers(const std::string& node) {
  const texts a(1);
  const texts b(1);
  const std::string key = node + ".large";
  const auto chosen = manta::remote<selects_large>.with(at(node))(a, b, key);
  expect(comes(key), "it selects");
  std::this_thread::sleep_for(100ms);  // of the fault: what was asked has come when it strikes
  a.send(std::string(large, 'a'));
  b.send(std::string(large + 1, 'b'));
  const std::string is_a = std::to_string(large) + "a";
  const std::string is_b = std::to_string(large + 1) + "b";
  const std::string first = chosen.get(long_enough);
  const std::string other = first_of(a, b);
  expect((first == is_a && other == is_b) || (first == is_b && other == is_a),
         "both are there: " + first + ", " + other);
  expect(a.size() + b.size() == 0, "each once");
}

// ---- who sends more than there is room for

// Notes how often one was written in its process.
struct bulky {
  int number = 0;
  std::string padding;
  static inline std::atomic<int> written{0};
  template <class Archive>
  void save(Archive& archive) const {
    ++written;
    archive(number, padding);
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(number, padding);
  }
};
using bulkies = manta::channel<bulky>;

constexpr std::size_t bulk = std::size_t{1} << 20U;
std::atomic<int> senders{0};

manta::coroutine<bool> sends_bulky(bulkies to, int number) {
  bulky item{number, std::string(bulk, 'x')};  // a temporary would go twice: GCC 12
  ++senders;
  try {
    co_await to.async_send(std::move(item));
    co_return true;
  } catch (const manta::exception&) {
    co_return false;  // closed, or cancelled
  }
}
// How many of so many senders have sent in the end; says under `key` how many items have left
// before anybody has received one, and 1000 when another channel had to wait for them.
int fills(const bulkies& to, const bulkies& other, int count, const std::string& key) {
  senders = 0;
  bulky::written = 0;
  std::vector<manta::future<bool>> all;
  const std::string here = manta::this_task::node();
  for (int i = 0; i < count; ++i) {
    all.push_back(manta::remote<sends_bulky>.with(at(here))(to, i));
  }
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (senders < count && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  std::this_thread::sleep_for(200ms);  // no event ends this: nothing more may leave
  const int left = bulky::written;
  const bool has_room = other.send({-1, std::string(bulk, 'y')}, long_enough);
  manta::cancel(all.back());
  const bool is_taken_back = !all.back().get(long_enough);
  manta::kv::put(key, has_room && is_taken_back ? left : 1000).get();
  int sent = 0;
  for (const auto& one : all) sent += one.get(long_enough) ? 1 : 0;
  return sent;
}

void check_held_senders(const std::string& node) {
  constexpr int count = 120;
  const bulkies one(1);
  const bulkies other(1);
  const std::string key = node + ".held";
  const auto sent = manta::remote<fills>.with(at(node))(one, other, count, key);
  expect(comes(key), "they wait");
  const int left = manta::kv::get<int>(key).get()->value;
  std::printf("%d of %d have left before one is received\n", left, count);
  expect(left >= 2 && left <= 40, "of 120 MiB some wait where they are: " + std::to_string(left));
  std::vector<bool> seen(count);
  for (int i = 0; i + 1 < count; ++i) {
    const std::optional<bulky> item = one.receive(long_enough);
    if (!item.has_value()) break;
    seen.at(static_cast<std::size_t>(item->number)) = item->padding.size() == bulk;
  }
  int right = 0;
  for (const bool is : seen) right += is ? 1 : 0;
  expect(right == count - 1 && sent.get(long_enough) == right,
         "all but the one that was cancelled come once: " + std::to_string(right));
  expect(one.size() == 0, "and no others");
  // Who is held back is told of what becomes of the channel.
  const bulkies closed(1);
  const auto none = manta::remote<fills>.with(at(node))(closed, other, count, key + "2");
  expect(other.receive(long_enough).has_value(), "room for the other channel");
  expect(comes(key + "2"), "they wait again");
  closed.close();
  expect(none.get(long_enough) == 1, "the others are told that it is closed");
}

// ---- the same of isolated workers, whose items their node passes on

bulkies makes_bulkies() { return bulkies(1); }

using sender_of_worker = std::pair<int, int>;  // its number, and its process
manta::coroutine<bool> relays_bulky(bulkies to, int number,
                                    manta::channel<sender_of_worker> began) {
  bulky item{number, std::string(bulk, 'x')};
  sender_of_worker mine{number, static_cast<int>(getpid())};
  co_await began.async_send(std::move(mine));
  try {
    co_await to.async_send(std::move(item));
    co_return true;
  } catch (const manta::exception&) {
    co_return false;  // closed, or cancelled
  }
}

// Counts them by their numbers, as many as are there.
void take_all(const bulkies& from, std::vector<int>& seen) {
  try {
    while (const auto item = from.try_receive()) ++seen.at(static_cast<std::size_t>(item->number));
  } catch (const manta::channel_closed&) {
    return;
  }
}

// Senders in workers of this node, which have asked as long as there was room to.
struct crowd {
  crowd(const bulkies& to, int count) : all(static_cast<std::size_t>(count)) {
    const manta::channel<sender_of_worker> began(all.size());
    const manta::options apart{.isolation = manta::isolation_mode::processes, .max_retries = 0};
    bulky::written = 0;
    for (int i = 0; i < count; ++i) {
      all[static_cast<std::size_t>(i)] = manta::remote<relays_bulky>.with(apart)(to, i, began);
    }
    for (int i = 0; i < count; ++i) {
      const auto one = began.receive(long_enough);
      expect(one.has_value(), "a sender in a worker begins");
      if (one.has_value()) last = *one;
      if (one.has_value()) ++by_process[one->second];
    }
    // They say so before they send.
    const auto limit = std::chrono::steady_clock::now() + long_enough;
    while (bulky::written < 2 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(1ms);
    }
    std::this_thread::sleep_for(200ms);  // no event ends this: nothing more may leave
    left = bulky::written;
  }
  // Receives until all have ended: each that has sent is seen, once. How many have.
  int ends(const bulkies& from) const {
    std::vector<int> seen(all.size());
    int ended = 0;
    const auto limit = std::chrono::steady_clock::now() + long_enough;
    while (ended < static_cast<int>(all.size()) && std::chrono::steady_clock::now() < limit) {
      take_all(from, seen);
      ended = 0;
      for (const auto& one : all) ended += ends_within(one, 0ms) ? 1 : 0;
    }
    take_all(from, seen);
    int sent = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto is = all[i].try_get(0ms);
      const bool has_sent = is.has_value() && *is;
      sent += has_sent ? 1 : 0;
      const bool is_right_often = has_sent ? seen[i] == 1 : seen[i] <= 1;
      expect(is_right_often, "one of " + std::to_string(i) + " comes so often: " +
                                 std::to_string(seen[i]) + (has_sent ? ", sent" : ", not sent"));
    }
    expect(ended == static_cast<int>(all.size()), "all end: " + std::to_string(ended));
    return sent;
  }

  std::vector<manta::future<bool>> all;
  sender_of_worker last;          // of those that have begun
  std::map<int, int> by_process;  // how many
  int left = 0;                   // items that had left before anybody received one
};

void check_held_relays(const std::string& node) {
  constexpr int count = 120;
  const auto make = [&] { return manta::remote<makes_bulkies>.with(at(node))().get(long_enough); };
  {
    const bulkies one = make();
    const crowd of(one, count);
    std::printf("%d of %d of workers have left before one is received\n", of.left, count);
    expect(of.left >= 2 && of.left <= 40, "the others wait here: " + std::to_string(of.left));
    expect(make().send({-1, std::string(bulk, 'y')}, long_enough), "another channel has room");
    manta::cancel(of.all.at(static_cast<std::size_t>(of.last.first)));
    expect(ends_within(of.all.at(static_cast<std::size_t>(of.last.first)), long_enough),
           "who is held is taken back");
    expect(of.ends(one) == count - 1, "all others send");
  }
  {
    const bulkies one = make();
    const crowd of(one, count);
    // Its items leave the line. Its tasks have begun, and don't run again.
    if (of.last.second > 0) kill(of.last.second, SIGKILL);
    const int others = count - of.by_process.at(of.last.second);
    const int sent = of.ends(one);
    // One has room at once, and may have had it there.
    expect(sent == others || sent == others + 1,
           "all others send: " + std::to_string(sent) + " of " + std::to_string(others));
  }
  const bulkies closed = make();
  const crowd of(closed, count);
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (closed.size() == 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);  // the first one is on its way
  }
  closed.close();
  expect(of.ends(closed) == 1, "the others are told that it is closed");
}

// ---- sends that are late

int selects_late(const manta::channel<int>& to, int count) {
  int sent = 0;
  for (int i = 0; i < count; ++i) {
    if (manta::select(1ms, manta::on_send(to, i, [] {})).has_value()) ++sent;
  }
  return sent;
}

void check_late_senders(const std::string& node) {
  const manta::channel<int> one(1);
  one.send(-1);
  expect(manta::remote<selects_late>.with(at(node))(one, 20).get(long_enough) == 0, "no room");
  expect(one.size() == 1 && one.receive() == -1, "what is late is not sent");
  // What is late as somebody makes room has happened, or has not.
  const auto sends = manta::remote<selects_late>.with(at(node))(one, 400);
  int received = 0;
  while (!ends_within(sends, 1ms)) received += one.try_receive().has_value() ? 1 : 0;
  while (one.try_receive().has_value()) ++received;
  const int sent = sends.get(long_enough);
  std::printf("%d of 400 were in time\n", sent);
  expect(sent == received, "sent " + std::to_string(sent) + ", " + std::to_string(received));
}

}  // namespace

int bulky_things(const manta::runtime& rt) {
  const std::string node = others(rt)[0].name;
  check_large_losers(node);
  check_held_senders(node);
  check_held_relays(node);
  check_late_senders(node);
  return say("bulky-things");
}

}  // namespace settling
