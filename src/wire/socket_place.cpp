// SPDX-License-Identifier: Apache-2.0
#include "wire/socket_place.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace manta::inline v0::wire {

namespace {

error refused(const std::string& path, std::string_view found, std::string_view remedy) {
  return error(
      errc::storage_failed,
      fmt::format("wire: asked a place for sockets at {}, found {}; {}", path, found, remedy));
}

// Whether somebody listens there: a socket's file outlives its listener.
bool is_listened_at(const sockaddr_un& at) {
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return true;
  const int is = ::connect(file, reinterpret_cast<const sockaddr*>(&at), sizeof at);
  const int why = errno;
  ::close(file);
  return is == 0 || why != ECONNREFUSED;
}

bool remove_if_dead(const std::string& path) {
  struct stat is {};
  const result<sockaddr_un> at = address_of(path);
  if (!at || lstat(path.c_str(), &is) != 0 || !S_ISSOCK(is.st_mode) || is_listened_at(*at)) {
    return false;
  }
  return unlink(path.c_str()) == 0;
}

// Of two that find a dead one's socket the second would remove the first one's, at which nobody
// listens yet. Who binds and can't have its turn goes on without: in a folder of others somebody
// may keep it.
class turn_to_bind {
 public:
  explicit turn_to_bind(const std::string& path)
      : file_(open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    constexpr int most_tries = 100;
    for (int i = 0; i < most_tries && !is_mine_; ++i) {
      is_mine_ = flock(file_, LOCK_EX | LOCK_NB) == 0;
      if (is_mine_ || (errno != EWOULDBLOCK && errno != EINTR)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  turn_to_bind(const turn_to_bind&) = delete;
  turn_to_bind& operator=(const turn_to_bind&) = delete;
  ~turn_to_bind() {
    if (is_mine_) flock(file_, LOCK_UN);  // a child that is forked just now has it, too
    if (file_ >= 0) ::close(file_);
  }
  bool is_mine() const noexcept { return is_mine_; }

 private:
  static std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
  }

  int file_;
  bool is_mine_ = false;
};

}  // namespace

result<void> prepare_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return refused(path, std::strerror(errno), "make the folder above it, or name another place");
  }
  struct stat is {};
  if (lstat(path.c_str(), &is) != 0) {
    return refused(path, std::strerror(errno), "name another place");
  }
  if (!S_ISDIR(is.st_mode)) return refused(path, "something else than a folder", "remove it");
  if (is.st_uid != geteuid()) {
    return refused(path, fmt::format("a folder of user {}", is.st_uid), "name another place");
  }
  if ((is.st_mode & 077U) != 0) {
    const bool is_for_all = (is.st_mode & S_ISVTX) != 0;  // as /tmp, which is to stay so
    return refused(path, fmt::format("the mode {:03o}", is.st_mode & 07777U),
                   is_for_all ? "others must not enter it: name a folder within it"
                              : "others must not enter it: set its mode to 700");
  }
  return {};
}

result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof at.sun_path) {
    return error(
        errc::invalid_argument,
        fmt::format("wire: asked a socket at {}, whose name has {} bytes, allowed are 1 to "
                    "{}; take a shorter folder",
                    path, path.size(), sizeof at.sun_path - 1));
  }
  std::memcpy(at.sun_path, path.data(), path.size());
  return at;
}

bool has_listener(const std::string& path) {
  const result<sockaddr_un> at = address_of(path);
  struct stat is {};
  return at.has_value() && lstat(path.c_str(), &is) == 0 && S_ISSOCK(is.st_mode) &&
         is_listened_at(*at);
}

void remove_dead_sockets(const std::string& folder) {
  namespace fs = std::filesystem;
  const turn_to_bind turn(folder + "/");
  if (!turn.is_mine()) return;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    remove_if_dead(at->path().string());
  }
}

std::optional<socket_file> file_at(const std::string& path) {
  struct stat is {};
  if (lstat(path.c_str(), &is) != 0 || !S_ISSOCK(is.st_mode)) return std::nullopt;
  return socket_file{path, is.st_dev, is.st_ino};
}

void remove_file(const socket_file& of) noexcept {
  struct stat is {};
  if (lstat(of.path.c_str(), &is) != 0) return;
  if (is.st_dev == of.device && is.st_ino == of.inode) unlink(of.path.c_str());
}

result<socket_place> socket_place::bind(const std::string& path) {
  const result<sockaddr_un> at = address_of(path);
  if (!at) return at.error();
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return refused(path, std::strerror(errno), "raise the limit of open files");
  socket_place made({}, file);
  const auto* const address = reinterpret_cast<const sockaddr*>(&*at);
  const turn_to_bind turn(path);
  int is = ::bind(file, address, sizeof *at);
  if (is != 0 && errno == EADDRINUSE) {
    if (!remove_if_dead(path)) {
      return error(errc::name_taken,
                   fmt::format("wire: asked a socket at {}, found another one's; end the process "
                               "that listens there, or name another place",
                               path));
    }
    is = ::bind(file, address, sizeof *at);
  }
  if (is != 0) return refused(path, std::strerror(errno), "name another place");
  made.path_ = path;
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0) {
    made.device_ = found.st_dev;
    made.inode_ = found.st_ino;
  }
  if (listen(file, SOMAXCONN) != 0)
    return refused(path, std::strerror(errno), "name another place");
  return made;
}

// A port that a process has left a moment ago can be taken: what is on its way to that one fits no
// connection of the next.
result<socket_place> socket_place::bind(const socket_address& to) {
  const int file = socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return refused(to.text(), std::strerror(errno), "name another place");
  socket_place made({}, file);
  const int yes = 1;
  setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(file, to.get(), to.size()) == 0 && listen(file, SOMAXCONN) == 0) return made;
  const int why = errno;
  if (why == EADDRINUSE) {
    return error(
        errc::name_taken,
        fmt::format("wire: asked to listen at {}, found another process that does; end it, "
                    "or name another port (0: any that is free)",
                    to.text()));
  }
  return refused(to.text(), std::strerror(why),
                 why == EADDRNOTAVAIL ? "name an address of this machine" : "name another place");
}

socket_place::socket_place(socket_place&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      file_(std::exchange(other.file_, -1)),
      device_(other.device_),
      inode_(other.inode_) {}

socket_place::~socket_place() {
  struct stat is {};
  if (!path_.empty() && lstat(path_.c_str(), &is) == 0 && is.st_dev == device_ &&
      is.st_ino == inode_) {
    unlink(path_.c_str());
  }
  if (file_ >= 0) ::close(file_);
}

void set_prompt(int file) noexcept {
  const int yes = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(file, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &yes, sizeof yes);
}

}  // namespace manta::inline v0::wire
