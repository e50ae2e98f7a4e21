// SPDX-License-Identifier: Apache-2.0
// The test framework's main function, compiled once for all suites.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
