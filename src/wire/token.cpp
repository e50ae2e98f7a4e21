// SPDX-License-Identifier: Apache-2.0
#include "wire/token.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace manta::inline v0::wire {

namespace {

constexpr std::size_t token_digits = 2 * secret::bytes;
// One more than a token with its newline: what fills it is too much.
constexpr std::size_t most_token_text = token_digits + 2;

// Text that is wiped when it goes.
struct token_text {
  token_text() = default;
  token_text(const token_text&) = delete;
  token_text& operator=(const token_text&) = delete;
  ~token_text() { wipe(std::as_writable_bytes(std::span(bytes))); }

  std::array<char, most_token_text> bytes{};
  std::size_t size = 0;
};

class token_file {
 public:
  explicit token_file(int file) noexcept : file_(file) {}
  token_file(const token_file&) = delete;
  token_file& operator=(const token_file&) = delete;
  ~token_file() { close(); }

  int get() const noexcept { return file_; }
  bool close() noexcept {
    const int file = std::exchange(file_, -1);
    return file < 0 || ::close(file) == 0;
  }

 private:
  int file_;
};

error refused_token(const std::string& path, std::string_view found, std::string_view remedy) {
  return error(
      errc::storage_failed,
      fmt::format("wire: asked the cluster's token in {}, found {}; {}", path, found, remedy));
}
error homeless_token() {
  return error(errc::storage_failed,
               "wire: asked the cluster's token, found no home folder of this user where it would "
               "be; name its file in MANTA_TOKEN_FILE");
}

int digit_of(char one) noexcept {
  if (one >= '0' && one <= '9') return one - '0';
  if (one >= 'a' && one <= 'f') return one - 'a' + 10;
  if (one >= 'A' && one <= 'F') return one - 'A' + 10;
  return -1;
}

// What is wrong with such a file, whatever it holds.
std::optional<error> fault_of_token(const std::string& path, const struct stat& is) {
  if (S_ISLNK(is.st_mode)) {
    return refused_token(path, "a symbolic link",
                         "name the file that it leads to, so that nobody can turn it elsewhere");
  }
  if (!S_ISREG(is.st_mode)) {
    return refused_token(path,
                         S_ISDIR(is.st_mode) ? "a folder" : "something else than a plain file",
                         "name a file in MANTA_TOKEN_FILE");
  }
  if (is.st_uid != geteuid()) {
    return refused_token(path, fmt::format("a file of user {}", is.st_uid),
                         fmt::format("it must be of user {}, as whom this process runs: copy it to "
                                     "a file of its own, and name that in MANTA_TOKEN_FILE",
                                     geteuid()));
  }
  const unsigned mode = is.st_mode & 07777U;
  if (mode != 0600U && mode != 0400U) {
    return refused_token(
        path, fmt::format("the mode {:03o}", mode),
        (mode & 077U) != 0 ? "others may have it by now: remove it on all machines, so that a new "
                             "one is made, or set its mode to 600 when nobody else was here"
                           : "set its mode to 600");
  }
  return std::nullopt;
}

// After open has failed for `why`: a better reason than that, when the file itself shows one.
error no_access_to_token(const std::string& path, int why) {
  struct stat is {};
  if (lstat(path.c_str(), &is) == 0) {
    if (std::optional<error> fault = fault_of_token(path, is)) return *std::move(fault);
  }
  if (why == ENOENT) {
    return refused_token(path, "no file",
                         "copy it from a machine of the cluster, or name it in MANTA_TOKEN_FILE");
  }
  return refused_token(path, std::strerror(why),
                       "see that this user may read it and enter the folders above it");
}

bool read_all(int file, token_text& to) noexcept {
  while (to.size < to.bytes.size()) {
    const ssize_t got = ::read(file, to.bytes.data() + to.size, to.bytes.size() - to.size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) return true;
    to.size += static_cast<std::size_t>(got);
  }
  return true;
}
bool write_all_of(int file, const token_text& from) noexcept {
  std::size_t done = 0;
  while (done < from.size) {
    const ssize_t put = ::write(file, from.bytes.data() + done, from.size - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return true;
}

void write_digits(const secret& from, token_text& to) noexcept {
  static constexpr char digits[] = "0123456789abcdef";
  to.size = 0;
  for (const std::byte one : from.view()) {
    to.bytes[to.size++] = digits[std::to_integer<unsigned>(one) >> 4U];
    to.bytes[to.size++] = digits[std::to_integer<unsigned>(one) & 0xfU];
  }
  to.bytes[to.size++] = '\n';
}

secret random_secret() {
  std::array<std::byte, secret::bytes> made;
  fill_random(made);
  const secret out(made);
  wipe(made);
  return out;
}

std::string random_suffix() {
  std::uint64_t number = 0;
  fill_random(std::as_writable_bytes(std::span(&number, 1)));
  return fmt::format(".{:016x}.new", number);
}

// The folder of a path and those above it, as far as they are missing. Where one can't be made, the
// file can't be either, and says why.
void make_folders_above(const std::string& path) noexcept {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), 0700);
  }
}

// That the name is there after a loss of power, too; who can't have that has a token all the same.
void sync_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : path.substr(0, slash);
  const token_file file(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() >= 0) fsync(file.get());
}

// Puts a new token at `path` unless something is there.
result<void> put_token(const std::string& path) {
  const auto failed = [&path](int why) {
    return refused_token(path, fmt::format("none, and making it failed: {}", std::strerror(why)),
                         "give this user a folder where it may write, or name another file in "
                         "MANTA_TOKEN_FILE");
  };
  const std::string draft = path + random_suffix();
  token_file file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return failed(errno);
  token_text text;
  write_digits(random_secret(), text);
  // The mode once more: the process's mask may have taken some of it.
  bool is_made =
      fchmod(file.get(), 0600) == 0 && write_all_of(file.get(), text) && fsync(file.get()) == 0;
  int why = errno;
  if (!file.close() && is_made) {
    is_made = false;
    why = errno;
  }
  // On a shared file system a link that was made may be answered with an error, when the answer was
  // lost and the request came twice. What counts is what lies there, which is read next.
  if (is_made && ::link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    is_made = false;
    why = errno;
  }
  unlink(draft.c_str());
  if (!is_made) return failed(why);
  sync_folder_of(path);
  return {};
}

}  // namespace

result<secret> parse_token(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.size() != token_digits) {
    return error(errc::decode_failed,
                 fmt::format("wire: a token was to be read, found {} bytes; it has {} hex digits",
                             text.size(), token_digits));
  }
  std::array<std::byte, secret::bytes> made{};
  bool is_hex = true;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    is_hex = is_hex && high >= 0 && low >= 0;
    made[i] =
        static_cast<std::byte>(static_cast<unsigned>(high) << 4U | static_cast<unsigned>(low));
  }
  const secret out(made);
  wipe(made);
  if (!is_hex) {
    return error(errc::decode_failed,
                 fmt::format("wire: a token was to be read, found something else than hex digits "
                             "among its bytes; it has {} of them",
                             token_digits));
  }
  return out;
}

result<secret> read_token(const std::string& path) {
  if (path.empty()) return homeless_token();
  // Not to wait for a writer, where it is a pipe.
  const token_file file(
      open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) return no_access_to_token(path, errno);
  struct stat is {};
  if (fstat(file.get(), &is) != 0) return no_access_to_token(path, errno);
  if (std::optional<error> fault = fault_of_token(path, is)) return *std::move(fault);
  token_text text;
  if (!read_all(file.get(), text)) return no_access_to_token(path, errno);
  static constexpr std::string_view remedy =
      "copy it from a machine of the cluster, or remove it, so that a new one is made";
  if (text.size == 0) return refused_token(path, "an empty file", remedy);
  if (text.size == text.bytes.size()) {
    return refused_token(path,
                         fmt::format("a file of {} bytes, where a token has {} hex digits",
                                     is.st_size, token_digits),
                         remedy);
  }
  result<secret> token = parse_token({text.bytes.data(), text.size});
  if (!token) {
    return refused_token(
        path, fmt::format("{} bytes that are not {} hex digits", text.size, token_digits), remedy);
  }
  return token;
}

result<secret> make_token(const std::string& path) {
  if (path.empty()) return homeless_token();
  struct stat is {};
  if (lstat(path.c_str(), &is) != 0 && errno == ENOENT) {
    make_folders_above(path);
    const result<void> put = put_token(path);
    // Somebody else may have put one where this process may not.
    if (!put && lstat(path.c_str(), &is) != 0) return put.error();
  }
  return read_token(path);
}

std::string usual_token_path() {
  static constexpr std::string_view below = "manta/token";
  if (const char* const own = std::getenv("XDG_CONFIG_HOME"); own != nullptr && *own == '/') {
    return fmt::format("{}/{}", own, below);
  }
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return fmt::format("{}/.config/{}", home, below);
  }
  std::vector<char> text(std::size_t{16} << 10U);
  passwd entry{};
  passwd* found = nullptr;
  const int why = getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found);
  if (why != 0 || found == nullptr || found->pw_dir == nullptr || *found->pw_dir != '/') return {};
  return fmt::format("{}/.config/{}", found->pw_dir, below);
}

}  // namespace manta::inline v0::wire
