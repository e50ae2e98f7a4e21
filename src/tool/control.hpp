// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

// One subject of the tool: it adds its verbs to the command line, and the verb that was asked for
// leaves its exit code.

namespace manta::tool {

inline constexpr int exit_good = 0;
inline constexpr int exit_problem = 1;  ///< something was found, or could not be done
inline constexpr int exit_usage = 2;    ///< the command line is wrong

/// `manta control`: what is done to a control store's folder.
void add_control(CLI::App& to, int& exit_code);
/// `manta nodes` and `manta status`: who is a member of a cluster.
void add_nodes(CLI::App& to, int& exit_code);
/// `manta run`: starts the ranks of a job, here and on other machines.
void add_run(CLI::App& to, int& exit_code);

/// Bytes as text that a terminal can show: \n, \t, \\ and \xHH for what is not printable ASCII.
std::string escaped(const std::string& bytes);
/// Bytes as a JSON string with its quotes; a byte from 0x80 on is the character of that number.
std::string json_string(const std::string& bytes);

}  // namespace manta::tool
