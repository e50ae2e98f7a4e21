// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <manta/spec/error.hpp>

// Where the programs of one user on one machine find each other: a folder that only the user may
// enter, which does not outlive the user's session or the machine's start.
// Threads: any; the files are the machine's.

namespace manta::inline v0::node {

/// manta in XDG_RUNTIME_DIR, else /tmp/manta-UID.
std::string user_folder();

/// The folder where the sockets of the job `name` lie, below user_folder(); made. What jobs have
/// left that are gone goes. Errors of wire::prepare_folder.
result<std::string> make_job_folder(std::string_view name);
/// The same, when it is not to be made.
std::string job_folder(std::string_view name);
/// The socket of the head in it.
std::string head_socket(const std::string& folder);
/// The names of this user's jobs on this machine whose head listens, sorted.
std::vector<std::string> jobs_here();
/// The folder that a socket lies in, when it is one of a job of this user; else empty.
std::string job_folder_of(const std::string& socket);
/// Removes such a folder when nothing lies in it but sockets of who was killed.
void remove_job_folder(const std::string& path) noexcept;

}  // namespace manta::inline v0::node
