// SPDX-License-Identifier: Apache-2.0
#include "spec/launchers.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "spec/texts.hpp"

namespace manta::inline v0::spec {

namespace {

using maybe_word = std::optional<launcher_word>;

constexpr int most_ranks = 65536;

result<std::optional<int>> whole_number(const environment_lookup& environment, const char* name,
                                        int low, int high) {
  const auto text = environment(name);
  if (!text) return std::optional<int>();
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, status] = std::from_chars(text->data(), end, value);
  if (status == std::errc() && rest == end && value >= low && value <= high) {
    return std::optional<int>(value);
  }
  return error(
      errc::invalid_config,
      fmt::format("launch: asked {}, found \"{}\", allowed are whole numbers from {} to {}; "
                  "unset it, or set MANTA_RANK and MANTA_WORLD_SIZE",
                  name, shown(*text), low, high));
}

// The variables of one launcher: which rank this is, of how many, of how many on this machine.
struct launcher_names {
  const char* source;
  const char* rank;
  const char* size;
  const char* here;  // null: it is asked otherwise
};

// Its word where both rank and size are said; none where neither is.
result<maybe_word> read_word(const environment_lookup& environment, const launcher_names& names,
                             std::string key) {
  const auto rank = whole_number(environment, names.rank, 0, most_ranks - 1);
  if (!rank) return rank.error();
  const auto size = whole_number(environment, names.size, 1, most_ranks);
  if (!size) return size.error();
  if (!*rank && !*size) return maybe_word();
  if (!*rank || !*size) {
    return error(errc::invalid_config,
                 fmt::format("launch: asked {} and {}, found only {}; unset it, or set the other",
                             names.rank, names.size, *rank ? names.rank : names.size));
  }
  if (**rank >= **size) {
    return error(
        errc::invalid_config,
        fmt::format("launch: found {}={} and {}={}, but ranks are 0 to {}; start the job anew, or "
                    "set MANTA_RANK and MANTA_WORLD_SIZE",
                    names.rank, **rank, names.size, **size, **size - 1));
  }
  launcher_word word;
  if (names.here != nullptr) {
    const auto here = whole_number(environment, names.here, 1, most_ranks);
    if (!here) return here.error();
    word.is_one_machine = *here && **here == **size;
  }
  word.rank = **rank;
  word.size = **size;
  word.key = std::move(key);
  word.source = names.source;
  word.variables = fmt::format("{} and {}", names.rank, names.size);
  return maybe_word(std::move(word));
}

// FNV-1a, 64 bits.
std::uint64_t fold(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

// A file's name that is another for another text: letters, digits, '.' and '-' stay, other bytes
// become _XX, and what is long then is cut and ends with a sum of the whole.
std::string key_of(std::string_view launcher, std::string_view text) {
  constexpr std::size_t longest = 100;
  std::string key = fmt::format("{}-", launcher);
  for (const char c : text) {
    const bool stays = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-';
    if (stays) {
      key += c;
    } else {
      key += fmt::format("_{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (key.size() > longest) {
    key.resize(longest - 17);
    key += fmt::format("-{:016x}", fold(text));
  }
  return key;
}

// torchrun sets RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID
// and TORCHELASTIC_RESTART_COUNT (its documentation, "Environment Variables"). The run's name is
// "none" unless it is given, and a restart keeps it; the port is its own store's, and no place for
// a head.
std::string torchrun_key(const environment_lookup& environment) {
  std::string name;
  for (const char* const part :
       {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}) {
    if (const auto value = environment(part)) name += '-' + *value;
  }
  return name.empty() ? name : key_of("ranks", name.substr(1));
}

result<maybe_word> ask_torchrun(const environment_lookup& environment) {
  if (!environment("TORCHELASTIC_RUN_ID")) return maybe_word();
  return read_word(environment, {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
                   torchrun_key(environment));
}

// Others use these names for things of their own, so one of them alone says nothing.
result<maybe_word> ask_plain_ranks(const environment_lookup& environment) {
  if (!environment("RANK") || !environment("WORLD_SIZE")) return maybe_word();
  return read_word(environment, {"RANK/WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
                   torchrun_key(environment));
}

// Open MPI 4 and 5 promise OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK and _LOCAL_SIZE
// (docs.open-mpi.org, "Environment variables set for MPI applications"). The job is PMIX_NAMESPACE
// or, before there was PMIx, OMPI_MCA_ess_base_jobid. In 4 that has 16 bits which differ between
// two starts; orte_precondition_transports is random and the same in all ranks (seen in 4.1.4).
result<maybe_word> ask_open_mpi(const environment_lookup& environment) {
  auto job = environment("PMIX_NAMESPACE");
  if (!job) job = environment("OMPI_MCA_ess_base_jobid");
  const auto random = environment("OMPI_MCA_orte_precondition_transports");
  if (job && random) *job += '-' + *random;
  return read_word(
      environment,
      {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      job ? key_of("ompi", *job) : "");
}

std::optional<std::string> step_id(const environment_lookup& environment) {
  auto step = environment("SLURM_STEP_ID");
  return step ? step : environment("SLURM_STEPID");
}

// JOB.STEP of the step that srun started around this process, or none.
std::optional<std::string> slurm_step(const environment_lookup& environment) {
  auto job = environment("SLURM_JOB_ID");
  if (!job) job = environment("SLURM_JOBID");
  const auto step = step_id(environment);
  if (!job || !step) return std::nullopt;
  return fmt::format("{}.{}", *job, *step);
}

// A job that is queued again keeps its number, and clusters that share a home have the same ones.
std::string slurm_key(const environment_lookup& environment, std::string_view step) {
  std::string name(step);
  if (const auto again = environment("SLURM_RESTART_COUNT")) name += "-again-" + *again;
  if (const auto cluster = environment("SLURM_CLUSTER_NAME")) name = *cluster + '-' + name;
  return key_of("slurm", name);
}

// Hydra, the mpiexec of MPICH and Intel MPI, sets PMI_RANK, PMI_SIZE, PMI_FD and MPI_LOCALNRANKS,
// and nothing that names the job (seen in MPICH 4.0.2). In a Slurm job it starts its proxies with
// srun, so all ranks have their step. srun --mpi=pmi2 sets PMI_RANK, PMI_SIZE and
// PMI_JOBID=JOB.STEP (seen in 22.05): then Slurm says more.
result<maybe_word> ask_pmi(const environment_lookup& environment) {
  const auto step = slurm_step(environment);
  const auto job = environment("PMI_JOBID");
  if (step && job && *step == *job) return maybe_word();
  std::string key;
  if (job) {
    key = key_of("pmi", *job);
  } else if (step) {
    key = key_of("pmi", slurm_key(environment, *step));
  }
  return read_word(environment, {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"}, std::move(key));
}

// Steps that Slurm makes itself have numbers from 0xfffffff0 on: that of salloc's shell is
// 4294967290 (seen in 22.05 with use_interactive_step).
bool is_slurms_own(std::string_view step) {
  std::uint64_t number = 0;
  std::from_chars(step.data(), step.data() + step.size(), number);
  return number >= 0xfffffff0U;
}

// A batch script that was submitted from within a step inherits all of that step but SLURM_GTIDS,
// which Slurm sets anew to the script's one task (seen in 22.05). On one machine that shows.
bool is_of_another_step(const environment_lookup& environment, int size) {
  const auto machines = environment("SLURM_STEP_NUM_NODES");
  const auto here = environment("SLURM_GTIDS");
  if (!machines || *machines != "1" || !here) return false;
  return 1 + std::count(here->begin(), here->end(), ',') != size;
}

// A task of srun has SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_ID and SLURM_STEP_NUM_NODES; a
// batch script and the shell of salloc have SLURM_NTASKS and no step (srun(1), sbatch(1); seen in
// 22.05, with --mpi=none, pmi2 and pmix, which adds PMIX_RANK and PMIX_NAMESPACE).
result<maybe_word> ask_slurm(const environment_lookup& environment) {
  const auto step = slurm_step(environment);
  if (!step || is_slurms_own(*step_id(environment))) return maybe_word();
  if (!environment("SLURM_PROCID") || !environment("SLURM_STEP_NUM_TASKS")) return maybe_word();
  const auto machines = whole_number(environment, "SLURM_STEP_NUM_NODES", 1, most_ranks);
  if (!machines) return machines.error();
  auto read = read_word(environment, {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr},
                        slurm_key(environment, *step));
  if (!read || !*read) return read;
  launcher_word word = **read;
  if (is_of_another_step(environment, word.size)) return maybe_word();
  word.is_one_machine = *machines && **machines == 1;
  return maybe_word(std::move(word));
}

}  // namespace

result<std::optional<launcher_word>> ask_launchers(const environment_lookup& environment) {
  for (const auto ask : {ask_torchrun, ask_open_mpi, ask_pmi, ask_slurm, ask_plain_ranks}) {
    auto word = ask(environment);
    if (!word || *word) return word;
  }
  return maybe_word();
}

// PMIx: PMIX_RANK and PMIX_NAMESPACE (prterun, flux). Kubernetes: JOB_COMPLETION_INDEX in the pods
// of jobs with completionMode: Indexed (kubernetes.io, "Indexed Job").
result<std::optional<launcher_word>> ask_numberers(const environment_lookup& environment,
                                                   int size) {
  for (const char* const name : {"PMIX_RANK", "JOB_COMPLETION_INDEX"}) {
    const auto rank = whole_number(environment, name, 0, most_ranks - 1);
    if (!rank) return rank.error();
    if (!*rank) continue;
    launcher_word word;
    word.rank = **rank;
    word.size = size;
    word.source = name;
    word.variables = name;
    const auto job = environment("PMIX_NAMESPACE");
    if (job && name == std::string_view("PMIX_RANK")) word.key = key_of("pmix", *job);
    return maybe_word(std::move(word));
  }
  return maybe_word();
}

}  // namespace manta::inline v0::spec
