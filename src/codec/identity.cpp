// SPDX-License-Identifier: Apache-2.0
#include <manta/codec/identity.hpp>

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <manta/base/check.hpp>
#include <manta/base/id.hpp>
#include <manta/codec/function_table.hpp>

#include "codec/modules.hpp"

#include <fmt/format.h>

// The process's list of entries, and the table that is made from it.
//
// Who comes pushes itself onto the list without a lock, since that happens in static initialisers
// with the loader's lock held. Who goes, and who makes a table, holds the mutex, so an entry that
// is met on the list stays mapped as long as the mutex is held, and so does its module. Both count
// the change, and a table is good as long as it has the count it was made at.
//
// Order of locks: ours, then the loader's inside dl_iterate_phdr. The other way round happens in
// destructors run by dlclose, which hold another lock of the loader than dl_iterate_phdr takes.
//
// Old tables: a lookup counts itself in `readers` before it loads the table, and out when it has
// its answer. Who replaced the table frees the old ones if it then sees no reader, else leaves them
// to the next replacement. All four are sequentially consistent: either the replacer sees the
// reader, or the reader sees the new table.
//
// Nothing here has an initialiser that runs or a destructor, so it serves before main and at exit.

namespace manta::inline v0::codec {

struct entry_access {
  static entry*& next(entry& e) { return e.next_; }
  static const char* function(const entry& e) { return e.function_; }
  static const char* type(const entry& e) { return e.type_; }

  static bool remembers(const entry& e, spec::function_id& id) {
    id.module = e.module_.load(std::memory_order_acquire);  // pairs with remember
    id.offset = e.offset_.load(std::memory_order_relaxed);
    return id.module != 0;
  }
  static void remember(const entry& e, const spec::function_id& id) {
    e.offset_.store(id.offset, std::memory_order_relaxed);
    e.module_.store(id.module, std::memory_order_release);
  }
};

namespace {

using access = entry_access;

constexpr std::size_t shown_builds = 8;  // in a message

// Open addressing: a power of two of slots, at most half of them taken. Immutable once published.
struct table {
  struct slot {
    spec::function_id id;
    const entry* found = nullptr;
  };
  struct build {
    std::uint64_t id = 0;
    std::string file;
  };

  std::uint64_t changes = 0;  // the count it was made at
  std::uint64_t hash = 0;
  std::vector<slot> slots;
  std::vector<build> builds;  // of the modules that have entries
  table* older = nullptr;     // in the list of those to be freed
};

constinit std::atomic<entry*> first{nullptr};
constinit std::atomic<std::uint64_t> changes{1};
constinit std::mutex mutex;
constinit std::atomic<table*> published{nullptr};
constinit std::atomic<std::uint64_t> readers{0};
constinit table* replaced = nullptr;  // under the mutex

spec::function_id id_within(const entry& e, const loaded_module& m) {
  spec::function_id id;
  if (access::remembers(e, id)) return id;
  id = {build_of(m), reinterpret_cast<std::uint64_t>(&e) - m.base};
  access::remember(e, id);
  return id;
}

std::size_t place_of(const spec::function_id& id, std::size_t slots) {
  const base::id mixed = base::derive({}, id.module, id.offset);
  return static_cast<std::size_t>(mixed.low) & (slots - 1);
}

// The slot that has `id`, or the free one where it belongs.
template <class Slots>
auto& slot_of(Slots& slots, const spec::function_id& id) {
  std::size_t at = place_of(id, slots.size());
  while (slots[at].found != nullptr && !(slots[at].id == id)) at = (at + 1) & (slots.size() - 1);
  return slots[at];
}

std::uint64_t hash_of(const spec::function_id& id, const entry& e) {
  const std::uint64_t name = base::hash_name(access::function(e));
  const base::id one = base::derive({id.module, id.offset}, name, base::hash_name(access::type(e)));
  return one.low ^ one.high;
}

// Under the mutex.
std::vector<const entry*> listed() {
  std::vector<const entry*> found;
  for (entry* e = first.load(std::memory_order_acquire); e != nullptr; e = access::next(*e)) {
    found.push_back(e);
  }
  return found;
}

// The module of `e` among those met before, or a new one; requires that it stays loaded.
const loaded_module& module_among(std::vector<loaded_module>& known, const entry& e) {
  const auto at = reinterpret_cast<std::uint64_t>(&e);
  for (const loaded_module& m : known) {
    if (at >= m.begin && at < m.end) return m;
  }
  std::optional<loaded_module> m = module_at(&e);
  if (!m.has_value()) base::caller_failed("a codec::entry that is no static object was enrolled");
  known.push_back(std::move(*m));
  return known.back();
}

// Under the mutex.
std::unique_ptr<table> make_table() {
  auto made = std::make_unique<table>();
  made->changes = changes.load(std::memory_order_acquire);  // before the list: never too new
  const std::vector<const entry*> entries = listed();
  made->slots.resize(std::bit_ceil(entries.size() * 2 + 1));
  std::vector<loaded_module> modules;
  for (const entry* const e : entries) {
    const std::size_t known = modules.size();
    const loaded_module& m = module_among(modules, *e);
    const spec::function_id id = id_within(*e, m);
    if (modules.size() != known) made->builds.push_back({id.module, m.file});
    // A file and its copy are one build: their entries are the same functions, any of them will do.
    table::slot& slot = slot_of(made->slots, id);
    if (slot.found != nullptr) continue;
    slot = {id, e};
    made->hash += hash_of(id, *e);
  }
  return made;
}

void publish_new_table() {
  const std::lock_guard lock(mutex);
  table* const old = published.load(std::memory_order_relaxed);
  if (old != nullptr && old->changes == changes.load(std::memory_order_acquire)) return;
  std::unique_ptr<table> made = make_table();
  published.store(made.release(), std::memory_order_seq_cst);
  if (old != nullptr) old->older = std::exchange(replaced, old);
  if (readers.load(std::memory_order_seq_cst) != 0) return;
  while (replaced != nullptr) delete std::exchange(replaced, replaced->older);
}

// The table as of now, as long as this lives.
class table_reading {
 public:
  table_reading() {
    for (;;) {
      readers.fetch_add(1, std::memory_order_seq_cst);
      table_ = published.load(std::memory_order_seq_cst);
      if (table_ != nullptr && table_->changes == changes.load(std::memory_order_acquire)) return;
      readers.fetch_sub(1, std::memory_order_release);
      publish_new_table();
    }
  }
  table_reading(const table_reading&) = delete;
  table_reading& operator=(const table_reading&) = delete;
  ~table_reading() { readers.fetch_sub(1, std::memory_order_release); }
  const table* operator->() const { return table_; }

 private:
  const table* table_;
};

std::string list_of(const std::vector<table::build>& builds) {
  if (builds.empty()) return "no build with remote functions";
  std::string text = builds.size() == 1 ? "build " : "builds ";
  for (std::size_t i = 0; i < std::min(builds.size(), shown_builds); ++i) {
    if (i > 0) text += ", ";
    text += fmt::format("{} ({})", build_text(builds[i].id), builds[i].file);
  }
  if (builds.size() > shown_builds)
    text += fmt::format(" and {} more", builds.size() - shown_builds);
  return text;
}

error unknown(const spec::function_id& id, const std::vector<table::build>& builds) {
  const bool is_here =
      std::ranges::any_of(builds, [&](const auto& b) { return b.id == id.module; });
  return {
      errc::unknown_function,
      fmt::format("unknown function: asked for the one at offset {:#x} of build {}; this process "
                  "has {}{}; {}",
                  id.offset, build_text(id.module), list_of(builds),
                  is_here ? ", and no function at that offset" : "",
                  is_here ? "the id is damaged or made up: take ids from id_of only"
                          : "run the same build in every process, and load the same libraries "
                            "before calls come in")};
}

}  // namespace

void enroll(entry& e) noexcept {
  entry*& next = access::next(e);
  next = first.load(std::memory_order_acquire);
  // Acquires who came before and releases this entry: a walk from the head sees whole entries.
  while (!first.compare_exchange_weak(next, &e, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
  }
  changes.fetch_add(1, std::memory_order_release);
}

void withdraw(entry& e) noexcept {
  const std::lock_guard lock(mutex);
  entry* head = &e;
  // At exit, and mostly at dlclose, the last to come goes first. Others may push meanwhile: then it
  // is not the first any more, and what is before it changes under the mutex only.
  if (!first.compare_exchange_strong(head, access::next(e), std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
    while (head != nullptr && access::next(*head) != &e) head = access::next(*head);
    MANTA_CHECK(head != nullptr);
    access::next(*head) = access::next(e);
  }
  changes.fetch_add(1, std::memory_order_release);
}

std::string entry::name() const { return display_name(function_, type_); }

spec::function_id id_of(const entry& e) {
  spec::function_id id;
  if (access::remembers(e, id)) return id;
  const std::optional<loaded_module> m = module_at(&e);
  if (!m.has_value()) base::caller_failed("codec::id_of of an entry that is no static object");
  return id_within(e, *m);
}

result<const entry*> find(const spec::function_id& id) {
  const table_reading now;
  const entry* const found = slot_of(now->slots, id).found;
  if (found == nullptr) return unknown(id, now->builds);
  return found;
}

std::uint64_t table_hash() {
  const table_reading now;
  return now->hash;
}

function_table describe_table() {
  const loaded_module program = main_module();
  function_table all{build_of(program), program.file, {}};
  {
    // Names are in the modules' memory.
    const std::lock_guard lock(mutex);
    const std::unique_ptr<table> now = make_table();
    for (const table::slot& s : now->slots) {
      if (s.found != nullptr) all.functions.push_back({s.id, s.found->name()});
    }
  }
  std::ranges::sort(all.functions, {},
                    [](const named_function& f) { return std::pair(f.id.module, f.id.offset); });
  return all;
}

}  // namespace manta::inline v0::codec
