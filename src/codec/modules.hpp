// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// The executable and the shared libraries that are loaded, and which build each is.
//
// The build id is read from the module's own memory (PT_NOTE), not from its file, which may have
// been replaced since. Who asks about an address must know that its module stays loaded meanwhile.

namespace manta::inline v0::codec {

/// A loaded executable or shared library. Immutable value.
struct loaded_module {
  std::uint64_t base = 0;   ///< what was added to the addresses in its file
  std::uint64_t begin = 0;  ///< its first byte in memory
  std::uint64_t end = 0;    ///< one past its last
  std::uint64_t build = 0;  ///< first 8 bytes of its GNU build id, big-endian
  bool has_build_id = false;
  bool is_executable = false;  ///< not a library
  std::string file;
};

/// The module that has the byte at `address`; nothing when there is none, as for heap and stack.
/// Cheap: where the module has no build id, `build` is 0 still.
std::optional<loaded_module> module_at(const void* address);

/// The executable. As module_at.
loaded_module main_module();

/// The build of the module: its build id, or a hash over its file where it has none, and over its
/// read-only memory where the file can't be read. Reads all of the file then.
std::uint64_t build_of(const loaded_module& m);

/// The description of the GNU build-id note among `notes`, which are padded to `alignment` bytes;
/// empty when there is none or the notes make no sense.
std::span<const std::byte> find_build_id(std::span<const std::byte> notes, std::size_t alignment);

/// Up to 8 bytes as a big-endian number, zeros after them.
std::uint64_t first_eight(std::span<const std::byte> bytes) noexcept;

/// "00c0ffee00c0ffee".
std::string build_text(std::uint64_t build);

}  // namespace manta::inline v0::codec
