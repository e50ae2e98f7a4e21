// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "node/cluster_mail.hpp"
#include "spec/cluster.hpp"
#include "wire/message.hpp"

namespace sim {

namespace {

using namespace std::chrono_literals;
using manta::base::id;
using manta::life::membership_settings;
using manta::node::cluster_head;
using manta::node::cluster_member;
using manta::spec::node_member;
using manta::spec::node_state;
using manta::wire::arrival;
using manta::wire::courier;
using manta::wire::link;
namespace wire = manta::wire;
using what = entry::what;

const std::string head_host = "head";
std::string host_of(std::size_t slot) { return fmt::format("n{}", slot); }

// Changes what a member says and hears: as a broken build of it would.
class tampering_link final : public link {
 public:
  tampering_link(std::unique_ptr<link> inner, plant how) : inner_(std::move(inner)), how_(how) {}

  manta::result<void> send(std::span<const std::span<const std::byte>> pieces,
                           std::size_t size) override {
    wire::frame_buffer frame;
    std::byte* to = frame.reset(size).data();
    for (const auto piece : pieces) to = std::copy(piece.begin(), piece.end(), to);
    const auto read = reader_.read(frame.bytes());
    auto said = std::get<wire::heartbeat_view>(read->body);
    if (how_ == plant::news_not_repeated) said.revision = UINT64_MAX;
    static_cast<void>(writer_.write(read->head, said));
    return inner_->send(writer_.pieces(), writer_.size_bytes());
  }
  got take(wire::frame_buffer& to) override {
    for (;;) {
      const got came = inner_->take(to);
      if (came != got::message || how_ != plant::end_not_heard) return came;
      const auto read = reader_.read(to.bytes());
      const auto& said = std::get<wire::bulletin_view>(read->body);
      if (said.verdict != manta::spec::node_verdict::ended) return came;
    }
  }
  bool wait(std::chrono::nanoseconds time) override { return inner_->wait(time); }
  void on_arrival(std::function<void()> tell) override { inner_->on_arrival(std::move(tell)); }
  void close() override { inner_->close(); }
  wire::link_state state() const override { return inner_->state(); }

 private:
  std::unique_ptr<link> inner_;
  const plant how_;
  wire::message_reader reader_;
  wire::message_writer writer_;
};

class cluster;

// What runs pump() of something: soon when something came, and when it is due.
class pump_timer {
 public:
  pump_timer(world& in, std::function<time_point()> pump)
      : in_(in), self_(std::make_shared<state>()) {
    self_->pump = std::move(pump);
  }
  ~pump_timer() { self_->is_gone = true; }
  pump_timer(const pump_timer&) = delete;
  pump_timer& operator=(const pump_timer&) = delete;

  void soon() { arm(in_.now() + 10us); }
  void stop() { self_->is_stopped = true; }
  void go_on() {
    self_->is_stopped = false;
    soon();
  }

 private:
  struct state {
    std::function<time_point()> pump;
    time_point next = time_point::max();
    bool is_gone = false;
    bool is_stopped = false;
  };
  void arm(time_point when) { arm(in_, self_, when); }
  static void arm(world& in, const std::shared_ptr<state>& self, time_point when) {
    if (when >= self->next) return;
    self->next = when;
    in.at(when, [&in, self, when] {
      if (self->is_gone || self->next != when) return;
      self->next = time_point::max();
      if (self->is_stopped) return;  // go_on() pumps
      const time_point due = self->pump();
      if (!self->is_gone) arm(in, self, std::max(due, in.now() + 1us));
    });
  }

  world& in_;
  std::shared_ptr<state> self_;
};

// A process that is a member, or wants to be.
class process final : public cluster_member::visitor {
 public:
  process(cluster& in, std::size_t slot, const id& name);

  void on_joined(std::uint64_t epoch) override;
  void on_changed(const node_member& one) override;
  void on_over(const std::optional<manta::error>& why) override;

  time_point pump();
  void accept(std::unique_ptr<link> from, const caller& by);
  void work();
  void drain();
  std::map<std::uint64_t, std::uint64_t> view() const;
  const std::string& host() const { return host_; }

  const id name;
  bool is_over = false;
  pump_timer timer;

 private:
  // Requests to and from one other process.
  struct peer final : courier::visitor {
    void on_request(const arrival& came) override;
    void on_answer(const id& request, std::span<const std::byte> answer) override;

    process* of = nullptr;
    id other;
    std::unique_ptr<courier> mail;
    std::map<std::uint64_t, std::uint64_t> open;  // ids' low halves -> number of the request
  };
  void meet(const node_member& one);
  peer& make_peer(const id& other, courier::settings how);
  std::unique_ptr<link> dial(const std::string& to, const id& wanted);
  void ask(peer& whom, std::uint64_t number);
  void note(what is, std::uint64_t other = 0, std::uint64_t number = 0, std::string why = {});

  cluster& in_;
  const std::string host_;
  std::uint64_t epoch_ = 0;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_request_ = 0;
  int dials_ = 0;
  std::map<id, std::unique_ptr<peer>, bool (*)(const id&, const id&)> peers_;
  std::unique_ptr<cluster_member> member_;
};

class cluster {
 public:
  explicit cluster(const run_settings& with)
      : with_(with), world_(with.seed * 2 + 1), net_(world_), disk_(world_) {
    if (with.has_bad_network) {
      net_.faults.lose = 60;
      net_.faults.repeat = 40;
      net_.faults.delay = 40;
    }
    disk_.answers_early = with.broken == plant::epoch_before_disk;
    disk_.forgets_epoch = with.broken == plant::epoch_not_kept;
    disk_.forgets_rows = with.broken == plant::rows_not_kept;
    slots_.resize(with.nodes);
  }

  outcome run(const std::vector<fault>& faults) {
    const time_point begin = world_.now();
    start_head();
    for (std::size_t i = 0; i < with_.nodes; ++i) {
      world_.after(world_.any(500ms), [this, i] { start(i); });
    }
    for (const fault& one : faults) {
      world_.at(begin + one.at, [this, one] { apply(one); });
    }
    world_.at(begin + with_.storm, [this] { calm_down(); });
    world_.run_until(begin + with_.storm + with_.calm);
    outcome out{.end = world_.now()};
    for (const auto& slot : slots_) {
      if (slot != nullptr && !slot->is_over) out.views[slot->name.low] = slot->view();
    }
    out.log = std::move(log_);
    out.carried = net_.has;
    out.events = world_.events();
    return out;
  }

  void log(entry one) {
    one.at = world_.now();
    log_.push_back(std::move(one));
  }
  membership_settings settings(bool is_head) const {
    membership_settings out;
    out.join_limit = 1h;  // the head may be away for as long as it likes
    out.head_wait = 1h;
    if (is_head && with_.broken == plant::too_impatient) out.dead_after = 1s;
    if (is_head && with_.broken == plant::too_impatient) out.suspect_after = 500ms;
    if (is_head && with_.broken == plant::too_patient) out.dead_after = 1h;
    if (is_head && with_.broken == plant::too_patient) out.closed_grace = 1h;
    return out;
  }
  bool is_here(const std::string& host, const id& who) const;
  /// Its process has ended by itself.
  void gone(std::size_t slot) {
    world_.after(1ms, [this, slot] {
      if (slots_[slot] == nullptr || !slots_[slot]->is_over) return;
      slots_[slot] = nullptr;
      net_.end_host(host_of(slot));
      restart_later(slot);
    });
  }

  const run_settings with_;
  world world_;
  network net_;

 private:
  void start_head() {
    if (head_ != nullptr) return;
    store_ = std::make_unique<disk_store>(disk_);
    head_timer_ = std::make_unique<pump_timer>(world_, [this] {
      const auto is_open = [this] { return head_->roll() != nullptr && head_->roll()->is_open(); };
      const bool was_open = is_open();
      head_->pump(world_.now());
      if (!was_open && is_open()) {
        log({.is = what::head_began, .epoch = head_->roll()->epoch()});
      }
      return head_->due();
    });
    head_ = std::make_unique<cluster_head>(settings(true), id{1, ++heads_}, *store_,
                                           [this] { head_timer_->soon(); });
    net_.listen(head_host, [this](std::unique_ptr<link> from, const caller& /*by*/) {
      from->on_arrival([this] { head_timer_->soon(); });
      head_->accept(std::move(from));
      head_timer_->soon();
    });
    head_timer_->soon();
  }
  void crash_head(duration away) {
    if (head_ == nullptr) return;
    log({.is = what::head_ended});
    net_.end_host(head_host);
    head_timer_ = nullptr;
    head_ = nullptr;
    disk_.crash();
    store_ = nullptr;
    world_.after(away, [this] { start_head(); });
  }

  void start(std::size_t slot) {
    if (slots_[slot] != nullptr) return;
    slots_[slot] = std::make_unique<process>(*this, slot, id{2, ++processes_});
    net_.listen(host_of(slot), [this, slot](std::unique_ptr<link> from, const caller& by) {
      slots_[slot]->accept(std::move(from), by);
    });
    if (net_.is_cut(host_of(slot), head_host)) impair(slot, what::impaired);
    slots_[slot]->timer.soon();
  }
  void restart_later(std::size_t slot) {
    world_.after(500ms + world_.any(2s), [this, slot] { start(slot); });
  }
  void impair(std::size_t slot, what is) {
    if (slots_[slot] != nullptr) log({.is = is, .process = slots_[slot]->name.low});
  }
  void crash(std::size_t slot) {
    if (slots_[slot] == nullptr) return;
    log({.is = what::crashed, .process = slots_[slot]->name.low});
    net_.end_host(host_of(slot));
    slots_[slot] = nullptr;
    restart_later(slot);
  }
  void stop(std::size_t slot, duration lasts) {
    if (slots_[slot] == nullptr) return;
    slots_[slot]->timer.stop();
    impair(slot, what::impaired);
    const id who = slots_[slot]->name;
    world_.after(lasts, [this, slot, who] {
      if (slots_[slot] == nullptr || slots_[slot]->name != who) return;
      impair(slot, what::restored);
      slots_[slot]->timer.go_on();
    });
  }
  void cut(std::size_t slot, duration lasts) {
    if (net_.is_cut(host_of(slot), head_host)) return;
    net_.cut(host_of(slot), head_host);
    impair(slot, what::impaired);
    world_.after(lasts, [this, slot] {
      net_.heal(host_of(slot), head_host);
      impair(slot, what::restored);
    });
  }
  void apply(const fault& one) {
    const std::string host = host_of(one.whom);
    switch (one.is) {
      case fault::what::crash:
        return crash(one.whom);
      case fault::what::start:
        return start(one.whom);
      case fault::what::stop:
        return stop(one.whom, one.lasts);
      case fault::what::cut:
        return cut(one.whom, one.lasts);
      case fault::what::cut_peers:
        net_.cut(host, host_of(one.other));
        return world_.after(one.lasts,
                            [this, host, other = host_of(one.other)] { net_.heal(host, other); });
      case fault::what::reset:
        impair(one.whom, what::reset);
        return net_.reset(host, head_host);
      case fault::what::drain:
        if (slots_[one.whom] != nullptr) slots_[one.whom]->drain();
        return;
      case fault::what::head_crash:
        return crash_head(one.lasts);
      case fault::what::head_stop:
        if (head_timer_ == nullptr) return;
        head_timer_->stop();
        return world_.after(one.lasts, [this, head = head_.get()] {
          if (head_.get() == head && head != nullptr) head_timer_->go_on();
        });
    }
  }
  void calm_down() {
    net_.faults.lose = 0;
    net_.faults.repeat = 0;
    net_.faults.delay = 0;
    start_head();
    head_timer_->go_on();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i] != nullptr) {
        log({.is = what::restored, .process = slots_[i]->name.low, .number = 1});
      }
      if (slots_[i] != nullptr) slots_[i]->timer.go_on();
    }
    net_.heal_all();
  }

  disk disk_;
  std::vector<entry> log_;
  std::uint64_t heads_ = 0;
  std::uint64_t processes_ = 0;
  std::unique_ptr<disk_store> store_;
  std::unique_ptr<cluster_head> head_;
  std::unique_ptr<pump_timer> head_timer_;
  std::vector<std::unique_ptr<process>> slots_;
};

bool cluster::is_here(const std::string& host, const id& who) const {
  return std::ranges::any_of(slots_, [&](const std::unique_ptr<process>& one) {
    return one != nullptr && one->name == who && host == one->host();
  });
}

process::process(cluster& in, std::size_t slot, const id& own)
    : name(own),
      timer(in.world_, [this] { return pump(); }),
      in_(in),
      host_(host_of(slot)),
      peers_([](const id& a, const id& b) { return a.low < b.low; }) {
  member_ = std::make_unique<cluster_member>(
      in.settings(false), name,
      manta::spec::node_introduction{.name = host_, .address = host_, .host = host_, .pid = 7},
      [this] { return dial(head_host, {}); }, *this, in.world_.now());
  note(what::began);
}

void process::note(what is, std::uint64_t other, std::uint64_t number, std::string why) {
  in_.log({.is = is,
           .process = name.low,
           .other = other,
           .epoch = epoch_,
           .number = number,
           .why = std::move(why)});
}

std::unique_ptr<link> process::dial(const std::string& to, const id& wanted) {
  const bool is_head = to == head_host;
  if (is_head && ++dials_ > 1 && in_.with_.broken == plant::no_new_connection) return nullptr;
  std::unique_ptr<link> made = in_.net_.dial(host_, to, {name, epoch_, wanted});
  made->on_arrival([this] { timer.soon(); });
  const plant how = in_.with_.broken;
  const bool is_tampered =
      is_head && (how == plant::news_not_repeated || how == plant::end_not_heard);
  if (is_tampered) return std::make_unique<tampering_link>(std::move(made), how);
  return made;
}

time_point process::pump() {
  const time_point now = in_.world_.now();
  member_->pump(now);
  time_point next = member_->due();
  for (auto& [other, one] : peers_) {
    one->mail->pump(now);
    if (const auto due = one->mail->due()) next = std::min(next, *due);
  }
  return is_over ? time_point::max() : next;
}

void process::on_joined(std::uint64_t epoch) {
  epoch_ = epoch;
  note(what::joined);
  if (in_.with_.works) work();
}

void process::on_changed(const node_member& one) {
  if (one.is == node_state::ended) {
    note(what::saw_end, one.process.low);
    // What it sends is heard for a while, as long as it has not heard of its end itself.
    in_.world_.after(5s, [this, &in = in_, own = name, slot = host_, other = one.process] {
      if (in.is_here(slot, own)) peers_.erase(other);
    });
  } else if (in_.with_.works && !peers_.contains(one.process)) {
    meet(one);
  }
}

void process::on_over(const std::optional<manta::error>& why) {
  is_over = true;
  note(why ? what::ended : what::left, 0, 0, why ? why->message() : std::string());
  in_.gone(static_cast<std::size_t>(std::stoul(host_.substr(1))));
}

process::peer& process::make_peer(const id& other, courier::settings how) {
  auto made = std::make_unique<peer>();
  made->of = this;
  made->other = other;
  how.self = name;
  how.epoch = epoch_;
  how.peer = other;
  how.on_arrival = [this] { timer.soon(); };
  how.clock = world::clock;
  made->mail = std::make_unique<courier>(std::move(how), *made);
  return *peers_.emplace(other, std::move(made)).first->second;
}

// The one that began first dials, so that there is one connection.
void process::meet(const node_member& one) {
  courier::settings how;
  if (name.low < one.process.low) {
    how.dial = [this, to = one.who.address, who = one.process] { return dial(to, who); };
  }
  make_peer(one.process, std::move(how));
  timer.soon();
}

void process::accept(std::unique_ptr<link> from, const caller& by) {
  using worth = manta::life::seat::worth;
  if (epoch_ == 0 || !in_.with_.works || by.wanted != name) return;  // it may come again
  // Nothing is remembered of one that has ended, so nothing can be handled once.
  if (member_->seat().of(by.process, by.epoch) == worth::stale) return;
  const auto known = peers_.find(by.process);
  peer& one = known != peers_.end() ? *known->second : make_peer(by.process, {});
  from->on_arrival([this] { timer.soon(); });
  one.mail->attach(std::move(from));
  timer.soon();
}

// Every now and then it has something for somebody.
void process::work() {
  in_.world_.after(20ms + in_.world_.any(200ms), [this, own = name, &in = in_, slot = host_] {
    if (!in.is_here(slot, own)) return;
    work();
    if (peers_.empty() || is_over) return;
    auto at = peers_.begin();
    std::advance(at, static_cast<long>(in.world_.random().below(peers_.size())));
    ask(*at->second, ++last_request_);
    timer.soon();
  });
}

void process::ask(peer& whom, std::uint64_t number) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  const std::span<const std::byte> piece = bytes;
  const id request{name.low, ++last_id_};
  if (!whom.mail->request(request, {&piece, 1}, bytes.size())) return;
  whom.open[request.low] = number;
  if (in_.with_.broken != plant::new_ids) return;
  in_.world_.after(200ms,
                   [this, own = name, &in = in_, slot = host_, to = whom.other, request, number] {
                     if (!in.is_here(slot, own) || is_over) return;
                     const auto at = peers_.find(to);
                     if (at != peers_.end() && at->second->open.contains(request.low))
                       ask(*at->second, number);
                   });
}

void process::peer::on_request(const arrival& came) {
  using worth = manta::life::seat::worth;
  std::uint64_t number = 0;
  std::memcpy(&number, came.message.data(), sizeof number);
  const bool is_stale = of->member_->seat().of(other, came.head.epoch) == worth::stale;
  if (!is_stale || of->in_.with_.broken == plant::no_fence) {
    of->note(what::accepted, other.low, number);
  }
  mail->answer(came, {std::byte{1}});
}

void process::peer::on_answer(const id& request, std::span<const std::byte> /*answer*/) {
  open.erase(request.low);
}

void process::drain() {
  note(what::drained);
  if (in_.with_.broken == plant::no_drain) return;
  member_->drain(2s, in_.world_.now());
  timer.soon();
}

std::map<std::uint64_t, std::uint64_t> process::view() const {
  std::map<std::uint64_t, std::uint64_t> out;
  for (const auto& [other, one] : member_->seat().others()) out[other.low] = one.epoch;
  return out;
}

}  // namespace

std::string show(const fault& of) {
  constexpr std::array<const char*, 9> names = {
      "crash of", "start of", "stop of",           "cut from the head:", "cut between",
      "reset of", "drain of", "crash of the head", "stop of the head"};
  return fmt::format("{} ms: {} n{} (n{}), {} ms", of.at / 1ms,
                     names[static_cast<std::size_t>(of.is)], of.whom, of.other, of.lasts / 1ms);
}

std::vector<fault> faults_of(const run_settings& with) {
  dice random(with.seed);
  std::vector<fault> out;
  for (std::size_t i = 0; i < with.faults; ++i) {
    fault one;
    one.at = 1s + duration(random.below(static_cast<std::size_t>((with.storm - 1s).count())));
    one.is = static_cast<fault::what>(random.below(9));
    one.whom = random.below(with.nodes);
    one.other =
        (one.whom + 1 + random.below(std::max<std::size_t>(with.nodes - 1, 1))) % with.nodes;
    one.lasts = std::chrono::milliseconds(50 + random.below(random.one_in(2) ? 1800 : 7000));
    out.push_back(one);
  }
  std::ranges::sort(out, {}, &fault::at);
  return out;
}

outcome run(const run_settings& with, const std::vector<fault>& faults) {
  return cluster(with).run(faults);
}

}  // namespace sim
