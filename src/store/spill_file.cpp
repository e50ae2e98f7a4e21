// SPDX-License-Identifier: Apache-2.0
#include "store/spill_file.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace manta::inline v0::store {

namespace {

constexpr std::uint64_t block = 4096;  // of holes; objects begin at one

std::uint64_t up(std::uint64_t bytes) noexcept { return (bytes + block - 1) / block * block; }

// Without a name, or with one that is gone.
descriptor begin_file(const std::string& folder) {
  descriptor made(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (made.number() >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
    return made;
  std::string name = folder + "/manta_spill_XXXXXX";
  descriptor named(mkostemp(name.data(), O_CLOEXEC));
  if (named.number() >= 0) unlink(name.c_str());
  return named;
}

// The pieces of a write, in its order; what was written is taken from the front.
class pieces {
 public:
  explicit pieces(std::span<const std::span<const std::byte>> objects) {
    static constexpr std::byte zeros[block] = {};
    all_.reserve(2 * objects.size());
    for (const auto& one : objects) {
      add(one.data(), one.size());
      add(zeros, up(one.size()) - one.size());
    }
  }
  bool empty() const noexcept { return first_ == all_.size(); }
  ssize_t write(int file, std::uint64_t at) const {
    const auto count = static_cast<int>(std::min<std::size_t>(all_.size() - first_, IOV_MAX));
    return pwritev(file, all_.data() + first_, count, static_cast<off_t>(at));
  }
  void drop(std::size_t bytes) {
    while (bytes != 0) {
      iovec& front = all_[first_];
      const std::size_t some = std::min(bytes, front.iov_len);
      front.iov_base = static_cast<std::byte*>(front.iov_base) + some;
      front.iov_len -= some;
      bytes -= some;
      if (front.iov_len == 0) ++first_;
    }
  }

 private:
  void add(const std::byte* at, std::size_t bytes) {
    if (bytes != 0) all_.push_back({const_cast<std::byte*>(at), bytes});
  }

  std::vector<iovec> all_;
  std::size_t first_ = 0;
};

// 0, or why not. The disk begins at once, so that memory is not full of what waits for it.
int write_all(int file, std::uint64_t at, pieces all) {
  while (!all.empty()) {
    const ssize_t some = all.write(file, at);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return some < 0 ? errno : EIO;
    sync_file_range(file, static_cast<off_t>(at), some, SYNC_FILE_RANGE_WRITE);
    at += static_cast<std::uint64_t>(some);
    all.drop(static_cast<std::size_t>(some));
  }
  return 0;
}

// What is read is summed while it is in the caches.
constexpr std::size_t read_piece = std::size_t{256} << 10U;

// 0, or why not; a file that ends before is an error.
int read_all(int file, std::uint64_t at, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t some = pread(file, to.data(), to.size(), static_cast<off_t>(at));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return errno;
    if (some == 0) return ENODATA;
    at += static_cast<std::uint64_t>(some);
    to = to.subspan(static_cast<std::size_t>(some));
  }
  return 0;
}

std::uint64_t sum_of(std::span<const std::byte> of) noexcept {
  return XXH3_64bits(of.data(), of.size());
}

// The same of what is read meanwhile, a piece after the other.
int read_and_sum(int file, std::uint64_t at, std::span<std::byte> to, std::uint64_t& sum) {
  if (to.size() <= read_piece) {
    const int why = read_all(file, at, to);
    if (why == 0) sum = sum_of(to);
    return why;
  }
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  while (!to.empty()) {
    const std::span<std::byte> piece = to.first(std::min(read_piece, to.size()));
    if (const int why = read_all(file, at, piece); why != 0) return why;
    XXH3_64bits_update(&state, piece.data(), piece.size());
    at += piece.size();
    to = to.subspan(piece.size());
  }
  sum = XXH3_64bits_digest(&state);
  return 0;
}

}  // namespace

result<std::unique_ptr<spill_files>> spill_files::open(std::string folder, std::uint64_t most_bytes,
                                                       std::uint64_t file_bytes) {
  const descriptor tried = begin_file(folder);
  if (tried.number() < 0 || pwrite(tried.number(), "", 1, 0) != 1) {
    return error(errc::invalid_config,
                 fmt::format("store: asked to spill to {}, writing there failed: {}; name a folder "
                             "on a disk that may be written",
                             folder, std::strerror(errno)));
  }
  return std::unique_ptr<spill_files>(new spill_files(std::move(folder), most_bytes, file_bytes));
}

error spill_files::no_room(std::uint64_t asked, const std::string& why) const {
  return {errc::store_full,
          fmt::format("store: asked to spill {} bytes to {}, {}; free disk space, name another "
                      "folder or allow more",
                      asked, folder_, why)};
}

// The file that is appended to. With writing_ held.
result<std::shared_ptr<spill_files::file>> spill_files::current() {
  {
    const std::lock_guard lock(mutex_);
    if (!files_.empty() && files_.rbegin()->second->end < file_bytes_) {
      return files_.rbegin()->second;
    }
  }
  auto made = std::make_shared<file>();
  made->on = begin_file(folder_);
  if (made->on.number() < 0) {
    return error(errc::storage_failed, fmt::format("store: a file to spill to in {} failed: {}",
                                                   folder_, std::strerror(errno)));
  }
  const std::lock_guard lock(mutex_);
  made->number = next_++;
  files_.emplace(made->number, made);
  return made;
}

result<std::vector<spilled>> spill_files::write(
    std::span<const std::span<const std::byte>> objects) {
  std::vector<spilled> out;
  if (objects.empty()) return out;
  const std::lock_guard one_at_a_time(writing_);
  auto to = current();
  if (!to) return to.error();
  file& in = **to;
  std::uint64_t end = in.end;
  std::uint64_t bytes = 0;
  for (const auto& one : objects) {
    out.push_back({in.number, end, one.size(), sum_of(one)});
    end += up(one.size());
    bytes += one.size();
  }
  {
    const std::lock_guard lock(mutex_);
    if (bytes > most_bytes_ - bytes_) {
      return no_room(bytes, fmt::format("{} of {} are in use", bytes_, most_bytes_));
    }
    // Counted before it is written, so that the file stays when all else in it ends; if that was
    // just now it is put back.
    files_.emplace(in.number, *to);
    in.lives += out.size();
    bytes_ += bytes;
  }
  const int failure = write_all(in.on.number(), in.end, pieces(objects));
  const std::lock_guard lock(mutex_);
  if (failure == 0) {
    in.end = end;
    return out;
  }
  in.lives -= out.size();
  bytes_ -= bytes;
  // What was written of them is cut off; where even that fails the next write goes over it.
  static_cast<void>(!ftruncate(in.on.number(), static_cast<off_t>(in.end)));
  if (failure == ENOSPC || failure == EDQUOT || failure == EFBIG) {
    return no_room(bytes, fmt::format("writing failed: {}", std::strerror(failure)));
  }
  return error(errc::storage_failed, fmt::format("store: spilling {} bytes to {} failed: {}", bytes,
                                                 folder_, std::strerror(failure)));
}

result<void> spill_files::read(const spilled& of, std::span<std::byte> to) const {
  std::shared_ptr<file> from;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = files_.find(of.file); found != files_.end()) from = found->second;
  }
  const auto lost = [&](const char* why) {
    return error(errc::object_lost,
                 fmt::format("store: an object of {} bytes that was spilled to {} is lost: {}",
                             of.bytes, folder_, why));
  };
  if (!from || to.size() != of.bytes) return lost("it was forgotten");
  std::uint64_t sum = 0;
  if (const int why = read_and_sum(from->on.number(), of.at, to, sum); why != 0) {
    return lost(why == ENODATA ? "its file is shorter than what was written" : std::strerror(why));
  }
  if (sum != of.sum) return lost("its bytes are not those that were written");
  return {};
}

void spill_files::forget(const spilled& of) {
  std::shared_ptr<file> in;
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(of.file);
    if (found == files_.end()) return;
    in = found->second;
    bytes_ -= of.bytes;
    if (--in->lives == 0) files_.erase(found);
  }
  if (in.use_count() == 1) return;  // nobody else has the file, which goes
  static_cast<void>(!fallocate(in->on.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               static_cast<off_t>(of.at), static_cast<off_t>(up(of.bytes))));
}

std::uint64_t spill_files::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace manta::inline v0::store
