// SPDX-License-Identifier: Apache-2.0
// Channels, semaphores and barriers of other nodes in isolated workers: settler.cpp.
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "cluster/settling.hpp"

namespace settling {

namespace {

using items = manta::channel<int>;

// What one node makes, and others' workers use.
struct toolbox {
  items full;
  items empty;
  manta::channel<std::string> texts;
  manta::semaphore permits;
  manta::barrier meeting;
};
toolbox makes_toolbox() {
  toolbox out{items(1), items(2), manta::channel<std::string>(2), manta::semaphore(2),
              manta::barrier(2)};
  out.full.send(0);
  return out;
}

template <class F>
std::string end_of(F&& f) {
  try {
    return f();
  } catch (const manta::exception& e) {
    return manta::to_string(e.code());
  }
}
std::string text(const std::optional<int>& of) {
  return of.has_value() ? std::to_string(*of) : "none";
}

manta::options apart() {
  manta::options out;
  out.isolation = manta::isolation_mode::processes;
  out.max_retries = 0;
  return out;
}

// ---- what runs in the workers

std::string looks_at_box(const toolbox& of) {
  std::string out = std::to_string(of.empty.size()) + "/" + std::to_string(of.empty.capacity());
  out += of.empty.try_send(7) ? " sent" : " full";
  out += of.full.try_send(8) ? " sent" : " full";
  out += of.full.send(8, 1ms) ? " sent" : " full";
  out += " " + text(of.empty.try_receive());
  out += " " + text(of.empty.try_receive());
  out += " " + text(of.empty.receive(1ms));
  const auto none =
      manta::select(1ms, manta::on_send(of.full, 9), manta::on_receive(of.empty, [](int) {}));
  out += none.has_value() ? " some" : " none";
  manta::select(manta::on_receive(of.full, [&](int x) { out += " " + std::to_string(x); }),
                manta::on_receive(of.empty, [](int) {}));
  of.full.send(0);
  {
    const auto two = of.permits.try_acquire(2);
    out += two.has_value() ? " got" : " none";
    out += of.permits.try_acquire().has_value() ? " got " : " none ";
    out += std::to_string(of.permits.available());
  }
  out += " " + std::to_string(of.permits.available());
  out += " " + end_of([&] { return std::to_string(of.permits.acquire(3).count()); });
  out += of.texts.close() ? " closed" : " open";
  out += of.texts.is_closed() ? " yes" : " no";
  out += " " + end_of([&] {
           of.texts.send("late");
           return std::string("sent");
         });
  return out;
}
std::string selects_in_worker(const items& to, const items& from, const std::string& began) {
  manta::kv::put(began, 1).get();
  return end_of([&] {
    std::string out;
    manta::select(manta::on_send(to, 5, [&] { out = "sent"; }),
                  manta::on_receive(from, [&](int x) { out = std::to_string(x); }));
    return out;
  });
}
// What comes goes on, as texts too.
void echoes(const items& from, const items& to) {
  while (const auto came = from.next()) to.send(*came);
}
manta::coroutine<int> echoes_as_coroutine(items from, items to, int count) {
  for (int i = 0; i < count; ++i) {
    const int came = co_await from.async_receive();
    co_await to.async_send(came);
  }
  co_return count;
}
int meets_here(const manta::barrier& at) { return at.arrive_and_wait().is_last ? 1 : 0; }
items returns_it(const items& one) { return one; }
int hands_on(const items& one) {
  return manta::remote<returns_it>.with(apart())(one).get(long_enough) == one ? 1 : 0;
}
std::string takes_item(const items& from, const std::string& began) {
  if (!began.empty()) manta::kv::put(began, static_cast<int>(getpid())).get();
  return end_of([&] { return text(from.next()); });
}
// Has permits and waits, until its worker ends.
std::string holds_and_waits(const toolbox& of, const std::string& began) {
  const manta::permit held = of.permits.acquire(2);
  return takes_item(of.empty, began);
}
std::string waits_to_meet(const manta::barrier& at, const std::string& began) {
  manta::kv::put(began, static_cast<int>(getpid())).get();
  return end_of([&] { return std::to_string(meets_here(at)); });
}
std::string waits_to_send(const toolbox& of, const std::string& began) {
  manta::kv::put(began, static_cast<int>(getpid())).get();
  return end_of([&] {
    manta::select(manta::on_send(of.full, 5), manta::on_receive(of.empty, [](int) {}));
    return std::string("some");
  });
}

// One of many, for whose items there is no room.
manta::coroutine<std::string> waits_with_text(manta::channel<std::string> to, items began) {
  std::string text(std::size_t{1} << 19U, 'x');
  co_await began.async_send(1);
  try {
    co_await to.async_send(std::move(text));
    co_return "sent";
  } catch (const manta::exception& e) {
    co_return manta::to_string(e.code());
  }
}

// A task of that node, whose own workers they are.
std::string looks_from_there(const toolbox& of) {
  return manta::remote<looks_at_box>.with(apart())(of).get(long_enough);
}
int echoes_from_there(const items& from, const items& to) {
  manta::remote<echoes>.with(apart())(from, to).get(long_enough);
  return 1;
}

// ---- what is checked

constexpr const char* looks_right =
    "0/2 sent full full 7 none none none 0 got none 0 2 invalid_argument closed yes "
    "channel_closed";

void check_relayed_looks(const std::string& home, const std::string& other) {
  const auto make = [&] { return manta::remote<makes_toolbox>.with(at(home))().get(long_enough); };
  const std::string here = manta::remote<looks_at_box>.with(apart())(make()).get(long_enough);
  expect(here == looks_right, "in a worker of this node: " + here);
  const std::string there =
      manta::remote<looks_from_there>.with(at(other))(make()).get(long_enough);
  expect(there == looks_right, "in one of a third node: " + there);
  const std::string of_here =
      manta::remote<looks_from_there>.with(at(other))(makes_toolbox()).get(long_enough);
  expect(of_here == looks_right, "of what is this node's: " + of_here);
}

void check_relayed_items(const std::string& home, const std::string& other) {
  const toolbox box = manta::remote<makes_toolbox>.with(at(home))().get(long_enough);
  const items up(2);
  bool in_order = true;
  const auto echo = [&](const auto& runs) {
    for (int i = 0; i < 100; ++i) {
      expect(box.empty.send(i, long_enough), "room for an item");
      in_order = in_order && up.receive(long_enough) == i;
    }
    static_cast<void>(runs);
  };
  {
    const auto runs = manta::remote<echoes_as_coroutine>.with(apart())(box.empty, up, 100);
    echo(runs);
    expect(runs.get(long_enough) == 100, "a coroutine in a worker");
  }
  const auto first = manta::remote<echoes>.with(apart())(box.empty, up);
  echo(first);
  const auto second = manta::remote<echoes_from_there>.with(at(other))(box.empty, up);
  long sum = 0;
  for (int i = 0; i < 200; ++i) {
    expect(box.empty.send(i, long_enough), "room for an item");
    sum += up.receive(long_enough).value_or(-1'000'000);
  }
  box.empty.close();
  first.get(long_enough);
  expect(second.get(long_enough) == 1 && sum == 19'900 && in_order,
         "items of workers of two nodes");
  const auto meet = manta::remote<meets_here>.with(apart())(box.meeting);
  const int mine = meets_here(box.meeting);
  expect(meet.get(long_enough) + mine == 1, "a round of a barrier");
  expect(manta::remote<returns_it>.with(apart())(box.full).get(long_enough) == box.full,
         "it comes back as itself");
  expect(manta::remote<hands_on>.with(apart())(box.full).get(long_enough) == 1,
         "and goes on to other workers");
}

void check_relayed_waits(const std::string& home) {
  const toolbox box = manta::remote<makes_toolbox>.with(at(home))().get(long_enough);
  const std::string key = home + ".relayed";
  auto stopped = manta::remote<takes_item>.with(apart())(box.empty, key + "1");
  expect(comes(key + "1"), "it waits");
  manta::cancel(stopped);
  static_cast<void>(stopped.try_get(long_enough));
  expect(box.empty.send(3, long_enough) && box.empty.receive(long_enough) == 3,
         "what was cancelled takes nothing");
  const auto sends = manta::remote<selects_in_worker>.with(apart())(box.full, box.empty, key + "2");
  expect(comes(key + "2"), "a select");
  expect(box.full.receive(long_enough) == 0 && box.full.receive(long_enough) == 5, "has sent");
  expect(sends.get(long_enough) == "sent", "and knows it");
  box.full.send(0);
  const auto takes = manta::remote<selects_in_worker>.with(apart())(box.full, box.empty, key + "3");
  expect(comes(key + "3"), "another one");
  box.empty.send(6);
  expect(takes.get(long_enough) == "6", "has received");
  expect(box.full.receive(long_enough) == 0 && box.full.send(1, long_enough) &&
             box.full.receive(long_enough) == 1,
         "and not sent");
  auto closed = manta::remote<takes_item>.with(apart())(box.empty, key + "4");
  expect(comes(key + "4"), "one more");
  box.empty.close();
  expect(closed.get(long_enough) == "none", "is told of the end");
}

// A worker ends: what it had and waited for is as it was.
void check_lost_worker(const std::string& home) {
  const toolbox box = manta::remote<makes_toolbox>.with(at(home))().get(long_enough);
  const std::string key = home + ".ended";
  const auto end = [&](const auto& runs, const std::string& began) {
    expect(comes(began), "it runs");
    std::this_thread::sleep_for(20ms);  // of the fault: what was asked has come when it strikes
    kill(manta::kv::get<int>(began).get()->value, SIGKILL);
    expect(runs.try_get(long_enough).has_value() == false, "its worker has ended");
  };
  end(manta::remote<holds_and_waits>.with(apart())(box, key + "1"), key + "1");
  expect(box.permits.acquire(2, long_enough).has_value(), "its permits are back");
  expect(box.empty.send(4, long_enough) && box.empty.receive(long_enough) == 4, "it takes nothing");
  end(manta::remote<waits_to_meet>.with(apart())(box.meeting, key + "2"), key + "2");
  const auto meet = manta::remote<meets_here>.with(apart())(box.meeting);
  const int mine = meets_here(box.meeting);
  expect(meet.get(long_enough) + mine == 1, "its arrival is taken back");
  end(manta::remote<waits_to_send>.with(apart())(box, key + "3"), key + "3");
  expect(box.full.receive(long_enough) == 0, "what was there");
  expect(box.full.send(1, long_enough) && box.full.receive(long_enough) == 1,
         "it has sent nothing, and keeps no room");
}

}  // namespace

int relayed_things(const manta::runtime& rt) {
  const auto all = others(rt);
  check_relayed_looks(all[0].name, all[1].name);
  check_relayed_items(all[0].name, all[1].name);
  check_relayed_waits(all[0].name);
  check_lost_worker(all[1].name);
  return say("relayed-things");
}

// The home of what workers use is lost.
int lost_relayed(const manta::runtime& rt) {
  const std::string lost = others(rt)[1].name;
  const toolbox box = manta::remote<makes_toolbox>.with(at(lost))().get(long_enough);
  std::vector<manta::future<std::string>> all;
  all.push_back(manta::remote<holds_and_waits>.with(apart())(box, std::string("r1")));
  all.push_back(manta::remote<waits_to_meet>.with(apart())(box.meeting, std::string("r2")));
  all.push_back(manta::remote<waits_to_send>.with(apart())(box, std::string("r3")));
  expect(comes("r1") && comes("r2") && comes("r3"), "they wait");
  // 50 MiB of them, so that some have not left when it strikes.
  constexpr int count = 100;
  const items began(count);
  std::vector<manta::future<std::string>> texts;
  for (int i = 0; i < count; ++i) {
    texts.push_back(manta::remote<waits_with_text>.with(apart())(box.texts, began));
  }
  for (int i = 0; i < count; ++i) expect(began.receive(long_enough) == 1, "they send");
  std::this_thread::sleep_for(50ms);  // of the fault: what was asked has come when it strikes
  say_pids(rt);
  for (const auto& one : all) {
    const std::string why = one.get(long_enough);
    expect(why == "node_lost", "what waits: " + why);
  }
  int sent = 0;
  for (const auto& one : texts) {
    const std::string why = one.get(long_enough);
    sent += why == "sent" ? 1 : 0;
    expect(why == "node_lost" || why == "sent", "who sends: " + why);
  }
  expect(sent <= 2, "as many as there was room for: " + std::to_string(sent));
  const std::string later =
      manta::remote<takes_item>.with(apart())(box.empty, std::string()).get(long_enough);
  expect(later == "node_lost", "what asks later: " + later);
  return say("lost-relayed");
}

}  // namespace settling
