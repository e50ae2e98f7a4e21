// SPDX-License-Identifier: Apache-2.0
//
// One contestant in a process of its own: started by the parent, reporting through a pipe.
#pragma once

#include <string>
#include <vector>

#include "harness/suite.hpp"

namespace bench {

// An allocator to preload: what it is called, and the library the dynamic linker is given.
struct allocator {
  std::string name;
  std::string library;
};

// Those of mimalloc and tbbmalloc that this machine can load.
std::vector<allocator> loadable_allocators();

// Parent: runs this very program again for one contestant and adds what it reports to `into`.
void run_child(std::size_t contestant_index, const std::string& library, bool quick, result& into);

// Child: measures, and reports to descriptor 3.
int serve_child(const row& in, const contestant& who, const plan& how);

}  // namespace bench
