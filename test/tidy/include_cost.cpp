// SPDX-License-Identifier: Apache-2.0
// What manta costs whoever includes it: include_cost COMPILER INCLUDE_DIR [REPEATS]. Compiles, at
// -O0, a file that only includes manta.hpp, then ones that call 1 and 100 different remote<F>, each
// with a result type of its own, and prints the compiler's time and peak memory. No gate: the
// figures depend on the machine, so it is a target (include_cost) and no test. It is a program
// because a fresh Debian has no GNU time.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

struct cost {
  double seconds = 0;
  double peak_mib = 0;
};

// Runs the compiler on the file. The kernel counts the peak of the largest process below the child,
// which is the compiler proper and not its driver.
cost compile(const char* compiler, const std::string& include, const std::string& file) {
  const auto begun = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    execlp(compiler, compiler, "-std=c++20", "-O0", "-c", include.c_str(), file.c_str(), "-o",
           "/dev/null", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) {
    throw std::runtime_error(std::string(compiler) + " does not compile " + file);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  return {took.count(), static_cast<double>(used.ru_maxrss) / 1024};
}

void median(const char* compiler, const std::string& include, const std::string& file,
            int repeats) {
  std::vector<cost> costs;
  for (int i = 0; i < repeats; ++i) costs.push_back(compile(compiler, include, file));
  std::sort(costs.begin(), costs.end(),
            [](const cost& a, const cost& b) { return a.seconds < b.seconds; });
  const cost middle = costs[costs.size() / 2];
  std::printf("%-40s %6.2f s (%.2f to %.2f) %7.0f MiB\n", file.substr(file.rfind('/') + 1).c_str(),
              middle.seconds, costs.front().seconds, costs.back().seconds, middle.peak_mib);
}

void write(const std::string& file, int functions) {
  std::ofstream out(file);
  if (functions >= 0) out << "#include <manta/manta.hpp>\n";
  for (int i = 0; i < functions; ++i) {
    out << "struct r" << i << " { double x; };\n"
        << "r" << i << " f" << i << "(int a, const double& b) { return {a * b + " << i << "}; }\n";
  }
  out << "int main() {\n";
  for (int i = 0; i < functions; ++i) out << "  manta::remote<f" << i << ">(1, 2.0).get();\n";
  out << "}\n";
}

// A folder that is gone at the end, however that comes.
class scratch_folder {
 public:
  scratch_folder() {
    char path[] = "/tmp/include_cost.XXXXXX";
    if (mkdtemp(path) == nullptr) throw std::runtime_error("no folder can be made in /tmp");
    path_ = path;
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void run(const char* compiler, const std::string& include, int repeats) {
  const struct {
    const char* name;
    int functions;
  } programs[] = {
      {"empty.cpp", -1}, {"include.cpp", 0}, {"one_remote.cpp", 1}, {"hundred_remotes.cpp", 100}};
  const scratch_folder folder;
  std::printf("%s -std=c++20 -O0, median of %d\n", compiler, repeats);
  for (const auto& [name, functions] : programs) {
    write(folder.path(name), functions);
    median(compiler, include, folder.path(name), repeats);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: include_cost COMPILER INCLUDE_DIR [REPEATS]\n");
    return 2;
  }
  try {
    run(argv[1], std::string("-I") + argv[2], argc > 3 ? std::atoi(argv[3]) : 5);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "include_cost: %s\n", failure.what());
    return 1;
  }
}
