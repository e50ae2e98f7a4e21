// SPDX-License-Identifier: Apache-2.0
#include "bulk/client.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bulk/connection.hpp"
#include "bulk/message.hpp"

namespace manta::inline v0::bulk {

namespace {

constexpr auto first_pause = std::chrono::milliseconds(50);
constexpr auto longest_pause = std::chrono::milliseconds(500);
// As the other end sends them: what was read is in the cache when it is summed up.
constexpr std::size_t read_piece_bytes = std::size_t{256} << 10U;
constexpr std::size_t read_in_a_turn = std::size_t{4} << 20U;
// Whoever adds orders numbers holders from below.
constexpr holder_id helper_mark = holder_id{1} << 63U;

error end_error(pull_end how, const std::string& why) {
  switch (how) {
    case pull_end::not_there:
      return {errc::object_lost,
              "bulk: asked for an object, found that nobody has it any more; make it again"};
    case pull_end::damaged:
      return {errc::decode_failed,
              "bulk: asked for an object, and twice its bytes were not those that were sent; look "
              "at the memory and the network of both machines"};
    default:
      return {errc::node_lost,
              fmt::format("bulk: asked for an object, found no holder that can be reached ({}); "
                          "see whether it and its machine still run",
                          why.empty() ? "none was named" : why)};
  }
}

}  // namespace

// Says requests, and hears their answers one after the other.
class client::line final : public connection {
 public:
  line(client& of, line_id number, holder_id to, std::size_t place, int file)
      : connection(of.reactor_, *of.with_.by, file, line_end::dialler, of.others_.at(to).process),
        of_(of),
        number_(number),
        to_(to),
        place_(place) {}

  holder_id to() const noexcept { return to_; }
  std::size_t place() const noexcept { return place_; }
  /// Since when its next answer is due, if one is.
  base::time_point due_since() const noexcept { return due_since_; }
  void ask(const request& what) {
    // The plan has it as asked for by now.
    if (of_.plan_.under_way(number_) == 1) due_since_ = base::now();
    note(what);
  }
  void note(const request& what) {
    say(write_request(what));
    kick();
  }

 private:
  enum class part : std::uint8_t { head, body, sum };

  turn advance() override;
  void on_open() override { of_.opened(number_); }
  void on_over(const std::string& why) override { of_.over(number_, why); }
  io_step hear(std::size_t& got);
  io_step hear_body(std::size_t& got);
  bool head_came();
  void sum_came();

  client& of_;
  const line_id number_;
  const holder_id to_;
  const std::size_t place_;
  part part_ = part::head;
  std::size_t read_ = 0;  // of that part
  answer_block head_{};
  sum_block sum_{};
  answer is_{};
  checksum summing_;
  base::time_point due_since_{};
};

connection::turn client::line::advance() {
  std::size_t came = 0;
  while (came < read_in_a_turn) {
    if (flush() == io_step::ended) return turn::over;
    std::size_t got = 0;
    const io_step is = hear(got);
    if (is == io_step::ended) return turn::over;
    if (is != io_step::done) {
      await(part_ == part::body ? is_.bytes - read_ + sum_.size() : 1);
      return turn::waits;
    }
    came += got;
  }
  return turn::again;
}

io_step client::line::hear(std::size_t& got) {
  // A helper's that is done without by now: it lives until its turn to end, and asks nothing.
  if (part_ != part::head && of_.plan_.front(number_) == nullptr) return io_step::ended;
  if (part_ == part::body) return hear_body(got);
  const std::span<std::byte> to =
      part_ == part::head ? std::span<std::byte>(head_) : std::span<std::byte>(sum_);
  const io_step is = read(to.subspan(read_), got);
  if (is != io_step::done) return is;
  read_ += got;
  if (read_ < to.size()) return is;
  read_ = 0;
  if (part_ == part::sum) {
    sum_came();
    return is;
  }
  if (head_came()) return is;
  why_ = "what came is no answer to what was asked";
  return io_step::ended;
}

bool client::line::head_came() {
  const chunk_ask* const asked = of_.plan_.front(number_);
  const std::optional<answer> said = read_answer(head_);
  if (asked == nullptr || !said.has_value() || said->at != asked->at) return false;
  is_ = *said;
  if (is_.is != answer_status::here) due_since_ = base::now();
  if (is_.is == answer_status::not_here) {
    of_.settle(number_, fate::lacks);
    return true;
  }
  if (is_.is == answer_status::late) {
    of_.settle(number_, fate::late);
    return true;
  }
  if (is_.is == answer_status::elsewhere) {
    of_.told(number_, is_.whom);
    return true;
  }
  if (is_.bytes != asked->bytes) return false;
  summing_.reset();
  part_ = part::body;
  return true;
}

// Straight to where it belongs; which is asked each time, since nobody may want it any more.
io_step client::line::hear_body(std::size_t& got) {
  const std::size_t most = std::min<std::size_t>(read_piece_bytes, is_.bytes - read_);
  const chunk_ask* const asked = of_.plan_.front(number_);
  const auto order = of_.orders_.find(asked->pull);
  std::span<std::byte> to = std::span(of_.nowhere_).first(most);
  if (order != of_.orders_.end()) {
    to = order->second.of.to.subspan(static_cast<std::size_t>(is_.at) + read_, most);
  }
  const io_step is = read(to, got);
  if (is != io_step::done) return is;
  summing_.add(to.first(got));
  read_ += got;
  if (read_ < is_.bytes) return is;
  read_ = 0;
  part_ = part::sum;
  return is;
}

void client::line::sum_came() {
  part_ = part::head;
  due_since_ = base::now();
  of_.counts_.came_bytes += is_.bytes;
  const bool is_right = read_sum(sum_) == summing_.value();
  of_.settle(number_, is_right ? fate::came : fate::wrong);
}

client::client(reactor& at, const station_settings& with)
    : reactor_(at), with_(with), plan_(with.chunks), nowhere_(read_piece_bytes), looks_(at) {}
client::~client() = default;

station_counts client::counts() const noexcept {
  station_counts out = counts_;
  out.lines_now = lines_.size();
  return out;
}

void client::fetch(order one) {
  std::vector<holder_id> from;
  for (holder& by : one.holders) {
    other& known = others_[by.number];
    known.process = by.process;
    if (!by.places.empty()) known.places = std::move(by.places);
    from.push_back(by.number);
  }
  const pull_id number = one.number;
  const std::uint64_t bytes = one.to.size();
  taking made{.of = std::move(one), .first = from.empty() ? 0 : from.front()};
  // What comes in one piece has nothing to give on until it is here.
  made.may_be_told = made.of.reader != 0 && bytes > with_.chunks.chunk_bytes;
  const base::id object = made.of.object;
  const chunks_here here = std::move(made.of.here);
  if (!orders_.try_emplace(number, std::move(made)).second) return;
  by_object_[object] = number;
  plan_.add(number, bytes, from, here);
  go_on();
}

void client::drop(pull_id number) {
  plan_.drop(number);
  const auto found = orders_.find(number);
  if (found == orders_.end()) return;
  over_with(found->second, false);
  orders_.erase(found);
}

void client::lose(holder_id which) {
  why_ = "it is lost";
  others_.erase(which);
  for (auto at = lines_.begin(); at != lines_.end();) {
    const auto one = at++;
    if (one->second->to() != which) continue;
    plan_.closed(one->first);
    lines_.erase(one);
  }
  plan_.lost(which);
  go_on();
}

client::holding client::find(const request& asked) const {
  const auto known = by_object_.find(asked.object);
  if (known == by_object_.end()) return {};
  const order& of = orders_.at(known->second).of;
  if (asked.at > of.to.size() || asked.bytes > of.to.size() - asked.at) return {};
  if (!plan_.is_here(known->second, asked.at, asked.bytes)) return {.is_fetched = true};
  const auto bytes = of.to.subspan(static_cast<std::size_t>(asked.at), asked.bytes);
  return {.is_fetched = true, .has = pinned_bytes{bytes, of.keeps}};
}

void client::settle(line_id by, fate is) {
  const auto at = lines_.find(by);
  const auto from = at == lines_.end() ? others_.end() : others_.find(at->second->to());
  if (from != others_.end() && is == fate::came) from->second.failures = 0;
  if (is == fate::wrong) ++counts_.wrong_chunks;
  const bool is_helper = from != others_.end() && from->second.helps != 0;
  if (is == fate::came) {
    const chunk_ask asked = *plan_.front(by);
    plan_.came(by);
    came(asked, is_helper);
  }
  if (is == fate::lacks || is == fate::late) plan_.lacks(by);
  if (is == fate::wrong) plan_.wrong(by);
  if (is_helper && is != fate::came) {
    leave_helper(from->first, is == fate::lacks ? flaw::has_nothing : flaw::another);
  }
  go_on();
}

void client::came(const chunk_ask& what, bool by_helper) {
  if (by_helper) counts_.helped_bytes += what.bytes;
  const auto of = orders_.find(what.pull);
  if (of == orders_.end()) return;
  of->second.may_be_told = false;  // who is given some is given the rest
  if (of->second.of.came) of->second.of.came(what.bytes);
  if (changed_) changed_(of->second.of.object);
}

// ---- helpers

void client::told(line_id by, std::uint64_t reader) {
  const auto of = orders_.find(plan_.front(by)->pull);
  holder_id helper = 0;
  if (of != orders_.end()) {
    const bool is_first = lines_.at(by)->to() == of->second.first;
    // Who was not asked so has nothing else to say.
    if (!is_first || of->second.said_who == 0) return settle(by, fate::lacks);
    --of->second.said_who;
  }
  // Of several answers under way the first one counts.
  if (of != orders_.end() && of->second.may_be_told) {
    of->second.may_be_told = false;
    helper = of->second.helper = add_helper(of->first, of->second, reader);
  }
  plan_.told(by, helper);
  go_on();
}

// Each has connections of its own: who fetches many objects has most of them from their makers.
bool client::has_room_for_helper() const {
  const auto count =
      std::ranges::count_if(others_, [](const auto& one) { return one.second.helps != 0; });
  return static_cast<std::size_t>(count) < with_.most_helpers;
}

holder_id client::add_helper(pull_id number, const taking& one, std::uint64_t reader) {
  if (!one.of.find || reader == one.of.reader || !has_room_for_helper()) return 0;
  holder is = one.of.find(reader);
  if (is.places.empty()) return 0;
  const holder_id made = helper_mark | ++last_helper_;
  other& of = others_[made];
  of.process = is.process;
  of.places = std::move(is.places);
  of.helps = number;
  of.reader = reader;
  return made;
}

// What was under way there is missing once more. May be called by one of its lines.
void client::leave_helper(holder_id which, flaw why) {
  const auto found = others_.find(which);
  if (found == others_.end()) return;
  ++counts_.helpers_left;
  if (const auto of = orders_.find(found->second.helps); of != orders_.end()) {
    const std::uint64_t reader = found->second.reader;
    of->second.helper = 0;
    if (why == flaw::has_nothing) note(of->second, reader, false);
    const bool is_told = why == flaw::is_unreached && of->second.of.unreached;
    if (is_told) of->second.of.unreached(reader);
  }
  close_soon(which);
  plan_.lost(which);
}

// Of a pull that the plan has forgotten, so that nothing is missing once more.
void client::over_with(const taking& one, bool has_it) noexcept {
  if (one.helper != 0) close_soon(one.helper);
  const auto known = by_object_.find(one.of.object);
  if (known != by_object_.end() && known->second == one.of.number) by_object_.erase(known);
  if (one.is_known) note(one, one.of.reader, has_it);
  try {
    if (changed_) changed_(one.of.object);
  } catch (const std::bad_alloc&) {
    return;  // who waits for it is told that it is not here, in time
  }
}

// Over any connection to the first holder: if there is none it knows that, and forgets.
void client::note(const taking& one, std::uint64_t reader, bool has_it) noexcept {
  try {
    for (const auto& [number, by] : lines_) {
      if (by->to() != one.first || !by->is_open()) continue;
      return by->note({one.of.object, has_it ? 1U : 0U, 0, reader});
    }
  } catch (const std::bad_alloc&) {
    return;  // it forgets when the connection closes
  }
}

// One of its lines may be what calls this, so they go later.
void client::close_soon(holder_id which) {
  others_.erase(which);
  for (const auto& [number, one] : lines_) {
    if (one->to() == which) plan_.closed(number);
  }
  try {
    reactor_.post([this, which] {
      std::vector<line_id> all;
      for (const auto& [number, one] : lines_) {
        if (one->to() == which) all.push_back(number);
      }
      for (const line_id one : all) over(one, "it is done without");
    });
  } catch (const std::bad_alloc&) {
    return;  // they are closed as those that nobody needs
  }
}

// ---- what is asked, and what has become of it

// Whatever has changed: all that follows from it.
void client::go_on() {
  if (is_going_on_) return;
  const struct mark {
    explicit mark(bool& on) : is(on) { is = true; }
    ~mark() { is = false; }
    bool& is;
  } going(is_going_on_);
  open_lines();
  ask_all();
  tell_ended();
}

void client::ask_all() {
  while (const std::optional<chunk_ask> one = plan_.next()) {
    ++counts_.asked_chunks;
    ask(*one);
  }
}

void client::ask(const chunk_ask& one) {
  taking& of = orders_.at(one.pull);
  line& by = *lines_.at(one.line);
  if (!std::exchange(of.has_begun, true) && of.of.begins) of.of.begins();
  const bool says_who = of.may_be_told && by.to() == of.first;
  of.is_known = of.is_known || says_who;
  of.said_who += says_who ? 1 : 0;
  by.ask({of.of.object, one.at, one.bytes, says_who ? of.of.reader : 0});
}

void client::tell_ended() {
  while (const std::optional<ended_pull> one = plan_.next_end()) {
    const auto found = orders_.find(one->pull);
    if (found == orders_.end()) continue;
    over_with(found->second, one->how == pull_end::whole);
    const order of = std::move(found->second.of);
    orders_.erase(found);
    if (one->how == pull_end::whole) {
      of.done(nullptr);
      continue;
    }
    if (of.left) of.left(one->here);
    const error why = end_error(one->how, why_);
    of.done(&why);
  }
}

void client::open_lines() {
  const base::time_point now = base::now();
  std::vector<holder_id> needed;
  for (const auto& [number, of] : others_) {
    if (of.lines < with_.lines && plan_.needs(number)) needed.push_back(number);
  }
  for (const holder_id one : needed) {
    const auto of = others_.find(one);
    if (of == others_.end()) continue;
    if (of->second.not_before > now) {
      look_at(of->second.not_before);
      continue;
    }
    while (of->second.lines < with_.lines && of->second.not_before <= now) {
      open_line(one, of->second);
      if (!others_.contains(one)) break;
    }
  }
}

void client::open_line(holder_id to, other& of) {
  if (of.places.empty()) return failed(to, of.place, "no place of it is known");
  const std::size_t place = of.place;
  const place_of_holder& at = of.places[place % of.places.size()];
  const int file = socket(at.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return failed(to, place, std::strerror(errno), true);
  const auto* const address = reinterpret_cast<const sockaddr*>(&at.at);
  if (connect(file, address, at.size) != 0 && errno != EINPROGRESS) {
    const int why = errno;
    close(file);
    return failed(to, place, fmt::format("nobody answers there: {}", std::strerror(why)));
  }
  const line_id number = ++last_;
  try {
    auto made = std::make_unique<line>(*this, number, to, place, file);
    line& one = *lines_.emplace(number, std::move(made)).first->second;
    ++of.lines;
    ++counts_.lines_made;
    one.begin();
  } catch (const std::exception& thrown) {
    if (lines_.erase(number) > 0) --of.lines;
    return failed(to, place, thrown.what(), true);
  }
  look_at(base::now() + between_looks());
}

void client::opened(line_id one) {
  plan_.opened(one, lines_.at(one)->to());
  go_on();
}

// Of a holder: a connection that could not be made, or has ended with something under way; that is
// of one that was there, and so is what this process alone has to do with.
void client::failed(holder_id at, std::size_t place, const std::string& why, bool was_there) {
  const auto found = others_.find(at);
  if (found == others_.end()) return;
  other& of = found->second;
  if (of.helps != 0) return leave_helper(at, was_there ? flaw::another : flaw::is_unreached);
  of.why = why;
  if (of.place == place) ++of.place;
  ++of.failures;
  // Each of its places at once, and then with pauses.
  if (of.failures >= of.places.size()) {
    of.not_before = base::now() + std::min<duration>(longest_pause, first_pause * of.failures);
    look_at(of.not_before);
  }
  const std::size_t most = with_.lines * (of.places.size() + 1);
  if (of.failures < most || of.lines > 0) return;
  why_ = of.why;
  others_.erase(found);
  plan_.lost(at);
}

// Destroys the line.
void client::over(line_id which, const std::string& why) {
  const auto found = lines_.find(which);
  if (found == lines_.end()) return;
  const std::unique_ptr<line> gone = std::move(found->second);
  lines_.erase(found);
  const bool was_needed = !gone->is_open() || plan_.front(which) != nullptr;
  plan_.closed(which);
  const auto of = others_.find(gone->to());
  if (of != others_.end()) --of->second.lines;
  if (was_needed) failed(gone->to(), gone->place(), why, gone->is_open());
  go_on();
}

// Often enough for each of its limits.
duration client::between_looks() const noexcept {
  return std::min({with_.greeting_limit, with_.slow_limit, with_.idle_after, with_.helper_limit}) /
         2;
}

void client::look_at(base::time_point when) {
  if (is_looking_ && when >= looks_at_) return;
  is_looking_ = true;
  looks_at_ = when;
  looks_.set(when - base::now(), [this] { look(); });
}

bool client::is_slow(const line& one, base::time_point now) const {
  const auto to = others_.find(one.to());
  if (to == others_.end() || to->second.helps == 0) {
    return now - one.moved() > with_.slow_limit && !one.has_unread();
  }
  return now - one.due_since() > with_.helper_limit;
}

duration client::greeting_limit_of(const line& one) const {
  const auto to = others_.find(one.to());
  if (to == others_.end() || to->second.helps == 0) return with_.greeting_limit;
  return std::min(with_.greeting_limit, with_.helper_limit);
}

// While there are connections, or some are to be made again.
void client::look() {
  is_looking_ = false;
  const base::time_point now = base::now();
  // First: for the rest there may be no memory.
  if (!lines_.empty()) look_at(now + between_looks());
  std::vector<std::pair<line_id, const char*>> ended;
  for (const auto& [number, one] : lines_) {
    const duration still = now - one->moved();
    if (!one->is_open()) {
      if (still > greeting_limit_of(*one)) ended.emplace_back(number, "it does not answer");
    } else if (plan_.front(number) != nullptr) {
      if (is_slow(*one, now)) ended.emplace_back(number, "it sends nothing");
      // What has come and is less than it is woken for is read now.
      one->kick();
    } else if (still > with_.idle_after) {
      ended.emplace_back(number, "nobody needs it");
    }
  }
  for (const auto& [number, why] : ended) over(number, why);
  go_on();
  if (lines_.empty() && orders_.empty()) others_.clear();
}

}  // namespace manta::inline v0::bulk
