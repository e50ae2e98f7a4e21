// SPDX-License-Identifier: Apache-2.0
#include "wire/ring.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <manta/base/check.hpp>
#include <manta/base/pause.hpp>

namespace manta::inline v0::wire {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t word_bytes = 8;
constexpr unsigned tag_shift = 32;  // in the word in front of a message, above its size
constexpr std::chrono::nanoseconds longest_sleep = std::chrono::hours(1);
constexpr int ring_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
static_assert(sizeof(ring_control) <= page);

constexpr std::uint64_t up(std::uint64_t bytes) noexcept {
  return (bytes + word_bytes - 1) / word_bytes * word_bytes;
}

bool is_size(std::size_t bytes) noexcept {
  return bytes >= page && std::has_single_bit(bytes) && bytes <= (std::size_t{1} << 30U);
}

error failed(std::size_t bytes, const char* step, int why) {
  return {errc::store_full, fmt::format("wire: asked a ring of {} bytes, {} failed: {}", bytes,
                                        step, std::strerror(why))};
}

// One reservation for all of it, then the bytes twice over its end.
void* map_all(int file, std::size_t bytes) noexcept {
  void* const at = mmap(nullptr, page + 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* const from = static_cast<std::byte*>(at);
  constexpr int rights = PROT_READ | PROT_WRITE;
  constexpr int how = MAP_SHARED | MAP_FIXED;
  if (mmap(from, page + bytes, rights, how, file, 0) == MAP_FAILED ||
      mmap(from + page + bytes, bytes, rights, how, file, page) == MAP_FAILED) {
    munmap(at, page + 2 * bytes);
    return nullptr;
  }
  return at;
}

// The word in front of a message. The mapping outlives all who use it.
std::atomic_ref<std::uint64_t> word_at(std::span<std::byte> bytes,
                                       std::uint64_t position) noexcept {
  std::byte* const at = bytes.data() + (position & (bytes.size() - 1));
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at));
}

// Shared between processes. Time that has passed, or a wake that was not meant, are no errors: who
// waits looks again.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds time) noexcept {
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec most{static_cast<time_t>(s.count()), static_cast<long>((time - s).count())};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &most, nullptr, 0);
}
void wake(std::atomic<std::uint32_t>& sleeps, std::uint32_t unless = 0) noexcept {
  const std::uint32_t how = sleeps.load(std::memory_order_relaxed);
  if (how == 0 || how == unless) return;
  sleeps.store(0, std::memory_order_relaxed);
  syscall(SYS_futex, &sleeps, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// `is_there` is looked at after the flag is up: see the drawing.
template <class IsThere>
bool sleep_until(std::atomic<std::uint32_t>& sleeps, std::chrono::nanoseconds time,
                 const IsThere& is_there) noexcept {
  const auto end = std::chrono::steady_clock::now() + std::min(time, longest_sleep);
  for (;;) {
    sleeps.store(1, std::memory_order_relaxed);
    base::full_barrier();
    if (is_there()) break;
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) break;
    futex_wait(sleeps, 1, left);
  }
  sleeps.store(0, std::memory_order_relaxed);
  return is_there();
}

}  // namespace

result<ring_memory> ring_memory::make(std::size_t bytes) {
  if (!is_size(bytes)) {
    return error(errc::invalid_argument,
                 fmt::format("wire: asked a ring of {} bytes, allowed are powers of two from {} to "
                             "2^30",
                             bytes, page));
  }
  const int file = memfd_create("manta-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return failed(bytes, "memfd_create", errno);
  ring_memory made(file, nullptr, bytes);
  if (fallocate(file, 0, 0, static_cast<off_t>(page + bytes)) != 0) {
    return failed(bytes, "fallocate", errno);
  }
  if (fcntl(file, F_ADD_SEALS, ring_seals) != 0) return failed(bytes, "sealing", errno);
  made.at_ = map_all(file, bytes);
  if (made.at_ == nullptr) return failed(bytes, "mmap", errno);
  return made;
}

result<ring_memory> ring_memory::map(int file, std::size_t bytes) {
  ring_memory got(file, nullptr, bytes);
  struct stat is {};
  if (!is_size(bytes) || fcntl(file, F_GET_SEALS) != ring_seals || fstat(file, &is) != 0 ||
      is.st_size != static_cast<off_t>(page + bytes)) {
    return error(errc::decode_failed,
                 fmt::format("wire: got a file that is no ring of {} bytes; whoever sent it runs "
                             "another build, or is no manta process",
                             bytes));
  }
  got.at_ = map_all(file, bytes);
  if (got.at_ == nullptr) return failed(bytes, "mmap", errno);
  return got;
}

ring_memory::ring_memory(ring_memory&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      at_(std::exchange(other.at_, nullptr)),
      bytes_(other.bytes_) {}

ring_memory::~ring_memory() {
  if (at_ != nullptr) munmap(at_, page + 2 * bytes_);
  if (file_ >= 0) close(file_);
}

std::span<std::byte> ring_memory::bytes() const noexcept {
  return {static_cast<std::byte*>(at_) + page, bytes_};
}

ring_writer::ring_writer(const ring_memory& in) noexcept
    : control_(in.control()), bytes_(in.bytes()) {}

// With the word of the one after it, which becomes zero.
bool ring_writer::has_room(std::size_t bytes) noexcept {
  const std::uint64_t end = tail_ + word_bytes + up(bytes) + word_bytes;
  if (end - head_ <= bytes_.size()) return true;
  // Acquire: what the reader has passed it reads no more.
  head_ = control_.head.load(std::memory_order_acquire);
  return end - head_ <= bytes_.size();
}

std::span<std::byte> ring_writer::reserve(std::size_t bytes) noexcept {
  MANTA_CHECK_VALUE(bytes != 0 && bytes <= most_bytes(), bytes);
  if (!has_room(bytes)) return {};
  size_ = bytes;
  next_ = tail_ + word_bytes + up(bytes);
  return {bytes_.data() + ((tail_ + word_bytes) & (bytes_.size() - 1)), bytes};
}

void ring_writer::publish(std::uint8_t tag) noexcept {
  MANTA_CHECK(next_ != tail_);
  word_at(bytes_, next_).store(0, std::memory_order_relaxed);
  // Release: with the size come the message and the zero behind it.
  word_at(bytes_, tail_).store(size_ | std::uint64_t{tag} << tag_shift, std::memory_order_release);
  tail_ = next_;
}

void ring_writer::bell() noexcept {
  base::full_barrier();
  wake(control_.reader_sleeps);
}

void ring_writer::soft_bell() noexcept {
  base::full_barrier();
  wake(control_.reader_sleeps, ring_reader::patient);
}

bool ring_writer::wait(std::size_t bytes, std::chrono::nanoseconds time) noexcept {
  if (has_room(bytes)) return true;
  return sleep_until(control_.writer_sleeps, time, [&] { return has_room(bytes); });
}

ring_reader::ring_reader(const ring_memory& in) noexcept
    : control_(in.control()), bytes_(in.bytes()) {}

std::uint64_t ring_reader::word() const noexcept {
  return word_at(bytes_, head_.load(std::memory_order_relaxed)).load(std::memory_order_acquire);
}

ring_reader::got ring_reader::next_size(std::size_t& size) noexcept {
  if (is_broken_) return got::broken;
  const std::uint64_t found = word();
  if (found == 0) return got::nothing;
  size = found & 0xffffffffU;
  tag_ = static_cast<std::uint8_t>(found >> tag_shift);
  is_broken_ = size == 0 || size > bytes_.size() / 4 || found >> (tag_shift + 8U) != 0;
  return is_broken_ ? got::broken : got::message;
}

void ring_reader::copy(std::byte* to, std::size_t size) noexcept {
  const std::uint64_t at = head_.load(std::memory_order_relaxed);
  std::memcpy(to, bytes_.data() + ((at + word_bytes) & (bytes_.size() - 1)), size);
  const std::uint64_t next = at + word_bytes + up(size);
  head_.store(next, std::memory_order_relaxed);
  // Release: the copy above is over.
  control_.head.store(next, std::memory_order_release);
  // A writer sleeps only when a message of at most a quarter has no room, so when more than half is
  // unread: being told after each eighth it hears of its room before all is taken.
  if (next - told_ > bytes_.size() / 8) {
    told_ = next;
    base::full_barrier();
    wake(control_.writer_sleeps);
  }
}

ring_reader::got ring_reader::take(frame_buffer& to) {
  std::size_t size = 0;
  const got is = next_size(size);
  if (is == got::message) copy(to.reset(size).data(), size);
  return is;
}

ring_reader::got ring_reader::append(std::span<std::byte> to, std::size_t& at) {
  std::size_t size = 0;
  const got is = next_size(size);
  if (is != got::message) return is;
  if (size > to.size() - at) {
    is_broken_ = true;
    return got::broken;
  }
  copy(to.data() + at, size);
  at += size;
  return got::message;
}

std::uint32_t ring_reader::announce_sleep(bool is_patient) noexcept {
  std::uint32_t said = asleep;
  if (!is_patient) {
    control_.reader_sleeps.store(asleep, std::memory_order_relaxed);
  } else {
    std::uint32_t nobody = 0;
    const bool is_first = control_.reader_sleeps.compare_exchange_strong(nobody, patient);
    said = is_first ? patient : nobody;
  }
  base::full_barrier();
  return said;
}

bool ring_reader::wait(int spins, std::chrono::nanoseconds time) noexcept {
  const auto is_there = [this] { return is_broken_ || word() != 0; };
  for (int i = 0; i < spins; ++i) {
    if (is_there()) return true;
    base::pause();
  }
  if (is_there()) return true;
  return sleep_until(control_.reader_sleeps, time, is_there);
}

}  // namespace manta::inline v0::wire
