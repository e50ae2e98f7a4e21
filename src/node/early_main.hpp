// SPDX-License-Identifier: Apache-2.0
#pragma once

// What comes before main in a process that was started again to be the zygote.
//
// Problem. The program's file can be started once more where it is too late for a fork; but its
// main is the user's, or a test framework's: none of it may run twice, and its first lines may
// start threads. The constructor of a library is too early: the program's own initialisers, which
// say what its functions are, come after it.
//
// Idea. The C library's start of a program is a function that is given main. This library has one
// of that name in front of it, which passes everything on; in a process with the environment
// variable below it passes a main that is the zygote's life. The variable is gone before that
// begins, so what workers start is a program as any other, and no zygote makes another.
//
// Limits. glibc; a program that loads libmanta while it runs was not started through this.

namespace manta::inline v0::node::early_main {

/// In the environment of a zygote: its socket, and its driver's process: "7:4711".
inline constexpr const char* variable = "MANTA_ZYGOTE_OF";

/// Whether this program was started through it, without the variable: it may be started again.
bool is_in_front() noexcept;

}  // namespace manta::inline v0::node::early_main
