// SPDX-License-Identifier: Apache-2.0
#include "wire/socket_connection.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <kj/debug.h>

namespace manta::inline v0::wire {

namespace {

namespace box_schema = manta_mailbox_schema;

constexpr std::size_t most_batch = 1024;
constexpr std::size_t most_batch_bytes = std::size_t{1} << 20U;
constexpr std::size_t most_answered = 8;
// From here on a message is referred to and not copied.
constexpr std::size_t long_message = std::size_t{16} << 10U;
// What a batch takes beside its messages.
constexpr std::size_t batch_overhead = (std::size_t{1} << 20U) + most_batch_bytes;

capnp::ReaderOptions options_for(const socket_settings& how) {
  capnp::ReaderOptions out;
  out.traversalLimitInWords = 2 * (how.frame_limit + batch_overhead) / sizeof(capnp::word);
  out.nestingLimit = 16;
  return out;
}

kj::ArrayPtr<const kj::byte> kj_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}

const std::byte* begin_of(capnp::Data::Reader message) {
  return reinterpret_cast<const std::byte*>(message.begin());
}

bool is_referred_to(const sent_message& message) {
  const std::size_t size = message.bytes().size();
  return size >= long_message && size % sizeof(capnp::word) == 0;
}

// Words that the batch takes in its first segment.
std::uint64_t words_of(std::span<const sent_message> batch) {
  std::uint64_t words = 16 + batch.size();
  for (const sent_message& one : batch) {
    if (!is_referred_to(one)) words += one.bytes().size() / sizeof(capnp::word) + 1;
  }
  return words + 2 * batch.size();
}

void put(box_schema::Mailbox::DeliverParams::Builder to, std::span<const sent_message> batch) {
  auto list = to.initMessages(static_cast<kj::uint>(batch.size()));
  const capnp::Orphanage from = capnp::Orphanage::getForMessageContaining(to);
  for (kj::uint i = 0; i < list.size(); ++i) {
    const auto data = kj_bytes(batch[i].bytes());
    if (is_referred_to(batch[i])) {
      list.adopt(i, from.referenceExternalData(data));
    } else {
      list.set(i, data);
    }
  }
}

kj::Exception closed() { return KJ_EXCEPTION(DISCONNECTED, "the mailbox is closed"); }

error not_a_batch(std::string found) {
  return error(errc::decode_failed,
               fmt::format("wire: a batch of messages was to come, found {}; the connection is "
                           "closed: compare the builds of both processes",
                           found));
}

}  // namespace

// What the peer calls. KJ destroys such classes by other means than a virtual destructor.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class socket_connection::mailbox final : public box_schema::Mailbox::Server {
 public:
  explicit mailbox(place of) : of_(std::move(of)) {}
  virtual ~mailbox() noexcept(false) = default;
  kj::Promise<void> deliver(DeliverContext context) override {
    if (*of_ == nullptr) return closed();
    return (*of_)->deliver(context);
  }

 private:
  const place of_;
};
#pragma GCC diagnostic pop

socket_connection::socket_connection(std::shared_ptr<socket_state> state,
                                     kj::Own<watched_socket> socket, const greeting& peer)
    : state_(std::move(state)),
      stream_(state_->at(), kj::mv(socket), state_->settings().frame_limit + batch_overhead),
      network_(stream_.messages(), capnp::rpc::twoparty::Side::CLIENT,
               options_for(state_->settings())),
      rpc_(network_, capnp::Capability::Client(kj::heap<mailbox>(place_))),
      peer_(nullptr),
      credit_messages_(peer.credit_messages),
      credit_bytes_(peer.credit_bytes),
      given_messages_(state_->settings().credit_messages),
      given_bytes_(state_->settings().credit_bytes),
      tasks_(*this) {
  state_->met(peer.cluster, peer.sender);
  // Two parties: whoever is asked for the other one by its side gets it.
  capnp::MallocMessageBuilder scratch(16);
  auto other = scratch.initRoot<capnp::rpc::twoparty::VatId>();
  other.setSide(capnp::rpc::twoparty::Side::SERVER);
  peer_ = rpc_.bootstrap(other).castAs<box_schema::Mailbox>();
  tasks_.add(network_.onDisconnect().then([this] { finish(reason(nullptr)); }));
  watch_the_slow();
}

socket_connection::~socket_connection() noexcept(false) {
  *place_ = nullptr;
  if (is_sending_) state_->at().await(-1);
}

error socket_connection::reason(const kj::Exception* thrown) const {
  if (fault_.has_value()) return *fault_;
  if (stream_.fault().has_value()) return *stream_.fault();
  if (thrown != nullptr && thrown->getType() != kj::Exception::Type::DISCONNECTED) {
    return error(errc::decode_failed,
                 fmt::format("wire: the connection was closed since its RPC failed: {}; compare "
                             "the builds of both processes",
                             thrown->getDescription().cStr()));
  }
  return error(errc::node_lost,
               "wire: the other process closed the connection, or died; what was sent and not "
               "answered may be lost: send it again on another connection");
}

void socket_connection::finish(std::optional<error> why) {
  if (std::exchange(is_finished_, true)) return;
  state_->connection = nullptr;
  state_->at().drop(this);
  const bool was_reset = stream_.was_reset();
  stream_.say_end();
  if (why.has_value()) state_->end(*std::move(why), was_reset);
}

void socket_connection::end() {
  finish(error(errc::cancelled, "wire: the connection was closed, for its loop has ended"));
}

// One at a time: with two or four under way calls and copies took as long or longer (measured, two
// cores).
void socket_connection::send_batch() {
  if (is_sending_ || is_finished_) return;
  batch_.clear();
  state_->next_batch(batch_, std::min(credit_messages_, most_batch),
                     std::min(credit_bytes_, most_batch_bytes));
  if (batch_.empty()) return;
  is_sending_ = true;
  state_->at().await(1);
  auto request = peer_.deliverRequest(capnp::MessageSize{words_of(batch_), 0});
  put(request, batch_);
  tasks_.add(request.send().then([this](capnp::Response<box_schema::Mailbox::DeliverResults>&& is) {
    const auto room = is.getRoom();
    got_room(room.getMessages(), room.getBytes());
  }));
}

void socket_connection::got_room(std::size_t messages, std::size_t bytes) {
  if (messages == 0 || bytes == 0) {
    finish(not_a_batch("an answer that has room for nothing"));
    return;
  }
  std::size_t size = 0;
  for (const sent_message& one : batch_) size += one.bytes().size();
  state_->batch_is_there(batch_.size(), size);
  if (network_.getCurrentQueueCount() == 0) answered_.clear();
  if (network_.getCurrentQueueCount() != 0) answered_.push_back(std::move(batch_));
  if (answered_.size() > most_answered) {
    finish(not_a_batch("answers to batches that it has not read"));
    return;
  }
  credit_messages_ = messages;
  credit_bytes_ = bytes;
  ++batches_;
  is_sending_ = false;
  state_->at().await(-1);
  send_batch();
}

// A batch that was under way at two looks in a row is with somebody who takes nothing.
void socket_connection::watch_the_slow() {
  const auto limit = state_->settings().slow_limit.count() * kj::MILLISECONDS;
  const bool was_sending = is_sending_;
  batches_seen_ = batches_;
  tasks_.add(state_->at().port().getTimer().afterDelay(limit).then([this, was_sending] {
    if (is_finished_) return;
    if (was_sending && is_sending_ && batches_seen_ == batches_) {
      finish(error(errc::timed_out,
                   fmt::format("wire: {} messages were sent, the other process has taken none of "
                               "them for {} ms; the connection is closed",
                               batch_.size(), state_->settings().slow_limit.count())));
      return;
    }
    watch_the_slow();
  }));
}

result<std::vector<frame_buffer>> socket_connection::accept_batch(messages_reader messages) {
  if (messages.size() == 0 || messages.size() > std::min(given_messages_, most_batch)) {
    return not_a_batch(fmt::format("{} messages where there is room for {}", messages.size(),
                                   std::min(given_messages_, most_batch)));
  }
  std::vector<frame_buffer> batch(messages.size());
  std::size_t before = 0;  // bytes of those that are not the last
  for (kj::uint i = 0; i < messages.size(); ++i) {
    const capnp::Data::Reader one = messages[i];
    if (one.size() == 0 || one.size() > state_->settings().frame_limit || before >= given_bytes_) {
      return not_a_batch(
          fmt::format("a message of {} bytes behind others of {}, where there is room "
                      "for {}",
                      one.size(), before, given_bytes_));
    }
    if (one.size() >= long_message) batch[i] = stream_.keep({begin_of(one), one.size()});
    if (batch[i].bytes().empty()) {
      std::memcpy(batch[i].reset(one.size()).data(), one.begin(), one.size());
    }
    before += one.size();
  }
  return batch;
}

kj::Promise<void> socket_connection::deliver(deliver_context context) {
  if (is_finished_) return closed();
  result<std::vector<frame_buffer>> batch = accept_batch(context.getParams().getMessages());
  if (!batch) {
    fault_.emplace(batch.error());
    finish(batch.error());
    return KJ_EXCEPTION(FAILED, "a batch that is none");
  }
  context.releaseParams();
  given_messages_ = given_bytes_ = 0;
  state_->arrive(*std::move(batch));
  const socket_state::room room = state_->ask_room();
  if (room.messages > 0 && room.bytes > 0) {
    answer(context);
    return kj::READY_NOW;
  }
  auto wait = kj::newPromiseAndFulfiller<void>();
  room_ = kj::mv(wait.fulfiller);
  return wait.promise.then([of = place_, context]() mutable {
    if (*of == nullptr) kj::throwFatalException(closed());
    (*of)->answer(context);
  });
}

void socket_connection::answer(deliver_context& context) {
  const socket_state::room room = state_->ask_room();
  given_messages_ = room.messages;
  given_bytes_ = room.bytes;
  auto to = context.getResults(capnp::MessageSize{8, 0}).initRoom();
  to.setMessages(static_cast<std::uint32_t>(given_messages_));
  to.setBytes(given_bytes_);
}

void socket_connection::give_room() {
  KJ_IF_MAYBE (held, room_) {
    (*held)->fulfill();
    room_ = nullptr;
  }
}

}  // namespace manta::inline v0::wire
