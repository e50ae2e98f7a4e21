// SPDX-License-Identifier: Apache-2.0
// Other nodes that share their work: desk.hpp.
#include <algorithm>
#include <utility>

#include <manta/exec/executor.hpp>

#include "node/desk.hpp"
#include "node/desk_books.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

using exec::claim_list;
using exec::resource_gate;

void desk::open_to_others(leaver may_leave, nearer data_of, bool may_grow,
                          void (*wake)()) noexcept {
  resource_gate::global().look([&] {
    wake_ = wake;
    may_leave_ = may_leave;
    data_of_ = data_of;
    may_grow_ = may_grow;
    if (books_ != nullptr) books_->groups.others_may_join(may_grow);
  });
}

void desk::close_to_others() noexcept {
  resource_gate::global().change([&]() -> claim_list {
    may_leave_ = nullptr;
    may_grow_ = false;
    is_closed_ = true;
    if (books_ == nullptr) return {};
    books_->groups.others_may_join(false);
    for (const auto& [node, at] : books_->index) {
      books_->has.set(at, sched::ledger::standing::gone);
    }
    claim_list out = end_formings(exec::ended_error());
    books_->has.judge(false);
    out.append(refuse_infeasible());
    out.append(claims_of(books_->waits.look_again()));
    return out;
  });
}

// What nobody can give any more, because its nodes are lost or this one's runtime ends.
claim_list desk::refuse_infeasible() noexcept {
  return refused_as_hopeless(books_->waits.refuse_infeasible());
}

claim_list desk::refused_as_hopeless(const sched::request_list& all) noexcept {
  return refused_of(all, [this](const claim& c) {
    if (is_closed_) return exec::ended_error();
    return spec::made_error(errc::infeasible, [&] { return why_never(c); });
  });
}

// 0, which is this one, when it is not known.
sched::node_id desk::index_of(std::uint64_t other) const noexcept {
  if (books_ == nullptr) return 0;
  const auto found = books_->index.find(other);
  return found == books_->index.end() ? 0 : found->second;
}

std::vector<std::uint64_t> desk::see_others(const std::vector<other_node>& all) {
  using standing = sched::ledger::standing;
  std::vector<std::uint64_t> unknown;
  unknown.reserve(all.size());  // what goes on below must not be lost for want of memory
  change_soon([&]() -> claim_list {
    if (books_ == nullptr || is_closed_) return {};
    bool is_news = false;
    claim_list out;
    for (const other_node& one : all) {
      const sched::node_id at = index_of(one.node);
      if (at == 0) {
        unknown.push_back(one.node);
        continue;
      }
      const standing now = one.takes_work ? standing::gives : standing::rests;
      if (books_->has.of(at) == now) continue;
      is_news = true;
      books_->has.set(at, now);
      if (now == standing::rests) out.append(follow(books_->groups.stop_asking(one.node)));
    }
    if (is_news) out.append(claims_of(books_->waits.look_again()));
    return out;
  });
  return unknown;
}

namespace {

bool has_few(const std::string& list) noexcept {
  constexpr std::ptrdiff_t most_keys = 256;
  return std::ranges::count(list, ',') < most_keys;
}

}  // namespace

// By its own word, so within what this node could have itself.
spec::demand desk::offer_of(const spec::node_introduction& who) {
  constexpr std::uint32_t most_workers = 1'000'000;
  constexpr std::uint32_t most_gpus = 1024;
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 53U;
  bundle out;
  out.cpus = std::min(who.workers, most_workers);
  out.gpus = std::min(who.gpus, most_gpus);
  out.memory_bytes = std::min(who.memory_bytes, most_bytes);
  if (!has_few(who.resources)) return spec::to_demand(out);
  if (auto said = spec::parse_resources(who.resources)) out.resources = *std::move(said);
  return spec::to_demand(out);
}

label_list desk::labels_of(const spec::node_introduction& who) {
  if (!has_few(who.labels)) return {};
  auto said = spec::parse_labels(who.labels);
  return said ? *std::move(said) : label_list{};
}

void desk::add_other(const other_node& one, const spec::node_introduction& who) {
  using standing = sched::ledger::standing;
  const spec::demand offer = offer_of(who);
  label_list labels = labels_of(who);
  change_soon([&]() -> claim_list {
    if (books_ == nullptr || is_closed_ || index_of(one.node) != 0) return {};
    const auto noted = books_->index.emplace(one.node, 0).first;
    try {
      books_->others.reserve(books_->others.size() + 1);
      noted->second = books_->has.add_other(who.name, std::move(labels), offer);
    } catch (...) {
      books_->index.erase(noted);
      throw;
    }
    const sched::node_id at = noted->second;
    if (at == books_->others.size()) books_->others.push_back(0);
    books_->others[at] = one.node;
    books_->has.set(at, one.takes_work ? standing::gives : standing::rests);
    books_->has.judge(may_grow_);
    return claims_of(books_->waits.look_again());
  });
}

void desk::rest_other(std::uint64_t node) noexcept {
  change_soon([&]() -> claim_list {
    claim_list out;
    const sched::node_id at = index_of(node);
    if (at == 0) return out;
    books_->has.set(at, sched::ledger::standing::rests);
    if (!is_closed_) out.append(follow(books_->groups.stop_asking(node)));
    return out;
  });
}

void desk::lose_other(std::uint64_t node) noexcept {
  change_soon([&]() -> claim_list {
    const sched::node_id at = index_of(node);
    if (at == 0) return {};
    books_->has.set(at, sched::ledger::standing::gone);
    books_->groups.lose(node);
    claim_list out;
    books_->others[at] = 0;
    books_->index.erase(node);
    books_->has.judge(may_grow_);
    if (!may_grow_) out.append(refuse_infeasible());
    out.append(follow(books_->groups.give_up_hopeless()));
    // A wish that it could fulfil binds no more.
    out.append(claims_of(books_->waits.look_again()));
    return out;
  });
}

std::vector<std::uint64_t> desk::who_gives(const spec::demand& asked, const placement& where,
                                           sched::horizon when) {
  return resource_gate::global().look([&] {
    std::vector<std::uint64_t> out;
    if (books_ == nullptr) return out;
    for (const sched::node_id at : books_->has.who_gives(asked, where, when)) {
      if (at == 0 || books_->others[at] != 0) out.push_back(books_->others[at]);
    }
    return out;
  });
}

bool desk::gives_here(const spec::demand& asked, const placement& where) const {
  return resource_gate::global().look([&] {
    if (books_ == nullptr || !books_->has.knows(asked)) return false;
    const sched::need what = books_->has.translate(asked);
    return books_->has.gives_here(what, where, sched::horizon::ever);
  });
}

// Without the books, in which other nodes are only where they take what asks for amounts.
std::optional<std::string> desk::why_never_there(const spec::node_introduction& who,
                                                 const spec::demand& asked) {
  if (who.workers == 0) return std::nullopt;  // a head that was started again does not know yet
  placement where;
  where.by = placement::rule::node;
  where.node = who.name;
  sched::ledger its;
  its.add_node(who.name, labels_of(who), offer_of(who));
  return its.infeasible(asked, where);
}

struct desk::loan {
  std::uint64_t generation = 0;
  sched::need what;
  sched::grant got;

  loan() = default;
  loan(const loan&) = delete;
  loan& operator=(const loan&) = delete;
  ~loan() {
    desk& of = desk::global();
    resource_gate::global().change([&]() -> claim_list {
      if (!got.is_held || generation != of.generation_) return {};
      of.books_->has.give(what, got);
      return of.claims_of(of.books_->waits.look_again());
    });
  }
};

std::shared_ptr<void> desk::lease(std::uint64_t node, const spec::demand& asked, placement& where) {
  const bool is_in_group = where.by == placement::rule::group;
  if (asked.is_empty() && !is_in_group) return nullptr;
  auto made = std::make_shared<loan>();
  const bool is_given = resource_gate::global().look([&] {
    const sched::node_id at = index_of(node);
    if (at == 0 || !books_->has.knows(asked)) return false;
    made->generation = generation_;
    made->what = books_->has.translate(asked);
    made->got.gpus.reserve(sched::gpu_count(made->what.gpus));
    if (is_in_group) return lease_in_group(at, made->what, where, made->got);
    return books_->has.take_of(at, made->what, made->got);
  });
  return is_given ? made : nullptr;
}

void desk::check_here(const spec::demand& asked) const {
  resource_gate::global().look([&] {
    if (books_ == nullptr) return;
    if (auto reason = books_->has.infeasible(asked, {}, true)) {
      raise(errc::infeasible, *std::move(reason));
    }
  });
}

}  // namespace manta::inline v0::node
