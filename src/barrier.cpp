// SPDX-License-Identifier: Apache-2.0
#include <manta/barrier.hpp>

#include <utility>

#include <fmt/format.h>

#include <manta/node/shared_thing.hpp>
#include <manta/spec/error.hpp>

namespace manta::inline v0 {

namespace {

std::size_t check_parties(std::size_t asked) {
  if (static_cast<std::ptrdiff_t>(asked) >= 1) return asked;
  raise(errc::invalid_argument, fmt::format("barrier: asked for {} parties, allowed 1 or more",
                                            static_cast<std::ptrdiff_t>(asked)));
}

/// Stands for a barrier of another process.
struct barrier_mirror {
  barrier_mirror(std::shared_ptr<node::far_link> to, std::size_t parties)
      : link(std::move(to)), core(parties) {
    core.stand_for(link->barrier);
  }
  std::shared_ptr<node::far_link> link;
  exec::barrier_core core;

  static std::shared_ptr<void> make(const std::shared_ptr<node::far_link>& link,
                                    std::uint64_t parties) {
    const auto made = std::make_shared<barrier_mirror>(link, static_cast<std::size_t>(parties));
    return std::shared_ptr<exec::barrier_core>(made, &made->core);
  }
};

}  // namespace

barrier::barrier(std::size_t parties)
    : core_(std::make_shared<exec::barrier_core>(check_parties(parties))) {}

exec::barrier_core& barrier::checked() const {
  if (core_) return *core_;
  raise(errc::invalid_argument,
        "an empty barrier handle was used; it was default-made or moved from; make one with "
        "barrier(parties)");
}

barrier_arrival barrier::arrive_and_wait() const {
  checked();
  const std::shared_ptr<exec::barrier_core> keep = core_;
  exec::barrier_party me;
  keep->perform(me);
  return {me.generation, me.is_last};
}

std::size_t barrier::parties() const { return checked().parties(); }

}  // namespace manta::inline v0

namespace manta::inline v0::codec {

void custom<barrier>::write(out_archive& out, const barrier& b) {
  node::write_thing<barrier>(
      out, {.owner = b.core_, .core = b.core_.get(), .kind = spec::reference_kind::barrier},
      b.valid() ? b.parties() : 0);
}

barrier custom<barrier>::read(in_archive& in) {
  barrier out;
  out.core_ = std::static_pointer_cast<exec::barrier_core>(
      node::read_thing<barrier>(in, spec::reference_kind::barrier, nullptr, &barrier_mirror::make));
  return out;
}

}  // namespace manta::inline v0::codec
