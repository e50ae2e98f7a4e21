// SPDX-License-Identifier: Apache-2.0
// Replays the files of a folder through a fuzz target without libFuzzer:
//   fuzz_replay [--mutate] <target> <folder>
// With --mutate each byte of each file is flipped and each file is cut at each byte, too; a file
// that takes more than a second of the processor then is a failure. Prints
// `N inputs, M failures`. A property that does not hold ends the program where it is found.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using run_one = int(const std::uint8_t* data, std::size_t size);
// test/fuzz/CMakeLists.txt gives each source's function such a name.
extern "C" run_one fuzz_classes, fuzz_containers, fuzz_errors, fuzz_frame, fuzz_pointers,
    fuzz_scalars, fuzz_socket;

namespace {

struct target {
  std::string_view name;
  run_one* run;
};
constexpr std::array<target, 7> targets = {{{"classes", fuzz_classes},
                                            {"containers", fuzz_containers},
                                            {"errors", fuzz_errors},
                                            {"frame", fuzz_frame},
                                            {"pointers", fuzz_pointers},
                                            {"scalars", fuzz_scalars},
                                            {"socket", fuzz_socket}}};

// Of the processor, for one file and all that is made of it; more where the build is instrumented.
constexpr double most_seconds = MANTA_FUZZ_SECONDS;

using input = std::vector<std::uint8_t>;

std::vector<std::filesystem::path> files_of(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& one : std::filesystem::directory_iterator(folder)) {
    if (one.is_regular_file()) files.push_back(one.path());
  }
  std::ranges::sort(files);
  return files;
}

input read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return input(std::istreambuf_iterator<char>(file), {});
}

// Which input is running, for the signal's handler.
struct place {
  const char* file = "";
  const char* how = "";
  std::size_t at = 0;
};
place now;

class replay {
 public:
  replay(const target& of, bool is_mutating) : target_(of), is_mutating_(is_mutating) {}

  void file(const std::filesystem::path& path) {
    shown_ = path.filename().string();
    const std::clock_t begin = std::clock();
    input bytes = read_file(path);
    one(bytes, "as it is", 0);
    if (is_mutating_) mutate(bytes);
    const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    slowest_ = std::max(slowest_, took);
    if (took <= most_seconds) return;
    std::printf("%s took %.2f s, allowed is %.0f s\n", shown_.c_str(), took, most_seconds);
    ++failures_;
  }

  bool end() const {
    std::printf("%s: %zu inputs, %zu failures; the slowest file took %.3f s\n",
                std::string(target_.name).c_str(), inputs_, failures_, slowest_);
    return failures_ == 0;
  }

 private:
  void mutate(input& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] ^= 0xffU;
      one(bytes, "flipped at", i);
      bytes[i] ^= 0xffU;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) one(std::span(bytes).first(i), "cut at", i);
  }

  void one(std::span<const std::uint8_t> bytes, const char* how, std::size_t at) {
    now = {shown_.c_str(), how, at};
    ++inputs_;
    try {
      target_.run(bytes.data(), bytes.size());
    } catch (const std::exception& thrown) {
      std::printf("%s, %s %zu: \"%s\" was thrown\n", shown_.c_str(), how, at, thrown.what());
      ++failures_;
    }
  }

  const target& target_;
  bool is_mutating_;
  std::string shown_;
  std::size_t inputs_ = 0;
  std::size_t failures_ = 0;
  double slowest_ = 0;
};

void say_which(int /*signal*/) {
  std::fprintf(stderr, "fuzz_replay: ended in %s, %s %zu\n", now.file, now.how, now.at);
  std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_mutating = argc > 1 && std::strcmp(argv[1], "--mutate") == 0;
  const std::span<char*> words(argv + (is_mutating ? 2 : 1), argv + argc);
  const std::string_view name = words.size() == 2 ? words[0] : "";
  const auto* const found = std::ranges::find(targets, name, &target::name);
  if (found == targets.end()) {
    std::fprintf(stderr, "usage: fuzz_replay [--mutate] <target> <folder>; targets:");
    for (const target& one : targets) std::fprintf(stderr, " %s", std::string(one.name).c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  std::signal(SIGABRT, say_which);
  replay all(*found, is_mutating);
  const auto files = files_of(words[1]);
  for (const auto& path : files) all.file(path);
  if (files.empty()) std::fprintf(stderr, "fuzz_replay: no files in %s\n", words[1]);
  return all.end() && !files.empty() ? 0 : 1;
}
