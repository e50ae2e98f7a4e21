// SPDX-License-Identifier: Apache-2.0
#include "tool/control.hpp"

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "control/rocks_tools.hpp"

namespace manta::tool {

namespace {

/// What the verbs were given.
struct arguments {
  std::string path;
  std::string to;
  std::string cluster = "local";
  std::string prefix;
  bool has_json = false;
  bool has_values = false;
};

int problem(const error& why) {
  fmt::print(stderr, "manta: {}\n", why.message());
  return exit_problem;
}

// A full disk or a closed pipe must not look like the end of the records.
int finish_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_good;
  fmt::print(stderr, "manta: can't write the output; see where it goes to\n");
  return exit_problem;
}

void print(const control::store_facts& facts) {
  fmt::print("format {}, cluster {}, revision {}\n{} records, {} bytes, {} tables, {} logs\n",
             facts.format, escaped(facts.cluster), facts.at, facts.records, facts.bytes,
             facts.tables, facts.logs);
}

int show(const char* what, const std::string& path, const result<control::store_facts>& facts) {
  if (!facts) return problem(facts.error());
  fmt::print("{} {}\n", path, what);
  print(*facts);
  return finish_output();
}

int check(const arguments& given) {
  return show("is sound", given.path, control::check_rocks_store(given.path));
}

int backup(const arguments& given) {
  return show("is a copy of it, and sound", given.to,
              control::backup_rocks_store(given.path, given.to));
}

int restore(const arguments& given) {
  return show("is a copy of the backup, and sound", given.to,
              control::restore_rocks_store(given.path, given.to));
}

void print(const control::record& one, const arguments& given) {
  if (given.has_json) {
    fmt::print("{{\"key\":{},\"revision\":{},\"size\":{}", json_string(one.key), one.at,
               one.value.size());
    if (given.has_values) fmt::print(",\"value\":{}", json_string(one.value));
    fmt::print("}}\n");
    return;
  }
  fmt::print("{}\t{}\t{}", escaped(one.key), one.at, one.value.size());
  if (given.has_values) fmt::print("\t{}", escaped(one.value));
  fmt::print("\n");
}

int dump(const arguments& given) {
  const result<void> done =
      control::dump_rocks_store(given.path, given.prefix, [&given](const control::record& one) {
        print(one, given);
        return std::ferror(stdout) == 0;
      });
  if (!done) {
    static_cast<void>(std::fflush(stdout));
    return problem(done.error());
  }
  return finish_output();
}

int repair(const arguments& given) {
  const auto report = control::repair_rocks_store(given.path, given.to, given.cluster);
  if (!report) return problem(report.error());
  for (const std::string& damage : report->damages) fmt::print("skipped: {}\n", damage);
  if (report->malformed != 0) {
    fmt::print("skipped: {} records that no store writes\n", report->malformed);
  }
  if (report->is_cluster_guessed) {
    fmt::print("its cluster's name can't be read; the copy's is {}\n", escaped(given.cluster));
  }
  fmt::print("{} has what could be read of {}\n", given.to, given.path);
  print(report->saved);
  return finish_output();
}

using verb = int (*)(const arguments&);

CLI::App* add_verb(CLI::App& to, const std::shared_ptr<arguments>& given, int& exit_code,
                   const char* name, const char* what, verb run) {
  CLI::App* const added = to.add_subcommand(name, what);
  added->callback([given, run, &exit_code] { exit_code = run(*given); });
  return added;
}

void add_path(CLI::App& to, std::string& path, const char* name, const char* what) {
  to.add_option(name, path, what)->required()->type_name("FOLDER");
}

}  // namespace

void add_control(CLI::App& to, int& exit_code) {
  CLI::App& control = *to.add_subcommand("control", "Looks after the folder of a control store");
  control.require_subcommand(1);
  const auto given = std::make_shared<arguments>();
  const auto add = [&](const char* name, const char* what, verb run) -> CLI::App& {
    return *add_verb(control, given, exit_code, name, what, run);
  };
  CLI::App& check_verb = add("check", "Reads all of it: checksums, log, records", &check);
  add_path(check_verb, given->path, "store", "the store; no process may have it open");

  CLI::App& dump_verb = add("dump", "Prints a line for each record: key, revision, size", &dump);
  add_path(dump_verb, given->path, "store", "the store; no process may have it open");
  dump_verb.add_option("--prefix", given->prefix, "only keys that begin with it");
  dump_verb.add_flag("--json", given->has_json, "a JSON object for each record");
  dump_verb.add_flag("--values", given->has_values, "the values, too");

  CLI::App& repair_verb =
      add("repair", "Saves what can be read of a damaged store in a new folder", &repair);
  add_path(repair_verb, given->path, "store", "the damaged store; it stays as it is");
  add_path(repair_verb, given->to, "to", "the new folder");
  repair_verb.add_option("--cluster", given->cluster, "the cluster, if its name can't be read")
      ->capture_default_str();

  CLI::App& backup_verb =
      add("backup", "Copies a store, also one that a process has open", &backup);
  add_path(backup_verb, given->path, "store", "the store");
  add_path(backup_verb, given->to, "to", "the new folder");

  CLI::App& restore_verb = add("restore", "Copies a backup to where a store is to be", &restore);
  add_path(restore_verb, given->path, "backup", "the backup");
  add_path(restore_verb, given->to, "to", "the new folder");
}

}  // namespace manta::tool
