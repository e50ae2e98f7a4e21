// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace es {
namespace {

constexpr const char* help = R"(evolution_strategies [options]
Trains a small policy on Pendulum-v1 and CartPole-v1, thousands of rollout tasks a generation.

  --env pendulum|cartpole|all   what to train on (all)
  --seed N                      a number that decides the learning curve (1)
  --serial                      the plain twin: one thread, no runtime, the same learning curve
  --patience SECONDS            time for the last 5 % of a generation, then they are cut (5);
                                0 is fastest, and no longer reproducible
  --limit SECONDS               give up after this time (180)
  --curve FILE                  write the learning curve in full precision
  --manta-...                   the runtime's, such as --manta-workers=2
  --help                        this text

Exit code: 0 all solved, 1 not solved in time, 2 bad option.
)";

[[noreturn]] void refuse(std::string_view option, std::string_view found, std::string_view wanted) {
  std::fprintf(stderr, "evolution_strategies: %.*s: found '%.*s', wanted %.*s (--help lists all)\n",
               static_cast<int>(option.size()), option.data(), static_cast<int>(found.size()),
               found.data(), static_cast<int>(wanted.size()), wanted.data());
  std::exit(2);
}

template <class Number>
Number number_from(std::string_view option, std::string_view text, std::string_view wanted) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse(option, text, wanted);
  return value;
}

double seconds_from(std::string_view option, std::string_view text) {
  constexpr std::string_view wanted = "seconds between 0 and 1000000";
  const double value = number_from<double>(option, text, wanted);
  if (!(value >= 0.0 && value <= 1e6)) refuse(option, text, wanted);
  return value;
}

void choose_environment(options& o, std::string_view text) {
  if (text != "all" && text != "pendulum" && text != "cartpole") {
    refuse("--env", text, "pendulum, cartpole or all");
  }
  o.train_pendulum = text != "cartpole";
  o.train_cart_pole = text != "pendulum";
}

void set(options& o, std::string_view option, std::string_view value) {
  if (option == "--env") {
    choose_environment(o, value);
  } else if (option == "--seed") {
    o.seed = number_from<std::uint64_t>(option, value, "a whole number from 0 to 2^64 - 1");
  } else if (option == "--patience") {
    o.patience_seconds = seconds_from(option, value);
  } else if (option == "--limit") {
    o.limit_seconds = seconds_from(option, value);
  } else if (option == "--curve" && !value.empty()) {
    o.curve_file = value;
  } else {
    refuse(option, value, option == "--curve" ? "a file name" : "an option");
  }
}

}  // namespace

std::optional<options> options_from(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help") {
      std::fputs(help, stdout);
      return std::nullopt;
    }
    if (argument.starts_with("--manta-")) continue;
    if (argument == "--serial") {
      o.serial = true;
      continue;
    }
    // Both "--seed 3" and "--seed=3".
    const std::size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const bool takes_value = name == "--env" || name == "--seed" || name == "--patience" ||
                             name == "--limit" || name == "--curve";
    if (!takes_value) refuse("argument", argument, "an option");
    if (equals != std::string_view::npos) {
      set(o, name, argument.substr(equals + 1));
    } else {
      if (i + 1 == argc) refuse(name, "nothing", "a value");
      set(o, name, argv[++i]);
    }
  }
  return o;
}

}  // namespace es
