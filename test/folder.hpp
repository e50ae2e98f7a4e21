// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>  // NOLINT: mkdtemp and setenv are POSIX

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <catch2/catch.hpp>

namespace manta_test {

/// A folder of its own for a test, gone with it. A node of the test's own program (MANTA_NODES)
/// makes one, too, and ends before the scope does: that one goes with the test's.
class folder {
 public:
  folder()
      : folder(first_process() == nullptr ? std::filesystem::temp_directory_path()
                                          : std::filesystem::path(first_process())) {}
  explicit folder(const std::filesystem::path& below) {
    std::error_code ignored;
    std::filesystem::create_directories(below, ignored);
    std::string name = (below / "manta_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) FAIL("no folder for the test: " << name);
    path_ = name;
    if (first_process() == nullptr) setenv(variable, of_nodes().c_str(), 1);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    std::filesystem::remove_all(of_nodes(), ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  /// A store's folder below it.
  std::string store() const { return (path_ / "store").string(); }

 private:
  static constexpr const char* variable = "MANTA_TEST_FOLDERS";

  /// Where the first process of this program wants the others' folders; null: this is that one.
  static const char* first_process() {
    static const char* const found = std::getenv(variable);
    return found;
  }
  std::string of_nodes() const { return path_.string() + ".nodes"; }

  std::filesystem::path path_;
};

}  // namespace manta_test
