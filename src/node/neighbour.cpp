// SPDX-License-Identifier: Apache-2.0
#include "node/neighbour.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <manta/base/id.hpp>

namespace manta::inline v0::node {

namespace {

// 01234567-89ab-...: 128 bits; zero: there is none.
base::id boot_of_kernel() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  std::erase(text, '-');
  base::id out;
  if (text.size() != 32) return out;
  std::from_chars(text.data(), text.data() + 16, out.high, 16);
  std::from_chars(text.data() + 16, text.data() + 32, out.low, 16);
  return out;
}

// Whether others find it below /proc by the number that it says: that may be of another namespace,
// and a process can keep its files from others.
bool shows_itself() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self");
  return self == fmt::format("{}", getpid()) && prctl(PR_GET_DUMPABLE) == 1;
}

std::uint64_t own_machine() noexcept {
  try {
    const base::id boot = boot_of_kernel();
    struct stat pids {};
    struct stat users {};
    const bool is_known = boot != base::id{} && stat("/proc/self/ns/pid", &pids) == 0 &&
                          stat("/proc/self/ns/user", &users) == 0;
    if (!is_known || !shows_itself()) return 0;
    // A user's number is one of its namespace of users.
    return base::derive(base::derive(boot, pids.st_ino, users.st_ino), geteuid(), 0).high;
  } catch (...) {
    return 0;  // no memory, or no /proc
  }
}

error cant_map(std::uint32_t pid, const char* why) {
  return {errc::decode_failed,
          fmt::format("an array of process {} can't be read in place: {}; with map-arrays = no "
                      "(MANTA_MAP_ARRAYS=no) it comes as a copy",
                      pid, why)};
}

error has_ended(std::uint32_t pid) {
  return {errc::node_lost, fmt::format("the node that has an array, process {}, is lost", pid)};
}

}  // namespace

std::uint64_t machine_number() noexcept {
  static const std::uint64_t own = own_machine();
  return own;
}

std::uint32_t inode_of(int file) noexcept {
  struct stat is {};
  return fstat(file, &is) == 0 ? static_cast<std::uint32_t>(is.st_ino) : 0;
}

std::shared_ptr<const neighbour> neighbour::find(std::uint32_t pid) {
  store::descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (handle.number() < 0) return nullptr;
  const store::descriptor files(
      open(fmt::format("/proc/{}/fd", pid).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (files.number() < 0) return nullptr;
  return std::make_shared<const neighbour>(pid, std::move(handle));
}

bool neighbour::has_exited() const noexcept {
  pollfd one{.fd = handle_.number(), .events = POLLIN, .revents = 0};
  return poll(&one, 1, 0) > 0 && (one.revents & POLLIN) != 0;
}

result<store::segment_view> neighbour::map(std::uint32_t file, std::uint32_t inode) const {
  // First without opening it: a number that is old may be of anything.
  const std::string path = fmt::format("/proc/{}/fd/{}", pid_, file);
  const store::descriptor found(open(path.c_str(), O_PATH | O_CLOEXEC));
  const int why = errno;
  // Its files go before it has exited; and while it lives it has what it lends.
  if (has_exited() || (found.number() < 0 && (why == ENOENT || why == ESRCH))) {
    return has_ended(pid_);
  }
  if (found.number() < 0) return cant_map(pid_, std::strerror(why));
  if (inode_of(found.number()) != inode) return cant_map(pid_, "its file is another one by now");
  const std::string here = fmt::format("/proc/self/fd/{}", found.number());
  store::descriptor opened(open(here.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.number() < 0) return cant_map(pid_, std::strerror(errno));
  return store::segment_view::map(std::move(opened));
}

}  // namespace manta::inline v0::node
