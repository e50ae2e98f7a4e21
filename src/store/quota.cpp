// SPDX-License-Identifier: Apache-2.0
#include "store/quota.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace manta::inline v0::store {

namespace {

using numbers = std::array<std::uint64_t, quota::most_stores>;

constexpr off_t offset_of(std::size_t place) noexcept {
  return static_cast<off_t>(place * sizeof(std::uint64_t));
}
constexpr off_t step_at = offset_of(quota::most_stores);

// Of one byte. F_OFD_SETLK: false when somebody else has it.
bool lock(int file, int how, short kind, off_t at) noexcept {
  struct flock of {};
  of.l_type = kind;
  of.l_whence = SEEK_SET;
  of.l_start = at;
  of.l_len = 1;
  int done = -1;
  do {
    done = fcntl(file, how, &of);
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

bool is_held(int file, off_t at) noexcept {
  struct flock of {};
  of.l_type = F_WRLCK;
  of.l_whence = SEEK_SET;
  of.l_start = at;
  of.l_len = 1;
  return fcntl(file, F_OFD_GETLK, &of) == 0 && of.l_type != F_UNLCK;
}

// The lock of a step, held while it lives. One file is one holder, so that the threads of a process
// need one of their own. Who was stopped while it had the lock is not waited for longer than a
// second: a segment too much is better than none.
class step {
 public:
  explicit step(int file) noexcept : threads_(mutex()), file_(file) {
    for (int tries = 0; tries < 1000; ++tries) {
      if (lock(file_, F_OFD_SETLK, F_WRLCK, step_at)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  step(const step&) = delete;
  step& operator=(const step&) = delete;
  ~step() { lock(file_, F_OFD_SETLK, F_UNLCK, step_at); }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  const std::lock_guard<std::mutex> threads_;
  const int file_;
};

numbers read_all(int file) noexcept {
  numbers all{};
  // What the file does not have yet is zero.
  static_cast<void>(!pread(file, all.data(), sizeof all, 0));
  return all;
}

void write_one(int file, std::size_t place, std::uint64_t bytes) noexcept {
  static_cast<void>(!pwrite(file, &bytes, sizeof bytes, offset_of(place)));
}

// Of the others that live.
std::uint64_t sum_of_others(int file, const numbers& all, std::size_t own) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i != own && all[i] != 0 && is_held(file, offset_of(i))) sum += all[i];
  }
  return sum;
}

error unusable(const std::string& folder, const std::string& why) {
  return {
      errc::invalid_config,
      fmt::format("store: the file in {} by which the stores of a machine share its memory can't "
                  "be used: {}; name a folder that only this user may enter in quota-folder",
                  folder, why)};
}

}  // namespace

result<quota> quota::open(const std::string& folder, std::uint64_t most_bytes) {
  struct stat is {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return unusable(folder, std::strerror(errno));
  }
  if (stat(folder.c_str(), &is) != 0 || !S_ISDIR(is.st_mode)) return unusable(folder, "no folder");
  if (is.st_uid != geteuid() || (is.st_mode & 0077) != 0) {
    return unusable(folder, "others may enter it, or it is of another user");
  }
  descriptor file(
      ::open((folder + "/store").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.number() < 0) return unusable(folder, std::strerror(errno));
  for (std::size_t place = 0; place < most_stores; ++place) {
    if (!lock(file.number(), F_OFD_SETLK, F_WRLCK, offset_of(place))) {
      if (errno == EAGAIN || errno == EACCES) continue;
      return unusable(folder, std::strerror(errno));  // a file system without locks
    }
    const step one_step(file.number());
    write_one(file.number(), place, 0);
    return quota(std::move(file), place, most_bytes);
  }
  return unusable(folder, fmt::format("{} stores are there already", most_stores));
}

bool quota::take(std::uint64_t bytes) const {
  const step one_step(file_.number());
  const numbers all = read_all(file_.number());
  const std::uint64_t others = sum_of_others(file_.number(), all, place_);
  const std::uint64_t own = all[place_];
  if (others > most_bytes_ || own > most_bytes_ - others || bytes > most_bytes_ - others - own) {
    return false;
  }
  write_one(file_.number(), place_, own + bytes);
  return true;
}

void quota::give(std::uint64_t bytes) const {
  const step one_step(file_.number());
  const std::uint64_t own = read_all(file_.number())[place_];
  write_one(file_.number(), place_, own > bytes ? own - bytes : 0);
}

std::uint64_t quota::used() const {
  const step one_step(file_.number());
  const numbers all = read_all(file_.number());
  return all[place_] + sum_of_others(file_.number(), all, place_);
}

}  // namespace manta::inline v0::store
