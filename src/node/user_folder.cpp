// SPDX-License-Identifier: Apache-2.0
#include "node/user_folder.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

#include <unistd.h>

#include "wire/socket_place.hpp"

namespace manta::inline v0::node {

namespace {

namespace fs = std::filesystem;

// A job makes its folder before it listens there.
constexpr std::chrono::seconds time_to_listen{60};

std::string jobs_folder() { return user_folder() + "/jobs"; }

// What a killed job has left: sockets that nobody listens at.
void sweep_jobs(const std::string& in) {
  std::error_code failed;
  const auto limit = fs::file_time_type::clock::now() - time_to_listen;
  for (fs::directory_iterator at(in, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code ignored;
    if (!at->is_directory(ignored) || at->last_write_time(ignored) > limit) continue;
    wire::remove_dead_sockets(at->path().string());
    fs::remove(at->path(), ignored);  // an empty one only
  }
}

}  // namespace

std::string user_folder() {
  if (const char* const own = std::getenv("XDG_RUNTIME_DIR"); own != nullptr && *own == '/') {
    return std::string(own) + "/manta";
  }
  return "/tmp/manta-" + std::to_string(geteuid());
}

std::string job_folder(std::string_view name) { return jobs_folder() + "/" + std::string(name); }

result<std::string> make_job_folder(std::string_view name) {
  const std::string path = job_folder(name);
  const auto refusal = [](const error& why) {
    const char* const own = std::getenv("XDG_RUNTIME_DIR");
    const char* const source = own != nullptr && *own == '/' ? " (it is there by XDG_RUNTIME_DIR)"
                                                             : " (XDG_RUNTIME_DIR names another)";
    return error(why.code(), why.message() + source);
  };
  if (const auto at = wire::address_of(head_socket(path)); !at) return refusal(at.error());
  for (const std::string& folder : {user_folder(), jobs_folder(), path}) {
    if (const result<void> made = wire::prepare_folder(folder); !made) return refusal(made.error());
  }
  sweep_jobs(jobs_folder());
  return path;
}

std::string head_socket(const std::string& folder) { return folder + "/head"; }

std::string job_folder_of(const std::string& socket) {
  const fs::path folder = fs::path(socket).parent_path();
  return folder.parent_path() == jobs_folder() ? folder.string() : std::string();
}

std::vector<std::string> jobs_here() {
  std::vector<std::string> out;
  std::error_code failed;
  for (fs::directory_iterator at(jobs_folder(), failed), end; !failed && at != end;
       at.increment(failed)) {
    if (wire::has_listener(head_socket(at->path().string()))) {
      out.push_back(at->path().filename().string());
    }
  }
  std::ranges::sort(out);
  return out;
}

void remove_job_folder(const std::string& path) noexcept {
  try {
    wire::remove_dead_sockets(path);  // of nodes that were killed
  } catch (const std::exception&) {
    return;  // no memory: the next job finds it
  }
  rmdir(path.c_str());
}

}  // namespace manta::inline v0::node
