// SPDX-License-Identifier: Apache-2.0
#include "node/leftovers.hpp"

#include <exception>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include <manta/base/check.hpp>

#include "node/user_folder.hpp"

namespace manta::inline v0::node {

leftovers& leftovers::global() {
  static auto* const made = new leftovers;  // never destroyed: a signal may come at any time
  return *made;
}

void leftovers::add(const std::string& path) {
  auto is = wire::file_at(path);
  if (!is.has_value()) return;
  const std::size_t at = count_.load();
  MANTA_CHECK(at < own_.size());
  own_[at] = *std::move(is);
  count_.store(at + 1, std::memory_order_release);
}

bool leftovers::add_meeting(int file, std::string path, std::string later) noexcept {
  struct stat is {};
  if (fstat(file, &is) != 0) return false;
  MANTA_CHECK(!has_meeting_.load());
  meeting_[0] = {std::move(path), is.st_dev, is.st_ino};
  meeting_[1] = {std::move(later), is.st_dev, is.st_ino};
  has_meeting_.store(true, std::memory_order_release);
  return true;
}

void leftovers::set_folder(const std::string& path) {
  if (path.empty() || has_folder_.load()) return;
  folder_ = path;
  has_folder_.store(true, std::memory_order_release);
}

void leftovers::remove_own() const noexcept {
  const std::size_t count = count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) wire::remove_file(own_[i]);
  if (has_meeting_.load(std::memory_order_acquire)) {
    for (const wire::socket_file& one : meeting_) wire::remove_file(one);
  }
  if (has_folder_.load(std::memory_order_acquire)) rmdir(folder_.c_str());
}

void leftovers::remove() const noexcept {
  remove_own();
  if (!has_folder_.load(std::memory_order_acquire)) return;
  try {
    if (!wire::has_listener(head_socket(folder_))) remove_job_folder(folder_);
  } catch (const std::exception&) {
    return;  // no memory: the next job finds it
  }
}

void leftovers::clear() noexcept {
  count_.store(0);
  has_meeting_.store(false);
  has_folder_.store(false);
}

}  // namespace manta::inline v0::node
