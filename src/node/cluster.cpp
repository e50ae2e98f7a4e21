// SPDX-License-Identifier: Apache-2.0
#include "node/cluster.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <manta/codec/identity.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/theft.hpp>

#include "node/bulk_way.hpp"
#include "node/desk.hpp"
#include "node/end_signals.hpp"
#include "node/far_arrays.hpp"
#include "node/far_names.hpp"
#include "node/head_facts.hpp"
#include "node/interrupt.hpp"
#include "node/leftovers.hpp"
#include "node/own_program.hpp"
#include "node/task_records.hpp"
#include "node/trade.hpp"
#include "node/user_folder.hpp"
#include "spec/own_node.hpp"
#include "spec/texts.hpp"
#include "wire/socket_place.hpp"
#include "wire/token.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;
using way = spec::launch_plan::way;

constexpr auto look_again = 20ms;
// Until who waits is told why.
constexpr auto time_to_wonder = 900ms;
// How long nodes go on whose head was in the driver, and is gone: nobody needs them.
constexpr auto wait_for_driver = 3s;
// Those of a head of its own, which may be started again.
constexpr auto wait_for_head = 60s;

base::id draw_id() {
  base::id out;
  wire::fill_random(std::as_writable_bytes(std::span(&out, 1)));
  return out;
}

spec::node_role role_of(role_mode as) noexcept {
  switch (as) {
    case role_mode::driver:
      return spec::node_role::driver;
    case role_mode::node:
      return spec::node_role::node;
    case role_mode::head:
      return spec::node_role::head;
    case role_mode::observer:
      break;
  }
  return spec::node_role::observer;
}

// Whom a driver has started is told where that is.
bool is_of_a_driver(const config& settings, const spec::launch_plan& plan) {
  return plan.by == way::ranked && plan.rank > 0 && plan.size == settings.nodes &&
         plan.address.has_value();
}

life::membership_settings timing_of(const config& settings, const spec::launch_plan& plan) {
  life::membership_settings out;
  out.dead_after = std::chrono::milliseconds(settings.dead_after_ms);
  out.suspect_after = std::min<duration>(out.suspect_after, out.dead_after / 2);
  out.heartbeat = std::min<duration>(out.heartbeat, out.dead_after / 6);
  out.join_limit = std::chrono::milliseconds(settings.join_ms);
  out.driver_wait = std::max<duration>(wait_for_driver, 2 * out.dead_after);
  out.head_wait = std::max<duration>(wait_for_head, 2 * out.dead_after);
  out.ends_with_driver = plan.hosts_head() && plan.role != role_mode::head;
  // It is found at once, or it is gone.
  if (is_of_a_driver(settings, plan)) out.join_limit = std::min(out.join_limit, out.driver_wait);
  return out;
}

// By what is in the queues, not by counts of what came and went: a coroutine comes often.
spec::node_load load_of_process() {
  const exec::executor_counts counts = exec::executor::global().counts();
  spec::node_load out;
  out.queued = static_cast<std::uint32_t>(exec::measure_queues().queued);
  out.running = static_cast<std::uint32_t>(exec::executor::active_workers());
  double busy = 0;
  for (const auto& one : counts.workers) busy += one.busy_seconds;
  if (counts.run > 0) {
    const std::chrono::duration<double> each(busy / static_cast<double>(counts.run));
    out.task_time = std::chrono::duration_cast<duration>(each);
  }
  return out;
}

// What the names of jobs begin with that users give, in the places that are made of these.
constexpr std::string_view job_mark = "job-";

result<std::string> only_job_here() {
  std::vector<std::string> all = jobs_here();
  if (all.size() == 1) return std::move(all.front());
  std::string names;
  for (const std::string& one : all) {
    const std::size_t mark = one.starts_with(job_mark) ? job_mark.size() : 0;
    names += (names.empty() ? "" : ", ") + one.substr(mark);
  }
  return error(errc::invalid_argument,
               all.empty() ? "nodes: asked for the job of this user on this machine, found none; "
                             "give the address of its head (--address, MANTA_ADDRESS)"
                           : fmt::format("nodes: asked for the job of this user on this machine, "
                                         "found {}: {}; name one (--job, MANTA_JOB), or give the "
                                         "address of its head",
                                         all.size(), names));
}

bool is_over_tcp(const std::optional<std::string>& address) {
  return address.has_value() && !address->starts_with("unix:");
}

void warn(const std::string& text) { std::fprintf(stderr, "manta: %s\n", text.c_str()); }

}  // namespace

cluster& cluster::global() {
  static auto* const made = new cluster;  // never destroyed: late threads find it
  return *made;
}

bool cluster::is_wanted(const spec::launch_plan& plan) noexcept {
  return plan.by != way::alone || plan.role == role_mode::head || plan.listen.has_value() ||
         plan.address.has_value() || !plan.job.empty();
}

result<void> cluster::open(const config& settings, const spec::launch_plan& plan,
                           std::shared_ptr<control::store> rows) {
  {
    const std::lock_guard lock(mutex_);
    plan_ = plan;
  }
  drain_limit_ = std::chrono::milliseconds(settings.drain_ms);
  is_spmd_ = settings.spmd.value_or(false);
  result<void> is = start(settings, std::move(rows));
  if (is) {
    ++opened_;
    if (does_work()) desk::global().call_node(name_of_member());
    if (does_work()) spec::name_own_node(name_of_member());
    return is;
  }
  close(true);
  return is;
}

namespace {

// Empty: it has none.
std::string path_of(const wire::socket_address& at) {
  return at.is_unix() ? at.text().substr(std::string_view("unix:").size()) : std::string();
}

}  // namespace

result<void> cluster::start(const config& settings, std::shared_ptr<control::store> rows) {
  if (result<void> is = tell_from_earlier(); !is) return is;
  const bool is_host = plan_.hosts_head();
  if (is_host && plan_.job.empty()) {
    plan_.job = fmt::format("{}{}-{:08x}", job_mark, getpid(), draw_id().low >> 32U);
  }
  // The head of a job that was named may be on this machine.
  if (plan_.by == way::joins && !plan_.address && !plan_.job.empty() && !plan_.is_one_machine) {
    plan_.is_one_machine = wire::has_listener(head_socket(job_folder(plan_.job)));
  }
  cluster_process::settings with;
  with.how = timing_of(settings, plan_);
  join_limit_ = with.how.join_limit;
  with.process = draw_id();
  if (with.how.ends_with_driver) with.how.host = with.process;
  // A whole message behind the heads of courier.hpp and bundle.hpp.
  with.sockets.frame_limit = wire::default_frame_limit + 2 * wire::segment_alignment;
  if (plan_.role != role_mode::head) with.who = own_introduction(settings);
  with.looks = plan_.role == role_mode::observer;
  with.load = load_of_process;
  if (result<void> is = trust_others(with, settings); !is) return is;
  result<void> has_place = is_host ? place_head(with, settings) : find_head(with, settings);
  if (!has_place) return has_place;
  if (does_work() && settings.share.value_or(false)) {
    with.work = &trade::global();
    if (!is_host) with.places.push_back(place_of_node(with.head));
    // A rank may be there before the one with the head, which makes the folder else.
    if (!is_host && !plan_.address && with.places.back().is_unix()) {
      result<std::string> made = make_job_folder(plan_.job);
      if (!made) return made.error();
      leftovers::global().set_folder(*made);
    }
  }
  const std::string head_at = with.head.empty() ? "" : path_of(with.head.front());
  // Its driver may end before this one is a member.
  if (is_of_a_driver(settings, plan_)) leftovers::global().set_folder(job_folder_of(head_at));
  const std::string own_at = with.places.empty() ? "" : with.places.front().path;
  if (is_host) {
    with.cluster = draw_id();
    with.expects = static_cast<std::size_t>(plan_.size);
    with.rows = std::move(rows);
  }
  result<std::unique_ptr<cluster_process>> made = cluster_process::start(std::move(with));
  if (!made) return made.error();
  {
    const std::lock_guard lock(mutex_);
    process_ = *std::move(made);
  }
  if (!own_at.empty()) {
    for (const std::string& path : {own_at, own_at + bulk_mark}) leftovers::global().add(path);
  }
  if (is_host) {
    if (result<void> is = publish(); !is) return is;
  }
  if (plan_.by == way::spawns) {
    const std::string at = "unix:" + head_socket(folder_);
    if (result<void> is = children_.start(plan_.size, plan_.job, at); !is) return is;
  }
  if (plan_.role == role_mode::head) return {};
  if (result<void> is = join(); !is) return is;
  if (!is_host && does_work()) note_folder(head_at);
  return is_host ? gather() : result<void>();
}

spec::node_introduction cluster::own_introduction(const config& settings) const {
  return {.name = name_of_member(),
          .host = own_host_name(),
          .pid = static_cast<std::uint32_t>(getpid()),
          .as = role_of(plan_.role),
          .functions = codec::table_hash(),
          .workers = static_cast<std::uint32_t>(settings.workers),
          .gpus = static_cast<std::uint32_t>(settings.gpus),
          .memory_bytes = static_cast<std::uint64_t>(settings.memory_bytes),
          .resources = spec::to_text(*settings.resources),
          .labels = spec::to_text(*settings.labels),
          .machine = far_arrays::global().open(*settings.map_arrays)};
}

// A head of its own may be started again in its folder.
void cluster::note_folder(const std::string& head) {
  if (process()->head_member() != 0) leftovers::global().set_folder(job_folder_of(head));
}

bool cluster::does_work() const noexcept {
  return plan_.role == role_mode::driver || plan_.role == role_mode::node;
}

// Where other nodes find this one: beside the head's socket, or at any port.
wire::endpoint cluster::place_of_node(const std::vector<wire::socket_address>& head) const {
  const std::string at = head.empty() ? "" : path_of(head.front());
  if (at.empty()) return {};
  return {.path = fmt::format("{}/node-{}", at.substr(0, at.rfind('/')), getpid())};
}

// Gives what waits here to others, and takes theirs.
void cluster::share(std::uint32_t workers, given_all all) {
  const process_ptr at = process();
  if (at == nullptr || at->others() == nullptr) return;
  // Before the first task comes.
  const std::uint64_t head = at->head_member();
  if (at->others()->has(head)) {  // else it does not share
    head_facts::global().ask_of(*at->others(), head);
  } else if (head == 0 && !plan_.hosts_head()) {  // one of its own, which runs nothing
    ask_head_of(at);
  }
  const std::uint64_t shares = at->others()->has(head) ? head : 0;
  std::uint64_t knows_names = plan_.hosts_head() ? at->others()->epoch() : shares;
  if (head == 0 && !plan_.hosts_head()) knows_names = far_names::head_alone;
  const bool is_driver = plan_.role == role_mode::driver;
  if (knows_names != 0) far_names::global().open(*at->others(), knows_names, is_driver);
  const bool waits = all.tasks && !is_serving() && plan_.size > 1;
  const std::size_t ranks = plan_.size > 1 ? static_cast<std::size_t>(plan_.size) - 1 : 0;
  // Where the head does not answer, others could not read them.
  if (knows_names != 0) {
    task_records::global().open({.name = name_of_member(),
                                 .epoch = at->others()->epoch(),
                                 .has_main = is_driver,
                                 .hosts_store = plan_.hosts_head()});
  }
  trade::global().open(*at->others(), workers, {all.amounts, ranks},
                       {all.tasks, all.actors, waits ? ranks : 0});
}

// Threads of the user's may ask when it is over.
void cluster::ask_head_of(const process_ptr& at) {
  at->ask_head();
  head_facts::global().ask_by(
      [by = std::weak_ptr(at)](std::uint64_t number, head_facts::pieces message, std::size_t size) {
        const process_ptr is = by.lock();
        return is != nullptr && is->post_to_head(number, message, size);
      });
}

// Ranks that make a second runtime mean that of rank 0 which is its second, too; one of them may be
// still with the first.
result<void> cluster::tell_from_earlier() {
  const bool has_ranks = plan_.by == way::ranked || plan_.by == way::spawns;
  if (!is_spmd_ || !has_ranks || opened_ == 0) return {};
  if (plan_.address.has_value() || plan_.by == way::spawns) {
    return error(errc::unsupported,
                 fmt::format("nodes: asked for another runtime with spmd in {} of {}, whose ranks "
                             "find each other at the place of the first only; keep one runtime "
                             "for the whole of main",
                             name_of_member(), plan_.size));
  }
  plan_.job += fmt::format("+{}", opened_ + 1);  // no name of a user or a launcher has that
  return {};
}

std::string cluster::name_of_member() const {
  if (!plan_.member_name.empty()) return plan_.member_name;
  if (plan_.hosts_head() && plan_.role == role_mode::driver) return "rank-0";
  const char* const as = plan_.role == role_mode::driver ? "driver" : "node";
  return spec::usual_member_name(as, own_host_name(), getpid());
}

// ---- where it is

result<void> cluster::place_head(cluster_process::settings& with, const config&) {
  const bool has_path = plan_.address.has_value() && !is_over_tcp(plan_.address);
  if (has_path) {
    const result<wire::endpoint> place = wire::endpoint::parse(*plan_.address);
    if (!place) return place.error();
    with.places.push_back(*place);
  } else if (plan_.role != role_mode::head || !plan_.listen.has_value()) {
    result<std::string> made = make_job_folder(plan_.job);
    if (!made) return made.error();
    folder_ = *std::move(made);
    leftovers::global().set_folder(folder_);
    with.places.push_back({.path = head_socket(folder_)});
  }
  if (!plan_.listen.has_value()) return {};
  const result<wire::endpoint> place = wire::endpoint::parse(*plan_.listen);
  if (!place) return place.error();
  with.places.push_back(*place);
  return {};
}

result<void> cluster::find_head(cluster_process::settings& with, const config& settings) {
  std::optional<std::string> address = plan_.address;
  if (!address.has_value() && plan_.is_one_machine && plan_.job.empty()) {
    const result<std::string> job = only_job_here();
    if (!job) return job.error();
    plan_.job = *job;
  }
  if (!address.has_value() && plan_.is_one_machine) {
    address = "unix:" + head_socket(job_folder(plan_.job));
  }
  if (!address.has_value()) return find_published(with);
  const result<wire::endpoint> place = wire::endpoint::parse(*address);
  if (!place) return place.error();
  const auto limit = std::chrono::milliseconds(settings.join_ms);
  result<std::vector<wire::socket_address>> at = wire::resolve(*place, limit);
  if (!at) return at.error();
  with.head = *std::move(at);
  with.ends_with_head = place->is_unix() && (plan_.by == way::ranked || plan_.by == way::spawns);
  return {};
}

// Where the rendezvous says that the head is; empty: nowhere yet.
std::vector<wire::socket_address> cluster::published() const {
  std::vector<wire::socket_address> out;
  const auto places = meeting_->find();
  for (const wire::endpoint& place : places.value_or(std::vector<wire::endpoint>())) {
    const auto at = wire::resolve(place, 1s);
    if (at) out.insert(out.end(), at->begin(), at->end());
  }
  return out;
}

// What was found may have been left by a head of the same job that has been killed.
void cluster::look_for_head() {
  if (plan_.hosts_head() || !meeting_.has_value()) return;
  if (std::vector<wire::socket_address> now = published(); !now.empty()) {
    process_->redirect(std::move(now));
  }
}

result<void> cluster::find_published(cluster_process::settings& with) {
  meeting_.emplace(plan_.rendezvous, plan_.job);
  const base::time_point until = base::after(join_limit_);
  for (;;) {
    with.head = published();
    if (!with.head.empty()) return {};
    if (base::now() >= until) {
      return error(errc::timed_out,
                   fmt::format("nodes: {} of {} ({}) looked for its head in {} for {} ms, and "
                               "found {} there; is rank 0 running, and do all machines see "
                               "this folder? name another one with MANTA_RENDEZVOUS, or give "
                               "MANTA_ADDRESS",
                               name_of_member(), plan_.size, plan_.source, meeting_->path(),
                               join_limit_ / 1ms, meeting_->what_lies_there()));
    }
    std::this_thread::sleep_for(look_again);
  }
}

// Over TCP nobody is heard without the token.
result<void> cluster::trust_others(cluster_process::settings& with, const config& settings) {
  const bool needs_tcp = plan_.listen.has_value() || is_over_tcp(plan_.address) ||
                         (!plan_.hosts_head() && !plan_.address && !plan_.is_one_machine);
  if (!needs_tcp) return {};
  const bool is_plain = settings.insecure_plaintext.value_or(false);
  const std::string path = settings.token_file.value_or(wire::usual_token_path());
  // Who comes to a head that others have started has to have its token.
  const result<wire::secret> token =
      plan_.by == way::joins ? wire::read_token(path) : wire::make_token(path);
  if (!token) return token.error();
  result<std::shared_ptr<const wire::trust>> made = wire::trust::from(*token, is_plain);
  if (!made) return made.error();
  with.sockets.trusts = *std::move(made);
  if (is_plain) {
    warn(
        "insecure-plaintext: what goes to other machines is not encrypted; anybody in the "
        "network can read and change it");
  }
  return {};
}

result<void> cluster::publish() {
  // For who has started this process and is to tell others (manta run): by what it prints, since
  // that comes from other machines, too.
  if (std::getenv("MANTA_ANNOUNCE") != nullptr) {
    for (const wire::socket_address& one : process_->addresses()) {
      std::fprintf(stderr, "manta: head at %s\n", one.text().c_str());
    }
  }
  if (plan_.rendezvous.empty()) return {};
  std::vector<wire::endpoint> places;
  for (const wire::socket_address& one : process_->addresses()) {
    if (one.is_unix()) {
      const result<wire::endpoint> place = wire::endpoint::parse(one.text());
      if (place) places.push_back(*place);
    } else {
      for (wire::endpoint& place : own_places(one.port())) places.push_back(std::move(place));
    }
  }
  meeting_.emplace(plan_.rendezvous, plan_.job);
  return meeting_->publish(places);
}

// ---- who is there

result<void> cluster::join() {
  if (!process_->wait_joined_for(time_to_wonder)) {
    const std::optional<error> why = process_->last_loss();
    warn(fmt::format("{} is not a member of its cluster yet, and goes on trying for {} ms: {}",
                     name_of_member(), join_limit_ / 1ms,
                     why.has_value() ? why->message()
                                     : fmt::format("the head at {} has not taken it yet",
                                                   process_->head_text())));
  }
  while (!process_->wait_joined_for(time_to_wonder)) look_for_head();
  const result<std::uint64_t> epoch = process_->wait_joined();
  if (!epoch) return epoch.error();
  // Nobody does the work of one that only looks.
  if (!is_serving() && plan_.role != role_mode::observer) watch_the_fence();
  return {};
}

// A process whose place was given to another must not go on as if nothing had happened.
void cluster::watch_the_fence() {
  const bool serves = is_serving();
  process_->tell_over([serves](const std::optional<error>& why) {
    if (serves) return end_signals::ring();
    if (!why.has_value()) return;
    warn(why->message());
    leftovers::global().remove();
    leave_in_order(1);
  });
}

result<void> cluster::gather() {
  if (plan_.by != way::spawns && plan_.by != way::ranked) return {};
  if (plan_.by == way::ranked && opened_ > 0 && !is_spmd_) {
    warn(
        fmt::format("the other ranks of {} have served the first runtime of this process, and "
                    "ended; going on without: keep one runtime for the whole of main",
                    plan_.size));
    return {};
  }
  const base::time_point until = base::after(join_limit_);
  while (!process_->wait_gathered(look_again)) {
    const std::optional<error> failed = children_.failure(
        [this](int rank) { return process_->gathered().contains(fmt::format("rank-{}", rank)); });
    if (failed.has_value()) return *failed;
    if (base::now() < until) continue;
    std::string missing;
    const std::set<std::string> came = process_->gathered();
    for (int rank = 0; rank < plan_.size; ++rank) {
      const std::string name = fmt::format("rank-{}", rank);
      if (!came.contains(name)) missing += (missing.empty() ? "" : ", ") + name;
    }
    warn(
        fmt::format("{} of {} nodes have joined within {} ms, missing: {}; going on without; "
                    "they may come later",
                    came.size(), plan_.size, join_limit_ / 1ms, missing));
    return {};
  }
  return {};
}

// ---- for others

cluster::process_ptr cluster::process() const {
  const std::lock_guard lock(mutex_);
  return process_;
}

bool cluster::is_open() const { return process() != nullptr; }

std::vector<spec::node_member> cluster::members() const {
  const process_ptr at = process();
  return at == nullptr ? std::vector<spec::node_member>() : at->members();
}

spec::launch_plan cluster::plan() const {
  const std::lock_guard lock(mutex_);
  return plan_;
}

}  // namespace manta::inline v0::node
