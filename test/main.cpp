// SPDX-License-Identifier: Apache-2.0
// The test framework's main function, compiled once for all suites.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

// RocksDB is not built for ThreadSanitizer, which sees what it copies and not what it locks.
extern "C" const char* __tsan_default_suppressions();   // NOLINT: the sanitizer's name
extern "C" const char* __tsan_default_suppressions() {  // NOLINT: the sanitizer's name
  return "race:librocksdb.so\ncalled_from_lib:librocksdb.so\n";
}
