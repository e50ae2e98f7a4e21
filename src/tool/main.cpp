// SPDX-License-Identifier: Apache-2.0
// The program `manta`: reads the command line and gives each subject its verbs. Prints results to
// standard output and one line for an error to standard error.
#include <exception>

#include <manta/base/version.hpp>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "tool/control.hpp"

namespace {

int run(int argc, char** argv) {
  int exit_code = manta::tool::exit_good;
  CLI::App app("Starts jobs of manta, looks at their clusters and after what those keep on disks",
               "manta");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("manta {}.{}.{}", MANTA_VERSION_MAJOR,
                                                MANTA_VERSION_MINOR, MANTA_VERSION_PATCH));
  manta::tool::add_control(app, exit_code);
  manta::tool::add_nodes(app, exit_code);
  manta::tool::add_run(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);  // help and version
    fmt::print(stderr, "manta: {}; see manta --help\n", wrong.what());
    return manta::tool::exit_usage;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& failed) {
    fmt::print(stderr, "manta: {}\n", failed.what());
    return manta::tool::exit_problem;
  }
}
