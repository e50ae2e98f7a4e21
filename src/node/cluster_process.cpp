// SPDX-License-Identifier: Apache-2.0
#include "node/cluster_process.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "node/copy_cache.hpp"
#include "node/far_arrays.hpp"
#include "node/far_copies.hpp"
#include "node/far_futures.hpp"
#include "node/far_handles.hpp"
#include "node/far_names.hpp"
#include "node/far_pulls.hpp"
#include "node/head_facts.hpp"
#include "node/node_things.hpp"

namespace manta::inline v0::node {

namespace {

// The first is that of the connection that was there; the others nobody has answered.
constexpr unsigned most_losses = 3;

}  // namespace

result<std::unique_ptr<cluster_process>> cluster_process::start(settings with) {
  std::unique_ptr<cluster_process> made(new cluster_process(std::move(with)));
  if (const result<void> is = made->open(); !is) return is.error();
  made->begin();
  return made;
}

result<void> cluster_process::open() {
  result<std::unique_ptr<wire::loop>> started = wire::loop::start({});
  if (!started) return started.error();
  loop_ = *std::move(started);
  const wire::greeting self = greeting();
  if (with_.work != nullptr) {
    peers_ = std::make_unique<peers>(*loop_,
                                     peers::settings{.self = with_.process,
                                                     .sockets = with_.sockets,
                                                     .cluster = [this] { return known_cluster(); },
                                                     .dead_after = with_.how.dead_after},
                                     *with_.work);
  }
  // First, since who connects asks it; it does nothing before begin().
  job_ = std::make_unique<wire::loop_job>(*loop_, [this] { return turn(); });
  for (const wire::endpoint& place : with_.places) {
    auto opened = wire::socket_listener::open(
        *loop_, place, self,
        [this](std::unique_ptr<wire::link> from, const wire::greeting& peer) {
          take_in(std::move(from), peer);
        },
        with_.sockets);
    if (!opened) return opened.error();
    addresses_.push_back((*opened)->address());
    listeners_.push_back(*std::move(opened));
  }
  if (with_.who.has_value()) {
    self_ = *with_.who;
    if (with_.work != nullptr) self_.address = text_of_places(addresses_);
    if (with_.work != nullptr) open_bulk();
  }
  return {};
}

// Without it others ask by messages, and so does this process.
void cluster_process::open_bulk() {
  auto made = bulk_way::open(with_.process, addresses_, with_.sockets);
  if (!made) return;
  bulk_ = *std::move(made);
  self_.bulk = bulk_->text();
  far_pulls::global().open_way(bulk_->station(), !bulk_->text().empty());
}

// Who is no head has nothing to say to members; and a connection that nobody takes ends.
void cluster_process::take_in(std::unique_ptr<wire::link> from, const wire::greeting& peer) {
  if (peer.as == wire::guest_kind::peer) {
    if (peers_ != nullptr) peers_->accept(std::move(from), peer);
    return;
  }
  if (with_.rows == nullptr) return;
  if (peer.as == wire::guest_kind::asker) {
    if (office_ != nullptr) office_->accept(std::move(from), peer);
    return;
  }
  came_.push_back({std::move(from), peer.as == wire::guest_kind::observer});
  job_->ask();
}

void cluster_process::begin() {
  loop_->post([this] {
    has_begun_ = true;
    job_->ask();
  });
}

cluster_process::~cluster_process() {
  listeners_.clear();
  if (job_ != nullptr) job_->stop();
  // Links ask the job until they have ended.
  if (peers_ != nullptr) {
    far_names::global().stop_answering();
    far_futures::global().stop_answering();
    node_things::global().stop_answering();
    head_facts::global().stop_answering();
    far_arrays::global().close();  // if it was never in the trade
    far_handles::global().close();
    peers::retire(std::move(peers_));
  } else if (office_ != nullptr) {
    head_facts::global().stop_answering();
  }
  office_.reset();
  {
    const std::lock_guard lock(mutex_);
    line_.reset();
  }
  if (bulk_ != nullptr) {
    far_pulls::global().close();  // if it was never in the trade
    far_pulls::global().close_way(bulk_->station());
  }
  bulk_.reset();
  // What landed as this ended may have been kept after the end of all else that uses it.
  copy_cache::global().clear();
  far_copies::global().close();
  came_.clear();
  head_.reset();
  member_.reset();
  job_.reset();
}

base::id cluster_process::known_cluster() const noexcept {
  if (with_.cluster != base::id{}) return with_.cluster;
  return member_ != nullptr ? member_->cluster() : base::id{};
}

wire::greeting cluster_process::greeting() const noexcept {
  return {.cluster = with_.cluster,
          .sender = with_.process,
          .epoch = with_.epoch,
          .as = with_.looks ? wire::guest_kind::observer : wire::guest_kind::member};
}

std::unique_ptr<wire::link> cluster_process::dial() {
  auto made = wire::connect(*loop_, head_addresses(), greeting(), with_.sockets);
  if (!made) return nullptr;
  (*made)->on_arrival([this] { job_->ask(); });
  return *std::move(made);
}

std::vector<wire::socket_address> cluster_process::head_addresses() const {
  const std::lock_guard lock(mutex_);
  if (!moved_.empty()) return moved_;
  return with_.head.empty() ? addresses_ : with_.head;
}

std::string cluster_process::head_text() const {
  std::string out;
  for (const wire::socket_address& one : head_addresses()) {
    out += (out.empty() ? "" : ", ") + one.text();
  }
  return out;
}

base::deadline cluster_process::turn() {
  if (!has_begun_) return std::nullopt;
  const base::time_point now = base::now();
  if (head_ == nullptr && with_.rows != nullptr) {
    head_ = std::make_unique<cluster_head>(with_.how, with_.process, *with_.rows,
                                           [this] { job_->ask(); });
    if (!with_.who.has_value()) {
      const auto lives = [this](const base::id& process) {
        return head_->roll() != nullptr && head_->roll()->has(process);
      };
      office_ = std::make_unique<head_office>(with_.process, lives, [this] { job_->ask(); });
    }
  }
  if (member_ == nullptr && with_.who.has_value()) {
    member_ = std::make_unique<cluster_member>(
        with_.how, with_.process, self_, [this] { return dial(); }, static_cast<visitor&>(*this),
        now);
  }
  obey(now);
  base::time_point due = base::time_point::max();
  if (head_ != nullptr) {
    for (guest& one : came_) head_->accept(std::move(one.link), one.looks);
    came_.clear();
    head_->pump(now);
    look_at_head();
    due = std::min(due, head_->due());
  }
  if (office_ != nullptr) {
    office_->pump(now);
    due = std::min(due, office_->due().value_or(due));
  }
  if (member_ != nullptr && !gives_up_) {
    pump_member(now);
    due = std::min(due, member_->due());
    due = std::min(due, pump_head_line(now).value_or(due));
  }
  gather();
  return due == base::time_point::max() ? base::deadline() : base::deadline(due);
}

void cluster_process::pump_member(base::time_point now) {
  if (with_.load && now - measured_ >= with_.how.heartbeat / 2) {
    measured_ = now;
    member_->set_load(with_.load());
  }
  member_->pump(now);
  // Told when it has the view that came with it, too.
  const std::lock_guard lock(mutex_);
  head_process_ = member_->head_process();
  if (epoch_ == joined_) return;
  epoch_ = joined_;
  changed_.notify_all();
}

// A head that was started again is another process.
base::deadline cluster_process::pump_head_line(base::time_point now) {
  std::shared_ptr<head_line> line;
  {
    const std::lock_guard lock(mutex_);
    if (!asks_head_) return std::nullopt;
    line = line_;
  }
  const base::id head = member_->head_process();
  if (line == nullptr || line->head() != head) {
    const std::shared_ptr<head_line> before = std::move(line);
    head_line::settings how{.self = with_.process, .epoch = joined_, .head = head};
    how.dial = [this, head] { return dial_line(head); };
    how.wake = [this] { job_->ask(); };
    line = std::make_shared<head_line>(std::move(how), before.get());
    const std::lock_guard lock(mutex_);
    line_ = line;
    changed_.notify_all();
    if (before != nullptr) head_facts::global().head_is_another(before->posted());
  }
  line->pump(now);
  return line->due();
}

std::unique_ptr<wire::link> cluster_process::dial_line(const base::id& head) {
  // One that was started again has drawn another number for the cluster.
  const wire::greeting self{
      .sender = with_.process, .wanted = head, .epoch = joined_, .as = wire::guest_kind::asker};
  auto made = wire::connect(*loop_, head_addresses(), self, with_.sockets);
  return made ? *std::move(made) : nullptr;
}

void cluster_process::ask_head() {
  std::unique_lock lock(mutex_);
  asks_head_ = true;
  job_->ask();
  changed_.wait(lock, [this] { return line_ != nullptr || is_over_; });
}

bool cluster_process::post_to_head(std::uint64_t number, head_line::pieces message,
                                   std::size_t size) {
  for (;;) {
    std::shared_ptr<head_line> line;
    {
      const std::lock_guard lock(mutex_);
      line = line_;
    }
    if (line == nullptr) return false;
    const head_line::taken is = line->send(number, message, size);
    if (is != head_line::taken::replaced) return is == head_line::taken::yes;
    std::this_thread::yield();  // the next one is about to be there
  }
}

void cluster_process::obey(base::time_point now) {
  std::optional<duration> drains;
  std::optional<std::string> dissolves;
  bool is_idle = false;
  {
    const std::lock_guard lock(mutex_);
    drains = std::exchange(drains_, std::nullopt);
    is_idle = std::exchange(is_idle_, false);
    dissolves = std::exchange(dissolves_, std::nullopt);
  }
  if (drains.has_value() && member_ != nullptr) member_->drain(*drains, now);
  if (is_idle && member_ != nullptr) member_->idle(now);
  if (dissolves.has_value() && head_ != nullptr) {
    head_->dissolve(*dissolves);
    is_dissolving_ = true;
  }
}

void cluster_process::look_at_head() {
  if (head_->failure().has_value()) on_over(head_->failure());
  const std::lock_guard lock(mutex_);
  const bool is_dissolved = is_dissolving_ && head_->roll() != nullptr &&
                            head_->roll()->members().empty() && head_->is_quiet();
  if (is_dissolved == is_dissolved_) return;
  is_dissolved_ = is_dissolved;
  changed_.notify_all();
}

// Who has been a member counts, though it has left: with spmd a rank may come to its end before
// another one has come. The head knows that of all, and the view only of those that stayed.
void cluster_process::gather() {
  if (with_.expects == 0 || head_ == nullptr || head_->roll() == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (is_gathered_) return;
  bool is_known = true;
  for (spec::node_member& one : head_->roll()->members()) {
    is_known = is_known && view_.contains(one.process);
    gathered_.insert(std::move(one.who.name));
  }
  is_gathered_ = is_known && gathered_.size() >= with_.expects;
  if (is_gathered_) changed_.notify_all();
}

// ---- what the seat says

void cluster_process::on_joined(std::uint64_t epoch) {
  if (peers_ != nullptr) peers_->begin(epoch);
  const std::lock_guard lock(mutex_);
  joined_ = epoch;
  if (with_.looks) return;
  spec::node_member self{.who = self_, .process = with_.process, .epoch = epoch};
  view_.insert_or_assign(with_.process, std::move(self));
}

void cluster_process::on_changed(const spec::node_member& one) {
  if (peers_ != nullptr) peers_->see(one);
  const std::lock_guard lock(mutex_);
  if (one.is == spec::node_state::ended) {
    view_.erase(one.process);
  } else {
    view_.insert_or_assign(one.process, one);
  }
  changed_.notify_all();
}

// Another token, cluster or version stays what it is, however often it is tried. A unix socket that
// nobody listens at any more is that of a process that has ended.
void cluster_process::on_lost(const error& why) {
  ++losses_;
  std::optional<error> end;
  {
    const std::lock_guard lock(mutex_);
    lost_ = why;
    if (epoch_ == 0 && why.code() == errc::unsupported) end = why;
    if (epoch_ != 0 && with_.ends_with_head && losses_ > most_losses) {
      end = error(
          errc::node_lost,
          "the driver of this job has ended without a word, and with it the job: " + why.message());
    }
  }
  if (!end.has_value()) return;
  gives_up_ = true;
  on_over(end);
}

void cluster_process::on_over(const std::optional<error>& why) {
  std::function<void(const std::optional<error>&)> tell;
  const std::string asked = head_text();
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    is_over_ = true;
    why_ = why;
    if (why.has_value() && epoch_ == 0 && why->code() == errc::timed_out) {
      // Where packets are lost no try has failed yet.
      const std::string more =
          lost_.has_value() ? "the last try: " + lost_->message() : "asked was " + asked;
      why_ = error(why->code(), why->message() + " (" + more + ")");
    }
    tell = tell_over_;
    changed_.notify_all();
  }
  if (tell) tell(why);
}

bool cluster_process::wait_joined_for(duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return epoch_ != 0 || is_over_; });
}

std::uint64_t cluster_process::head_member() const {
  const std::lock_guard lock(mutex_);
  const auto found = view_.find(head_process_);
  const bool is_other = found != view_.end() && head_process_ != with_.process;
  return is_other ? found->second.epoch : 0;
}

std::optional<error> cluster_process::last_loss() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void cluster_process::redirect(std::vector<wire::socket_address> head) {
  const std::lock_guard lock(mutex_);
  moved_ = std::move(head);
}

void cluster_process::tell_over(std::function<void(const std::optional<error>&)> tell) {
  const std::lock_guard lock(mutex_);
  tell_over_ = std::move(tell);
  if (!is_over_ || !tell_over_) return;
  loop_->post([tell = tell_over_, why = why_] { tell(why); });
}

// ---- for the other threads

result<std::uint64_t> cluster_process::wait_joined() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return epoch_ != 0 || is_over_; });
  if (epoch_ != 0) return epoch_;
  if (why_.has_value()) return *why_;
  return error(errc::cancelled,
               "node: asked to join a cluster, which is over already; start the program again");
}

bool cluster_process::wait_gathered(duration limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return is_gathered_ || is_over_; });
  return is_gathered_ && !is_over_;
}

std::set<std::string> cluster_process::gathered() const {
  const std::lock_guard lock(mutex_);
  return gathered_;
}

std::optional<error> cluster_process::wait_over() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_over_; });
  return why_;
}

bool cluster_process::wait_over_for(duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return is_over_; });
}

bool cluster_process::wait_dissolved(duration limit) {
  std::unique_lock lock(mutex_);
  const base::time_point until = base::after(limit);
  // Whether all have heard is known by asking again: an answer is no message.
  while (!is_dissolved_ && base::now() < until) {
    lock.unlock();
    job_->ask();
    lock.lock();
    changed_.wait_for(lock, std::chrono::milliseconds(1), [this] { return is_dissolved_; });
  }
  return is_dissolved_;
}

void cluster_process::drain(duration limit) {
  const std::lock_guard lock(mutex_);
  drains_ = limit;
  job_->ask();
}

void cluster_process::idle() {
  const std::lock_guard lock(mutex_);
  is_idle_ = true;
  job_->ask();
}

void cluster_process::dissolve(const std::string& why) {
  const std::lock_guard lock(mutex_);
  dissolves_ = why;
  job_->ask();
}

std::vector<spec::node_member> cluster_process::members() const {
  std::vector<spec::node_member> out;
  {
    const std::lock_guard lock(mutex_);
    out.reserve(view_.size());
    for (const auto& [process, one] : view_) out.push_back(one);
  }
  std::ranges::sort(out, {}, [](const spec::node_member& one) { return one.who.name; });
  return out;
}

std::uint64_t cluster_process::epoch() const {
  const std::lock_guard lock(mutex_);
  return epoch_;
}

}  // namespace manta::inline v0::node
