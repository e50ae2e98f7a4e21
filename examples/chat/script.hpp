// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What a script says. Nothing here knows of manta.
namespace chat {

// One line of it: "say #lobby ann good morning".
struct step {
  std::string verb;
  std::string place;  // a room or a server
  std::string nick;
  std::string text;
};

// Throws std::invalid_argument with line and reason.
inline step step_from(const std::string& line, int number) {
  std::istringstream words(line);
  step out;
  words >> out.verb;
  const bool has_place =
      out.verb == "enter" || out.verb == "say" || out.verb == "who" || out.verb == "server";
  const bool has_nick = out.verb == "enter" || out.verb == "say" || out.verb == "leave" ||
                        out.verb == "drop" || out.verb == "kick" || out.verb == "find";
  if (has_place) words >> out.place;
  if (has_nick) words >> out.nick;
  std::getline(words >> std::ws, out.text);
  const bool has_all = (has_place || has_nick) && has_place != out.place.empty() &&
                       has_nick != out.nick.empty() && (out.verb == "say") != out.text.empty();
  if (!has_all) {
    throw std::invalid_argument("line " + std::to_string(number) + ": found '" + line +
                                "', wanted one of: server NAME, enter ROOM NICK, say ROOM NICK "
                                "TEXT, leave NICK, drop NICK, kick NICK, who ROOM, find NICK");
  }
  return out;
}

// Empty lines and lines that begin with a '-' are left out.
inline std::vector<step> steps_from(std::istream& lines) {
  std::vector<step> out;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (!line.empty() && line[0] != '-') out.push_back(step_from(line, number));
  }
  return out;
}

constexpr const char* built_in_script = R"(
enter #lobby ann
enter #lobby bob
say #lobby ann good morning
- One name, one member; on another server it is another one.
enter #lobby ann
server south
find ann
enter #lobby ann
say #lobby ann is anybody here?
server north
who #lobby
enter #den bob
enter #den cleo
say #den bob psst
- Three ways to go.
leave ann
find ann
kick bob
say #lobby bob can you hear me?
say #den cleo alone at last
drop cleo
who #den
- The name is free again.
enter #lobby ann
say #lobby ann back again
who #lobby
server south
who #lobby
)";

constexpr const char* built_in_transcript = R"(
north #lobby: ann enters
north #lobby: bob enters
north #lobby: <ann> good morning
north: the name ann is taken
south: there is no ann
south #lobby: ann enters
south #lobby: <ann> is anybody here?
north #lobby has ann bob
north #den: bob enters
north #den: cleo enters
north #den: <bob> psst
north: ann heard 3 lines
north #lobby: ann is gone (exited)
north: there is no ann
north #den: bob is gone (killed)
north #lobby: bob is gone (killed)
north #lobby: there is no bob to say that
north #den: <cleo> alone at last
north #den: cleo is gone (ended)
north #den has nobody
north #lobby: ann enters
north #lobby: <ann> back again
north #lobby has ann
south #lobby has ann
)";

}  // namespace chat
