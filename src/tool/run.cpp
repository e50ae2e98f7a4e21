// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>

#include "tool/control.hpp"
#include "tool/ranks.hpp"

namespace manta::tool {

void add_run(CLI::App& to, int& exit_code) {
  auto given = std::make_shared<job_order>();
  CLI::App& verb = *to.add_subcommand(
      "run", "Starts the ranks of a job: manta run -n 4 --hosts a,b -- ./program arguments");
  verb.add_option("-n,--nodes", given->size, "How many ranks")->check(CLI::Range(1, 65536));
  verb.add_option("--hosts", given->hosts,
                  "Machines, which share the ranks in blocks; each needs the program at the same "
                  "place. Default: this one")
      ->delimiter(',');
  verb.add_option("--ssh", given->remote_shell, "What starts a command on another machine");
  verb.add_option("--token-file", given->token_file, "The token that all of them get");
  verb.add_option("command", given->command, "The program and its arguments, behind --")
      ->required();
  verb.callback([given, &exit_code] { exit_code = run_job(*given); });
}

}  // namespace manta::tool
