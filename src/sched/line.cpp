// SPDX-License-Identifier: Apache-2.0
#include <manta/sched/line.hpp>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <manta/base/check.hpp>

namespace manta::inline v0::sched {

/// Requests of one set of kinds in one scope; exists while some wait.
struct line_class {
  std::uint64_t in = 0;
  std::uint64_t kinds = 0;
  std::size_t waiting = 0;
  std::size_t shapes = 0;
  // Of the last round.
  std::uint64_t blocked_in = 0;
  std::uint64_t failed_in = 0;
  std::size_t failed = 0;
  bool reserves = false;
};

/// What makes a shape: the need and the wish; a group that forms is a shape of its own.
struct shape_key {
  std::uint64_t kinds = 0;
  std::uint64_t forming = 0;
  need what;
  placement where;
};

/// Requests of a class that ask for exactly the same: when one does not fit, none does.
struct line_shape {
  line_class* of = nullptr;
  const shape_key* key = nullptr;
  std::size_t waiting = 0;
  std::uint64_t failed_in = 0;
};

namespace {

constexpr std::uint64_t gpu_bit = 1;
constexpr unsigned last_bit = 63;

// Kinds beyond the 62nd share a bit: they may wait for each other's reservations, no more.
std::uint64_t bit_of(kind k) noexcept {
  return std::uint64_t{1} << std::min<std::uint64_t>(k + 1, last_bit);
}

std::uint64_t kinds_of(const need& n) noexcept {
  std::uint64_t kinds = n.gpus > 0 ? gpu_bit : 0;
  for (const part& p : n.parts) kinds |= bit_of(p.of);
  return kinds;
}

std::uint64_t kinds_of(const request& r) noexcept {
  if (r.forming == nullptr) return kinds_of(r.what);
  std::uint64_t kinds = 0;
  for (const need& n : r.forming->bundles) kinds |= kinds_of(n);
  return kinds;
}

std::uint64_t scope_of(const request& r) noexcept {
  return r.where.by == placement::rule::group ? r.where.group : 0;
}

bool is_less(const need& a, const need& b) noexcept {
  if (a.gpus != b.gpus) return a.gpus < b.gpus;
  if (a.stays != b.stays) return b.stays;
  return std::lexicographical_compare(a.parts.begin(), a.parts.end(), b.parts.begin(),
                                      b.parts.end(), [](const part& x, const part& y) {
                                        return std::tie(x.of, x.amount) < std::tie(y.of, y.amount);
                                      });
}

// Whether nothing else of that caller waits.
template <class Caller>
bool has_one(const Caller& c) noexcept {
  return c.queues.size() == 1 && c.queues.front().first == c.queues.front().last;
}

template <class Caller, class Meant>
request* find_in(const Caller& c, Meant&& is_meant) noexcept {
  for (const auto& q : c.queues) {
    request* r = q.first;
    while (r != nullptr && !is_meant(*r)) r = r->next;
    if (r != nullptr) return r;
  }
  return nullptr;
}

}  // namespace

void request_list::append(request& r) noexcept {
  r.next = nullptr;
  (last == nullptr ? first : last->next) = &r;
  last = &r;
}

template <class Entry>
void line::row<Entry>::unlink(Entry& e) noexcept {
  (e.previous == nullptr ? first : e.previous->next) = e.next;
  (e.next == nullptr ? last : e.next->previous) = e.previous;
  e.next = e.previous = nullptr;
}

template <class Entry>
void line::row<Entry>::link_last(Entry& e) noexcept {
  e.previous = last;
  e.next = nullptr;
  (last == nullptr ? first : last->next) = &e;
  last = &e;
}

template <class Entry>
void line::row<Entry>::move_last(Entry& e) noexcept {
  if (e.next == nullptr) return;
  unlink(e);
  link_last(e);
}

struct line::shape_less {
  bool operator()(const shape_key& a, const shape_key& b) const noexcept {
    const auto head = [](const shape_key& k) {
      return std::tie(k.kinds, k.forming, k.where.by, k.where.is_soft, k.where.bundle, k.where.node,
                      k.where.labels);
    };
    if (head(a) != head(b)) return head(a) < head(b);
    return is_less(a.what, b.what);
  }
};

struct line::scope {
  std::vector<std::unique_ptr<line_class>> classes;
  std::map<shape_key, line_shape, shape_less> shapes;
};

line::line(ledger& of) noexcept : ledger_(of) {}
line::~line() = default;

bool line::try_grant(request& r) noexcept {
  const bool granted = r.forming != nullptr
                           ? ledger_.place(*r.forming)
                           : ledger_.take(r.what, r.where, !r.is_for_life, r.got, r.near);
  if (granted) r.now = request::state::held;
  return granted;
}

bool line::may_fit_soon(request& r) noexcept {
  if (r.forming != nullptr) return ledger_.has_place(*r.forming, horizon::soon);
  return ledger_.fits(r.what, r.where, horizon::soon);
}

bool line::is_reserved(std::uint64_t in, std::uint64_t kinds) const noexcept {
  const auto at = scopes_.find(in);
  if (at == scopes_.end()) return false;
  return std::any_of(at->second->classes.begin(), at->second->classes.end(),
                     [kinds](const auto& c) { return c->reserves && (c->kinds & kinds) != 0; });
}

bool line::ask(request& r) {
  MANTA_CHECK(r.now == request::state::idle);
  r.number = ++arrivals_;
  if (r.forming == nullptr) r.got.gpus.reserve(gpu_count(r.what.gpus));
  // All others that wait were looked at when something was last freed: only this one is new.
  const bool is_held_back = waiting_ != 0 && is_reserved(scope_of(r), kinds_of(r));
  if (!is_held_back && try_grant(r)) return true;
  enqueue(r);
  if (!is_held_back && may_fit_soon(r)) r.of_class->reserves = true;
  return false;
}

line_class& line::class_of(const request& r) {
  const std::uint64_t in = scope_of(r);
  const std::uint64_t kinds = kinds_of(r);
  auto at = scopes_.find(in);
  if (at == scopes_.end()) at = scopes_.emplace(in, std::make_unique<scope>()).first;
  for (const auto& c : at->second->classes) {
    if (c->kinds == kinds) return *c;
  }
  line_class& made = *at->second->classes.emplace_back(std::make_unique<line_class>());
  made.in = in;
  made.kinds = kinds;
  ++classes_;
  return made;
}

line_shape& line::shape_of(const request& r, line_class& in) {
  shape_key key{in.kinds, r.forming == nullptr ? 0 : r.forming->id, r.what, r.where};
  const auto [at, is_new] = scopes_.find(in.in)->second->shapes.try_emplace(std::move(key));
  if (is_new) {
    at->second.of = &in;
    at->second.key = &at->first;
    ++in.shapes;
  }
  return at->second;
}

// Null: it is in no row.
line::origin* line::find_origin(std::uint64_t node) noexcept {
  if (node == 0) return own_.callers.first == nullptr ? nullptr : &own_;
  const auto at = others_.find(node);
  return at == others_.end() ? nullptr : at->second.get();
}

line::origin& line::origin_of(std::uint64_t node) {
  if (origin* const there = find_origin(node)) return *there;
  origin* made = &own_;
  if (node != 0) {
    made = others_.emplace(node, std::make_unique<origin>()).first->second.get();
    made->node = node;
  }
  origins_.link_last(*made);
  return *made;
}

line::caller& line::caller_of(origin& o, std::uint64_t serial) {
  if (const auto at = o.by_serial.find(serial); at != o.by_serial.end()) return *at->second;
  caller& made = *o.by_serial.emplace(serial, std::make_unique<caller>()).first->second;
  made.serial = serial;
  o.callers.link_last(made);
  return made;
}

// `c` may be null.
void line::drop_if_unused(origin& o, caller* c) noexcept {
  if (c != nullptr && c->queues.empty()) {
    o.callers.unlink(*c);
    o.by_serial.erase(c->serial);
  }
  if (o.callers.first != nullptr) return;
  origins_.unlink(o);
  if (o.node != 0) others_.erase(o.node);
}

line::queue& line::queue_of(caller& c, line_class& in) {
  for (queue& q : c.queues) {
    if (q.of == &in) return q;
  }
  return c.queues.emplace_back(queue{&in, nullptr, nullptr});
}

void line::enqueue(request& r) {
  line_class& k = class_of(r);
  line_shape* s = nullptr;
  origin* o = nullptr;
  caller* c = nullptr;
  queue* q = nullptr;
  try {
    s = &shape_of(r, k);
    o = &origin_of(r.from);
    c = &caller_of(*o, r.caller);
    q = &queue_of(*c, k);
  } catch (...) {
    if (o != nullptr) drop_if_unused(*o, c);
    if (s != nullptr && s->waiting == 0) drop(*s);
    drop_if_unused(k);
    throw;
  }
  r.of_class = &k;
  r.of_shape = s;
  r.next = nullptr;
  r.previous = q->last;
  (q->last == nullptr ? q->first : q->last->next) = &r;
  q->last = &r;
  ++k.waiting;
  ++s->waiting;
  ++waiting_;
  r.now = request::state::waiting;
}

void line::drop(line_shape& s) noexcept {
  --s.of->shapes;
  auto& shapes = scopes_.find(s.of->in)->second->shapes;
  shapes.erase(shapes.find(*s.key));
}

void line::drop_if_unused(line_class& c) noexcept {
  if (c.waiting != 0) return;
  const auto at = scopes_.find(c.in);
  std::erase_if(at->second->classes, [&c](const auto& k) { return k.get() == &c; });
  --classes_;
  if (at->second->classes.empty()) scopes_.erase(at);
}

void line::dequeue(request& r) noexcept {
  origin& o = *find_origin(r.from);
  caller& c = *o.by_serial.find(r.caller)->second;
  const auto q = std::find_if(c.queues.begin(), c.queues.end(),
                              [&r](const queue& e) { return e.of == r.of_class; });
  (r.previous == nullptr ? q->first : r.previous->next) = r.next;
  (r.next == nullptr ? q->last : r.next->previous) = r.previous;
  r.next = r.previous = nullptr;
  if (q->first == nullptr) {
    *q = c.queues.back();
    c.queues.pop_back();
  }
  if (c.queues.empty()) drop_if_unused(o, &c);
  line_class& k = *r.of_class;
  if (--r.of_shape->waiting == 0) {
    // A failed shape that goes is no longer among those to count.
    if (r.of_shape->failed_in == round_ && k.failed_in == round_) --k.failed;
    drop(*r.of_shape);
  }
  --k.waiting;
  --waiting_;
  r.of_class = nullptr;
  r.of_shape = nullptr;
  if (k.waiting == 0) {
    if (open_ > 0 && k.blocked_in != round_) --open_;
    drop_if_unused(k);
  }
}

request_list line::withdraw(request& r) noexcept {
  request_list granted;
  if (r.now != request::state::waiting) return granted;
  dequeue(r);
  r.now = request::state::idle;
  admit(granted);
  return granted;
}

request_list line::give(request& r) noexcept {
  request_list granted;
  if (r.now != request::state::held) return granted;
  r.now = request::state::idle;
  ledger_.give(r.what, r.got);
  admit(granted);
  return granted;
}

request_list line::lend(request& r) noexcept {
  request_list granted;
  if (r.now != request::state::held) return granted;
  ledger_.lend(r.what, r.got);
  admit(granted);
  return granted;
}

// Takes all that are meant off the line.
template <class Meant>
void line::refuse(Meant&& is_meant, request_list& refused) noexcept {
  for (origin* o = origins_.first; o != nullptr;) {
    origin* const next_origin = o->next;
    for (caller* c = o->callers.first; c != nullptr;) {
      caller* const following = c->next;
      // Who goes takes its queue along, and maybe its caller, and that its node.
      while (request* const r = find_in(*c, is_meant)) {
        const bool is_last = has_one(*c);
        dequeue(*r);
        r->now = request::state::idle;
        refused.append(*r);
        if (is_last) break;
      }
      c = following;
    }
    o = next_origin;
  }
}

request_list line::look_again() noexcept {
  request_list granted;
  admit(granted);
  return granted;
}

request_list line::refuse_infeasible(group_id within) noexcept {
  request_list refused;
  refuse(
      [this, within](const request& r) {
        if (within != 0 && scope_of(r) != within) return false;
        if (r.forming != nullptr) return r.forming->is_hopeless;
        return !ledger_.fits(r.what, r.where, horizon::ever);
      },
      refused);
  return refused;
}

request_list line::remove(group& g, request_list& refused) noexcept {
  if (g.now == group::state::waiting) {
    refuse([&g](const request& r) { return r.forming == &g; }, refused);
  }
  if (scopes_.find(g.id) != scopes_.end()) {
    refuse([&g](const request& r) { return scope_of(r) == g.id; }, refused);
  }
  ledger_.remove(g);
  request_list granted;
  admit(granted);
  return granted;
}

request* line::take_first() noexcept {
  if (origins_.first == nullptr) return nullptr;
  request* const r = origins_.first->callers.first->queues.front().first;
  dequeue(*r);
  r->now = request::state::idle;
  return r;
}

// Again when a group has found its place: what waits inside was looked at too early.
void line::admit(request_list& granted) noexcept {
  while (waiting_ > 0 && round(granted)) {
  }
}

bool line::round(request_list& granted) noexcept {
  ++round_;
  open_ = classes_;
  for (auto& [id, s] : scopes_) {
    for (auto& c : s->classes) c->reserves = false;
  }
  for (origin* o = origins_.first; o != nullptr; o = o->next) o->at = o->callers.first;
  bool has_formed = false;
  for (origin* o = origins_.first; o != nullptr && open_ > 0;) {
    origin* const following = o->next;
    request* const r = serve(*o);
    if (r == nullptr) {
      o = following;
      continue;
    }
    has_formed = has_formed || r->forming != nullptr;
    const bool is_still_there = move_on(*o, *r);
    granted.append(*r);
    o = following == nullptr && is_still_there ? o : following;
  }
  open_ = 0;
  return has_formed;
}

// Of the node's next caller that may have one. Who gets nothing now gets nothing in this round.
request* line::serve(origin& o) noexcept {
  for (; o.at != nullptr && open_ > 0; o.at = o.at->next) {
    if (request* const r = serve(*o.at)) return r;
  }
  return nullptr;
}

// Whose request is granted goes to its row's end, and so does its node. False: that is gone.
bool line::move_on(origin& o, request& r) noexcept {
  caller& c = *o.at;
  const bool is_last_of_caller = has_one(c);
  const bool is_last = is_last_of_caller && o.callers.first == o.callers.last;
  o.at = c.next;
  dequeue(r);
  if (is_last) return false;
  if (!is_last_of_caller) {
    o.callers.move_last(c);
    if (o.at == nullptr) o.at = &c;
  }
  origins_.move_last(o);
  return true;
}

// Grants the caller's oldest request that may be granted, if there is one.
request* line::serve(caller& c) noexcept {
  for (;;) {
    request* oldest = nullptr;
    for (const queue& q : c.queues) {
      if (q.of->blocked_in == round_) continue;
      request* const r = candidate(q);
      if (r != nullptr && (oldest == nullptr || r->number < oldest->number)) oldest = r;
    }
    if (oldest == nullptr) return nullptr;
    if (try_grant(*oldest)) return oldest;
    note_misfit(*oldest);
    if (open_ == 0) return nullptr;
  }
}

request* line::candidate(const queue& q) const noexcept {
  request* r = q.first;
  while (r != nullptr && r->of_shape->failed_in == round_) r = r->next;
  return r;
}

void line::note_misfit(request& r) noexcept {
  line_class& k = *r.of_class;
  if (may_fit_soon(r)) {
    k.reserves = true;
    for (auto& other : scopes_.find(k.in)->second->classes) {
      if (other.get() == &k || (other->kinds & k.kinds) != 0) block(*other);
    }
    return;
  }
  r.of_shape->failed_in = round_;
  if (k.failed_in != round_) {
    k.failed_in = round_;
    k.failed = 0;
  }
  if (++k.failed == k.shapes) block(k);
}

void line::block(line_class& c) noexcept {
  if (c.blocked_in == round_) return;
  c.blocked_in = round_;
  --open_;
}

}  // namespace manta::inline v0::sched
