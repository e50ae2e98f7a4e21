// SPDX-License-Identifier: Apache-2.0
#include "node/peers.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <manta/exec/executor.hpp>

#include "node/link_times.hpp"
#include "node/rendezvous.hpp"
#include "wire/bundle.hpp"
#include "wire/endpoint.hpp"
#include "wire/parts.hpp"
#include "wire/views.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t most_early = 256;
constexpr std::size_t most_ended = 1024;
// Without an answer, of one other node: what it is kept ahead by, and results.
constexpr std::size_t most_requests = std::size_t{1} << 16U;
constexpr std::size_t most_bytes = std::size_t{256} << 20U;
// What waits for the loop's next turn; larger messages are requests of their own.
constexpr std::size_t most_leaving = std::size_t{1} << 20U;
constexpr std::size_t long_message = std::size_t{64} << 10U;
constexpr duration until_memory = 10ms;
// Of one node: what an introduction has more is left out.
constexpr std::size_t most_places_of_one = 64;
// Of parts, on their way to one other node: enough to fill the path, and others wait shortly.
constexpr std::size_t most_parts_bytes = std::size_t{32} << 20U;
// Why one is lost.
constexpr const char* no_memory = "there was no memory for what it said";
constexpr const char* out_of_reach = "it can't be reached from here";

std::string told_of(const spec::node_member& one, std::string_view why) {
  return fmt::format("{} (node {})", why.empty() ? "it has ended" : why, one.who.name);
}

bool does_work(const spec::node_member& one) noexcept {
  return one.who.as == spec::node_role::driver || one.who.as == spec::node_role::node;
}

}  // namespace

struct peers::one final : wire::courier::visitor {
  peers* of = nullptr;
  spec::node_member is;     // under the mutex of `of`
  std::uint64_t epoch = 0;  // its; never changes
  std::atomic<bool> has_link{false};
  std::atomic<bool> had_link{false};
  base::time_point away_since{};  // the loop's thread only
  std::atomic<bool> is_given_up{false};
  std::unique_ptr<wire::courier> mail;

  std::mutex leaving_mutex;  // guards the next two; before the courier's own
  wire::bundle leaving;
  std::uint64_t bundles = 0;  // so far

  wire::parts arriving;           // by whoever hands out, one at a time
  std::uint64_t broken_part = 0;  // of that message the rest is dropped, without a word more

  result<void> send(const base::id& about, wire::bundle::pieces_view pieces, std::size_t size,
                    bool ignores_limits);
  bool flush();
  bool is_quiet();
  void on_request(const wire::arrival& came) override {
    hand_out(came.message, *came.memory);
    // They are here: what comes of them are requests of their own.
    mail->answer(came, {});
  }
  void on_answer(const base::id& request, std::span<const std::byte> /*answer*/) override {
    link_times::global().has_come(epoch, request.low);
  }

 private:
  void hand_out(std::span<const std::byte> messages, wire::frame_buffer& memory);
  void take_part(const base::id& request, std::span<const std::byte> part);
  result<void> flush_now(bool ignores_limits);
  result<void> send_long(const base::id& about, wire::bundle::pieces_view pieces, std::size_t size,
                         bool ignores_limits);
};

namespace {

// Each is copied to where its message comes together: what brought it need not be kept.
bool are_parts(std::span<const std::byte> messages) {
  bool are = true;
  const auto look = [&](const base::id& about, std::span<const std::byte> /*one*/) {
    are = are && peers::topic_of(about) == peers::part;
  };
  return wire::bundle::each(messages, look) && are;
}

}  // namespace

void peers::one::hand_out(std::span<const std::byte> messages, wire::frame_buffer& memory) {
  if (messages.empty()) return;
  if (are_parts(messages)) {
    wire::bundle::each(messages, [this](const base::id& about, std::span<const std::byte> one) {
      take_part(about, one);
    });
    return;
  }
  std::shared_ptr<wire::frame_buffer> kept;
  try {
    kept = std::make_shared<wire::frame_buffer>(std::move(memory));
  } catch (const std::bad_alloc&) {
    return of->tell_.on_gone(*of, is.epoch, told_of(is, no_memory));
  }
  const auto hand = [&](const base::id& about, std::span<const std::byte> one) {
    if (topic_of(about) == part) return take_part(about, one);
    of->tell_.on_message(*of, is.epoch, about, {kept, one});
  };
  // What was in the rest is not known: all that it has of this node counts as lost.
  if (!wire::bundle::each(messages, hand)) {
    of->tell_.on_gone(*of, is.epoch, told_of(is, "it says what is no message"));
  }
}

void peers::one::take_part(const base::id& request, std::span<const std::byte> part) {
  if (request.low == broken_part) return;
  const char* why = "it says parts of no message";
  try {
    base::id about;
    auto whole = std::make_shared<wire::frame_buffer>();
    switch (arriving.add(request.low, part, about, *whole)) {
      case wire::parts::got::more:
        return;
      case wire::parts::got::whole:
        return of->tell_.on_message(*of, is.epoch, about, {whole, whole->bytes()});
      case wire::parts::got::nonsense:
        break;
    }
  } catch (const std::bad_alloc&) {
    why = no_memory;
  }
  broken_part = request.low;
  of->tell_.on_gone(*of, is.epoch, told_of(is, why));
}

// With the lock.
result<void> peers::one::flush_now(bool ignores_limits) {
  if (leaving.empty()) return {};
  const std::span<const std::byte> piece = leaving.bytes();
  result<void> is = mail->request({1, bundles + 1}, {&piece, 1}, piece.size(), ignores_limits);
  if (is) ++bundles;
  // Of any other error there is no later.
  if (is || is.error().code() != errc::store_full) leaving.clear();
  return is;
}

result<void> peers::one::send_long(const base::id& about, wire::bundle::pieces_view pieces,
                                   std::size_t size, bool ignores_limits) {
  const auto head = wire::bundle::head_of(about, size);
  std::vector<std::span<const std::byte>> all{head};
  all.insert(all.end(), pieces.begin(), pieces.end());
  // Its answer may be here before this has returned.
  link_times& times = link_times::global();
  times.sends(epoch, bundles + 1, size);
  result<void> is = mail->request({1, bundles + 1}, all, head.size() + size, ignores_limits);
  if (is) ++bundles;
  if (!is) times.unsent(epoch, bundles + 1);
  return is;
}

result<void> peers::one::send(const base::id& about, wire::bundle::pieces_view pieces,
                              std::size_t size, bool ignores_limits) {
  const std::lock_guard lock(leaving_mutex);
  const bool is_long = size >= long_message;
  if (is_long || leaving.bytes().size() + size > most_leaving) {
    result<void> has_left = flush_now(ignores_limits);
    if (!has_left) return has_left;
  }
  if (is_long) return send_long(about, pieces, size, ignores_limits);
  leaving.add(about, pieces, size);
  return {};
}

// What has no room now waits for the next turn, which comes when something is answered. False: what
// was to leave is lost.
bool peers::one::flush() {
  const std::lock_guard lock(leaving_mutex);
  const result<void> is = flush_now(false);
  return is || is.error().code() == errc::store_full;
}

bool peers::one::is_quiet() {
  const std::lock_guard lock(leaving_mutex);
  return leaving.empty() && mail->unanswered() == 0;
}

peers::peers(wire::loop& at, settings with, visitor& tell)
    : at_(at), with_(std::move(with)), tell_(tell) {
  job_ = std::make_unique<wire::loop_job>(at_, [this] { return turn(); });
}

peers::~peers() { end(); }

// Who has said that it uses this sees that it is over, or is waited for.
void peers::end() noexcept {
  is_over_.store(true);
  job_->stop();
  while (users_.load() > 0) std::this_thread::yield();
  std::map<std::uint64_t, one_ptr> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(all_);
  early_.clear();
}

void peers::retire(std::unique_ptr<peers> over) noexcept {
  static constinit std::atomic<peers*> last{nullptr};
  over->end();
  over->retired_before_ = last.load();
  while (!last.compare_exchange_weak(over->retired_before_, over.get())) {
  }
  static_cast<void>(over.release());
}

void peers::begin(std::uint64_t epoch) {
  if (epoch_ != 0) return;
  epoch_ = epoch;
  tell_.on_begin(*this);
  for (const one_ptr& other : living()) tell_.on_joined(*this, other->is);
  job_->ask();
}

std::unique_ptr<wire::link> peers::dial(const one& to) {
  const base::id cluster = with_.cluster();
  if (cluster == base::id{}) return nullptr;
  const wire::greeting self{.cluster = cluster,
                            .sender = with_.self,
                            .wanted = to.is.process,
                            .epoch = epoch_,
                            .as = wire::guest_kind::peer};
  auto made = wire::connect(at_, places_of(to.is.who.address), self, with_.sockets);
  return made ? *std::move(made) : nullptr;
}

// Both sides have one courier; the later member makes the connections.
void peers::add(const spec::node_member& of) {
  auto made = std::make_shared<one>();
  made->of = this;
  made->is = of;
  made->epoch = of.epoch;
  made->away_since = base::now();
  wire::courier::settings how{.self = with_.self,
                              .epoch = epoch_,
                              .peer = of.process,
                              .out = {.requests = most_requests, .bytes = most_bytes},
                              .in = {.requests = most_requests, .bytes = most_bytes},
                              .answers_wait = 500us};
  how.on_arrival = [this] { job_->ask(); };
  one* const raw = made.get();
  if (epoch_ > of.epoch) {
    how.dial = [this, raw] { return dial(*raw); };
  }
  made->mail = std::make_unique<wire::courier>(std::move(how), *made);
  {
    const std::lock_guard lock(mutex_);
    all_.emplace(of.epoch, made);
  }
}

// With the lock.
void peers::note_name(const spec::node_member& of) {
  if (of.is != spec::node_state::ended) {
    ended_.erase(of.who.name);
  } else if (ended_.size() < most_ended) {
    ended_.insert(of.who.name);
  }
}

// Of the youngest: who asks has had something of it a moment ago.
void peers::note_end(std::uint64_t member, const std::string& why) {
  lost_.insert_or_assign(member, why);
  if (lost_.size() > most_ended) lost_.erase(lost_.begin());
}

std::string peers::how_lost(std::uint64_t member) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = lost_.find(member); found != lost_.end()) return found->second;
  const auto there = all_.find(member);
  const bool is_lost = there != all_.end() && there->second->is_given_up.load();
  return is_lost ? told_of(there->second->is, out_of_reach) : std::string();
}

bool peers::has_ended(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return ended_.contains(name);
}

void peers::see(const spec::node_member& of) {
  const bool has_ended = of.is == spec::node_state::ended;
  const std::string why = has_ended ? told_of(of, of.cause) : std::string();  // it may throw
  const bool is_news = of.epoch > heard_of_;
  heard_of_ = std::max(heard_of_, of.epoch);
  if (is_news) job_->ask();
  if (!does_work(of) || of.process == with_.self || of.who.address.empty()) return;
  one_ptr gone;
  bool is_new = false;
  bool has_moved = false;  // a head that was started again did not know it from the start
  {
    const std::lock_guard lock(mutex_);
    note_name(of);
    if (has_ended) note_end(of.epoch, why);
    const auto known = all_.find(of.epoch);
    is_new = known == all_.end() && of.is != spec::node_state::ended;
    if (known != all_.end() && of.is == spec::node_state::ended) {
      gone = std::move(known->second);
      all_.erase(known);
    } else if (known != all_.end()) {
      has_moved = known->second->is.who.machine != of.who.machine;
      known->second->is = of;
    }
  }
  // First: what it has said already is handled as it is added.
  if ((is_new || has_moved) && epoch_ != 0) tell_.on_joined(*this, of);
  if (is_new) add(of);
  job_->ask();
  // It may have come and gone before the head could tell this one: others may have lent to it.
  if (gone != nullptr || (is_news && has_ended)) tell_.on_gone(*this, of.epoch, why);
  tell_.on_news(*this);
}

void peers::accept(std::unique_ptr<wire::link> from, const wire::greeting& by) {
  one_ptr known;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(
        all_, [&](const auto& other) { return other.second->is.process == by.sender; });
    if (found != all_.end()) known = found->second;
  }
  if (known != nullptr) {
    known->mail->attach(std::move(from));
  } else if (early_.size() < most_early) {
    early_[by.sender] = std::move(from);
  }
  job_->ask();
}

std::vector<peers::one_ptr> peers::living() const {
  const std::lock_guard lock(mutex_);
  std::vector<one_ptr> out;
  out.reserve(all_.size());
  for (const auto& [epoch, other] : all_) out.push_back(other);
  return out;
}

base::deadline peers::turn() {
  if (epoch_ == 0) return std::nullopt;
  const base::time_point now = base::now();
  if (newest_.exchange(heard_of_) != heard_of_) has_news_.store(true);
  try {
    return look_at_all(now);
  } catch (const std::bad_alloc&) {
    return now + until_memory;
  }
}

base::deadline peers::look_at_all(base::time_point now) {
  base::deadline due = tell_.on_turn(*this, now);
  bool has_news = has_news_.exchange(false);
  for (const one_ptr& other : living()) {
    // Not as it is added: what has come over it may name members of which the head is just telling.
    if (const auto early = early_.extract(other->is.process)) {
      other->mail->attach(std::move(early.mapped()));
    }
    other->mail->pump(now);
    if (!other->flush()) give_up(*other);
    const bool is_linked = other->mail->is_linked();
    if (other->has_link.exchange(is_linked) != is_linked) {
      has_news = true;
      other->had_link.store(true);
      other->away_since = now;
      other->is_given_up = false;
    }
    base::deadline its = other->mail->due();
    if (!is_linked && !other->is_given_up.load()) {
      const base::time_point limit = other->away_since + with_.dead_after;
      its = its.has_value() ? std::min(*its, limit) : limit;
      if (now >= limit) give_up(*other);
    }
    if (its.has_value() && (!due.has_value() || *its < *due)) due = its;
  }
  if (has_news) tell_.on_news(*this);
  return due;
}

// The head hears it, and this process does not: what it was given would wait for ever.
void peers::give_up(one& on) {
  on.is_given_up = true;
  tell_.on_gone(*this, on.is.epoch, told_of(on.is, out_of_reach));
}

bool peers::has_room_for_part(std::uint64_t to) const {
  const one_ptr other = find(to);
  return other == nullptr || other->is_given_up.load() ||
         other->mail->unanswered_bytes() <= most_parts_bytes;
}

void peers::tell_news() {
  has_news_.store(true);
  job_->ask();
}

void peers::turn_soon() {
  const user here(*this);
  if (!is_over_.load()) job_->ask();
}

bool peers::has(std::uint64_t member) const {
  const std::lock_guard lock(mutex_);
  return all_.contains(member);
}

bool peers::can_reach(std::uint64_t member) const {
  if (is_over_.load()) return false;
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(member);
  return found != all_.end() && !found->second->is_given_up.load();
}

bool peers::is_quiet() const {
  const user here(*this);
  if (is_over_.load()) return true;
  return std::ranges::all_of(living(), [](const one_ptr& other) { return other->is_quiet(); });
}

peers::one_ptr peers::find(std::uint64_t member) const {
  if (is_over_.load()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(member);
  return found == all_.end() ? nullptr : found->second;
}

result<void> peers::send(std::uint64_t to, const base::id& request,
                         std::span<const std::span<const std::byte>> pieces, std::size_t size,
                         bool ignores_limits) {
  const user here(*this);
  const one_ptr other = find(to);
  if (other == nullptr) return error(errc::node_lost, "the node is no member of the cluster");
  result<void> is = other->send(request, pieces, size, ignores_limits);
  try {
    if (is) job_->ask();
  } catch (const std::bad_alloc&) {
    // It leaves with the next turn, and the head has something to say four times a second.
  }
  return is;
}

result<void> peers::send(std::uint64_t to, const base::id& request,
                         std::span<const std::span<const std::byte>> pieces, std::size_t size) {
  return send(to, request, pieces, size, false);
}

// With the lock.
peers::member peers::member_of(std::uint64_t epoch, const one& other) {
  const spec::node_member& is = other.is;
  return {.epoch = epoch,
          .workers = std::max<std::uint32_t>(is.who.workers, 1),
          .load = is.load,
          .takes_work = takes_work(other),
          .takes_actors = takes_actors(other)};
}

std::vector<peers::member> peers::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<member> out;
  out.reserve(all_.size());
  for (const auto& [epoch, other] : all_) out.push_back(member_of(epoch, *other));
  return out;
}

std::vector<peers::member> peers::some(std::size_t most, std::uint64_t from) const {
  const std::lock_guard lock(mutex_);
  std::vector<member> out;
  out.reserve(std::min(most, all_.size()));
  if (all_.empty()) return out;
  const std::uint64_t first = all_.begin()->first;
  auto at = all_.lower_bound(first + from % (all_.rbegin()->first - first + 1));
  for (std::size_t seen = 0; seen < all_.size() && out.size() < most; ++seen, ++at) {
    if (at == all_.end()) at = all_.begin();
    if (takes_work(*at->second)) out.push_back(member_of(at->first, *at->second));
  }
  return out;
}

spec::node_introduction peers::introduction_of(std::uint64_t member) const {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(member);
  return found == all_.end() ? spec::node_introduction{} : found->second->is.who;
}

peers::bulk_place peers::bulk_place_of(std::uint64_t member) const {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(member);
  if (found == all_.end()) return {};
  return {found->second->is.process, found->second->is.who.bulk};
}

std::vector<std::string> peers::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [epoch, other] : all_) {
    if (is_there(*other)) out.push_back(other->is.who.name);
  }
  return out;
}

std::uint64_t peers::named(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [epoch, other] : all_) {
    if (is_there(*other) && other->is.who.name == name) return epoch;
  }
  return 0;
}

// With the lock.
bool peers::is_there(const one& other) noexcept {
  return other.is.is == spec::node_state::alive && !other.is_given_up.load();
}

// With the lock.
bool peers::takes_actors(const one& other) noexcept {
  return takes_work(other) || (other.is.is == spec::node_state::alive && !other.had_link.load());
}

// With the lock.
bool peers::takes_work(const one& other) noexcept {
  return other.is.is == spec::node_state::alive && other.has_link.load();
}

std::uint64_t peers::any(std::size_t turn) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto can = [](const auto& other) { return takes_work(*other.second); };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(all_, can));
  if (count == 0) return 0;
  std::size_t before = turn % count;
  const auto found =
      std::ranges::find_if(all_, [&](const auto& other) { return can(other) && before-- == 0; });
  return found == all_.end() ? 0 : found->first;  // a link may have ended meanwhile
}

peers& open_peers(const std::atomic<peers*>& held) {
  peers* const out = held.load();
  if (out == nullptr) exec::ended_error().raise();
  return *out;
}

std::string text_of_places(const std::vector<wire::socket_address>& places) {
  std::string out;
  const auto add = [&](const std::string& one) {
    if (out.size() + one.size() + 1 > wire::limits::name_bytes) return;
    out += (out.empty() ? "" : " ") + one;
  };
  for (const wire::socket_address& one : places) {
    if (!one.is_any()) {
      add(one.text());
      continue;
    }
    const std::vector<wire::endpoint> numbers = own_numbers(one.port());
    for (const wire::endpoint& place : numbers) add(place.text());
    if (numbers.empty()) add("127.0.0.1:" + std::to_string(one.port()));
  }
  return out;
}

std::vector<wire::socket_address> places_of(const std::string& text) {
  std::vector<wire::socket_address> out;
  for (std::size_t from = 0; from < text.size() && out.size() < most_places_of_one;) {
    const std::size_t to = std::min(text.find(' ', from), text.size());
    const auto place = wire::endpoint::parse(std::string_view(text).substr(from, to - from));
    if (place) {
      const auto at = wire::resolve(*place, 0ms);  // numbers, as text_of_places writes them
      if (at) out.insert(out.end(), at->begin(), at->end());
    }
    from = to + 1;
  }
  return out;
}

}  // namespace manta::inline v0::node
