// SPDX-License-Identifier: Apache-2.0
// Where a worker was when a signal ended it. The test framework has handlers of the same signals,
// which workers inherit and keep: so each case sets them back before its runtime.
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "isolation/support.hpp"

namespace {

using test::isolated;

/// As if the program had no handlers of these signals, as the test framework has.
class without_handlers {
 public:
  without_handlers() {
    for (std::size_t i = 0; i < signals.size(); ++i) {
      before_[i] = std::signal(signals[i], SIG_DFL);
    }
  }
  ~without_handlers() {
    for (std::size_t i = 0; i < signals.size(); ++i) std::signal(signals[i], before_[i]);
  }
  without_handlers(const without_handlers&) = delete;
  without_handlers& operator=(const without_handlers&) = delete;

 private:
  static constexpr std::array signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  std::array<void (*)(int), signals.size()> before_{};
};

// Not inlined, and not at the end of its caller, or there would be nothing to name.
[[gnu::noinline]] int breaks(int how) {
  volatile int zero = 0;
  if (how == 0) *reinterpret_cast<volatile int*>(static_cast<std::uintptr_t>(zero)) = 1;
  if (how == 1) std::abort();
  if (how == 2) raise(SIGBUS);
  if (how == 3) __builtin_trap();
  return zero;
}
[[gnu::noinline]] int calls_what_breaks(int how) {
  volatile int got = breaks(how);
  return got + 1;
}
[[gnu::noinline]] int overflows(int n) {
  volatile char room[4096];
  room[0] = static_cast<char>(n);
  return n == 0 ? room[0] : overflows(n + 1) + room[0];
}
int has_own_handler(int) {
  std::signal(SIGABRT, [](int) { std::_Exit(42); });
  std::abort();
}
std::string end_of(manta::future<int> f) {
  try {
    f.get();
    return "it came back";
  } catch (const manta::worker_lost& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("a crash says where it was, and keeps its signal", "[isolation]") {
  if (test::is_sanitized) return;  // they have handlers of their own
  const without_handlers usual;
  const manta::runtime rt(isolated(1));
  const manta::options once{.max_retries = 0};
  const std::array<const char*, 4> signals{"signal 11", "signal 6", "signal 7", "signal "};
  for (int how = 0; how < 4; ++how) {
    const std::string text = end_of(manta::remote<calls_what_breaks>.with(once)(how));
    CAPTURE(text);
    CHECK(text.find(signals[static_cast<std::size_t>(how)]) != std::string::npos);
    CHECK(text.find(" in breaks(int) <- calls_what_breaks(int)") != std::string::npos);
    CHECK(text.find("manta::v0") == std::string::npos);
    CHECK(text.find("calls_what_breaks(int), in run 1 of 1") != std::string::npos);
  }
  const std::string deep = end_of(manta::remote<overflows>.with(once)(1));
  CAPTURE(deep);
  CHECK(deep.find("signal 11") != std::string::npos);
  CHECK(deep.find("overflows(int) <- overflows(int)") != std::string::npos);
  CHECK(end_of(manta::remote<has_own_handler>.with(once)(1)).find("exit code 42") !=
        std::string::npos);
}
