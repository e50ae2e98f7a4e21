// SPDX-License-Identifier: Apache-2.0
#include "control/cluster_rows.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "control/row_bytes.hpp"

namespace manta::inline v0::control {

namespace {

// Digits at the front of `from`, which they leave.
std::uint64_t take_number(std::string_view& from) {
  const std::uint64_t n = number_of(from);
  from.remove_prefix(std::min(from.size(), digits(n).size()));
  return n;
}

base::id take_id(std::string_view& from) {
  const std::uint64_t high = take_number(from);
  return {high, take_number(from)};
}

// <node>\0<epoch>
std::string owner_part(const owner_id& of) { return of.node + '\0' + digits(of.epoch); }

owner_id take_owner(std::string_view& from) {
  const std::size_t end = std::min(from.find('\0'), from.size());
  owner_id out{std::string(from.substr(0, end)), 0};
  from.remove_prefix(std::min(end + 1, from.size()));
  out.epoch = take_number(from);
  return out;
}

std::uint64_t from_end(const std::optional<wall_time>& at) { return at ? micros(*at) : 0; }
std::optional<wall_time> to_end(std::uint64_t us) {
  return us == 0 ? std::nullopt : std::optional(to_time(us));
}

// An enumerator that this version does not know is its last one: an end.
template <class Enum>
Enum to_enum(std::uint8_t n, Enum last) {
  return static_cast<Enum>(std::min(n, static_cast<std::uint8_t>(last)));
}

template <class List>
void write_texts(List to, const std::vector<std::string>& from) {
  for (unsigned i = 0; i < to.size(); ++i) to.set(i, text(from[i]));
}
std::vector<std::string> read_texts(capnp::List<capnp::Text>::Reader from) {
  std::vector<std::string> out;
  out.reserve(from.size());
  for (const auto one : from) out.push_back(text(one));
  return out;
}

void write_demand(schema::Demand::Builder to, const spec::demand& from) {
  to.setCpus(from.cpus);
  to.setGpus(from.gpus);
  to.setMemoryBytes(from.memory_bytes);
  auto list = to.initCustom(static_cast<unsigned>(from.custom.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setKey(text(from.custom[i].first));
    list[i].setAmount(from.custom[i].second);
  }
}
spec::demand read_demand(schema::Demand::Reader from) {
  spec::demand out{from.getCpus(), from.getGpus(), from.getMemoryBytes(), {}};
  for (const auto one : from.getCustom()) {
    out.custom.emplace_back(text(one.getKey()), one.getAmount());
  }
  return out;
}

unsigned count(const auto& list) { return static_cast<unsigned>(list.size()); }

}  // namespace

std::string digits(const base::id& of) { return digits(of.high) + digits(of.low); }

std::string places_of(const owner_id& owner) {
  return std::string(keys::places) + owner_part(owner) + '/';
}
std::string tasks_of(const owner_id& owner) {
  return std::string(keys::tasks) + owner_part(owner) + '/';
}

// Nodes.

std::string key_of(const node_row& row) {
  return std::string(keys::nodes) + owner_part({row.name, row.epoch});
}

std::string to_bytes(const node_row& row) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<schema::Node>();
  to.setEpoch(row.epoch);
  to.setState(static_cast<std::uint8_t>(row.is));
  to.setAddress(text(row.address));
  to.setHost(text(row.host));
  to.setPid(row.pid);
  write_demand(to.initHas(), row.has);
  auto labels = to.initLabels(count(row.labels));
  for (unsigned i = 0; i < labels.size(); ++i) {
    labels[i].setKey(text(row.labels[i].first));
    labels[i].setValue(text(row.labels[i].second));
  }
  to.setJoined(micros(row.joined));
  to.setEnded(from_end(row.ended));
  to.setCause(text(row.cause));
  to.getProcess().setHigh(row.process.high);
  to.getProcess().setLow(row.process.low);
  to.setRole(static_cast<std::uint8_t>(row.as));
  return flat(message);
}

template <>
result<node_row> read_row(std::string_view key, std::string_view bytes) {
  return with_message<schema::Node>(key, bytes, [key](schema::Node::Reader from) {
    node_row row;
    std::string_view own = own_part(key, keys::nodes);
    row.name = take_owner(own).node;
    row.epoch = from.getEpoch();
    row.is = to_enum(from.getState(), node_row::state::ended);
    row.address = text(from.getAddress());
    row.host = text(from.getHost());
    row.pid = from.getPid();
    row.has = read_demand(from.getHas());
    for (const auto one : from.getLabels()) {
      row.labels.emplace_back(text(one.getKey()), text(one.getValue()));
    }
    row.joined = to_time(from.getJoined());
    row.ended = to_end(from.getEnded());
    row.cause = text(from.getCause());
    row.process = {from.getProcess().getHigh(), from.getProcess().getLow()};
    row.as = to_enum(from.getRole(), spec::node_role::observer);
    return row;
  });
}

// Actors.

std::string key_of(const actor_row& row) { return std::string(keys::actors) + digits(row.id); }

std::string to_bytes(const actor_row& row) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<schema::Actor>();
  to.setName(text(row.name));
  to.setNameSpace(text(row.name_space));
  to.setType(text(row.type));
  to.setJob(text(row.job));
  to.setNode(text(row.node));
  to.setIncarnation(row.incarnation);
  to.setRestartsLeft(row.restarts_left);
  to.setState(static_cast<std::uint8_t>(row.is));
  to.setEnded(from_end(row.ended));
  to.setCause(text(row.cause));
  to.setRecipe(data(row.recipe));
  return flat(message);
}

template <>
result<actor_row> read_row(std::string_view key, std::string_view bytes) {
  return with_message<schema::Actor>(key, bytes, [key](schema::Actor::Reader from) {
    actor_row row;
    std::string_view own = own_part(key, keys::actors);
    row.id = take_id(own);
    row.name = text(from.getName());
    row.name_space = text(from.getNameSpace());
    row.type = text(from.getType());
    row.job = text(from.getJob());
    row.node = text(from.getNode());
    row.incarnation = from.getIncarnation();
    row.restarts_left = from.getRestartsLeft();
    row.is = to_enum(from.getState(), actor_row::state::ended);
    row.ended = to_end(from.getEnded());
    row.cause = text(from.getCause());
    row.recipe = data(from.getRecipe());
    return row;
  });
}

// Placement groups.

std::string key_of(const group_row& row) { return std::string(keys::groups) + digits(row.id); }

std::string to_bytes(const group_row& row) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<schema::Group>();
  to.setJob(text(row.job));
  to.setStrategy(static_cast<std::uint8_t>(row.how));
  auto bundles = to.initBundles(count(row.bundles));
  for (unsigned i = 0; i < bundles.size(); ++i) write_demand(bundles[i], row.bundles[i]);
  write_texts(to.initNodes(count(row.nodes)), row.nodes);
  return flat(message);
}

template <>
result<group_row> read_row(std::string_view key, std::string_view bytes) {
  return with_message<schema::Group>(key, bytes, [key](schema::Group::Reader from) {
    group_row row;
    std::string_view own = own_part(key, keys::groups);
    row.id = take_number(own);
    row.job = text(from.getJob());
    row.how = to_enum(from.getStrategy(), strategy::strict_spread);
    for (const auto one : from.getBundles()) row.bundles.push_back(read_demand(one));
    row.nodes = read_texts(from.getNodes());
    return row;
  });
}

// Owners, and where their objects are.

std::string key_of(const owner_row& row) { return std::string(keys::owners) + owner_part(row.id); }

std::string to_bytes(const owner_row& row) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<schema::Owner>();
  to.setJob(text(row.job));
  to.setAdopter(text(row.adopter));
  to.setEnded(from_end(row.ended));
  return flat(message);
}

template <>
result<owner_row> read_row(std::string_view key, std::string_view bytes) {
  return with_message<schema::Owner>(key, bytes, [key](schema::Owner::Reader from) {
    owner_row row;
    std::string_view own = own_part(key, keys::owners);
    row.id = take_owner(own);
    row.job = text(from.getJob());
    row.adopter = text(from.getAdopter());
    row.ended = to_end(from.getEnded());
    return row;
  });
}

std::string key_of(const place_row& row) { return places_of(row.owner) + digits(row.object); }

std::string to_bytes(const place_row& row) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<schema::Place>();
  to.setBytes(row.bytes);
  write_texts(to.initNodes(count(row.nodes)), row.nodes);
  to.setSpilled(text(row.spilled));
  return flat(message);
}

template <>
result<place_row> read_row(std::string_view key, std::string_view bytes) {
  return with_message<schema::Place>(key, bytes, [key](schema::Place::Reader from) {
    place_row row;
    std::string_view own = own_part(key, keys::places);
    row.owner = take_owner(own);
    own.remove_prefix(std::min<std::size_t>(1, own.size()));
    row.object = take_id(own);
    row.bytes = from.getBytes();
    row.nodes = read_texts(from.getNodes());
    row.spilled = text(from.getSpilled());
    return row;
  });
}

}  // namespace manta::inline v0::control
