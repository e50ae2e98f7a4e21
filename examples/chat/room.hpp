// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

// The two kinds of actors: who takes part, and where.
namespace chat {

// A member's end of the line.
class member {
 public:
  explicit member(std::string nick) : nick_(std::move(nick)) {}

  std::size_t hear(std::string line) {
    heard_.push_back(std::move(line));
    return heard_.size();
  }
  std::vector<std::string> heard() const { return heard_; }

  // The actor ends when this has returned; the answer still arrives.
  std::string leave() {
    manta::this_actor::exit();
    return nick_ + " heard " + std::to_string(heard_.size()) + " lines";
  }

 private:
  std::string nick_;
  std::vector<std::string> heard_;
};

// Puts a line onto the board when all have heard it. It takes the futures themselves, not their
// values: a member may be gone meanwhile, and its failed future must not stop the line.
inline void post(manta::channel<std::string> board, std::string line,
                 std::vector<manta::future<std::size_t>> heard) {
  for (const auto& one : heard) static_cast<void>(one.try_get());
  board.send(std::move(line));
}

// Knows its members by weak handles, so that being in a room keeps nobody alive, and is told of
// their end by monitors.
class room {
 public:
  room(std::string title, manta::channel<std::string> board)
      : title_(std::move(title)), board_(std::move(board)) {}

  void enter(std::string nick, manta::actor<member> who) {
    members_[nick] = who;
    tell(nick + " enters");
    // The monitor's future is ready when the member has ended, for whatever reason. Then this
    // actor gets a call, if it lives still.
    const manta::weak_actor<room> self = manta::this_actor::handle<room>();
    static_cast<void>(manta::on_ready(
        manta::monitor(who), [self, nick](const manta::future<manta::actor_end>& end) {
          const manta::actor<room> here = self.lock();
          if (here.valid()) static_cast<void>(manta::remote<&room::gone>(here, nick, end.get()));
        }));
  }

  // False when there is no such member here.
  bool say(std::string nick, std::string text) {
    if (!members_.contains(nick)) return false;
    tell('<' + nick + "> " + text);
    return true;
  }

  void gone(std::string nick, manta::actor_end end) {
    members_.erase(nick);
    tell(nick + " is gone (" + manta::to_string(end.reason) + ')');
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [nick, who] : members_) out.push_back(nick);
    return out;
  }

 private:
  void tell(const std::string& text) {
    const std::string line = title_ + ": " + text;
    std::vector<manta::future<std::size_t>> heard;
    for (const auto& [nick, weak] : members_) {
      const manta::actor<member> who = weak.lock();
      if (who.valid()) heard.push_back(manta::remote<&member::hear>(who, line));
    }
    static_cast<void>(manta::remote<post>(board_, line, std::move(heard)));
  }

  std::string title_;
  manta::channel<std::string> board_;
  std::map<std::string, manta::weak_actor<member>> members_;
};

}  // namespace chat
