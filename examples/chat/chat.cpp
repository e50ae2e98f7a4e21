// SPDX-License-Identifier: Apache-2.0
//
// A chat: actors with names, rooms that are made by who enters first, and monitors that tell when a
// member is gone, however that came about.
//
//      server north (a namespace)                         server south
//     +-------------------------------------------+      +------------------------+
//     |  ann     bob     cleo      actors, found   |      |  ann   (another one)   |
//     |   |       | \      |       by their names  |      |   |                    |
//     |  #lobby --+  +-- #den      actors, too     |      |  #lobby                |
//     +-------------------------------------------+      +------------------------+
//
//     room --- hear(line) ---> each member       a weak handle each: a room keeps nobody alive
//     room <-- gone(nick, how) --- monitor       ready when the member left, was killed, or lost
//                                                its last handle
//
// A script is played step by step. What the rooms say comes out of a channel, line by line, and is
// compared with the transcript that the script must have; what each member heard is compared with
// what was said where it was.
#include <manta/manta.hpp>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/command_line.hpp"
#include "script.hpp"
#include "theatre.hpp"

namespace {

constexpr const char* help = R"(chat: rooms and members that are actors with names

usage: chat [options]
  --script FILE    play this one instead of the built-in one; a step is a line:
                     server NAME            what follows happens there
                     enter ROOM NICK        makes the member, and the room, where there is none
                     say ROOM NICK TEXT
                     leave NICK             the member ends itself
                     drop NICK              its last handle goes
                     kick NICK              it is killed
                     who ROOM               its members
                     find NICK              whether there is one
  --quiet          print the last line only
  --manta-...      the runtime's, such as --manta-workers=2
  --help           this text

Exit code: 0 the transcript is right, 1 not, 2 bad option or script.
)";

std::vector<chat::step> script_from(const examples::command_line& line, const std::string& path) {
  std::ifstream file(path);
  if (!file) line.refuse("--script", path, "a file that can be read");
  try {
    return chat::steps_from(file);
  } catch (const std::invalid_argument& error) {
    line.refuse("--script", path, error.what());
  }
}

// The first line that is not as expected, or an empty one.
std::string difference(const std::vector<std::string>& found) {
  std::istringstream lines(chat::built_in_transcript + 1);
  std::string wanted;
  for (const std::string& line : found) {
    if (!std::getline(lines, wanted)) return "found '" + line + "' behind the end";
    if (line != wanted) return "found '" + line + "', wanted '" + wanted + "'";
  }
  if (std::getline(lines, wanted)) return "found the end, wanted '" + wanted + "'";
  return "";
}

int run(const std::vector<chat::step>& steps, bool is_built_in, bool is_quiet) {
  chat::theatre all;
  for (const chat::step& s : steps) {
    const std::size_t before = all.transcript().size();
    all.play(s);
    for (std::size_t i = before; i < all.transcript().size() && !is_quiet; ++i) {
      std::printf("%s\n", all.transcript()[i].c_str());
    }
  }
  all.end();
  for (const std::string& fault : all.faults()) std::printf("fault: %s\n", fault.c_str());
  const std::string other = is_built_in ? difference(all.transcript()) : "";
  if (!other.empty()) std::printf("transcript: %s\n", other.c_str());
  if (!other.empty() || !all.faults().empty()) {
    std::printf("chat: %zu steps, %zu lines, NOT as they should be\n", steps.size(),
                all.transcript().size());
    return 1;
  }
  std::printf("chat: %zu steps, %zu lines%s; every member heard what it had to\n", steps.size(),
              all.transcript().size(), is_built_in ? ", all as expected" : "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("chat", help, argc, argv);
  const std::string path = line.text("--script", "");
  const bool is_quiet = line.flag("--quiet");
  line.finish();
  std::istringstream built_in(chat::built_in_script);
  const auto steps = path.empty() ? chat::steps_from(built_in) : script_from(line, path);
  try {
    const manta::runtime rt(argc, argv);
    return run(steps, path.empty(), is_quiet);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chat: %s\n", error.what());
    return 1;
  }
}
