// SPDX-License-Identifier: Apache-2.0
#include <manta/semaphore.hpp>

#include <utility>

#include <fmt/format.h>

#include <manta/node/shared_thing.hpp>
#include <manta/spec/error.hpp>

namespace manta::inline v0 {

namespace {

std::size_t check_permits(std::size_t asked) {
  if (static_cast<std::ptrdiff_t>(asked) >= 1) return asked;
  raise(errc::invalid_argument, fmt::format("semaphore: asked for {} permits, allowed 1 or more",
                                            static_cast<std::ptrdiff_t>(asked)));
}

}  // namespace

semaphore::semaphore(std::size_t permits)
    : core_(std::make_shared<exec::semaphore_core>(check_permits(permits))) {}

exec::semaphore_core& semaphore::checked(std::size_t count) const {
  if (!core_) {
    raise(errc::invalid_argument,
          "an empty semaphore handle was used; it was default-made or moved from; make one with "
          "semaphore(permits)");
  }
  if (count >= 1 && count <= core_->total()) return *core_;
  raise(errc::invalid_argument,
        fmt::format("semaphore: asked for {} permits, allowed 1 to {}, which is all there are",
                    static_cast<std::ptrdiff_t>(count), core_->total()));
}

permit semaphore::acquire(std::size_t count) const {
  checked(count).perform(count, std::nullopt);
  return permit(core_, count);
}

std::optional<permit> semaphore::acquire(std::size_t count, duration timeout) const {
  if (!checked(count).perform(count, base::after(timeout))) return std::nullopt;
  return permit(core_, count);
}

std::optional<permit> semaphore::try_acquire(std::size_t count) const {
  if (!checked(count).attempt(count)) return std::nullopt;
  return permit(core_, count);
}

namespace {

/// Stands for a semaphore of another process.
struct semaphore_mirror {
  semaphore_mirror(std::shared_ptr<node::far_link> to, std::size_t permits)
      : link(std::move(to)), core(permits) {
    core.stand_for(link->semaphore);
  }
  std::shared_ptr<node::far_link> link;
  exec::semaphore_core core;

  static std::shared_ptr<void> make(const std::shared_ptr<node::far_link>& link,
                                    std::uint64_t permits) {
    const auto made = std::make_shared<semaphore_mirror>(link, static_cast<std::size_t>(permits));
    return std::shared_ptr<exec::semaphore_core>(made, &made->core);
  }
};

}  // namespace

std::size_t semaphore::available() const { return checked(1).available(); }
std::size_t semaphore::total() const { return checked(1).total(); }

}  // namespace manta::inline v0

namespace manta::inline v0::codec {

void custom<semaphore>::write(out_archive& out, const semaphore& s) {
  node::write_thing<semaphore>(
      out, {.owner = s.core_, .core = s.core_.get(), .kind = spec::reference_kind::semaphore},
      s.valid() ? s.total() : 0);
}

semaphore custom<semaphore>::read(in_archive& in) {
  semaphore out;
  out.core_ = std::static_pointer_cast<exec::semaphore_core>(node::read_thing<semaphore>(
      in, spec::reference_kind::semaphore, nullptr, &semaphore_mirror::make));
  return out;
}

}  // namespace manta::inline v0::codec
