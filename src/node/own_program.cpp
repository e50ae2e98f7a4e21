// SPDX-License-Identifier: Apache-2.0
#include "node/own_program.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string_view>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

namespace manta::inline v0::node {

namespace {

// What its file was started with, to be started with once more.
std::vector<std::string> own_arguments() {
  std::vector<std::string> out;
  std::FILE* const file = std::fopen("/proc/self/cmdline", "re");
  if (file == nullptr) return out;
  std::string one;
  for (int c = 0; (c = std::fgetc(file)) != EOF;) {
    if (c != 0) {
      one += static_cast<char>(c);
    } else {
      out.push_back(std::exchange(one, {}));
    }
  }
  std::fclose(file);
  return out;
}

std::vector<std::string> variables_with(const own_program& how) {
  std::vector<std::string> out;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view text = *one;
    const bool is_replaced = std::ranges::any_of(how.variables, [&](const auto& other) {
      return text.starts_with(other.first) && text.substr(other.first.size()).starts_with('=');
    });
    if (!is_replaced) out.emplace_back(text);
  }
  for (const auto& [name, value] : how.variables) {
    if (!value.empty()) out.push_back(name + "=" + value);
  }
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& one : texts) out.push_back(one.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

int start_own_program(const own_program& how, pid_t& pid) {
  std::vector<std::string> arguments = own_arguments();
  if (arguments.empty()) return ENOENT;
  std::vector<std::string> variables = variables_with(how);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (posix_spawn_file_actions_init(&actions) != 0) return ENOMEM;
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return ENOMEM;
  }
  for (const int file : how.files) {
    posix_spawn_file_actions_adddup2(&actions, file, file);  // not closed by exec any more
  }
  if (how.reads_nothing) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int failed = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes,
                                 pointers_to(arguments).data(), pointers_to(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

std::string own_program_name() {
  std::array<char, 4096> path{};
  const ssize_t n = readlink("/proc/self/exe", path.data(), path.size());
  const std::string whole(path.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  return whole.substr(whole.rfind('/') + 1);
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace manta::inline v0::node
