// SPDX-License-Identifier: Apache-2.0
#include "node/crash_note.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cxxabi.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <manta/base/sanitizers.hpp>

#include "codec/modules.hpp"

namespace manta::inline v0::node {

namespace {

using page = wire::worker_page;

constexpr std::array fatal_signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
// Where the stack can't be walked, the process ends by the alarm instead of never.
constexpr unsigned most_seconds = 2;
constexpr std::size_t most_shown = 8;

std::atomic<page*> noted{nullptr};

std::uint64_t place_of(const void* context) noexcept {
  const auto* const at = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  return static_cast<std::uint64_t>(at->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return at->uc_mcontext.pc;
#else
  static_cast<void>(at);
  return 0;
#endif
}

// In a process that is about to end: no heap, no locks. backtrace() has loaded what it needs
// before.
void on_fatal(int signal, siginfo_t* info, void* context) noexcept {
  if (page* const to = noted.exchange(nullptr)) {
    std::signal(SIGALRM, SIG_DFL);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
    alarm(most_seconds);
    const std::uint64_t where = place_of(context);
    std::array<void*, page::most_frames + 8> frames{};
    const int n = backtrace(frames.data(), static_cast<int>(frames.size()));
    const auto end = frames.begin() + std::max(n, 0);
    const auto address = [](void* one) { return reinterpret_cast<std::uint64_t>(one); };
    // Above it are this function and the kernel's.
    auto begin = std::find_if(frames.begin(), end, [&](void* f) { return address(f) == where; });
    std::size_t count = 0;
    const auto note = [&](std::uint64_t one) { to->crash[count++].store(one); };
    if (begin == end) note(where);
    for (; begin != end && count < page::most_frames; ++begin) note(address(*begin));
    to->crash_frames.store(static_cast<std::uint32_t>(count), std::memory_order_release);
    alarm(0);
  }
  std::signal(signal, SIG_DFL);
  // What the kernel found happens again when this returns; what somebody sent does not.
  if (info->si_code <= 0) ::raise(signal);
}

}  // namespace

void note_crashes(page& to) noexcept {
  if constexpr (base::is_sanitized) return;
  // A stack of its own, or one that is full could leave no note. For this thread only: the others'
  // overflows end as if there were no note.
  alignas(16) static std::array<std::byte, 64 * 1024> room;
  stack_t before{};
  if (sigaltstack(nullptr, &before) == 0 && (before.ss_flags & SS_DISABLE) != 0) {
    stack_t own{};
    own.ss_sp = room.data();
    own.ss_size = room.size();
    sigaltstack(&own, nullptr);
  }
  std::array<void*, 2> unused{};
  backtrace(unused.data(), static_cast<int>(unused.size()));  // loads the unwinder
  noted.store(&to);
  for (const int one : fatal_signals) {
    struct sigaction old {};
    if (sigaction(one, nullptr, &old) != 0) continue;
    const bool is_free = (old.sa_flags & SA_SIGINFO) == 0 && old.sa_handler == SIG_DFL;
    if (!is_free) continue;  // the program's own
    struct sigaction mine {};
    mine.sa_sigaction = on_fatal;
    mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(one, &mine, nullptr);
  }
}

namespace {

/// A file in memory, as far as it is there.
class mapped_file {
 public:
  explicit mapped_file(const char* path) noexcept {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    struct stat is {};
    if (file >= 0 && fstat(file, &is) == 0 && is.st_size > 0) {
      size_ = static_cast<std::size_t>(is.st_size);
      void* const at = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      bytes_ = at == MAP_FAILED ? nullptr : static_cast<const std::byte*>(at);
    }
    if (file >= 0) ::close(file);
  }
  ~mapped_file() {
    if (bytes_ != nullptr) munmap(const_cast<std::byte*>(bytes_), size_);
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  /// `count` things from `offset`; null: the file has not so many, or not where they may lie.
  template <class T>
  const T* at(std::uint64_t offset, std::uint64_t count = 1) const noexcept {
    const bool fits = bytes_ != nullptr && offset <= size_ && count <= (size_ - offset) / sizeof(T);
    return fits && offset % alignof(T) == 0 ? reinterpret_cast<const T*>(bytes_ + offset) : nullptr;
  }

 private:
  const std::byte* bytes_ = nullptr;
  std::size_t size_ = 0;
};

// The function of an ELF file that has the byte at `address`, which is the file's own.
std::string symbol_in(const mapped_file& file, std::uint64_t address) {
  const auto* const head = file.at<ElfW(Ehdr)>(0);
  if (head == nullptr || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto* const sections = file.at<ElfW(Shdr)>(head->e_shoff, head->e_shnum);
  if (sections == nullptr) return {};
  for (std::size_t i = 0; i < head->e_shnum; ++i) {
    const ElfW(Shdr)& table = sections[i];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= head->e_shnum) continue;
    const ElfW(Shdr)& names = sections[table.sh_link];
    const std::uint64_t count = table.sh_size / sizeof(ElfW(Sym));
    const auto* const symbols = file.at<ElfW(Sym)>(table.sh_offset, count);
    const auto* const text = file.at<char>(names.sh_offset, names.sh_size);
    if (symbols == nullptr || text == nullptr) continue;
    for (std::uint64_t k = 0; k < count; ++k) {
      const ElfW(Sym)& one = symbols[k];
      if ((one.st_info & 0xfU) != STT_FUNC || one.st_shndx == SHN_UNDEF) continue;
      if (address < one.st_value || address - one.st_value >= one.st_size) continue;
      if (one.st_name >= names.sh_size) continue;
      return std::string(text + one.st_name,
                         strnlen(text + one.st_name, names.sh_size - one.st_name));
    }
  }
  return {};
}

// Whether a function, by its mangled name, is a part of what runs every task: manta's own, or one
// of std's that it is an argument of.
bool is_engine(std::string_view name) noexcept {
  constexpr std::string_view own = "5manta2v0";
  const std::size_t at = std::min(name.find_first_not_of("_ZNK"), name.size());
  const std::string_view rest = name.substr(at);
  return rest.starts_with(own) ||
         (rest.starts_with("St") && rest.find(own) != std::string_view::npos);
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && plain != nullptr ? plain : name;
  std::free(plain);
  for (const auto& [long_form, short_form] :
       {std::pair<std::string_view, std::string_view>{"(anonymous namespace)::", ""},
        {"manta::v0::", "manta::"}}) {
    for (std::size_t at = 0; (at = out.find(long_form)) != std::string::npos;) {
      out.replace(at, long_form.size(), short_form);
    }
  }
  return out;
}

bool is_libc(std::string_view file) noexcept {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  return name.starts_with("libc.so") || name.starts_with("libc-") ||
         name.starts_with("libpthread") || name.starts_with("libstdc++.so");
}

// What a process has mapped of a file.
struct mapped_part {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
  std::string file;
};

std::vector<mapped_part> parts_of(const std::string& process) {
  std::vector<mapped_part> out;
  std::ifstream from("/proc/" + process + "/maps");
  for (std::string line; std::getline(from, line);) {
    mapped_part one;
    int name = 0;
    const int found =
        std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &one.begin,
                    &one.end, &one.offset, &name);
    if (found != 3 || name == 0 || static_cast<std::size_t>(name) >= line.size()) continue;
    one.file = line.substr(static_cast<std::size_t>(name));
    out.push_back(std::move(one));
  }
  return out;
}

// Where this process has what another one, of the same program, has at an address; 0: nowhere.
class own_place {
 public:
  explicit own_place(pid_t image) : is_same_(image == 0) {
    if (is_same_) return;
    theirs_ = parts_of(std::to_string(image));
    ours_ = parts_of("self");
  }
  std::uint64_t of(std::uint64_t address) const {
    if (is_same_) return address;
    const auto at = std::ranges::find_if(theirs_, [address](const mapped_part& one) {
      return address >= one.begin && address < one.end;
    });
    if (at == theirs_.end()) return 0;
    const auto own = std::ranges::find_if(ours_, [&at](const mapped_part& one) {
      return one.file == at->file && one.offset == at->offset;
    });
    return own == ours_.end() ? 0 : address - at->begin + own->begin;
  }

 private:
  bool is_same_;
  std::vector<mapped_part> theirs_;
  std::vector<mapped_part> ours_;
};

}  // namespace

std::string describe_crash(const page& from, pid_t image) {
  const std::size_t count =
      std::min<std::size_t>(from.crash_frames.load(std::memory_order_acquire), page::most_frames);
  if (count == 0) return {};
  const own_place here(image);
  std::string text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < count && shown < most_shown; ++i) {
    // All but the innermost are where their calls return to, which may be past a function's end.
    const std::uint64_t there = from.crash[i].load(std::memory_order_relaxed) - (i > 0 ? 1 : 0);
    const std::uint64_t address = here.of(there);
    const auto module = codec::module_at(reinterpret_cast<const void*>(address));
    if (!module) {
      // A call of nothing has no function; its caller has.
      if (i > 0) break;
      text += fmt::format(" in {:#x}", there);
      ++shown;
      continue;
    }
    if (shown == 0 && is_libc(module->file)) continue;  // abort and what it calls
    const mapped_file file(module->is_executable ? "/proc/self/exe" : module->file.c_str());
    const std::uint64_t offset = address - module->base;
    const std::string symbol = symbol_in(file, offset);
    if (is_engine(symbol) && shown > 0) break;
    std::string name = demangled(symbol);
    if (name.empty()) {
      const std::string_view path = module->file;
      name = fmt::format("{}+{:#x}", path.substr(path.rfind('/') + 1), offset);
    }
    text += fmt::format("{}{}", shown == 0 ? " in " : " <- ", name);
    ++shown;
  }
  return text;
}

}  // namespace manta::inline v0::node
