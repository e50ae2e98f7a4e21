// SPDX-License-Identifier: Apache-2.0
//
// The ranks of mpi.cpp, a program of their own since mpirun starts them: mpi_ranks WORK BYTES. Rank
// 0 reads how many times to do the work, one number in each line, and says how many seconds it
// took. Of MPI it uses C's interface.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr char written = 7;
constexpr int window = 1000;

int own_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "mpi_ranks: wrong: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

using bytes = std::vector<char>;

// One message there and back at a time.
void one(bytes& memory, std::int64_t count) {
  const int size = static_cast<int>(memory.size());
  const bool asks = own_rank() == 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (asks) MPI_Send(memory.data(), size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(memory.data(), size, MPI_CHAR, asks ? 1 : 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!asks) MPI_Send(memory.data(), size, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
}

// A thousand numbers under way; each is answered with the next one.
void many(bytes&, std::int64_t count) {
  if (own_rank() != 0) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t number = 0;
      MPI_Recv(&number, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      ++number;
      MPI_Send(&number, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD);
    }
    return;
  }
  std::vector<std::int64_t> asked(window);
  std::vector<std::int64_t> answers(window);
  std::vector<MPI_Request> under_way(std::size_t{2} * window);
  for (std::int64_t done = 0; done < count;) {
    const int now = static_cast<int>(std::min<std::int64_t>(window, count - done));
    for (int i = 0; i < now; ++i) {
      MPI_Irecv(&answers[i], 1, MPI_INT64_T, 1, 0, MPI_COMM_WORLD, &under_way[i]);
    }
    for (int i = 0; i < now; ++i) {
      asked[i] = done + i;
      MPI_Isend(&asked[i], 1, MPI_INT64_T, 1, 0, MPI_COMM_WORLD, &under_way[now + i]);
    }
    MPI_Waitall(2 * now, under_way.data(), MPI_STATUSES_IGNORE);
    for (int i = 0; i < now; ++i) must(answers[i] == asked[i] + 1, "an answer");
    done += now;
  }
}

// Rank 1 has it, rank 0 asks with a byte.
void array(bytes& memory, std::int64_t count) {
  const int size = static_cast<int>(memory.size());
  for (std::int64_t i = 0; i < count; ++i) {
    char asked = 1;
    if (own_rank() == 0) {
      MPI_Send(&asked, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(memory.data(), size, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      must(memory.front() == written && memory.back() == written, "an array");
      std::fill(memory.end() - 1, memory.end(), '\0');
    } else {
      MPI_Recv(&asked, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(memory.data(), size, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
  }
}

// To all others; over when each has said that it has it.
void broadcast(bytes& memory, std::int64_t count) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  bytes words(static_cast<std::size_t>(ranks));
  for (std::int64_t i = 0; i < count; ++i) {
    const int size = static_cast<int>(memory.size());
    MPI_Bcast(memory.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Gather(&memory.back(), 1, MPI_CHAR, words.data(), 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (own_rank() != 0) {
      must(memory.front() == written && memory.back() == written, "what was sent to all");
      std::fill(memory.end() - 1, memory.end(), '\0');
    }
  }
}

struct work {
  const char* name;
  void (*run)(bytes& memory, std::int64_t count);
  int has;  // the rank that has the values
};
constexpr work works[] = {
    {"one", one, 0}, {"many", many, 0}, {"array", array, 1}, {"broadcast", broadcast, 0}};

// Until rank 0 reads no more: everybody is told how many times, and 0 is the end.
void serve(const work& does, bytes& memory) {
  for (;;) {
    long long count = 0;
    if (own_rank() == 0 && std::scanf("%lld", &count) != 1) count = 0;
    MPI_Bcast(&count, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    if (count <= 0) return;
    MPI_Barrier(MPI_COMM_WORLD);
    const double before = MPI_Wtime();
    does.run(memory, count);
    if (own_rank() != 0) continue;
    std::printf("%.9f\n", MPI_Wtime() - before);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto* const does = std::find_if(std::begin(works), std::end(works), [&](const work& w) {
    return argc == 3 && std::strcmp(w.name, argv[1]) == 0;
  });
  if (does == std::end(works)) {
    std::fprintf(stderr, "usage: mpi_ranks one|many|array|broadcast BYTES\n");
    MPI_Finalize();
    return 2;
  }
  bytes memory(std::max<std::size_t>(1, std::strtoull(argv[2], nullptr, 10)));
  if (own_rank() == does->has) std::fill(memory.begin(), memory.end(), written);
  serve(*does, memory);
  MPI_Finalize();
  return 0;
}
