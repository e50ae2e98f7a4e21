// SPDX-License-Identifier: Apache-2.0
#include "node/far_streams.hpp"

#include <new>
#include <utility>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>

#include "node/far_handles.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

namespace {

error item_stays_error(const exec::job& item) noexcept {
  return spec::made_error(errc::unsupported, [&] {
    return fmt::format(
        "an item of a stream ({}) has handles that can't go to another node yet; yield the values "
        "themselves, or have the generator in the node of its reader",
        readable_name(item.ops->function));
  });
}

error nonsense_error() noexcept {
  return spec::made_error(errc::decode_failed, [] {
    return "the node that runs the generator sent an item of none, or more than it may";
  });
}

}  // namespace

far_streams& far_streams::global() {
  static auto* const made = new far_streams;
  return *made;
}

// ---- the generator's node

// Stands where the consumer waits. Lives until it has seen the end and was closed.
struct far_streams::outlet : exec::waiter {
  peers* by = nullptr;
  base::id name;
  exec::stream_ref core;
  std::shared_ptr<outlet> itself;  // until the end
  std::optional<error> failure;    // the generator's thread's, until that has ended
};

void far_streams::open(peers& by, const base::id& name, exec::job* made) {
  const carrier& of = *carrier_of(made);
  if (of.stream == nullptr) return;
  exec::stream_core* const core = of.stream(made);
  try {
    const auto out = std::make_shared<outlet>();
    out->by = &by;
    out->name = name;
    core->hold();
    out->core = exec::stream_ref(core);
    out->fire = [](exec::waiter* w) noexcept { send_on(*static_cast<outlet*>(w)); };
    {
      const std::lock_guard lock(mutex_);
      open_.insert_or_assign(name, out);
    }
    out->itself = out;
    core->add_outlet(out.get());  // nothing is there yet
    core->watch(made);
  } catch (...) {
    made->fail(error::out_of_memory(), 1);
    made->drop();
    throw;
  }
}

std::optional<error> far_streams::close(const base::id& name, const exec::job* ended) noexcept {
  const carrier* const by = carrier_of(ended);
  if (by == nullptr || by->stream == nullptr) return std::nullopt;
  decltype(open_)::node_type gone;
  {
    const std::lock_guard lock(mutex_);
    gone = open_.extract(name);
  }
  return gone.empty() ? std::nullopt : std::move(gone.mapped()->failure);
}

void far_streams::send_on(outlet& from) noexcept {
  for (;;) {
    while (exec::job* const item = from.core->pull()) {
      send_item(from, item);
      item->drop();
    }
    if (from.core->is_drained()) {
      const std::shared_ptr<outlet> last = std::move(from.itself);
      return;
    }
    if (from.core->add_outlet(&from)) return;
  }
}

// What can't go ends its generator, with that error. Its reader has allowed that many; where the
// way there is full it waits, as who answers does.
void far_streams::send_item(outlet& from, exec::job* item) noexcept {
  if (from.failure) return;
  try {
    const borrowed_workbench on;
    on->write_for(from.name.high);
    const base::id request{peers::item, from.name.low};
    if (!write_item(*on, item, request)) item_stays_error(*item).raise();
    const result<void> is =
        far_handles::global().send(*from.by, request, *on, peers::when_full::wait);
    if (!is) is.error().raise();
  } catch (...) {
    from.failure = describe_current_exception("the item of a stream");
    from.core->abandon();
  }
}

exec::stream_ref far_streams::find(const base::id& name) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(name);
  return found == open_.end() ? exec::stream_ref() : found->second->core;
}

void far_streams::flow(const base::id& name, const wire::flow_view& said) noexcept {
  const exec::stream_ref of = find(name);
  // Nonsense: nobody has taken what was not made.
  if (!of || said.credits == 0 || said.taken > of->pushed()) return;
  of->taken_elsewhere(said.taken, said.credits);
}

bool far_streams::stop(const base::id& name, bool with_children) noexcept {
  const exec::stream_ref of = find(name);
  if (!of) return false;
  if (with_children) {
    of->cancel();
  } else {
    of->abandon();
  }
  return true;
}

// ---- the reader's node

far_reader::far_reader(exec::job* away) noexcept {
  away->hold();
  generator = exec::job_ref(away);
  const carrier* const by = carrier_of(away);
  if (by == nullptr || by->stream == nullptr) return;
  exec::stream_core* const core = by->stream(away);
  core->hold();
  into = exec::stream_ref(core);
}

std::optional<error> far_reader::take(const wire::item_view* came) noexcept {
  if (came == nullptr || !into || into->has_too_many()) return nonsense_error();
  try {
    exec::job* const item = make_item(*carrier_of(generator.get()), *came);
    const bool is_first = into->pushed() == 0;
    into->push(item);
    if (is_first) into->first_came(generator.get());
    return std::nullopt;
  } catch (...) {
    return error::out_of_memory();
  }
}

// Small, and bounded by the items that came; the generator waits for it.
bool far_reader::say_flow(peers& by, std::uint64_t node, std::uint64_t stream,
                          const wire::flow_view& said) noexcept {
  try {
    const borrowed_workbench on;
    const base::id request{peers::flow, stream};
    if (!on->writer.write({request, 1, 0}, said)) return false;
    // False is of a node that is lost, with the generator.
    static_cast<void>(by.send_anyway(node, request, on->writer.pieces(), on->writer.size_bytes()));
    return true;
  } catch (...) {
    return false;
  }
}

bool has_yielded(exec::job& generator) noexcept {
  const carrier* const by = carrier_of(&generator);
  return by != nullptr && by->stream != nullptr && by->stream(&generator)->pushed() > 0;
}

}  // namespace manta::inline v0::node
