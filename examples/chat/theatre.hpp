// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "room.hpp"
#include "script.hpp"

namespace chat {

// Plays a script step by step and writes down what comes onto the board. It holds what a client
// holds, a handle for each member, and all rooms. What each member must have heard is kept in
// `owed`, and compared with what it says before it goes.
class theatre {
 public:
  theatre() : board_(1024) {}

  void play(const step& s) {
    if (s.verb == "server") {
      server_ = s.place;
    } else if (s.verb == "enter") {
      enter(s.place, s.nick);
    } else if (s.verb == "say") {
      say(s);
    } else if (s.verb == "who") {
      who(s.place);
    } else if (s.verb == "find") {
      const bool is_here = manta::find_actor<member>(s.nick, server_).has_value();
      write(server_ + (is_here ? ": here is " : ": there is no ") + s.nick);
    } else {
      go(s);
    }
  }

  // Every member that is left says what it heard.
  void end() {
    for (const auto& [key, here] : present_) compare(key);
  }

  const std::vector<std::string>& transcript() const { return transcript_; }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  using name = std::pair<std::string, std::string>;  // server, and nick or room
  struct client {
    manta::actor<member> handle;
    std::set<std::string> rooms;
    std::vector<std::string> owed;
  };

  void write(std::string line) { transcript_.push_back(std::move(line)); }

  // Waits for the next `count` lines on the board; who is in their rooms has heard them.
  void take_lines(const std::set<std::string>& rooms, std::size_t count) {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < count; ++i) lines.push_back(board_.receive());
    std::sort(lines.begin(), lines.end());  // lines of different rooms come in any order
    for (const std::string& line : lines) {
      for (auto& [key, one] : present_) {
        for (const std::string& r : rooms) {
          const bool is_of_room = line.starts_with(server_ + ' ' + r + ": ");
          if (key.first == server_ && one.rooms.contains(r) && is_of_room) one.owed.push_back(line);
        }
      }
      write(line);
    }
  }

  void enter(const std::string& place, const std::string& nick) {
    client& one = present_[{server_, nick}];
    if (!one.handle.valid() || one.rooms.contains(place)) {
      try {
        one.handle = manta::spawn<member>.with({.name = nick, .name_space = server_})(nick);
      } catch (const manta::name_taken&) {
        write(server_ + ": the name " + nick + " is taken");
        return;
      }
    }
    // Made by whoever enters first.
    manta::actor<room>& where = rooms_[{server_, place}];
    where = manta::spawn<room>.with({.name = place, .name_space = server_, .get_if_exists = true})(
        server_ + ' ' + place, board_);
    one.rooms.insert(place);
    manta::remote<&room::enter>(where, nick, one.handle).get();
    take_lines({place}, 1);
  }

  void say(const step& s) {
    const auto where = manta::find_actor<room>(s.place, server_);
    if (where && manta::remote<&room::say>(*where, s.nick, s.text).get()) {
      take_lines({s.place}, 1);
    } else {
      write(server_ + ' ' + s.place + ": there is no " + s.nick + " to say that");
    }
  }

  void who(const std::string& place) {
    const auto where = manta::find_actor<room>(place, server_);
    std::string line = server_ + ' ' + place + " has";
    const std::vector<std::string> names =
        where ? manta::remote<&room::names>(*where).get() : std::vector<std::string>();
    for (const std::string& nick : names) line += ' ' + nick;
    write(names.empty() ? line + " nobody" : line);
  }

  // Leaves by itself, is killed, or loses its last handle.
  void go(const step& s) {
    const name key{server_, s.nick};
    const auto at = present_.find(key);
    if (at == present_.end()) {
      write(server_ + ": there is no " + s.nick);
      return;
    }
    compare(key);
    const std::set<std::string> rooms = at->second.rooms;
    if (s.verb == "leave") {
      write(server_ + ": " + manta::remote<&member::leave>(at->second.handle).get());
    } else if (s.verb == "kick") {
      manta::kill(at->second.handle);
    }
    present_.erase(at);  // drops the last handle, which ends who neither left nor was killed
    take_lines(rooms, rooms.size());
  }

  void compare(const name& key) {
    const client& one = present_.at(key);
    if (manta::remote<&member::heard>(one.handle).get() != one.owed) {
      faults_.push_back(key.first + ' ' + key.second + " heard something else");
    }
  }

  manta::channel<std::string> board_;
  std::string server_ = "north";
  std::map<name, client> present_;
  std::map<name, manta::actor<room>> rooms_;
  std::vector<std::string> transcript_;
  std::vector<std::string> faults_;
};

}  // namespace chat
