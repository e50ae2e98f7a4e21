// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

// Which gpus the libraries in an isolated worker see: CUDA_VISIBLE_DEVICES.
//
// Problem. A task that was given gpu 3 calls a library that takes the first one it sees. In a
// process of its own it should see those it was given, under the numbers 0, 1, ..., and one that
// was given none should see none, so that it can't take what is another's (Ray does the same). But
// setenv is unsafe where other threads call getenv: it may move the environment's array, and free
// it, while they read.
//
// Idea. The variable is there from before the process's first thread on, so that later it is only
// replaced: putenv then changes one pointer in place, under the C library's lock for writers, and
// moves nothing. The texts it points to are ours, made once for each set of gpus and never freed,
// so who reads meanwhile has the old one or the new one, whole. (A user's setenv of other names is
// as unsafe as it is without us; who removes this one makes the next change as unsafe as a
// setenv.)
//
//   index i of manta -> entry i of the variable as the driver had it, or i where it had none
//
// Limits. It is the process's: a coroutine that was suspended and goes on beside another task sees
// that one's. CUDA reads it once, when it is initialised, so a process whose task or actor held
// gpus gets no other one (worker_pool.cpp); what initialises CUDA without having asked for a gpu
// spoils its process for later ones, which then find no device. Where the runtime has no gpus to
// give (config::gpus is 0) the variable is left alone.
//
// Threads: open before there are others; prepare and show: who runs the worker's task, or makes
// its actor.

namespace manta::inline v0::node {

class gpu_sight {
 public:
  /// `are_counted`: the runtime has gpus to give. Throws std::bad_alloc.
  void open(bool are_counted);
  /// What show() is to be given for these; null: nothing is ever shown. Throws std::bad_alloc.
  const char* prepare(std::span<const int> gpus);
  /// Answers what was shown before.
  const char* show(const char* prepared) noexcept;

  /// Entry by entry what the value of such a variable names; null: it is not set.
  static std::vector<std::string> entries_of(const char* visible);

 private:
  bool is_open_ = false;
  std::vector<std::string> entries_;             // as the driver had them
  std::map<std::vector<int>, std::string> all_;  // never forgets
  const char* shown_ = nullptr;
};

}  // namespace manta::inline v0::node
