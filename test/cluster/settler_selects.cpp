// SPDX-License-Identifier: Apache-2.0
// Selects that send to channels of other nodes: settler.cpp.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

using numbers = manta::channel<int>;

numbers makes_numbers(int capacity, bool is_full) {
  const numbers out(static_cast<std::size_t>(capacity));
  for (int i = 0; is_full && i < capacity; ++i) out.send(-1);
  return out;
}

// Each of its numbers goes to one of the two, whichever has room first.
void spreads(const numbers& a, const numbers& b, int first, int count) {
  for (int i = 0; i < count; ++i) {
    manta::select(manta::on_send(a, first + i), manta::on_send(b, first + i));
  }
}

// Until both are closed. What it takes, it may also have to send on to itself.
std::vector<int> gathers(const numbers& a, const numbers& b) {
  std::vector<int> out;
  const auto take = [&](int item) { out.push_back(item); };
  try {
    for (;;) manta::select(manta::on_receive(a, take), manta::on_receive(b, take));
  } catch (const manta::channel_closed&) {
    return out;
  }
}

// Takes from one and sends to the other, as both can be; ends with the first.
int turns_round(const numbers& from, const numbers& to, int count) {
  int received = 0;
  int sent = 0;
  while (received < count || sent < count) {
    if (sent == count) {
      from.receive();
      ++received;
    } else if (received == count) {
      to.send(sent++);
    } else {
      manta::select(manta::on_receive(from, [&](int) { ++received; }),
                    manta::on_send(to, sent, [&] { ++sent; }));
    }
  }
  return received + sent;
}

// `own_apart`: those of this node, the last one, in isolated workers.
void check_spread(const std::vector<std::string>& nodes, bool own_apart) {
  constexpr int each = 200;
  const numbers here(1);
  const numbers there = manta::remote<makes_numbers>.with(at(nodes[1]))(2, false).get(long_enough);
  std::vector<manta::future<void>> senders;
  std::vector<manta::future<std::vector<int>>> receivers;
  for (int i = 0; i < 6; ++i) {
    const std::size_t which = static_cast<std::size_t>(i) % nodes.size();
    manta::options with = at(nodes[which]);
    if (own_apart && which + 1 == nodes.size()) {
      with = {.isolation = manta::isolation_mode::processes};
    }
    senders.push_back(manta::remote<spreads>.with(with)(here, there, i * each, each));
    if (i % 2 == 0) receivers.push_back(manta::remote<gathers>.with(with)(here, there));
  }
  for (const auto& one : senders) one.get(long_enough);
  here.close();
  there.close();
  std::vector<int> seen;
  for (const auto& one : receivers) {
    const std::vector<int>& some = one.get(long_enough);
    seen.insert(seen.end(), some.begin(), some.end());
  }
  std::ranges::sort(seen);
  bool is_each_once = seen.size() == std::size_t{6} * each;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    is_each_once = is_each_once && seen[i] == static_cast<int>(i);
  }
  expect(is_each_once, "each number once: " + std::to_string(seen.size()));
}

// Two that are each other's: a ring that would stand if room were kept for who waits for the other.
void check_ring(const std::vector<std::string>& nodes) {
  constexpr int times = 200;
  const numbers here(1);
  const numbers there = manta::remote<makes_numbers>.with(at(nodes[1]))(1, false).get(long_enough);
  const auto first = manta::remote<turns_round>.with(at(nodes[0]))(there, here, times);
  const auto second = manta::remote<turns_round>.with(at(nodes[2]))(here, there, times);
  expect(first.get(long_enough) + second.get(long_enough) == 4 * times, "both go round");
}

// ---- losses

std::string sends_or_receives(const numbers& to, const numbers& from, const std::string& began) {
  manta::kv::put(began, 1).get();
  try {
    manta::select(manta::on_send(to, 7), manta::on_receive(from, [](int) {}));
    return "nothing";
  } catch (const manta::exception& e) {
    return e.what();
  }
}
// Until it can't any more.
std::string sends_on_and_on(const numbers& to, const numbers& never, const std::string& began) {
  manta::kv::put(began, 1).get();
  try {
    for (int i = 0;; ++i) {
      manta::select(manta::on_send(to, i), manta::on_receive(never, [](int) {}));
    }
  } catch (const manta::exception& e) {
    return e.what();
  }
}
void drains(const numbers& from, const std::string& began) {
  manta::kv::put(began, 1).get();
  while (from.next().has_value()) {
  }
}
void sends_plainly(const numbers& to, const std::string& began) {
  manta::kv::put(began, 1).get();
  to.send(-2);
}

}  // namespace

int selects(const manta::runtime& rt) {
  const auto all = others(rt);
  const std::vector<std::string> nodes{all[0].name, all[1].name, manta::this_task::node()};
  for (const bool own_apart : {false, true}) check_spread(nodes, own_apart);
  check_ring(nodes);
  check_ring({nodes[1], nodes[0], nodes[2]});
  return say("selects");
}

// The home of what they send to is lost.
int lost_select_homes(const manta::runtime& rt) {
  const std::string lost = others(rt)[1].name;
  const std::string third = others(rt)[2].name;
  const auto make = [&](int capacity, bool is_full) {
    return manta::remote<makes_numbers>.with(at(lost))(capacity, is_full).get(long_enough);
  };
  const numbers full = make(1, true);
  const numbers busy = make(1, false);
  const numbers never(1);
  std::vector<manta::future<std::string>> all;
  for (const std::string& where : {third, manta::this_task::node()}) {
    const std::string key = "lost." + where;
    all.push_back(manta::remote<sends_or_receives>.with(at(where))(full, never, key + "1"));
    all.push_back(manta::remote<sends_on_and_on>.with(at(where))(busy, never, key + "2"));
    expect(comes(key + "1") && comes(key + "2"), "they wait");
  }
  const auto drain = manta::remote<drains>.with(at(lost))(busy, std::string("drains"));
  expect(comes("drains"), "it takes what comes");
  say_pids(rt);
  for (const auto& one : all) {
    const std::string why = one.get(long_enough);
    expect(has(why, lost) || has(why, "has left"), "what waits: " + why);
  }
  static_cast<void>(drain.try_get(long_enough));
  never.send(1);
  expect(never.receive(long_enough) == 1, "nobody takes what is for nobody");
  return say("lost-select-homes");
}

// Who sends is lost: what came of it came in order, and what room it had is free.
int lost_selectors(const manta::runtime& rt) {
  const std::string lost = others(rt)[1].name;
  const std::string third = others(rt)[2].name;
  const numbers busy(2);
  const numbers full = makes_numbers(1, true);
  const numbers never(1);
  const auto sends =
      manta::remote<sends_on_and_on>.with(at(lost))(busy, never, std::string("busy"));
  const auto waits =
      manta::remote<sends_or_receives>.with(at(lost))(full, never, std::string("full"));
  expect(comes("busy") && comes("full"), "they wait");
  const auto behind = manta::remote<sends_plainly>.with(at(third))(full, std::string("behind"));
  expect(comes("behind"), "and so does one of another node");
  bool in_order = true;
  int next = 0;
  for (; next < 20; ++next) {
    const auto came = busy.receive(long_enough);
    in_order = in_order && came == next;
  }
  say_pids(rt);
  while (!ends_within(sends, 0ms)) {
    const auto came = busy.receive(1ms);
    if (!came) continue;
    in_order = in_order && *came == next;
    ++next;
  }
  // What was on its way may come later than that, among the two that fill it.
  int filled = 0;
  for (int tries = 0; filled < 2 && tries < 1000; ++tries) {
    if (busy.send(-1, 10ms)) {
      ++filled;
    } else if (const auto came = busy.receive(10ms)) {
      if (*came == -1) {
        --filled;
      } else {
        in_order = in_order && *came == next;
        ++next;
      }
    }
  }
  expect(filled == 2, "the room is free");
  expect(in_order, "each number once, in order: " + std::to_string(next));
  expect(!busy.try_send(2), "and no more than that");
  static_cast<void>(waits.try_get(long_enough));
  expect(full.receive(long_enough) == -1 && full.receive(long_enough) == -2, "who waits is served");
  behind.get(long_enough);
  expect(full.size() == 0 && full.try_send(1), "and nobody else");
  return say("lost-selectors");
}

}  // namespace settling
