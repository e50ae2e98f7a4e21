// SPDX-License-Identifier: Apache-2.0
//
// RocksDB by itself, in a folder and with options like ours, its caller the one writer.
#include <memory>
#include <string>
#include <utility>

#include "control/rocks_files.hpp"
#include "harness/measure.hpp"
#include "ours/control.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

struct raw_store {
  temporary_folder where;
  std::optional<control::rocks_files> files;

  void open() {
    auto opened = control::rocks_files::open({.path = where.file("store")});
    check(opened.has_value(), "the folder opens");
    files.emplace(*std::move(opened));
  }
  void write(rocksdb::WriteBatch& what, bool is_durable = false) {
    rocksdb::WriteOptions options;
    options.sync = is_durable;
    check(files->db->Write(options, &what).ok(), "a batch is written");
  }
};

std::shared_ptr<raw_store> open_raw() {
  auto made = std::make_shared<raw_store>();
  made->open();
  return made;
}

void write_batches(raw_store& to, std::size_t count, std::size_t size) {
  char key[key_bytes];
  char value[value_bytes];
  for (std::size_t n = 0; n < count;) {
    rocksdb::WriteBatch next;
    for (std::size_t i = 0; i < size; ++i, ++n) {
      write_key(key, scatter(n) % control_keys);
      write_value(value, n);
      next.Put(to.files->records, {key, key_bytes}, {value, value_bytes});
    }
    to.write(next);
  }
}

contestant batches(const batch_row& of) {
  contestant c{of.key, "RocksDB", side::rival};
  c.start = [of](const plan& how) -> body {
    auto s = open_raw();
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

contestant packs() {
  contestant c{packed, "RocksDB", side::rival};
  c.start = [](const plan& how) -> body {
    auto s = open_raw();
    const std::size_t count = how.count(8192);
    return [=](const turn&) {
      const double start = now_s();
      for (std::size_t i = 0; i < count; ++i) {
        rocksdb::WriteBatch next;
        next.Put(s->files->records, key_of(i % 2048), pack(i));
        s->write(next);
      }
      const auto n = static_cast<double>(count * packed_records);
      return reading{.value = n / (now_s() - start), .operations = n};
    };
  };
  return c;
}

contestant one_durable() {
  contestant c{durable_alone, "RocksDB", side::rival};
  c.start = [](const plan& how) -> body {
    auto s = open_raw();
    const std::size_t count = how.count(500);
    return [=](const turn&) {
      return latency(unit::microseconds, count, [&](std::size_t i) {
        rocksdb::WriteBatch next;
        next.Put(s->files->records, key_of(scatter(i) % control_keys), value_of(i));
        s->write(next, true);
      });
    };
  };
  return c;
}

// The files are made by our store, so that they are the same.
contestant gets(const read_row& of) {
  contestant c{of.key, "RocksDB", side::rival};
  c.start = [of](const plan& how) -> body {
    auto s = std::make_shared<raw_store>();
    const std::size_t keys = how.count(of.records);
    {
      in_flight all;
      const auto filled = open_store(s->where.file("store"));
      fill(*filled, all, keys, 16);
      check(filled->close().has_value(), "the store closes");
    }
    s->open();
    const std::size_t count = how.count(200'000);
    return [=](const turn&) {
      std::string found;
      return latency(unit::nanoseconds, count, [&](std::size_t i) {
        const std::string key = key_of(scatter(i) % keys);
        check(s->files->db->Get({}, s->files->records, key, &found).ok() &&
                  found.size() == value_bytes + control::revision_bytes,
              "a record is read");
      });
    };
  };
  return c;
}

}  // namespace

void add_raw_rocksdb(suite& s) {
  for (const batch_row& of : batch_rows) s.add(batches(of));
  s.add(packs());
  s.add(one_durable());
  for (const read_row& of : read_rows) s.add(gets(of));
}

}  // namespace bench
