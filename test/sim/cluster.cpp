// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "control/cluster_rows.hpp"
#include "control/rows.hpp"
#include "node/cluster_head.hpp"
#include "sim/disk.hpp"
#include "sim/process.hpp"

namespace sim {

namespace {

using namespace std::chrono_literals;
using manta::base::id;
using manta::life::membership_settings;
using manta::node::cluster_head;
using manta::wire::link;
using what = entry::what;

class cluster final : public scene {
 public:
  explicit cluster(const run_settings& s) : scene(s, s.seed * 2 + 1), disk_(time) {
    net.faults.most_latency = s.most_latency;
    net.faults.resets = s.has_resets;
    if (s.has_bad_network) {
      net.faults.lose = 60;
      net.faults.repeat = 40;
      net.faults.delay = 40;
    }
    disk_.answers_early = s.broken == plant::epoch_before_disk;
    disk_.forgets_epoch = s.broken == plant::epoch_not_kept;
    disk_.forgets_rows = s.broken == plant::rows_not_kept;
    disk_.fails_silently = s.broken == plant::failure_not_told;
    disk_.sees = [this](const control::batch& asked) { note_ends(asked); };
    slots_.resize(s.nodes);
  }

  outcome run(const std::vector<fault>& faults) {
    start_head();
    for (std::size_t i = 0; i < with.nodes; ++i) {
      time.after(time.any(500ms), [this, i] { start(i); });
    }
    for (const fault& one : faults) {
      time.at(begin() + one.at, [this, one] { apply(one); });
    }
    time.at(begin() + with.storm, [this] { calm_down(); });
    time.run_until(begin() + with.storm + with.calm);
    outcome out{.end = time.now()};
    for (const auto& slot : slots_) {
      if (slot == nullptr || slot->is_over) continue;
      out.views[slot->name.low] = slot->view();
      out.loads[slot->name.low] = slot->load();
    }
    out.log = std::move(log_);
    out.carried = net.has;
    out.events = time.events();
    return out;
  }

  void log(entry one) override {
    one.at = time.now();
    log_.push_back(std::move(one));
  }
  membership_settings settings(bool of_head) const override {
    membership_settings out = patience_of(with);
    if (!of_head) return out;
    if (with.broken == plant::too_impatient) out.dead_after = 1s;
    if (with.broken == plant::too_impatient) out.suspect_after = 500ms;
    if (with.broken == plant::too_patient) out.dead_after = 1h;
    if (with.broken == plant::too_patient) out.closed_grace = 1h;
    if (with.broken == plant::closed_not_at_once) out.closed_grace = 1s;
    if (with.broken == plant::silent_too_long) out.dead_after = 5s;
    if (with.broken == plant::resets_kill) out.reset_grace = out.closed_grace;
    if (with.broken == plant::stop_not_noticed) out.stop_grace = 0ms;
    return out;
  }
  bool is_here(const std::string& host, const id& who) const override {
    return std::ranges::any_of(slots_, [&](const std::unique_ptr<process>& one) {
      return one != nullptr && one->name == who && host == one->host();
    });
  }
  void gone(std::size_t slot) override {
    time.after(1ms, [this, slot] {
      if (slots_[slot] == nullptr || !slots_[slot]->is_over) return;
      slots_[slot] = nullptr;
      net.end_host(host_of(slot));
      restart_later(slot);
    });
  }

 private:
  void start_head() {
    if (head_ != nullptr) return;
    store_ = std::make_unique<disk_store>(disk_);
    head_timer_ = std::make_unique<pump_timer>(time, [this] {
      const auto is_open = [this] { return head_->roll() != nullptr && head_->roll()->is_open(); };
      const bool was_open = is_open();
      head_->pump(time.now());
      if (!was_open && is_open()) {
        log({.is = what::head_began, .epoch = head_->roll()->epoch()});
      }
      return head_->due();
    });
    head_ = std::make_unique<cluster_head>(settings(true), id{1, ++heads_}, *store_,
                                           [this] { head_timer_->soon(); });
    net.listen(head_host, [this](std::unique_ptr<link> from, const caller& /*by*/) {
      head_->accept(std::move(from));
    });
    head_timer_->soon();
  }
  void crash_head(duration away) {
    if (head_ == nullptr) return;
    log({.is = what::head_ended});
    net.end_host(head_host);
    head_timer_ = nullptr;
    head_ = nullptr;
    disk_.crash();
    store_ = nullptr;
    time.after(away, [this] { start_head(); });
  }

  void start(std::size_t slot) {
    if (slots_[slot] != nullptr) return;
    slots_[slot] = std::make_unique<process>(*this, slot, id{2, ++processes_});
    net.listen(host_of(slot), [this, slot](std::unique_ptr<link> from, const caller& by) {
      slots_[slot]->accept(std::move(from), by);
    });
    if (net.is_cut(host_of(slot), head_host)) impair(slot, what::impaired);
    slots_[slot]->timer.soon();
  }
  void restart_later(std::size_t slot) {
    time.after(500ms + time.any(2s), [this, slot] { start(slot); });
  }
  void impair(std::size_t slot, what is) {
    if (slots_[slot] != nullptr) log({.is = is, .process = slots_[slot]->name.low});
  }
  void crash(std::size_t slot) {
    if (slots_[slot] == nullptr) return;
    log({.is = what::crashed, .process = slots_[slot]->name.low});
    net.end_host(host_of(slot));
    slots_[slot] = nullptr;
    restart_later(slot);
  }
  void stop(std::size_t slot, duration lasts) {
    if (slots_[slot] == nullptr) return;
    slots_[slot]->stop();
    net.sleep(host_of(slot));
    impair(slot, what::impaired);
    const id who = slots_[slot]->name;
    time.after(lasts, [this, slot, who] {
      if (slots_[slot] != nullptr && slots_[slot]->name == who) go_on(slot);
    });
  }
  void go_on(std::size_t slot) {
    if (!slots_[slot]->timer.is_stopped()) return;
    impair(slot, what::restored);
    slots_[slot]->go_on();
    if (!slots_[slot]->timer.is_stopped()) net.wake(host_of(slot));
  }
  void stop_head(duration lasts) {
    if (head_ == nullptr) return;
    head_timer_->stop();
    net.sleep(head_host);
    log({.is = what::head_stopped});
    time.after(lasts, [this, life = heads_] {
      if (life == heads_) wake_head();
    });
  }
  void wake_head() {
    if (head_ == nullptr || !head_timer_->is_stopped()) return;
    head_timer_->go_on();
    if (head_timer_->is_stopped()) return;
    log({.is = what::head_went_on});
    net.wake(head_host);
  }
  void spoil_disk(time_point& until, duration lasts) {
    const time_point end = time.now() + lasts;
    if (end <= until) return;
    until = end;
    log({.is = what::disk_bad});
    time.at(end, [this] {
      if (is_disk_bad()) return;
      log({.is = what::disk_good});
    });
  }
  bool is_disk_bad() const {
    return time.now() < disk_.fails_until || time.now() < disk_.slow_until;
  }
  // The head has found out that a process has ended as soon as it asks for that to be written.
  void note_ends(const control::batch& asked) {
    for (const control::change& one : asked.changes) {
      if (one.what != control::change::kind::put || !one.key.starts_with(control::keys::nodes)) {
        continue;
      }
      const auto row = control::read_row<control::node_row>(one.key, one.value);
      if (row && row->is == control::node_row::state::ended) {
        log({.is = what::told_dead,
             .process = row->process.low,
             .epoch = row->epoch,
             .why = row->cause});
      }
    }
  }
  void cut(std::size_t slot, duration lasts) {
    if (net.is_cut(host_of(slot), head_host)) return;
    net.cut(host_of(slot), head_host);
    impair(slot, what::impaired);
    time.after(lasts, [this, slot] {
      net.heal(host_of(slot), head_host);
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
        net.cut(host, host_of(one.other));
        return time.after(one.lasts,
                          [this, host, other = host_of(one.other)] { net.heal(host, other); });
      case fault::what::reset:
        impair(one.whom, what::reset);
        return net.reset(host, head_host);
      case fault::what::drain:
        if (slots_[one.whom] != nullptr) slots_[one.whom]->drain();
        return;
      case fault::what::head_crash:
        return crash_head(one.lasts);
      case fault::what::head_stop:
        return stop_head(one.lasts);
      case fault::what::disk_fail:
        return spoil_disk(disk_.fails_until, one.lasts);
      case fault::what::disk_slow:
        return spoil_disk(disk_.slow_until, one.lasts);
    }
  }
  void calm_down() {
    net.faults.lose = 0;
    net.faults.repeat = 0;
    net.faults.delay = 0;
    if (is_disk_bad()) log({.is = what::disk_good});
    disk_.fails_until = {};
    disk_.slow_until = {};
    start_head();
    while (head_timer_->is_stopped()) wake_head();
    net.heal_all();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i] == nullptr) continue;
      log({.is = what::restored, .process = slots_[i]->name.low, .number = 1});
      while (slots_[i]->timer.is_stopped()) go_on(i);
    }
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

}  // namespace

outcome run(const run_settings& with, const std::vector<fault>& faults) {
  return cluster(with).run(faults);
}

}  // namespace sim
