// SPDX-License-Identifier: Apache-2.0
#include "node/early_main.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <manta/base/export.hpp>

#include "node/zygote.hpp"

namespace manta::inline v0::node::early_main {

namespace {

using main_function = int (*)(int, char**, char**);

constinit std::atomic<bool> was_started_here{false};
constinit int its_socket = -1;
constinit pid_t its_driver = 0;

int be_zygote(int /*argc*/, char** /*argv*/, char** /*variables*/) {
  unsetenv(variable);
  run_zygote(its_socket, its_driver);
}

// Whether it says that this process is one, and who made it.
bool is_zygote(const char* text) noexcept {
  long driver = 0;
  return text != nullptr && std::sscanf(text, "%d:%ld", &its_socket, &driver) == 2 &&
         (its_driver = static_cast<pid_t>(driver)) == getppid();
}

// One that has the variable and is none starts nothing once more: what went wrong for it would go
// wrong for that, too, without end.
main_function main_for(main_function users) noexcept {
  const char* const text = std::getenv(variable);
  if (is_zygote(text)) return be_zygote;
  was_started_here.store(text == nullptr, std::memory_order_relaxed);
  return users;
}

}  // namespace

bool is_in_front() noexcept { return was_started_here.load(std::memory_order_relaxed); }

}  // namespace manta::inline v0::node::early_main

#if defined(__GLIBC__)

using manta::node::early_main::main_for;

// The linker finds this one before the C library's.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" MANTA_API int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv,
                                           void (*init)(), void (*fini)(), void (*loader_fini)(),
                                           void* stack_end) {
  using start = decltype(&__libc_start_main);
  const auto next = reinterpret_cast<start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  if (next == nullptr) {
    std::fputs("manta: the C library has no __libc_start_main; link it as a shared one\n", stderr);
    std::abort();
  }
  return next(main_for(main), argc, argv, init, fini, loader_fini, stack_end);
}

#endif
