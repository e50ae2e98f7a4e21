// SPDX-License-Identifier: Apache-2.0
// Streams whose generators are in other nodes: far_streams.hpp.
#include <optional>
#include <utility>
#include <variant>

#include <manta/node/carrier.hpp>

#include "node/far_actors.hpp"
#include "node/far_streams.hpp"
#include "node/trade.hpp"
#include "node/workbench.hpp"

namespace manta::inline v0::node {

far_reader trade::reader_of(std::uint64_t node, std::uint64_t number) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = away_.find(number);
  if (found == away_.end() || found->second.node != node) return {};
  return far_reader(found->second.job);
}

void trade::flow(exec::job* generator, std::uint64_t taken, std::uint32_t credits) noexcept {
  const bool is_call = generator->ops->origin != nullptr;
  const auto [node, number] =
      is_call ? far_actors::global().where_is(generator) : where_is(generator);
  peers* const by = peers_.load();
  if (number == 0 || by == nullptr) return;  // it has ended
  const std::uint64_t stream =
      is_call ? far_streams::of_call(number) : far_streams::of_task(number);
  if (far_reader::say_flow(*by, node, stream, {taken, credits})) return;
  stop(generator, true);
  end_generator(node, stream, error::out_of_memory());
}

// The looker's thread.
void trade::on_item(std::uint64_t from, std::uint64_t stream, bytes_view message) noexcept {
  const std::uint64_t number = far_streams::number_of(stream);
  far_reader to = far_streams::is_of_call(stream) ? far_actors::global().reader_of(from, number)
                                                  : reader_of(from, number);
  if (to.generator.get() == nullptr) return;  // it was ended here
  const borrowed_workbench on;
  const neutral_caller nobody;
  const result<const wire::message_view&> read = on->reader.read(message);
  const std::optional<error> why =
      to.take(read ? std::get_if<wire::item_view>(&read->body) : nullptr);
  if (!why) return;
  stop(to.generator.get(), true);
  end_generator(from, stream, *why);
}

// The loop's thread.
void trade::hear_flow(std::uint64_t from, std::uint64_t stream, bytes_view message) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  const auto* const said = read ? std::get_if<wire::flow_view>(&read->body) : nullptr;
  if (said != nullptr) far_streams::global().flow({from, stream}, *said);
}

void trade::end_generator(std::uint64_t node, std::uint64_t stream, const error& why) noexcept {
  const std::uint64_t number = far_streams::number_of(stream);
  if (far_streams::is_of_call(stream)) {
    far_actors::global().end_call(node, number, why);
  } else {
    end_flight(node, number, why);
  }
}

}  // namespace manta::inline v0::node
