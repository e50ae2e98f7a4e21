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

}  // namespace

void request_list::append(request& r) noexcept {
  r.next = nullptr;
  (last == nullptr ? first : last->next) = &r;
  last = &r;
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
  const bool granted = r.forming != nullptr ? ledger_.place(*r.forming)
                                            : ledger_.take(r.what, r.where, !r.is_for_life, r.got);
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

line::caller& line::caller_of(std::uint64_t serial) {
  if (const auto at = callers_.find(serial); at != callers_.end()) return *at->second;
  caller& made = *callers_.emplace(serial, std::make_unique<caller>()).first->second;
  made.serial = serial;
  link_last(made);
  return made;
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
  caller* c = nullptr;
  queue* q = nullptr;
  try {
    s = &shape_of(r, k);
    c = &caller_of(r.caller);
    q = &queue_of(*c, k);
  } catch (...) {
    if (c != nullptr && c->queues.empty()) {
      unlink(*c);
      callers_.erase(r.caller);
    }
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
  caller& c = *callers_.find(r.caller)->second;
  const auto q = std::find_if(c.queues.begin(), c.queues.end(),
                              [&r](const queue& e) { return e.of == r.of_class; });
  (r.previous == nullptr ? q->first : r.previous->next) = r.next;
  (r.next == nullptr ? q->last : r.next->previous) = r.previous;
  r.next = r.previous = nullptr;
  if (q->first == nullptr) {
    *q = c.queues.back();
    c.queues.pop_back();
  }
  if (c.queues.empty()) {
    unlink(c);
    callers_.erase(r.caller);
  }
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

void line::unlink(caller& c) noexcept {
  (c.previous == nullptr ? first_ : c.previous->next) = c.next;
  (c.next == nullptr ? last_ : c.next->previous) = c.previous;
  c.next = c.previous = nullptr;
}

void line::link_last(caller& c) noexcept {
  c.previous = last_;
  c.next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = &c;
  last_ = &c;
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
  for (caller* c = first_; c != nullptr;) {
    caller* const following = c->next;
    const std::uint64_t serial = c->serial;
    for (bool again = true; again;) {
      again = false;
      const auto at = callers_.find(serial);
      if (at == callers_.end()) break;
      for (const queue& q : at->second->queues) {
        request* r = q.first;
        while (r != nullptr && !is_meant(*r)) r = r->next;
        if (r == nullptr) continue;
        dequeue(*r);
        r->now = request::state::idle;
        refused.append(*r);
        again = true;
        break;
      }
    }
    c = following;
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
  if (first_ == nullptr) return nullptr;
  request* const r = first_->queues.front().first;
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
  bool has_formed = false;
  caller* c = first_;
  while (c != nullptr && open_ > 0) {
    request* const r = serve(*c);
    if (r == nullptr) {
      c = c->next;
      continue;
    }
    caller* const following = c->next;
    caller* const was_last = last_;
    const std::uint64_t serial = r->caller;
    has_formed = has_formed || r->forming != nullptr;
    dequeue(*r);
    granted.append(*r);
    const auto still = callers_.find(serial);
    if (still != callers_.end()) {
      unlink(*still->second);
      link_last(*still->second);
    }
    c = following;
    if (c == nullptr && still != callers_.end() && was_last == still->second.get()) c = was_last;
  }
  open_ = 0;
  return has_formed;
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
