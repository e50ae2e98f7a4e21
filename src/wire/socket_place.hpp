// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/un.h>

#include <manta/spec/error.hpp>

#include "wire/endpoint.hpp"

// Where others connect to. The unix sockets of a user lie in a folder that nobody else may enter,
// so that the name is no race and the socket's own mode does not matter.
// Threads: any; the files are the machine's.

namespace manta::inline v0::wire {

/// Makes the folder with mode 0700, or finds it so. storage_failed: it can't be made, is a link or
/// a file, belongs to another user, or others may enter it.
result<void> prepare_folder(const std::string& path);

/// Whether somebody listens at the unix socket `path`, or may: it can't be asked.
bool has_listener(const std::string& path);

/// Removes the sockets in `folder` that nobody listens at, nor is about to. Throws std::bad_alloc.
void remove_dead_sockets(const std::string& folder);

/// A socket's file, or another one, told from a third at the same path.
struct socket_file {
  std::string path;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};
/// Nothing: there is none.
std::optional<socket_file> file_at(const std::string& path);
void remove_file(const socket_file& of) noexcept;

/// The address of a socket's file. invalid_argument: the path has more bytes than fit (107).
result<sockaddr_un> address_of(const std::string& path);

/// For messages that are few and small, and whose time is what matters: none waits for others, and
/// one that is lost is sent again at a steady pace before the pauses grow, so that a network that
/// was away for 2 s carries it half a second later, not one.
void set_prompt(int file) noexcept;

/// A listening socket; a unix socket's file is removed with it. What lies at `path` is replaced
/// when it is a socket that nobody listens at any more, as the dead leave it.
class socket_place {
 public:
  /// storage_failed: something else lies there, or the kernel refuses. name_taken: somebody
  /// listens.
  static result<socket_place> bind(const std::string& path);
  /// The same over TCP; `to` is a number of this machine. It has no file.
  static result<socket_place> bind(const socket_address& to);
  socket_place(socket_place&& other) noexcept;
  socket_place& operator=(socket_place&&) = delete;
  ~socket_place();

  int file() const noexcept { return file_; }

 private:
  socket_place(std::string path, int file) noexcept : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;
  // The file's own name for it: another one's is not removed.
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
};

}  // namespace manta::inline v0::wire
