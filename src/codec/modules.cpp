// SPDX-License-Identifier: Apache-2.0
#include "codec/modules.hpp"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

#include <manta/base/id.hpp>

#include <fmt/format.h>

namespace manta::inline v0::codec {

namespace {

std::span<const ElfW(Phdr)> headers_of(const dl_phdr_info& info) {
  return {info.dlpi_phdr, info.dlpi_phnum};
}

// Whether all of these bytes of the module's image are loaded and may be read.
bool is_loaded(const dl_phdr_info& info, std::uint64_t vaddr, std::uint64_t bytes) {
  return std::ranges::any_of(headers_of(info), [&](const ElfW(Phdr) & h) {
    return h.p_type == PT_LOAD && (h.p_flags & PF_R) != 0 && vaddr >= h.p_vaddr &&
           bytes <= h.p_memsz && vaddr - h.p_vaddr <= h.p_memsz - bytes;
  });
}

std::span<const std::byte> memory(const dl_phdr_info& info, const ElfW(Phdr) & h) {
  return {reinterpret_cast<const std::byte*>(info.dlpi_addr + h.p_vaddr), h.p_memsz};
}

void read_build_id(const dl_phdr_info& info, loaded_module& m) {
  for (const ElfW(Phdr) & h : headers_of(info)) {
    if (h.p_type != PT_NOTE || !is_loaded(info, h.p_vaddr, h.p_memsz)) continue;
    const auto found = find_build_id(memory(info, h), h.p_align == 8 ? 8 : 4);
    if (found.empty()) continue;
    m.build = first_eight(found);
    m.has_build_id = true;
    return;
  }
}

std::string own_executable() {
  std::array<char, 4096> path{};
  const ssize_t n = readlink("/proc/self/exe", path.data(), path.size());
  return n > 0 ? std::string(path.data(), static_cast<std::size_t>(n)) : "the executable";
}

loaded_module read_module(const dl_phdr_info& info) {
  loaded_module m;
  m.base = info.dlpi_addr;
  m.begin = ~std::uint64_t{0};
  for (const ElfW(Phdr) & h : headers_of(info)) {
    if (h.p_type != PT_LOAD) continue;
    m.begin = std::min<std::uint64_t>(m.begin, m.base + h.p_vaddr);
    m.end = std::max<std::uint64_t>(m.end, m.base + h.p_vaddr + h.p_memsz);
  }
  const bool is_named = info.dlpi_name != nullptr && *info.dlpi_name != '\0';
  m.is_executable = !is_named;
  m.file = is_named ? info.dlpi_name : own_executable();
  read_build_id(info, m);
  return m;
}

// Calls `visit(info)` for each module, the executable first, until it says true.
template <class Visit>
void each_module(Visit visit) {
  dl_iterate_phdr([](dl_phdr_info* info, std::size_t /*bytes*/,
                     void* data) { return (*static_cast<Visit*>(data))(*info) ? 1 : 0; },
                  &visit);
}

bool has_address(const dl_phdr_info& info, const void* address) {
  return is_loaded(info, reinterpret_cast<std::uint64_t>(address) - info.dlpi_addr, 1);
}

// Any 8 bytes, wherever they lie.
struct [[gnu::packed, gnu::may_alias]] image_word {
  std::uint64_t value;
};

// Folds 8 bytes at a time. Not for data that is chosen to collide: who may choose what a process
// runs needs no collision. It does not matter where the data is cut, if at multiples of 8.
class content_hash {
 public:
  // A module's image has what AddressSanitizer puts between its variables, and all of it is read.
  [[gnu::no_sanitize_address]] void add(const std::byte* bytes, std::size_t count) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
      fold(reinterpret_cast<const image_word*>(bytes + i)->value, 8);
    }
    std::uint64_t rest = 0;
    for (const std::size_t begin = i; i < count; ++i) {
      rest |= static_cast<std::uint64_t>(bytes[i]) << 8 * (i - begin);
    }
    if (count % 8 != 0) fold(rest, count % 8);
  }
  std::uint64_t value() const { return value_; }

 private:
  void fold(std::uint64_t word, std::uint64_t count) {
    value_ = base::detail::fold(value_ ^ word, 0x9e3779b97f4a7c15U) + count;
  }
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

std::optional<std::uint64_t> hash_of_file(const loaded_module& m) {
  // The executable's own link goes to the file that was started, be it renamed or replaced.
  const char* const path = m.is_executable ? "/proc/self/exe" : m.file.c_str();
  const std::unique_ptr<FILE, decltype(&std::fclose)> file(std::fopen(path, "rbe"), &std::fclose);
  if (file == nullptr) return std::nullopt;
  std::vector<std::byte> buffer(std::size_t{1} << 20U);
  content_hash hash;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    hash.add(buffer.data(), n);
  }
  if (std::ferror(file.get()) != 0) return std::nullopt;
  return hash.value();
}

std::uint64_t hash_of_memory(const loaded_module& m) {
  content_hash hash;
  each_module([&](const dl_phdr_info& info) {
    if (!has_address(info, reinterpret_cast<const void*>(m.begin))) return false;
    for (const ElfW(Phdr) & h : headers_of(info)) {
      if (h.p_type != PT_LOAD || (h.p_flags & (PF_R | PF_W)) != PF_R) continue;
      hash.add(memory(info, h).data(), h.p_memsz);
    }
    return true;
  });
  return hash.value();
}

}  // namespace

std::optional<loaded_module> module_at(const void* address) {
  std::optional<loaded_module> found;
  each_module([&](const dl_phdr_info& info) {
    if (!has_address(info, address)) return false;
    found = read_module(info);
    return true;
  });
  return found;
}

loaded_module main_module() {
  loaded_module found;
  each_module([&](const dl_phdr_info& info) {
    found = read_module(info);
    return true;
  });
  return found;
}

std::uint64_t build_of(const loaded_module& m) {
  if (m.has_build_id) return m.build;
  const std::optional<std::uint64_t> hash = hash_of_file(m);
  return hash.has_value() ? *hash : hash_of_memory(m);
}

std::span<const std::byte> find_build_id(std::span<const std::byte> notes, std::size_t alignment) {
  const auto padded = [&](std::uint64_t n) { return (n + alignment - 1) / alignment * alignment; };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes.data(), sizeof(head));
    // The fields have 32 bits, so nothing here wraps.
    const std::uint64_t text_begin = padded(sizeof(head) + std::uint64_t{head.n_namesz});
    const std::uint64_t text_end = text_begin + head.n_descsz;
    if (text_end > notes.size()) return {};
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && head.n_descsz > 0 &&
        std::memcmp(notes.data() + sizeof(head), "GNU", 4) == 0) {
      return notes.subspan(text_begin, head.n_descsz);
    }
    notes = notes.subspan(std::min<std::uint64_t>(padded(text_end), notes.size()));
  }
  return {};
}

std::uint64_t first_eight(std::span<const std::byte> bytes) noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    number = number << 8U | (i < bytes.size() ? static_cast<std::uint64_t>(bytes[i]) : 0U);
  }
  return number;
}

std::string build_text(std::uint64_t build) { return fmt::format("{:016x}", build); }

}  // namespace manta::inline v0::codec
