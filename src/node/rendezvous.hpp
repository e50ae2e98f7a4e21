// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <manta/spec/error.hpp>

#include "wire/endpoint.hpp"

// Where the ranks of a job on several machines find their head: a file in a folder that all of them
// see, with the addresses under which it may be reached, the most likely first.
//
// The file is renamed into its place, so that nobody reads half of it; it goes with the head, also
// where that is ended by a signal that it hears (leftovers.hpp). What a killed head has left is
// replaced by the next one of that job; who reads it before finds nobody there and reads again.
// Threads: any; the files are the machines'.

namespace manta::inline v0::node {

class rendezvous {
 public:
  /// The file of the job `name` in `folder`, which is made with the folders above it.
  rendezvous(std::string folder, std::string name) noexcept;

  /// The file is one of this process's leftovers from then on. storage_failed: the folder or the
  /// file can't be made, or be written.
  result<void> publish(const std::vector<wire::endpoint>& places) const;
  /// Nothing: there is no such file yet, or it is none of ours.
  std::optional<std::vector<wire::endpoint>> find() const;
  /// What find() has found, for messages where it was none.
  const char* what_lies_there() const;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string folder_;
  std::string path_;
};

/// Under which this machine may be reached by others, at `port`: its networks' numbers, those of
/// version 4 first, then its name.
std::vector<wire::endpoint> own_places(std::uint16_t port);
/// The numbers alone.
std::vector<wire::endpoint> own_numbers(std::uint16_t port);

}  // namespace manta::inline v0::node
