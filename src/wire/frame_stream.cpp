// SPDX-License-Identifier: Apache-2.0
#include "wire/frame_stream.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <kj/debug.h>

#include "wire/frame.hpp"

namespace manta::inline v0::wire {

namespace {

using bytes_view = std::span<const std::byte>;
using capnp::word;

constexpr std::size_t read_bytes = std::size_t{64} << 10U;
constexpr std::size_t short_bytes = std::size_t{16}
                                    << 10U;  // frames that are copied and sent later
constexpr std::size_t most_waiting = std::size_t{1} << 20U;  // of these
constexpr std::size_t flush_bytes = std::size_t{64} << 10U;

std::byte* bytes_of(kj::Array<word>& of) noexcept {
  return reinterpret_cast<std::byte*>(of.begin());
}

// Bytes of the last segment of a frame whose table is there and right.
std::size_t last_segment(bytes_view table) noexcept {
  std::uint32_t last = 0;
  std::memcpy(&last, table.data(), sizeof last);
  std::uint32_t words = 0;
  std::memcpy(&words, table.data() + 4 + std::size_t{4} * last, sizeof words);
  return std::size_t{words} * sizeof(word);
}

// That a call is done with is told with the next message: alone it would wake a peer for nothing.
bool may_wait(kj::ArrayPtr<const kj::ArrayPtr<const word>> segments) {
  capnp::SegmentArrayMessageReader message(segments);
  return message.getRoot<capnp::rpc::Message>().isFinish();
}

kj::Exception lost() { return KJ_EXCEPTION(DISCONNECTED, "the connection is lost"); }

}  // namespace

// A frame whose table was checked: the words, and where its segments lie in them.
class frame_stream::checked_frame final : public capnp::MessageReader {
 public:
  checked_frame(frame_memory memory, std::span<const bytes_view> segments,
                const capnp::ReaderOptions& how)
      : MessageReader(how), memory_(std::move(memory)) {
    segments_.reserve(segments.size());
    for (const bytes_view one : segments) {
      segments_.push_back(
          kj::arrayPtr(reinterpret_cast<const word*>(one.data()), one.size() / sizeof(word)));
    }
  }
  virtual ~checked_frame() noexcept(false) = default;
  kj::ArrayPtr<const word> getSegment(capnp::uint id) override {
    return id < segments_.size() ? segments_[id] : nullptr;
  }

 private:
  frame_memory memory_;
  std::vector<kj::ArrayPtr<const word>> segments_;
};

frame_stream::frame_stream(loop_core& at, kj::Own<watched_socket> socket, std::size_t frame_limit)
    : at_(at),
      socket_(kj::mv(socket)),
      frame_limit_(frame_limit),
      in_(kj::heapArray<word>(read_bytes / sizeof(word))) {}

frame_stream::~frame_stream() noexcept(false) { at_.forget_flush(this); }

// The reader is told by the socket's end, as of any other loss.
void frame_stream::fail(error why) {
  if (!fault_.has_value()) fault_.emplace(std::move(why));
  socket_->shut(true);
}

frame_stream::filled frame_stream::fill() {
  std::byte* to = nullptr;
  std::size_t room = 0;
  if (long_ != nullptr) {
    to = long_bytes_.data() + long_done_;
    room = long_bytes_.size() - long_done_;
  } else {
    if (in_begin_ > 0) {
      std::memmove(bytes_of(in_), bytes_of(in_) + in_begin_, in_end_ - in_begin_);
      in_end_ -= in_begin_;
      in_begin_ = 0;
    }
    to = bytes_of(in_) + in_end_;
    room = read_bytes - in_end_;
  }
  std::size_t got = 0;
  switch (socket_->receive({to, room}, got)) {
    case watched_socket::step::later:
      return filled::later;
    case watched_socket::step::closed:
      if (const error* const why = socket_->failure(); why != nullptr && !fault_) fault_ = *why;
      return filled::closed;
    case watched_socket::step::done:
      break;
  }
  (long_ != nullptr ? long_done_ : in_end_) += got;
  return filled::some;
}

frame_stream::found frame_stream::message_of(bytes_view frame, frame_memory memory,
                                             capnp::ReaderOptions options) {
  const result<void> is_split = split_frame(frame, frame_limit_, segments_);
  if (!is_split) {
    fail(is_split.error());
    return nullptr;
  }
  auto message = kj::heap<checked_frame>(std::move(memory), segments_, options);
  const result<void> may_pass = gate_.pass(message->getRoot<capnp::rpc::Message>());
  if (!may_pass) {
    fail(may_pass.error());
    return nullptr;
  }
  return capnp::MessageReaderAndFds{kj::mv(message), nullptr};
}

// True: `to` is a message, or nothing when the stream has ended. False: more bytes are needed.
bool frame_stream::next_frame(capnp::ReaderOptions options, found& to) {
  if (long_ != nullptr) {
    if (long_done_ < long_bytes_.size()) return false;
    std::erase_if(long_ones_, [](const auto& one) { return one.expired(); });
    long_ones_.push_back(long_);
    to = message_of(long_bytes_, {nullptr, std::exchange(long_, nullptr)}, options);
    return true;
  }
  const bytes_view there(bytes_of(in_) + in_begin_, in_end_ - in_begin_);
  const result<std::size_t> length = frame_length(there, frame_limit_);
  if (!length) {
    fail(length.error());
    return true;
  }
  // A table that is longer than the buffer can't be: it has at most 2,049 numbers.
  if (*length == 0) return false;
  const std::size_t here = std::min(*length, there.size());
  if (*length > there.size() && *length <= read_bytes / 2) return false;
  in_begin_ += here;
  if (here < *length) {
    begin_long(there, *length);
    return false;
  }
  auto frame = kj::heapArray<word>(*length / sizeof(word));
  std::memcpy(bytes_of(frame), there.data(), here);
  const bytes_view bytes(bytes_of(frame), here);
  to = message_of(bytes, {kj::mv(frame), nullptr}, options);
  return true;
}

void frame_stream::begin_long(bytes_view there, std::size_t length) {
  const std::size_t behind = (length - last_segment(there)) % segment_alignment;
  const std::size_t before = (segment_alignment - behind) % segment_alignment;
  auto made = std::make_shared<frame_buffer>();
  long_bytes_ = made->reset(before + length).subspan(before);
  std::memcpy(long_bytes_.data(), there.data(), there.size());
  long_ = std::move(made);
  long_done_ = there.size();
}

// Only what is most of its frame, or little would keep much.
frame_buffer frame_stream::keep(bytes_view message) {
  if (reinterpret_cast<std::uintptr_t>(message.data()) % segment_alignment != 0) return {};
  for (const std::weak_ptr<frame_buffer>& one : long_ones_) {
    const std::shared_ptr<frame_buffer> frame = one.lock();
    if (frame == nullptr) continue;
    const std::span<std::byte> all = frame->room();
    const bool is_in = std::less_equal<>()(all.data(), message.data()) &&
                       std::less<>()(message.data(), all.data() + all.size());
    if (!is_in || message.size() < all.size() / 2) continue;
    const auto at = static_cast<std::size_t>(message.data() - all.data());
    return {frame, all.subspan(at, message.size())};
  }
  return {};
}

kj::Promise<frame_stream::found> frame_stream::tryReadMessage(kj::ArrayPtr<kj::AutoCloseFd> files,
                                                              capnp::ReaderOptions options,
                                                              kj::ArrayPtr<word> scratch) {
  for (;;) {
    found message;
    if (next_frame(options, message)) return kj::mv(message);
    switch (fill()) {
      case filled::some:
        continue;
      case filled::closed:
        return found(nullptr);
      case filled::later:
        return socket_->has_data().then([this, files, options, scratch]() mutable {
          return tryReadMessage(files, options, scratch);
        });
    }
  }
}

kj::Promise<void> frame_stream::writeMessage(
    kj::ArrayPtr<const int>, kj::ArrayPtr<const kj::ArrayPtr<const word>> segments) {
  std::vector<std::uint32_t> table(table_bytes(segments.size()) / sizeof(std::uint32_t));
  table[0] = static_cast<std::uint32_t>(segments.size() - 1);
  std::size_t size = table.size() * sizeof(std::uint32_t);
  std::vector<bytes_view> pieces{std::as_bytes(std::span(table))};
  for (std::size_t i = 0; i < segments.size(); ++i) {
    table[i + 1] = static_cast<std::uint32_t>(segments[i].size());
    pieces.emplace_back(reinterpret_cast<const std::byte*>(segments[i].begin()),
                        segments[i].size() * sizeof(word));
    size += pieces.back().size();
  }
  if (size > short_bytes) {
    // Behind what waits already. The vectors' memory moves with them, so the pieces stay valid.
    auto before = write_all({});
    return before.then([this, table = std::move(table), pieces = std::move(pieces)]() mutable {
      auto done = write_all(std::move(pieces));
      return done.attach(std::move(table));
    });
  }
  if (out_.size() - out_done_ + size > most_waiting) {
    fail(error(errc::timed_out,
               fmt::format("wire: {} bytes of answers wait for the other process, which reads "
                           "none of them; the connection is closed",
                           out_.size() - out_done_)));
    return lost();
  }
  for (const bytes_view piece : pieces) out_.insert(out_.end(), piece.begin(), piece.end());
  if (!is_to_flush_ && !may_wait(segments)) {
    is_to_flush_ = true;
    at_.flush_later(this);
  }
  if (out_.size() - out_done_ > flush_bytes && !is_blocked_) flush();
  return kj::READY_NOW;
}

kj::Promise<void> frame_stream::writeMessages(
    kj::ArrayPtr<kj::ArrayPtr<const kj::ArrayPtr<const word>>> messages) {
  if (messages.size() == 0) return kj::READY_NOW;
  return writeMessage(nullptr, messages[0]).then([this, messages]() mutable {
    return writeMessages(messages.slice(1, messages.size()));
  });
}

// Sends what the socket takes. False: it has no room, or is lost, which its reader finds out.
bool frame_stream::write_some(std::span<bytes_view>& left) {
  const watched_socket::step is = socket_->send(left);
  if (is == watched_socket::step::closed) kj::throwFatalException(lost());
  return is == watched_socket::step::done;
}

void frame_stream::flush() {
  is_to_flush_ = false;
  if (is_blocked_ || out_done_ == out_.size()) return;
  bytes_view all = bytes_view(out_).subspan(out_done_);
  std::span<bytes_view> left(&all, 1);
  try {
    const bool is_done = write_some(left);
    out_done_ = is_done ? out_.size() : out_.size() - all.size();
  } catch (const kj::Exception&) {
    out_done_ = out_.size();
    socket_->shut(true);
  }
  if (out_done_ == out_.size()) {
    out_.clear();
    out_done_ = 0;
    return;
  }
  is_blocked_ = true;
  room_ = socket_->has_room()
              .then([this] {
                is_blocked_ = false;
                if (!is_to_flush_) at_.flush_later(this);
                is_to_flush_ = true;
              })
              .eagerlyEvaluate([](kj::Exception&&) {});
}

// What waits in out_ first.
kj::Promise<void> frame_stream::write_all(std::vector<bytes_view> pieces) {
  flush();
  if (out_done_ != out_.size()) {
    return socket_->has_room().then(
        [this, pieces = std::move(pieces)]() mutable { return write_all(std::move(pieces)); });
  }
  std::span<bytes_view> left(pieces);
  if (write_some(left)) return kj::READY_NOW;
  std::vector<bytes_view> rest(left.begin(), left.end());
  return socket_->has_room().then(
      [this, rest = std::move(rest)]() mutable { return write_all(std::move(rest)); });
}

kj::Promise<void> frame_stream::end() {
  return write_all({}).then([this] { socket_->shut(false); });
}

}  // namespace manta::inline v0::wire
