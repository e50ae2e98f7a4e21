// SPDX-License-Identifier: Apache-2.0
#include <manta/semaphore.hpp>

#include <fmt/format.h>

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

std::size_t semaphore::available() const { return checked(1).available(); }
std::size_t semaphore::total() const { return checked(1).total(); }

}  // namespace manta::inline v0
