// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/spec/parcel.hpp>

// All functions of a process as a value that can travel: what two processes compare when one joins
// the other's job. They send table_hash() first, and this only when the hashes differ.

namespace manta::inline v0::codec {

/// A registered function.
struct named_function {
  spec::function_id id;  ///< what other processes know it by
  std::string name;      ///< what people know it by
};

/// The registered functions of a process.
struct function_table {
  std::uint64_t build = 0;                ///< the executable's build, as function_id::module
  std::string file;                       ///< the executable's file
  std::vector<named_function> functions;  ///< each id once, in the order of ids
};

/// This process's table. Any thread; linear in its size.
MANTA_API function_table describe_table();

/// One sentence that says how the tables differ and what to do; empty when their functions are the
/// same. `there` may be anything that a peer sent.
MANTA_API std::string describe_difference(const function_table& here, const function_table& there);

}  // namespace manta::inline v0::codec
