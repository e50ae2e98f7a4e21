// SPDX-License-Identifier: Apache-2.0
// What other nodes ask this one of names: far_names.hpp.
#include <utility>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/node/carrier.hpp>

#include "exec/named_actors.hpp"
#include "node/far_handles.hpp"
#include "node/far_names.hpp"
#include "node/resident_actors.hpp"
#include "node/worker_facts.hpp"

namespace manta::inline v0::node {

namespace {

void say_name(peers& by, std::uint64_t to, std::uint64_t number, const name_answer& what) noexcept {
  try {
    const borrowed_workbench on;
    on->out.clear();
    write_answer(*on, {peers::name_answer, number}, codec::encode(on->out, what));
    static_cast<void>(by.send_when_room(to, {peers::name_answer, number}, on->writer.pieces(),
                                        on->writer.size_bytes()));
  } catch (...) {
    return;  // no memory: who asked hears of it when one of the two nodes ends
  }
}

void say_name(peers& by, std::uint64_t to, std::uint64_t number, const error& why) noexcept {
  try {
    const borrowed_workbench on;
    write_failure(*on, {1, 1}, {peers::name_answer, number}, why);
    static_cast<void>(by.send_when_room(to, {peers::name_answer, number}, on->writer.pieces(),
                                        on->writer.size_bytes()));
  } catch (...) {
    return;  // as above
  }
}

}  // namespace

// Not on the loop's thread: answers may have to wait for room.
void far_names::on_question(peers& by, std::uint64_t from, std::uint64_t number,
                            const peers::kept_message& message) {
  facts_line::global().add(
      [this, &by, from, number, message] { hear(by, from, number, message.bytes); });
}

void far_names::hear(peers& by, std::uint64_t from, std::uint64_t number,
                     std::span<const std::byte> message) noexcept {
  try {
    const borrowed_workbench on;
    const neutral_caller its_node(neutral_caller::of_node{from});
    const result<const wire::message_view&> read = on->reader.read(message);
    if (!read) return;
    if (const auto* const asked = std::get_if<wire::spawn_view>(&read->body)) {
      if (!is_open()) raise(errc::actor_lost, "the node where the actor was to live is leaving");
      resident_actors::global().reserve(
          by, from, *asked, [&by, from, number](const result<holder>& who) {
            if (!who) return say_name(by, from, number, who.error());
            say_name(by, from, number, name_answer{who->node, who->number});
          });
    } else if (const auto* const ask = std::get_if<wire::ask_view>(&read->body)) {
      hear_question(by, from, number, codec::decode<name_question>(ask->with));
    }
  } catch (...) {
    say_name(by, from, number, describe_current_exception("a question of another node"));
  }
}

void far_names::hear_question(peers& by, std::uint64_t from, std::uint64_t number,
                              const name_question& what) {
  const auto act = static_cast<name_act>(what.act);
  if (act == name_act::lives) return answer_living(by, from, number, what);
  if (act == name_act::find || act == name_act::type) {
    return when_settled({what.name_space, what.name},
                        [&by, from, number, what] { answer_living(by, from, number, what); });
  }
  if (!is_head()) raise(errc::node_lost, "the node that knew who has which name is leaving");
  const name_answer got = answer_as_head(from, what);
  if (number != 0) say_name(by, from, number, got);
}

// With a handle; null: there is none.
exec::actor_core* far_names::living_here(const name_question& what) {
  if (static_cast<name_act>(what.act) == name_act::find) {
    return exec::find_or_free(what.name, what.name_space, what.type.c_str());
  }
  exec::actor_core* const found = resident_actors::global().try_handle_of({what.node, what.number});
  if (found == nullptr || what.type == found->kind().type) return found;
  found->drop_handle();
  return nullptr;
}

void far_names::answer_living(peers& by, std::uint64_t to, std::uint64_t number,
                              const name_question& what) noexcept {
  exec::actor_core* found = nullptr;
  try {
    const borrowed_workbench on;
    on->write_for(to);
    on->references.clear();
    on->out.clear();
    spec::parcel_view value;
    if (static_cast<name_act>(what.act) == name_act::type) {
      const name_answer out{.type = exec::type_of_named(what.name, what.name_space)};
      value = codec::encode(on->out, out);
    } else {
      found = living_here(what);
    }
    if (found != nullptr) {
      const far_name known = name_of_actor(found, to, "the handle of a living actor");
      spec::reference named;
      named.what = known.id;
      named.owner = {known.owner, 0};
      named.kind = spec::reference_kind::actor;
      on->references.push_back(named);
    }
    value.references = on->references;
    const base::id request{peers::name_answer, number};
    write_answer(*on, request, value);
    // False is of one that is gone.
    static_cast<void>(far_handles::global().send(by, request, *on, peers::when_full::wait));
  } catch (...) {
    say_name(by, to, number, describe_current_exception("the handle of a living actor"));
  }
  if (found != nullptr) found->drop_handle();
}

}  // namespace manta::inline v0::node
