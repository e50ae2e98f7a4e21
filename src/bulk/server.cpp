// SPDX-License-Identifier: Apache-2.0
#include "bulk/server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include "bulk/client.hpp"
#include "bulk/connection.hpp"
#include "bulk/message.hpp"

namespace manta::inline v0::bulk {

namespace {

constexpr auto until_descriptor = std::chrono::milliseconds(20);
// Small enough that what was summed up is in the cache still when it is sent.
constexpr std::size_t sent_piece_bytes = std::size_t{256} << 10U;
constexpr std::size_t sent_in_a_turn = std::size_t{4} << 20U;

}  // namespace

// Answers one request after the other.
class server::line final : public connection {
 public:
  line(server& of, std::uint64_t number, int file)
      : connection(of.reactor_, *of.with_.by, file, line_end::listener, of.with_.self),
        of_(of),
        number_(number) {}

  bool has_work() const noexcept { return is_answering_ || !asked_.empty(); }
  /// Of one that waits.
  const base::id& waits_for() const noexcept { return asked_.front().object; }
  base::time_point waits_since() const noexcept { return waits_since_; }
  void stop_waiting() {
    is_late_ = true;
    kick();
  }

 private:
  turn advance() override;
  void on_open() override { of_.unknown_.erase(number_); }
  void on_over(const std::string& /*why*/) override { of_.drop(number_); }
  io_step hear();
  bool begin_answer();
  std::optional<answer> find(const request& asked);
  void note_wait();
  io_step send();

  server& of_;
  const std::uint64_t number_;
  request_block in_{};
  std::size_t read_ = 0;  // of in_
  std::deque<request> asked_;
  // The answer under way: head, bytes, sum, of which `sent_` bytes have gone.
  bool is_answering_ = false;
  answer_block head_{};
  pinned_bytes body_;
  sum_block sum_{};
  checksum summing_;
  std::size_t summed_ = 0;  // of the body
  std::size_t sent_ = 0;
  base::time_point waits_since_{};
  bool is_late_ = false;  // what is waited for is to be waited for no more
};

connection::turn server::line::advance() {
  std::size_t went = 0;
  for (;;) {
    const io_step heard = hear();
    if (heard == io_step::ended) return turn::over;
    if (!is_answering_ && !asked_.empty() && !begin_answer()) note_wait();
    const std::size_t before = sent_;
    if (!is_answering_) {
      const io_step is = flush();
      return is == io_step::ended ? turn::over : turn::waits;
    }
    const io_step is = send();
    if (is == io_step::ended) return turn::over;
    if (is != io_step::done) return turn::waits;
    went += sent_ > before ? sent_ - before : 0;
    if (went >= sent_in_a_turn) return turn::again;
  }
}

// As many as may wait here. done: it has as many.
io_step server::line::hear() {
  while (asked_.size() < most_asked) {
    std::size_t got = 0;
    const io_step is = read(std::span(in_).subspan(read_), got);
    if (is != io_step::done) return is;
    read_ += got;
    if (read_ < in_.size()) continue;
    read_ = 0;
    const std::optional<request> one = read_request(in_);
    if (!one.has_value()) {
      why_ = "it has asked for what can't be";
      return io_step::ended;
    }
    if (one->is_note()) {
      of_.readers_.ended(one->object, one->reader, one->at == 1, base::now());
      continue;
    }
    asked_.push_back(*one);
  }
  return io_step::done;
}

// False: what is asked for is about to come.
bool server::line::begin_answer() {
  body_ = {};
  const std::optional<answer> is = find(asked_.front());
  if (!is.has_value()) return false;
  asked_.pop_front();
  of_.waiting_.erase(number_);
  is_late_ = false;
  head_ = write_answer(*is);
  summing_.reset();
  summed_ = sent_ = 0;
  is_answering_ = true;
  return true;
}

// With its bytes as the body. Only who has it whole has anybody to tell of.
std::optional<answer> server::line::find(const request& asked) {
  const answer not_here{answer_status::not_here, asked.at};
  if (const client::holding is = of_.client_.find(asked); is.is_fetched) {
    if (!is.has.has_value()) {
      return is_late_ ? std::optional(answer{answer_status::late, asked.at}) : std::nullopt;
    }
    body_ = *is.has;
    return answer{answer_status::here, asked.at, asked.bytes};
  }
  std::optional<pinned_bytes> found = of_.with_.from->find(asked.object, asked.at, asked.bytes);
  if (!found.has_value() || found->bytes.size() != asked.bytes) return not_here;
  if (asked.reader != 0) {
    const std::uint64_t whom = of_.readers_.ask(asked.object, asked.reader, number_, base::now());
    if (whom != 0) {
      ++of_.told_of_others_;
      return answer{answer_status::elsewhere, asked.at, 0, whom};
    }
  }
  body_ = *std::move(found);
  return answer{answer_status::here, asked.at, asked.bytes};
}

void server::line::note_wait() {
  if (of_.waiting_.insert(number_).second) waits_since_ = base::now();
}

io_step server::line::send() {
  const std::size_t whole = body_.bytes.size();
  const std::size_t gone = sent_ < head_.size() ? 0 : std::min(sent_ - head_.size(), whole);
  if (gone == summed_ && summed_ < whole) {
    const auto piece = body_.bytes.subspan(summed_, std::min(sent_piece_bytes, whole - summed_));
    summing_.add(piece);
    summed_ += piece.size();
    if (summed_ == whole) sum_ = write_sum(summing_.value());
  }
  std::array<std::span<const std::byte>, 3> pieces{};
  std::size_t count = 0;
  if (sent_ < head_.size()) pieces[count++] = std::span(head_).subspan(sent_);
  if (gone < summed_) pieces[count++] = body_.bytes.subspan(gone, summed_ - gone);
  if (summed_ == whole && whole > 0) {
    const std::size_t begin = head_.size() + whole;
    pieces[count++] = std::span(sum_).subspan(sent_ > begin ? sent_ - begin : 0);
  }
  std::size_t put = 0;
  const io_step is = write(std::span(pieces).first(count), put);
  sent_ += put;
  const std::size_t all = head_.size() + whole + (whole > 0 ? sum_.size() : 0);
  if (sent_ == all) {
    is_answering_ = false;
    of_.sent_bytes_ += whole;
    body_ = {};
  }
  return is;
}

struct server::place {
  place(reactor& at, int file) : socket(at, file), pause(at) {}
  reactor::watched socket;
  reactor::timer pause;
};

server::server(reactor& at, const station_settings& with, const client& also)
    : reactor_(at), with_(with), client_(also), readers_(with.told), looks_(at) {}
server::~server() = default;

void server::look_again(const base::id& object) {
  for (const std::uint64_t one : waiting_) {
    line& waits = *lines_.at(one);
    if (waits.waits_for() == object) waits.kick();
  }
}

void server::listen(int file) {
  places_.push_back(std::make_unique<place>(reactor_, file));
  wait(*places_.back());
}

void server::wait(place& at) {
  at.socket.when_readable([this, &at] { accept(at); });
}

void server::accept(place& at) {
  for (std::size_t i = 0; i < most_unknown; ++i) {
    const int file = accept4(at.socket.file(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (file >= 0) {
      take(file);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return wait(at);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return at.pause.set(until_descriptor, [this, &at] { accept(at); });  // as EMFILE
    }
  }
  at.pause.set(duration(0), [this, &at] { accept(at); });
}

void server::take(int file) {
  if (unknown_.size() >= most_unknown) drop(*unknown_.begin());
  if (lines_.size() >= most_served) {
    ::close(file);
    return;
  }
  const std::uint64_t number = ++last_;
  try {
    line& made = *lines_.emplace(number, std::make_unique<line>(*this, number, file)).first->second;
    unknown_.insert(number);
    made.begin();
  } catch (const std::exception&) {
    return drop(number);
  }
  if (!std::exchange(is_looking_, true)) look();
}

void server::drop(std::uint64_t which) {
  unknown_.erase(which);
  waiting_.erase(which);
  readers_.closed(which);
  lines_.erase(which);
}

// Once a second, while there is a connection.
void server::look() {
  const base::time_point now = base::now();
  for (const std::uint64_t one : waiting_) {
    line& waits = *lines_.at(one);
    if (now - waits.waits_since() > with_.soon_limit) waits.stop_waiting();
  }
  for (auto at = lines_.begin(); at != lines_.end();) {
    const auto& [number, one] = *at++;
    const duration still = now - one->moved();
    const duration limit = !one->is_open()   ? with_.greeting_limit
                           : one->has_work() ? with_.slow_limit
                                             : 2 * with_.idle_after;  // who has dialled closes it
    if (still > limit) drop(number);
  }
  is_looking_ = !lines_.empty();
  if (is_looking_)
    looks_.set(std::min<duration>(std::min(with_.soon_limit, with_.greeting_limit / 2),
                                  std::chrono::seconds(1)),
               [this] { look(); });
}

}  // namespace manta::inline v0::bulk
