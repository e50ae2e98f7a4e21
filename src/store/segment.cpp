// SPDX-License-Identifier: Apache-2.0
#include "store/segment.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <manta/base/machine.hpp>

namespace manta::inline v0::store {

namespace {

#ifdef MADV_POPULATE_WRITE
constexpr int populate_write = MADV_POPULATE_WRITE;
#else
constexpr int populate_write = 23;  // Linux 5.14; Debian 12's C library does not name it
#endif

// The size, and that nobody who maps it from now on can write. The last one: that seals stay.
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr int all_seals = size_seals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

constexpr std::size_t piece = std::size_t{256} << 20U;
constexpr std::int64_t left_to_others = std::int64_t{64} << 20U;

error no_room(std::size_t bytes, const std::string& why, const char* help) {
  return {errc::store_full,
          fmt::format("store: asked a segment of {} bytes, {}; {}", bytes, why, help)};
}

error failed(std::size_t bytes, const char* step, int why) {
  const bool is_files = why == EMFILE || why == ENFILE;
  return no_room(bytes, fmt::format("{} failed: {}", step, std::strerror(why)),
                 is_files ? "raise the limit of open files (ulimit -n)"
                          : "free memory, or give the store less");
}

// Reserved here or not at all: a page that is missing later would be SIGBUS.
result<void> reserve(int file, std::size_t bytes, std::int64_t (*available)()) {
  for (std::size_t at = 0; at < bytes;) {
    const auto left =
        static_cast<std::size_t>(std::max<std::int64_t>(available() - left_to_others, 0));
    if (bytes - at > left) {
      return no_room(bytes, fmt::format("{} are available", left + at),
                     "free memory, or give the store less");
    }
    const std::size_t some = std::min(piece, bytes - at);
    if (fallocate(file, 0, static_cast<off_t>(at), static_cast<off_t>(some)) == 0) {
      at += some;
    } else if (errno != EINTR) {
      return failed(bytes, "fallocate", errno);
    }
  }
  return {};
}

}  // namespace

descriptor::~descriptor() {
  if (number_ >= 0) close(number_);
}

mapping::~mapping() {
  if (at_ != nullptr) munmap(at_, bytes_);
}

result<segment> segment::make(std::size_t bytes) {
  return make(bytes, [] { return base::available_memory(); });
}

result<segment> segment::make(std::size_t bytes, std::int64_t (*available)()) {
  if (bytes == 0) {
    return error(errc::invalid_argument,
                 "store: asked a segment of 0 bytes, allowed are 1 and more");
  }
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t whole = (bytes - 1) / page * page + page;
  if (whole < bytes) return failed(bytes, "counting pages", EOVERFLOW);
  descriptor file(memfd_create("manta", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0) return failed(bytes, "memfd_create", errno);
  if (result<void> done = reserve(file.number(), whole, available); !done) return done.error();
  void* const at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (at == MAP_FAILED) return failed(bytes, "mmap", errno);
  mapping map(at, whole);
  if (fcntl(file.number(), F_ADD_SEALS, all_seals) != 0) return failed(bytes, "sealing", errno);
  return segment(std::move(file), std::move(map));
}

void segment::populate(std::size_t from, std::size_t bytes) const noexcept {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::span<std::byte> all = map_.bytes();
  if (from >= all.size()) return;
  const std::size_t before = from % page;
  const std::size_t some = std::min(bytes, all.size() - from) + before;
  static_cast<void>(madvise(all.data() + from - before, some, populate_write));  // a help, no need
}

result<segment_view> segment_view::map(descriptor file) {
  const int seals = fcntl(file.number(), F_GET_SEALS);
  struct stat is {};
  if (seals < 0 || (seals & size_seals) != size_seals || fstat(file.number(), &is) != 0 ||
      is.st_size <= 0) {
    return error(errc::decode_failed,
                 "store: got a file that is no sealed segment; whoever sent it is no manta store");
  }
  const auto bytes = static_cast<std::size_t>(is.st_size);
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.number(), 0);
  if (at == MAP_FAILED) return failed(bytes, "mmap for reading", errno);
  return segment_view(std::move(file), mapping(at, bytes));
}

}  // namespace manta::inline v0::store
