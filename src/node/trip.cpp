// SPDX-License-Identifier: Apache-2.0
#include "node/trip.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/codec/identity.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/stream_core.hpp>
#include <manta/node/carrier.hpp>

#include "node/asked.hpp"
#include "node/large_ranges.hpp"
#include "node/named_handles.hpp"
#include "node/task_records.hpp"
#include "wire/error_record.hpp"

namespace manta::inline v0::node {

namespace {

constexpr std::uint64_t epoch = 1;

// A process that has no name yet has one epoch.
wire::envelope envelope_of(const base::id& request, std::uint32_t sending) noexcept {
  return {request, epoch, sending};
}

void check_written(const result<void>& written) {
  if (!written) raise(errc::encode_failed, written.error().message());
}

const codec::entry& entry_of(const spec::function_id& function, codec::entry_kind kind) {
  const result<const codec::entry*> found = codec::find(function);
  if (!found) found.error().raise();
  if ((*found)->kind() != kind || (*found)->ops() == nullptr) {
    raise(errc::unsupported, fmt::format("{} can't run in another process", (*found)->name()));
  }
  return **found;
}

// Whoever reads them does so on a thread of its own, which may wait for an array; but not where
// their size decides whether they go.
void write_parameters(workbench& on, exec::job* j, const carrier& by) {
  const bool may_wait = on.goes_to != 0 && on.packs;
  const std::uint64_t reader = may_wait ? any_cell : on.goes_to;
  if (by.wake_arguments != nullptr) by.wake_arguments(j, true, reader);  // mostly
  on.out.reader_waits(may_wait);
  by.write_parameters(j, on.out);
}

// What goes to another node has its own hold of the arrays in it, and may be away for long.
void rest_parameters(const workbench& on, exec::job* j, const carrier& by) {
  if (on.goes_to != 0 && by.rest_arguments != nullptr) by.rest_arguments(j);
}

}  // namespace

void raise_not_convertible(const char* from, const char* to) {
  raise(errc::encode_failed,
        fmt::format("an argument of type {} has to become a {} before it goes to another process, "
                    "and can't be copied for that; pass a future of the parameter's own type",
                    readable_name(from), readable_name(to)));
}

void check_leaves(const carrier& by) {
  if (by.entry == nullptr || by.entry->ops() != nullptr) return;
  raise(errc::unsupported,
        fmt::format("{}: no parameters that can't be moved go to isolated workers or other nodes; "
                    "use isolation = threads, or .isolation = manta::isolation_mode::threads in "
                    "its options, and no place elsewhere",
                    by.entry->name()));
}

void send_away(exec::job* j, const carrier& by) {
  exec::call_extra* const with = j->extra();
  if (by.entry == nullptr || with == nullptr) return;  // an object
  const exec::actor_core* const of = j->ops->origin != nullptr ? j->ops->origin(j).actor : nullptr;
  const bool is_away = of != nullptr ? of->is_elsewhere() : goes_elsewhere(with->isolation);
  if (!is_away) return;
  check_leaves(by);
  with->is_outside = of == nullptr || !of->is_afar();
}

namespace {

// The gpus that its node has given it.
std::unique_ptr<exec::resource_claim> given_to(std::span<const int> gpus) {
  if (gpus.empty()) return nullptr;
  return std::make_unique<exec::given_claim>(std::vector<int>(gpus.begin(), gpus.end()));
}

// What its calls inherit, and what it can ask for.
void adopt(exec::call_extra& with, const wire::task_view& arrived) {
  with.claim = given_to(arrived.gpus);
  with.attempt = arrived.attempt;
  if (arrived.options == nullptr) return;
  const wire::options_view& asked = *arrived.options;
  if (!asked.name.empty()) with.name = std::make_unique<std::string>(asked.name);
  if (asked.timeout) with.deadline = base::after(*asked.timeout);
  with.retries_left = asked.max_retries;
  if (asked.retry_filter == spec::function_id{}) return;
  const result<const codec::entry*> found = codec::find(asked.retry_filter);
  if (!found) found.error().raise();
  with.retry = codec::filter_of(**found);
}

}  // namespace

void write_task(workbench& on, exec::job* j, const base::id& request) {
  const carrier& by = *carrier_of(j);
  const exec::call_extra& with = *j->extra();
  on.out.clear();
  write_parameters(on, j, by);
  on.out.finish();
  wire::task_view sent;
  sent.id = exec::id_of(*j);
  sent.parent = j->parent;
  sent.call_index = j->index;
  sent.function = codec::id_of(*by.entry);
  sent.arguments = with_names(on, j->ops->function);
  sent.attempt = with.attempt;
  std::optional<asked_options> options;
  options.emplace(with);
  if (by.stream != nullptr) options->add_credits(by.stream(j)->grant());
  sent.options = options->view();
  if (with.claim != nullptr) sent.gpus = with.claim->gpus();
  check_written(on.writer.write(envelope_of(request, with.attempt), sent));
}

bool write_given(workbench& on, exec::job* j, const base::id& request, std::uint32_t attempt,
                 const base::id& under) {
  const carrier& by = *carrier_of(j);
  on.out.clear();
  write_parameters(on, j, by);
  on.out.finish();
  rest_parameters(on, j, by);
  if (!may_go_afar(on)) return false;
  wire::task_view sent;
  sent.id = exec::id_of(*j);
  sent.parent = j->parent;
  sent.call_index = j->index;
  sent.function = codec::id_of(*by.entry);
  sent.arguments = with_names(on, j->ops->function);
  sent.digest = task_records::digest_of(sent.arguments);
  sent.attempt = attempt;
  sent.under = under;
  std::optional<asked_options> options;
  if (const exec::call_extra* const with = j->extra()) options.emplace(*with);
  if (by.stream != nullptr) {
    if (!options.has_value()) options.emplace(nullptr, std::string_view());
    options->add_credits(by.stream(j)->leave());
  }
  if (options.has_value()) sent.options = options->view();
  check_written(on.writer.write(envelope_of(request, 0), sent));
  return true;
}

bool write_given_result(workbench& on, exec::job* ended, const base::id& request,
                        std::uint32_t attempt, duration ran, std::uint64_t given_as) {
  exec::job* const end = ended->outcome();
  wire::result_view sent;
  sent.execution = given_as;
  sent.task = exec::id_of(*ended);
  sent.attempt = attempt;
  sent.ran = ran;
  on.out.clear();
  on.references.clear();
  if ((end->word() & exec::job_bits::failed) != 0) {
    const wire::error_record record(end->failure());
    sent.outcome = record.view();
    check_written(on.writer.write(envelope_of(request, 0), sent));
    return true;
  }
  const carrier& by = *carrier_of(ended);
  if (by.write_value != nullptr) {
    on.out.into_cell(true);
    by.write_value(end, on.out);
    on.out.finish();
  }
  if (!may_go_afar(on)) return false;
  sent.outcome = with_names(on, ended->ops->function);
  check_written(on.writer.write(envelope_of(request, 0), sent));
  return true;
}

void write_refusal(workbench& on, const base::id& task, const base::id& request,
                   std::uint32_t attempt, const error& why, const way_back& how,
                   std::uint64_t given_as) {
  const wire::error_record record(why);
  wire::result_view sent;
  sent.ran = how.wait;
  sent.execution = given_as;
  sent.task = task;
  sent.attempt = attempt;
  sent.may_repeat = how.runs_at_home;
  sent.back = how.why;
  sent.outcome = record.view();
  check_written(on.writer.write(envelope_of(request, 0), sent));
}

exec::job* make_task(const wire::task_view& arrived, const options* here) {
  const codec::entry& entry = entry_of(arrived.function, codec::entry_kind::task);
  const auto* const by = static_cast<const inbound*>(entry.ops());
  exec::job* made = nullptr;
  const opened_parcel opened(arrived.arguments);
  codec::in_archive in(opened.view());
  try {
    made = by->make(exec::extra_source{.task = here}, in);
    in.finish();
  } catch (...) {
    if (made != nullptr) {
      made->fail(error::out_of_memory(), 1);
      made->drop();
    }
    codec::raise_decode_failed(entry.name().c_str());
  }
  made->parent = arrived.parent;
  made->index = static_cast<std::uint32_t>(arrived.call_index);
  try {
    // What it makes is named after it, there as here.
    const bool is_its_index = made->index == arrived.call_index;
    if (!is_its_index || exec::id_of(*made) != arrived.id) {
      raise(errc::decode_failed, "a task of another name");
    }
    if (here == nullptr) adopt(*made->extra(), arrived);
  } catch (...) {
    made->fail(error::out_of_memory(), 1);
    made->drop();
    throw;
  }
  if (const carrier& of = *carrier_of(made); of.stream != nullptr && arrived.options != nullptr) {
    of.stream(made)->set_credits(arrived.options->stream_credits);
  }
  return made;
}

namespace {

// Reads what `make` needs; a message that has more, or less, is none.
template <class Make>
auto made_from(const spec::parcel_view& arguments, const codec::entry& entry, Make&& make) {
  const opened_parcel opened(arguments);
  codec::in_archive in(opened.view());
  try {
    auto made = make(in);
    in.finish();
    return made;
  } catch (...) {
    codec::raise_decode_failed(entry.name().c_str());
  }
}

// The default group first.
std::vector<wire::group_view> groups_of(const exec::actor_core& of) {
  std::vector<wire::group_view> out;
  of.each_group(
      [](void* to, const std::string& name, int limit) {
        static_cast<std::vector<wire::group_view>*>(to)->push_back(
            {name, static_cast<std::uint32_t>(limit)});
      },
      &out);
  return out;
}

}  // namespace

void write_spawn(workbench& on, const exec::actor_core& of, exec::job* construction,
                 const base::id& actor, const base::id& request, const spec::demand* asked,
                 const placement& where) {
  const carrier& by = *carrier_of(construction);
  on.out.clear();
  write_parameters(on, construction, by);
  on.out.finish();
  rest_parameters(on, construction, by);
  wire::spawn_view sent;
  sent.actor = actor;
  sent.parent = construction->parent;
  sent.call_index = construction->index;
  sent.function = codec::id_of(*by.entry);
  const std::string_view type = of.kind().type;
  sent.type_name = type.substr(0, wire::limits::name_bytes);
  const std::string name = of.shown_name();
  auto& core = const_cast<exec::actor_core&>(of);  // claim() answers a pointer, and changes nothing
  const exec::resource_claim* const claim =
      of.kind().claim != nullptr ? of.kind().claim(&core) : nullptr;
  const std::string_view shown = std::string_view(name).substr(0, wire::limits::name_bytes);
  asked_options options =
      asked != nullptr ? asked_options(*asked, where, shown) : asked_options(claim, shown);
  options.add_isolation(of.isolation(), of.memory_limit() > 0);
  if (claim != nullptr) sent.gpus = claim->gpus();
  sent.options = options.view();
  sent.mailbox_cap = of.mailbox_cap();
  sent.refuses_when_full = of.refuses_when_full();
  sent.max_restarts = of.restarts();
  const std::vector<wire::group_view> groups = groups_of(of);
  sent.groups = groups;
  sent.arguments = with_names(on, construction->ops->function);
  check_written(on.writer.write(envelope_of(request, 0), sent));
}

void write_reservation(workbench& on, const exec::actor_core& of, const spawn_asked& what,
                       const base::id& actor, const base::id& request) {
  const actor_options& asked = what.options;
  wire::spawn_view sent;
  sent.function = codec::id_of(*static_cast<const carrier*>(what.construction.carrier)->entry);
  sent.reserves = true;
  sent.may_exist = asked.get_if_exists;
  sent.detached = asked.detached;
  sent.actor = actor;
  sent.type_name = std::string_view(of.kind().type).substr(0, wire::limits::name_bytes);
  const spec::demand demand = spec::to_demand(asked);
  asked_options options(demand, what.there ? *what.there : asked.where, *asked.name);
  options.add_isolation(asked.isolation, asked.enforce_memory);
  sent.options = options.view();
  sent.name_space = asked.name_space;
  sent.mailbox_cap = of.mailbox_cap();
  sent.refuses_when_full = of.refuses_when_full();
  sent.max_restarts = of.restarts();
  const std::vector<wire::group_view> groups = groups_of(of);
  sent.groups = groups;
  check_written(on.writer.write(envelope_of(request, 0), sent));
}

namespace {

// Whether calls made for actors of one kind are calls of the other.
bool is_same(const exec::actor_ops& a, const exec::actor_ops& b) noexcept {
  return &a == &b || (a.size == b.size && std::strcmp(a.type, b.type) == 0);
}

const inbound& constructor_of(const wire::spawn_view& arrived) {
  const codec::entry& entry = entry_of(arrived.function, codec::entry_kind::constructor);
  return *static_cast<const inbound*>(entry.ops());
}

}  // namespace

exec::actor_core* make_core(const wire::spawn_view& arrived,
                            std::unique_ptr<exec::resource_claim> claim) {
  return constructor_of(arrived).make_core(std::move(claim));
}

exec::job* make_construction(const wire::spawn_view& arrived, exec::actor_core* of) {
  const codec::entry& entry = entry_of(arrived.function, codec::entry_kind::constructor);
  const auto* const by = static_cast<const inbound*>(entry.ops());
  if (!is_same(*by->of, of->kind())) {
    raise(errc::decode_failed, "a constructor of another type than the actor's");
  }
  exec::job* const made = made_from(arrived.arguments, entry, [&](codec::in_archive& in) {
    return by->make_construction(of, in);
  });
  made->parent = arrived.parent;
  made->index = static_cast<std::uint32_t>(arrived.call_index);
  return made;
}

exec::actor_core* make_resident(const wire::spawn_view& arrived,
                                std::unique_ptr<exec::resource_claim> claim) {
  actor_options asked;
  if (arrived.options != nullptr && !arrived.options->name.empty()) {
    asked.name = std::string(arrived.options->name);
    if (arrived.reserves) asked.name_space = std::string(arrived.name_space);
  }
  if (!arrived.groups.empty()) {
    asked.max_concurrency = static_cast<int>(arrived.groups.front().limit);
    for (const wire::group_view& one : arrived.groups.subspan(1)) {
      asked.groups.push_back({std::string(one.name), static_cast<int>(one.limit)});
    }
  }
  exec::actor_core* const made = make_core(arrived, std::move(claim));
  try {
    made->is_here();
    made->apply(asked);
  } catch (...) {
    drop_core(made);
    throw;
  }
  return made;
}

made_actor make_actor(const wire::spawn_view& arrived) {
  made_actor made;
  made.core = make_resident(arrived, given_to(arrived.gpus));
  try {
    made.construction = make_construction(arrived, made.core);
  } catch (...) {
    drop_core(made.core);
    throw;
  }
  return made;
}

void drop_core(exec::actor_core* made) noexcept {
  if (made->kind().release != nullptr) made->kind().release(made);
  made->discard();
}

void abandon_core(exec::actor_core& of, const error& why) noexcept {
  const auto release = of.kind().release;
  if (!of.is_elsewhere() && release != nullptr) release(&of);
  of.abandon_start(why);
}

void write_call(workbench& on, exec::job* j, const base::id& actor, const base::id& request) {
  const carrier& by = *carrier_of(j);
  const exec::call_extra& with = *j->extra();
  const exec::call_origin origin = j->ops->origin(j);
  on.out.clear();
  write_parameters(on, j, by);
  on.out.finish();
  rest_parameters(on, j, by);
  wire::call_view sent;
  sent.actor = actor;
  sent.incarnation = 1;
  sent.caller = {1, origin.caller};
  sent.call_number = request.low;
  sent.method = codec::id_of(*by.entry);
  sent.timeout = time_left(with);
  if (const std::uint64_t group = origin.caller >> exec::actor_core::group_shift; group != 0) {
    sent.group = groups_of(*origin.actor)[group].name;
  }
  if (with.name != nullptr) sent.name = *with.name;
  if (by.stream != nullptr) {
    exec::stream_core& stream = *by.stream(j);
    sent.stream_credits = on.goes_to != 0 ? stream.leave() : stream.grant();
  }
  sent.parent = j->parent;
  sent.call_index = j->index;
  sent.arguments = with_names(on, j->ops->function);
  check_written(on.writer.write(envelope_of(request, 0), sent));
}

exec::job* make_call(const wire::call_view& arrived, exec::actor_core* to) {
  const codec::entry& entry = entry_of(arrived.method, codec::entry_kind::method);
  const std::uint64_t group =
      arrived.group.empty() ? 0 : to->group_index(std::string(arrived.group));
  const auto* const by = static_cast<const inbound*>(entry.ops());
  if (!is_same(*by->of, to->kind())) {
    raise(errc::decode_failed, "a method of another type than the actor's");
  }
  exec::job* const made = made_from(arrived.arguments, entry, [&](codec::in_archive& in) {
    return by->make_call(to, group, exec::inherited_extra, in);
  });
  made->parent = arrived.parent;
  made->index = static_cast<std::uint32_t>(arrived.call_index);
  exec::call_extra& with = *made->extra();
  if (!arrived.name.empty()) with.name = std::make_unique<std::string>(arrived.name);
  if (arrived.timeout) with.deadline = base::after(*arrived.timeout);
  if (const carrier& of = *carrier_of(made); of.stream != nullptr) {
    of.stream(made)->set_credits(arrived.stream_credits);
  }
  return made;
}

bool write_item(workbench& on, exec::job* item, const base::id& request) {
  on.out.clear();
  carrier_of(item)->write_value(item, on.out);
  on.out.finish();
  if (on.goes_to != 0 && !may_go_afar(on)) return false;
  check_written(on.writer.write(envelope_of(request, 0),
                                wire::item_view{with_names(on, item->ops->function)}));
  return true;
}

exec::job* make_item(const carrier& of, const wire::item_view& arrived) {
  try {
    const opened_parcel opened(arrived.value);
    codec::in_archive in(opened.view());
    exec::job* made = nullptr;
    try {
      made = of.read_item(in);
      in.finish();
    } catch (...) {
      if (made != nullptr) made->drop();
      codec::raise_decode_failed(of.entry->name().c_str());
    }
    return made;
  } catch (...) {
    return of.fail_item(describe_current_exception("the item of a stream"));
  }
}

void write_result(workbench& on, exec::job* ended, const base::id& request, duration ran) {
  exec::job* const end = ended->outcome();
  wire::result_view sent;
  sent.task = exec::id_of(*ended);
  sent.ran = ran;
  on.out.clear();
  on.references.clear();
  if ((end->word() & exec::job_bits::failed) != 0) {
    const wire::error_record record(end->failure());
    sent.outcome = record.view();
    const task_failure* const thrown = end->failure().failure();
    const exec::call_extra* const with = ended->extra();  // a construction has none
    sent.may_repeat = thrown != nullptr && with != nullptr && with->retry.matches(thrown->cause);
    check_written(on.writer.write(envelope_of(request, 0), sent));
    return;
  }
  // A task that gave a future to something else has that one's value, and the same type.
  const carrier& by = *carrier_of(ended);
  if (by.write_value != nullptr) {
    by.write_value(end, on.out);
    on.out.finish();
  }
  sent.outcome = with_names(on, ended->ops->function);
  check_written(on.writer.write(envelope_of(request, 0), sent));
}

void write_failure(workbench& on, const base::id& task, const base::id& request,
                   const error& failure) {
  on.references.clear();
  const wire::error_record record(failure);
  wire::result_view sent;
  sent.task = task;
  sent.outcome = record.view();
  check_written(on.writer.write(envelope_of(request, 0), sent));
}

void write_question(workbench& on, const base::id& request, wire::question asked,
                    const char* what) {
  check_written(
      on.writer.write(envelope_of(request, 0), wire::ask_view{asked, with_names(on, what)}));
}

void write_answer(workbench& on, const base::id& request, const char* what) {
  write_answer(on, request, with_names(on, what));
}

void write_outcome(workbench& on, exec::job* ended, const carrier& values,
                   const base::id& request) {
  exec::job* const end = ended->outcome();
  if ((end->word() & exec::job_bits::failed) != 0) {
    return write_failure(on, {1, 1}, request, end->failure());
  }
  on.out.clear();
  if (values.write_value != nullptr) {
    on.out.into_cell(on.goes_to != 0);
    values.write_value(end, on.out);
    on.out.finish();
  }
  write_answer(on, request, with_names(on, ended->ops->function));
}

void write_answer(workbench& on, const base::id& request, const spec::parcel_view& value) {
  wire::result_view sent;
  sent.task = {1, 1};  // no task's
  sent.outcome = value;
  check_written(on.writer.write(envelope_of(request, 0), sent));
}

std::uint64_t fill_slot(exec::job* j, const wire::result_view& arrived) noexcept {
  using bits = exec::job_bits;
  try {
    if (const auto* const failure = std::get_if<wire::error_view>(&arrived.outcome)) {
      return fill_slot(j, wire::to_error(*failure));
    }
    const auto* const value = std::get_if<spec::parcel_view>(&arrived.outcome);
    const carrier& by = *carrier_of(j);
    if (value == nullptr) {
      raise(errc::decode_failed, "a result came that is no value and no error");
    }
    if (by.read_value == nullptr) return bits::ready;
    const opened_parcel opened(*value);
    codec::in_archive in(opened.view());
    bool has_value = false;
    try {
      by.read_value(j, in);
      has_value = true;
      in.finish();
    } catch (...) {
      if (has_value && j->ops->drop_value != nullptr) j->ops->drop_value(j);
      codec::raise_decode_failed(j->ops->function);
    }
    return bits::ready;
  } catch (...) {
    return fill_slot(j, describe_current_exception(j->ops->function));
  }
}

std::uint64_t fill_slot(exec::job* j, error failure) noexcept {
  new (j->slot(1)) error(std::move(failure));
  return exec::job_bits::ready | exec::job_bits::failed;
}

}  // namespace manta::inline v0::node
