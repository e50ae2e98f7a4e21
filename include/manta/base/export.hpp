// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which names libmanta shows to the program that links it.
//
// libmanta is compiled with hidden visibility; a declaration marked MANTA_API is visible. The mark
// is the same for the static and the shared library, so nothing has to be defined by who uses it,
// and a static libmanta inside several plugins of one process still is one runtime with one set of
// thread-local state (with hidden symbols each plugin would have its own).
//
// Mark
// - functions and variables declared in a public header and defined in a .cpp;
// - classes that are thrown, have virtual functions or are used in dynamic_cast: their type_info
//   must be one object, or a catch clause in the program misses what the library threw;
// - function templates and inline functions only where a static local or the address must be one
//   for the process. Other inline code needs no mark.
//
// A thread_local in a public header is `extern constinit MANTA_API thread_local T name;`: constinit
// spares each access the call of an initialisation wrapper, and T must be trivially destructible.
#if defined(__GNUC__)
#define MANTA_API __attribute__((visibility("default")))
#else
#define MANTA_API
#endif
