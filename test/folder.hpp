// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX

#include <filesystem>
#include <string>
#include <system_error>

#include <catch2/catch.hpp>

namespace manta_test {

/// A folder of its own for a test, gone with it.
class folder {
 public:
  folder() : folder(std::filesystem::temp_directory_path()) {}
  explicit folder(const std::filesystem::path& below) {
    std::string name = (below / "manta_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) FAIL("no folder for the test: " << name);
    path_ = name;
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  /// A store's folder below it.
  std::string store() const { return (path_ / "store").string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace manta_test
