// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <sys/types.h>

#include "wire/worker_line.hpp"

// Where an isolated worker was when a signal ended it.
//
// Problem. "signal 11" says nothing of where. A dying process can hardly be asked: its heap, its
// locks and its stack may be broken.
//
// Idea. It only notes addresses, on the page that its node sees, too. The node finds their names:
// workers are forked from its own image, so the same address is the same function. After the note
// the signal goes its usual way, with a core where cores are written.
//
// Limits. Sanitizers write reports of their own and keep their handlers; so does a program that had
// handlers before the runtime began, or sets some later. Libraries that were loaded later have no
// names here. Functions that no symbol table names are shown by module and offset.

namespace manta::inline v0::node {

/// In a worker, once, by its main thread: fatal signals leave a note there.
void note_crashes(wire::worker_page& page) noexcept;

/// In the node: " in f <- g <- h", the innermost first; empty when there is no note. `image`: a
/// process that has the worker's addresses; 0: this one has.
std::string describe_crash(const wire::worker_page& page, pid_t image);

}  // namespace manta::inline v0::node
