// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <manta/spec/error.hpp>

#include "wire/secret.hpp"

// The token of a cluster, which all its processes have: 32 bytes, as 64 hex digits in a file.
//
// Problem: nobody should have to make it by hand, and the first processes of a job begin at once,
// on many machines that share a home folder; while a file that others could have read, or put
// there, must not be taken.
// Idea: who finds none writes one to a file of its own, whole and on the disk, and links that to
// the name; link(2) lets one of them win, on a shared file system too. Then all read what is there.
// Limits: a token is never replaced, nor is a file that is none. Who dies between writing and
// linking leaves a file `<name>.<digits>.new`, which holds what nobody has ever used. A file system
// without links, or without modes, can't hold a token.
// Threads: any, and any number of processes.

namespace manta::inline v0::wire {

/// 64 hex digits, and a newline or none. decode_failed: anything else; what it was is not told.
result<secret> parse_token(std::string_view text);

/// The token in this file. storage_failed: there is none, it can't be read, is a link or no plain
/// file, is another user's, has another mode than 600 or 400, or holds something else.
result<secret> read_token(const std::string& path);

/// The token in this file, which is made when there is none, with the folders above it.
/// storage_failed: as read_token, or nothing can be made there.
result<secret> make_token(const std::string& path);

/// Where it is when nothing else is said: $XDG_CONFIG_HOME/manta/token, else ~/.config/manta/token.
/// Empty when this user has no home at all, which the functions above refuse with a word.
std::string usual_token_path();

}  // namespace manta::inline v0::wire
