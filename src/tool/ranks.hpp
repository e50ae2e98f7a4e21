// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

// The ranks of a job as processes that `manta run` has started, here or on other machines.
//
// On another machine a rank is the child of a shell that ssh has started there. What it needs is in
// that shell's command, but for the token, which comes as the first line of its input: command
// lines can be read by everybody. The input stays open; when it ends, whatever has become of this
// program, the shell ends its rank.
//
// A signal goes on to all ranks, and so does a second one: a node removes its sockets and its job's
// folder as it ends, within some 5 s whatever it runs. Who has not ended in time, or at a third
// signal, is killed, and what it had on this machine is removed here.
// Threads: one.

namespace manta::tool {

/// What a job is to be.
struct job_order {
  int size = 1;
  std::vector<std::string> hosts;    ///< empty: all ranks here
  std::string remote_shell = "ssh";  ///< called with a host and a command line
  std::string token_file;            ///< empty: the user's own
  std::vector<std::string> command;
};

/// Runs it to its end. The exit code of rank 0, 128 and a signal's number, or exit_problem.
int run_job(const job_order& what);

/// One word for a shell, whatever is in it.
std::string shell_word(const std::string& word);
/// The command line that starts a rank on another machine.
std::string remote_line(const std::vector<std::pair<std::string, std::string>>& variables,
                        const std::string& folder, const std::vector<std::string>& command);

}  // namespace manta::tool
