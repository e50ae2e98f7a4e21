// SPDX-License-Identifier: Apache-2.0
//
// Writes and reads of manta's control store, which is inside of libmanta.
#include "ours/control.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/measure.hpp"
#include "ours/task_writer.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using opener = std::shared_ptr<opened> (*)();

std::shared_ptr<opened> in_memory() {
  auto made = std::make_shared<opened>();
  made->store = control::make_memory_store();
  return made;
}

struct kind {
  const char* name;
  opener open;
};
constexpr kind kinds[] = {{"manta", on_disk}, {"manta, in memory", in_memory}};

void write_batches(opened& s, std::size_t count, std::size_t size) {
  for (std::size_t n = 0; n < count;) {
    control::batch next;
    next.changes.reserve(size);
    for (std::size_t i = 0; i < size; ++i, ++n) {
      next.changes.push_back(put(key_of(scatter(n) % control_keys), value_of(n)));
    }
    commit(*s.store, s.all, std::move(next));
  }
  s.all.wait();
}

contestant batches(const batch_row& of, const kind& who) {
  contestant c{of.key, who.name, side::ours};
  c.start = [of, who](const plan& how) -> body {
    auto s = who.open();
    s->all.allow(changes_in_flight / of.changes);
    const std::size_t count = (how.count(400'000) + of.changes - 1) / of.changes * of.changes;
    return [=](const turn&) {
      const double start = now_s();
      write_batches(*s, count, of.changes);
      const auto n = static_cast<double>(count);
      return reading{.value = n / (now_s() - start), .operations = n};
    };
  };
  return c;
}

// Half a million live at a time.
contestant tasks(const char* row, control::durability durable, const kind& who) {
  contestant c{row, who.name, side::ours};
  c.start = [=](const plan& how) -> body {
    auto s = who.open();
    s->all.allow(64);
    auto writer = std::make_shared<task_writer>(*s, std::size_t{1} << 19U, durable);
    const std::size_t count = how.count(8192) * packed_records;
    return [s, writer, count](const turn&) {
      const double start = now_s();
      writer->write(count);
      const auto n = static_cast<double>(count);
      reading got{.value = n / (now_s() - start), .operations = n};
      writer->check_last();
      return got;
    };
  };
  return c;
}

// The same bytes without a table: what the store itself takes.
contestant packs(const char* row, control::durability durable) {
  contestant c{row, "manta, bytes that are ready", side::ours};
  c.start = [=](const plan& how) -> body {
    auto s = on_disk();
    s->all.allow(64);
    const std::size_t count = how.count(8192);
    return [=](const turn&) {
      const double start = now_s();
      for (std::size_t i = 0; i < count; ++i) {
        control::batch next{.changes = {}, .how = durable};
        next.changes.push_back(put(key_of(i % 2048), pack(i)));
        commit(*s->store, s->all, std::move(next));
      }
      s->all.wait();
      const auto n = static_cast<double>(count * packed_records);
      return reading{.value = n / (now_s() - start), .operations = n};
    };
  };
  return c;
}

contestant gets(const read_row& of, const kind& who) {
  contestant c{of.key, who.name, side::ours};
  c.start = [of, who](const plan& how) -> body {
    auto s = who.open();
    const std::size_t keys = how.count(of.records);
    fill(*s->store, s->all, keys, 16);
    if (who.open == on_disk) {
      s->store.reset();  // what is in the log goes to tables when it is opened again
      s->store = open_store(s->where.file("store"));
    }
    const std::size_t count = how.count(200'000);
    return [=](const turn&) {
      return latency(unit::nanoseconds, count, [&](std::size_t i) {
        bool is_there = false;
        s->store->read({key_of(scatter(i) % keys)}, [&](const manta::result<control::found>& got) {
          is_there = got && got->records[0]->value.size() == value_bytes;
        });
        check(is_there, "a record is read");
      });
    };
  };
  return c;
}

// Takes until `count` were taken; asleep when there are none.
class taker {
 public:
  taker(control::store& of, control::revision from) {
    auto made = of.watch("task/", from, [this] {
      const std::lock_guard lock(mutex_);
      rang_ = true;
      rung_.notify_one();
    });
    check(made.has_value(), "a watcher");
    watcher_ = *std::move(made);
  }
  void take(in_flight& of, std::size_t count) {
    for (std::size_t got = 0; got < count;) {
      const control::taken some = watcher_->take(4096);
      check(!some.has_gap, "no change is missed");
      got += some.events.size();
      for (std::size_t i = 0; i < some.events.size(); ++i) of.end();
      if (!some.has_more && got < count) sleep();
    }
  }

 private:
  void sleep() {
    std::unique_lock lock(mutex_);
    rung_.wait(lock, [this] { return rang_; });
    rang_ = false;
  }

  std::mutex mutex_;
  std::condition_variable rung_;
  bool rang_ = false;
  std::unique_ptr<control::watcher> watcher_;
};

// The writer keeps so close to the watcher that nothing is dropped.
contestant watches(const kind& who) {
  contestant c{watched, who.name, side::ours};
  c.start = [who](const plan& how) -> body {
    auto s = who.open();
    const std::size_t count = how.count(400'000) / 16 * 16;
    return [=](const turn&) {
      taker eyes(*s->store, s->store->measure().at);
      const double start = now_s();
      std::thread taking([&] { eyes.take(s->all, count); });
      for (std::size_t n = 0; n < count;) {
        control::batch next;
        for (std::size_t i = 0; i < 16; ++i, ++n) {
          s->all.begin();
          next.changes.push_back(put(key_of(scatter(n) % control_keys), value_of(n)));
        }
        s->store->commit(std::move(next), [](const manta::result<control::outcome>& got) {
          check(got.has_value(), "a batch was applied");
        });
      }
      taking.join();
      const auto n = static_cast<double>(count);
      return reading{.value = n / (now_s() - start), .operations = n};
    };
  };
  return c;
}

}  // namespace

void add_our_control(suite& s) {
  for (const kind& who : kinds) {
    for (const batch_row& of : batch_rows) s.add(batches(of, who));
    s.add(tasks(packed, control::durability::buffered, who));
    s.add(gets(read_rows[0], who));
    s.add(watches(who));
  }
  s.add(gets(read_rows[1], kinds[0]));
  s.add(packs(packed, control::durability::buffered));
  s.add(tasks(packed_durable, control::durability::durable, kinds[0]));
  s.add(packs(packed_durable, control::durability::durable));
}

}  // namespace bench
