// SPDX-License-Identifier: Apache-2.0
#include "own/references.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

// Nodes that hand handles to each other at random, while some die and others join. What each of
// them has is written down beside the references, which are held to it.

namespace {

using manta::base::id;
using manta::own::node_number;
using manta::own::reference_note;
using manta::own::references;
using manta::own::saying;
using manta_test::dice;
using manta_test::repeats;
using manta_test::run_seed;

bool is_before(const id& a, const id& b) {
  return a.high != b.high ? a.high < b.high : a.low < b.low;
}
struct id_order {
  bool operator()(const id& a, const id& b) const { return is_before(a, b); }
};

// What a node may do wrong.
enum class plant : std::uint8_t {
  none,
  loans_not_told,
  releases_first,
  releases_too_few,
  holds_not_said,
  settles_early,
  not_asked,
  one_came_only,
  hears_the_dead,
  count,
};

struct packet {
  std::vector<id> handles;
  std::vector<reference_note> notes;
};

struct member {
  explicit member(node_number n) : refs(n) {}
  references refs;
  bool is_alive = true;
  std::size_t heard = 0;        // events of the head
  std::set<node_number> knows;  // who lives, as it has heard
  std::set<node_number> buried;
  std::map<id, int, id_order> handles;  // of its own things one more
};

class world {
 public:
  world(std::uint64_t seed, plant broken) : random_(seed), broken_(broken) {
    for (int i = 0; i < 4; ++i) join();
  }

  // What was wrong; empty: nothing.
  std::string run(int steps) {
    for (int i = 0; i < steps && wrong_.empty(); ++i) step();
    if (wrong_.empty()) come_to_rest();
    if (wrong_.empty()) drop_all();
    return wrong_;
  }
  int deaths() const { return deaths_; }
  int freed() const { return freed_; }

 private:
  using pipe = std::pair<node_number, node_number>;  // from, to

  void join() {
    const node_number n = ++last_;
    auto made = std::make_unique<member>(n);
    for (const auto& [other, one] : members_) {
      if (!one->is_alive) continue;
      made->refs.joined(other);
      made->knows.insert(other);
    }
    log_.emplace_back(n, true);
    made->heard = log_.size();
    members_.emplace(n, std::move(made));
  }

  void kill(node_number n) {
    members_.at(n)->is_alive = false;
    log_.emplace_back(n, false);
    ++deaths_;
  }

  std::vector<node_number> living() const {
    std::vector<node_number> out;
    for (const auto& [n, one] : members_) {
      if (one->is_alive) out.push_back(n);
    }
    return out;
  }

  void hear_head(node_number self) {
    member& m = *members_.at(self);
    if (m.heard == log_.size()) return;
    const auto [who, has_joined] = log_[m.heard++];
    if (who == self) return;
    if (has_joined) {
      m.refs.joined(who);
      m.knows.insert(who);
    } else {
      m.knows.erase(who);
      m.buried.insert(who);
      m.refs.gone(who);
    }
  }

  void step() {
    const std::vector<node_number> who = living();
    const node_number self = who[random_.below(who.size())];
    member& m = *members_.at(self);
    switch (random_.below(12)) {
      case 0:
        if (m.handles.size() < 6) m.handles[{self, ++last_thing_}] = 1;
        return;
      case 1:
      case 2:
      case 3:
        return send(self);
      case 4:
      case 5:
        return drop_one(self);
      case 6:
        return flush(self);
      case 7:
        return hear_head(self);
      case 8:
        if (random_.one_in(40) && who.size() > 2) return kill(self);
        if (random_.one_in(40) && who.size() < 6) return join();
        return;
      default:
        return receive(self);
    }
  }

  void send(node_number self) {
    member& m = *members_.at(self);
    if (m.handles.empty() || m.knows.empty()) return;
    const node_number to =
        *std::next(m.knows.begin(), static_cast<long>(random_.below(m.knows.size())));
    packet sent;
    const std::size_t count = 1 + random_.below(3);
    for (std::size_t i = 0; i < count; ++i) {
      const id what =
          std::next(m.handles.begin(), static_cast<long>(random_.below(m.handles.size())))->first;
      m.refs.lend(what, what.high, to);
      sent.handles.push_back(what);
    }
    if (random_.one_in(8)) {  // it does not go
      for (const id& one : sent.handles) m.refs.take_back(one, one.high, to);
    } else {
      pipes_[{self, to}].push_back(std::move(sent));
    }
    if (random_.one_in(3)) flush(self);
  }

  void drop_one(node_number self) {
    member& m = *members_.at(self);
    if (m.handles.empty()) return;
    const auto at =
        std::next(m.handles.begin(), static_cast<long>(random_.below(m.handles.size())));
    if (at->first.high == self) return;
    if (--at->second > 0) return;
    m.refs.drop(at->first);
    m.handles.erase(at);
  }

  void receive(node_number self) {
    std::vector<pipe> full;
    for (const auto& [path, waiting] : pipes_) {
      if (path.second == self && !waiting.empty()) full.push_back(path);
    }
    if (full.empty()) return;
    const pipe from = full[random_.below(full.size())];
    packet came = std::move(pipes_.at(from).front());
    pipes_.at(from).pop_front();
    member& m = *members_.at(self);
    if (m.buried.contains(from.first) && broken_ != plant::hears_the_dead) return;
    for (const id& one : came.handles) {
      if (broken_ == plant::one_came_only && m.handles.contains(one)) {
        ++m.handles[one];
      } else if (m.refs.came(one, one.high, from.first)) {
        ++m.handles[one];
      }
    }
    for (const reference_note& one : came.notes) hear(self, from.first, one);
    if (random_.one_in(3)) flush(self);
  }

  void hear(node_number self, node_number from, const reference_note& one) {
    member& m = *members_.at(self);
    if (broken_ == plant::settles_early && one.what == saying::asks &&
        !m.buried.contains(one.peer)) {
      pipes_[{self, from}].push_back({{}, {{saying::settled, {}, one.peer, 0}}});
      return;
    }
    m.refs.hear(from, one);
  }

  void flush(node_number self) {
    member& m = *members_.at(self);
    references::work todo = m.refs.take();
    std::map<node_number, packet> batches;
    for (auto& [to, note] : todo.notes) {
      if (broken_ == plant::loans_not_told && note.what == saying::lent) continue;
      if (broken_ == plant::holds_not_said && note.what == saying::holds) continue;
      if (broken_ == plant::not_asked && note.what == saying::asks) {
        note = {saying::settled, {}, note.peer, 0};
      }
      if (broken_ == plant::releases_too_few && note.what == saying::released && note.count > 1) {
        --note.count;
      }
      batches[to].notes.push_back(note);
    }
    for (auto& [to, batch] : batches) {
      if (broken_ == plant::releases_first) {
        std::ranges::stable_sort(batch.notes, {},
                                 [](const auto& one) { return one.what != saying::released; });
      }
      pipes_[{self, to}].push_back(std::move(batch));
    }
    for (const id& one : todo.freed) is_freed(self, one);
    for (const id& one : todo.lost) m.handles.erase(one);
  }

  void is_freed(node_number owner, const id& what) {
    ++freed_;
    for (const auto& [n, one] : members_) {
      if (n != owner && one->is_alive && one->handles.contains(what)) {
        wrong_ = "freed, and a node has it";
      }
    }
    for (const auto& [path, waiting] : pipes_) {
      const member& to = *members_.at(path.second);
      if (!to.is_alive || to.buried.contains(path.first)) continue;
      for (const packet& one : waiting) {
        if (path.second != owner && std::ranges::count(one.handles, what) > 0) {
          wrong_ = "freed, and it is under way";
        }
      }
    }
  }

  // Everything that is said is heard.
  void come_to_rest() {
    for (int round = 0; round < 2000 && wrong_.empty(); ++round) {
      for (const node_number n : living()) {
        while (members_.at(n)->heard < log_.size()) hear_head(n);
        receive(n);
        flush(n);
      }
      const bool is_quiet = std::ranges::all_of(pipes_, [&](const auto& one) {
        return one.second.empty() || !members_.at(one.first.second)->is_alive;
      });
      if (is_quiet) return;
    }
    if (wrong_.empty()) wrong_ = "it never ends";
  }

  void drop_all() {
    for (const node_number n : living()) {
      member& m = *members_.at(n);
      for (const auto& [what, count] : m.handles) {
        if (what.high == n) continue;
        if (!members_.at(what.high)->is_alive) wrong_ = "a handle whose owner has died";
        m.refs.drop(what);
      }
      std::erase_if(m.handles, [&](const auto& one) { return one.first.high != n; });
    }
    if (wrong_.empty()) come_to_rest();
    if (!wrong_.empty()) return;
    for (const node_number n : living()) {
      const member& m = *members_.at(n);
      if (m.refs.lent() != 0) wrong_ = "what nobody has is kept";
      if (m.refs.borrowed() != 0) wrong_ = "what was dropped is known";
      if (m.refs.is_in_doubt()) wrong_ = "a doubt that nobody ends";
    }
  }

  dice random_;
  const plant broken_;
  node_number last_ = 0;
  std::uint64_t last_thing_ = 0;
  std::map<node_number, std::unique_ptr<member>> members_;
  std::vector<std::pair<node_number, bool>> log_;
  std::map<pipe, std::deque<packet>> pipes_;
  std::string wrong_;
  int deaths_ = 0;
  int freed_ = 0;
};

constexpr int steps = 1500;

}  // namespace

TEST_CASE("nothing that a node has is freed, and all that nobody has is", "[own][repeats]") {
  const int rounds = repeats(300, 20000);
  int deaths = 0;
  int freed = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t seed = run_seed() + static_cast<std::uint64_t>(i);
    CAPTURE(seed);
    world w(seed, plant::none);
    REQUIRE(w.run(steps) == "");
    deaths += w.deaths();
    freed += w.freed();
  }
  // The load was carried, and the faults did land.
  CHECK(deaths > rounds);
  CHECK(freed > 10 * rounds);
}

TEST_CASE("an owner knows who may have what it has lent", "[own]") {
  using lendings = std::vector<references::lending>;
  const id thing{1, 1};
  references owner(1);
  for (const node_number one : {2U, 3U}) owner.joined(one);
  CHECK(owner.lendings_of(thing).empty());
  owner.lend(thing, 1, 2);
  owner.lend(thing, 1, 2);
  CHECK(owner.lendings_of(thing) == lendings{{2, 1}});
  owner.hear(2, {saying::lent, thing, 3, 1});
  owner.lend(thing, 1, 3);  // from two
  CHECK(owner.lendings_of(thing) == lendings{{2, 1}, {3, 2}, {3, 1}});
  owner.hear(2, {saying::released, thing, 1, 2});
  CHECK(owner.lendings_of(thing) == lendings{{3, 2}, {3, 1}});
  owner.gone(3);
  CHECK(owner.lendings_of(thing).empty());
}

TEST_CASE("references that are broken on purpose are found out", "[own]") {
  for (int p = 1; p < static_cast<int>(plant::count); ++p) {
    CAPTURE(p);
    bool is_found = false;
    for (std::uint64_t seed = 1; seed < 400 && !is_found; ++seed) {
      is_found = !world(seed, static_cast<plant>(p)).run(steps).empty();
    }
    CHECK(is_found);
  }
}
