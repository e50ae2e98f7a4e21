// SPDX-License-Identifier: Apache-2.0
// A library for dlopen, compiled with default visibility as most are. What it needs of libmanta it
// finds in the program that loads it.
#include "codec/plugin.hpp"

namespace plugin {

int alone(int value) { return value + 1; }

}  // namespace plugin

extern "C" {

/// The entry of a function that only this library has.
const manta::codec::entry* plugin_alone() { return &manta_test::entry_of<&plugin::alone>(); }

/// The entry of a template's instance that the program has, too.
const manta::codec::entry* plugin_twice() {
  return &manta_test::entry_of<&manta_test::twice<int>>();
}
}
