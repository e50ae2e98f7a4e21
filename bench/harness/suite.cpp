// SPDX-License-Identifier: Apache-2.0
#include "harness/suite.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>

#include "harness/child.hpp"
#include "harness/machine.hpp"
#include "harness/report.hpp"

namespace bench {
namespace {

struct arguments {
  bool quick = false, list = false, allocators = true, bad = false;
  int child = -1;
  int passes = 0;  // 0: the row's own
  std::string filter, json, bars;
  std::vector<int> pin;
  bool pin_default = false;
};

constexpr const char* usage =
    "options: --quick            a smoke run of a few seconds; its figures mean nothing\n"
    "         --filter TEXT      only rows or contestants whose name contains it\n"
    "         --passes N         processes per contestant (default: per row)\n"
    "         --pin[=0,1]        the cpu set of every contestant (default of --pin: the first "
    "two)\n"
    "         --no-allocators    skip the runs with preloaded allocators\n"
    "         --json FILE        every sample, with machine, commit and build\n"
    "         --bars FILE        append the table of bars, met or missed\n"
    "         --list             names only\n";

std::vector<int> numbers(const char* text) {
  std::vector<int> found;
  for (char* end = nullptr; *text != '\0'; text = *end == ',' ? end + 1 : end) {
    const long n = std::strtol(text, &end, 10);
    if (end == text) break;
    found.push_back(static_cast<int>(n));
  }
  return found;
}

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    const bool has_value = i + 1 < argc;
    if (key == "--quick") {
      a.quick = true;
    } else if (key == "--list") {
      a.list = true;
    } else if (key == "--no-allocators") {
      a.allocators = false;
    } else if (key == "--pin") {
      a.pin_default = true;
    } else if (key.rfind("--pin=", 0) == 0) {
      a.pin = numbers(key.c_str() + 6);
    } else if (key == "--filter" && has_value) {
      a.filter = argv[++i];
    } else if (key == "--json" && has_value) {
      a.json = argv[++i];
    } else if (key == "--bars" && has_value) {
      a.bars = argv[++i];
    } else if (key == "--passes" && has_value) {
      a.passes = std::atoi(argv[++i]);
    } else if (key == "--child" && has_value) {
      a.child = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "unknown option %s\n%s", key.c_str(), usage);
      a.bad = true;
      return a;
    }
  }
  return a;
}

void pin(arguments& a) {
  if (a.pin_default && a.pin.empty()) {
    a.pin = allowed_cpus();
    if (a.pin.size() > 2) a.pin.resize(2);
  }
  if (!a.pin.empty()) pin_process(a.pin);
}

bool wanted(const row& r, const contestant& c, const std::string& filter) {
  const std::string all = r.key + " " + r.title + " " + c.name;
  return all.find(filter) != std::string::npos;
}

// Every contestant of `r`, each under every allocator it is to be measured with.
std::vector<result> line_up(const row& r, const std::vector<contestant>& all,
                            const std::vector<allocator>& allocators, const arguments& a) {
  std::vector<result> line;
  for (const contestant& c : all) {
    if (c.row != r.key || !wanted(r, c, a.filter)) continue;
    result plain;
    plain.of = &c;
    plain.in = &r;
    line.push_back(plain);
    if (!c.preload) continue;
    for (const allocator& extra : allocators) {
      line.push_back(plain);
      line.back().allocator = extra.name;
    }
  }
  return line;
}

std::string library_of(const std::string& name, const std::vector<allocator>& allocators) {
  for (const allocator& a : allocators) {
    if (a.name == name) return a.library;
  }
  return {};
}

}  // namespace

void suite::absent(std::string who, std::string why) {
  absences_.push_back({std::move(who), std::move(why)});
}

const row* suite::find_row(const std::string& key) const {
  for (const row& r : rows_) {
    if (r.key == key) return &r;
  }
  return nullptr;
}

int suite::run(int argc, char** argv) {
  arguments a = parse(argc, argv);
  if (a.bad) return 2;
  if (a.child >= 0) {
    const contestant& c = contestants_.at(static_cast<std::size_t>(a.child));
    const row* r = find_row(c.row);
    const plan how{a.quick, static_cast<int>(allowed_cpus().size())};
    return r != nullptr ? serve_child(*r, c, how) : 2;
  }
  if (a.list) {
    for (const row& r : rows_) {
      std::printf("%s: %s\n", r.key.c_str(), r.title.c_str());
      for (const contestant& c : contestants_) {
        if (c.row == r.key) std::printf("    %s\n", c.name.c_str());
      }
    }
    return 0;
  }
  pin(a);
  std::vector<allocator> allocators;
  if (a.allocators && !a.quick) allocators = loadable_allocators();

  const machine where = describe_machine();
  print_head(*this, where, a.quick);
  std::deque<result> all;
  bool failed = false;
  for (const row& r : rows_) {
    std::vector<result> line = line_up(r, contestants_, allocators, a);
    if (line.empty()) continue;
    const int passes = a.quick ? 1 : a.passes > 0 ? a.passes : r.passes;
    for (int pass = 0; pass < passes; ++pass) {
      for (result& one : line) {
        if (!one.failure.empty()) continue;
        const auto index = static_cast<std::size_t>(one.of - contestants_.data());
        run_child(index, library_of(one.allocator, allocators), a.quick, one);
      }
    }
    print_row(r, line);
    for (result& one : line) {
      failed = failed || (one.of->who == side::ours && !one.failure.empty());
      all.push_back(std::move(one));
    }
  }
  print_absences(*this);
  if (!a.quick) print_bars(*this, all, a.bars);
  if (!a.json.empty() && !write_json(*this, where, all, a.json)) return 1;
  return failed ? 1 : 0;
}

}  // namespace bench
