// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/options.hpp>

#include <cmath>

#include <fmt/format.h>

#include <manta/spec/error.hpp>

namespace manta::inline v0::spec {

namespace {

void check_cpus(const std::optional<double>& cpus, int cores) {
  if (!cpus) return;
  if (!std::isfinite(*cpus) || *cpus < 0) {
    raise(errc::invalid_argument,
          fmt::format("option cpus: asked {}, allowed 0 or more; leave it unset for one worker",
                      *cpus));
  }
  if (*cpus > cores) {
    raise(errc::infeasible,
          fmt::format("option cpus: asked {}, this runtime has {}; ask for less or start it with "
                      "more workers",
                      *cpus, cores));
  }
}

void check_gpus(double gpus) {
  if (!std::isfinite(gpus) || gpus < 0 || (gpus > 1 && gpus != std::floor(gpus))) {
    raise(errc::invalid_argument,
          fmt::format("option gpus: asked {}, allowed 0, a fraction below 1 or a whole number",
                      gpus));
  }
  if (gpus > 0) {
    raise(errc::infeasible,
          fmt::format("option gpus: asked {}, this runtime has 0; run it where there are GPUs",
                      gpus));
  }
}

void check_count(const char* key, int value) {
  if (value >= 0) return;
  raise(errc::invalid_argument, fmt::format("option {}: asked {}, allowed 0 or more", key, value));
}

void check_name(const std::optional<std::string>& name) {
  if (!name || !name->empty()) return;
  raise(errc::invalid_argument, "option name: asked an empty name; leave it unset for none");
}

void check_timeout(const std::optional<duration>& timeout) {
  if (!timeout || *timeout > duration::zero()) return;
  raise(errc::invalid_argument,
        fmt::format("option timeout: asked {} ns, allowed more than 0; leave it unset for none",
                    timeout->count()));
}

void check_priority(priority level) {
  if (level <= priority::high) return;
  raise(errc::invalid_argument, fmt::format("option priority: asked {}, allowed low, normal, high",
                                            static_cast<int>(level)));
}

}  // namespace

void check(const options& asked, int cores) {
  check_cpus(asked.cpus, cores);
  check_gpus(asked.gpus);
  check_count("max_retries", asked.max_retries);
  check_timeout(asked.timeout);
  check_priority(asked.priority);
  check_name(asked.name);
}

void check(const call_options& asked) {
  check_timeout(asked.timeout);
  check_name(asked.name);
}

void check(const actor_options& asked) {
  check_gpus(asked.gpus);
  check_count("max_restarts", asked.max_restarts);
  check_name(asked.name);
}

}  // namespace manta::inline v0::spec
