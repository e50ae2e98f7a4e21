// SPDX-License-Identifier: Apache-2.0
//
// A job of several processes on one machine: how long it takes to be there and to be gone, and
// until a death is seen.
#include <iterator>
#include <string>

#include "rivals/rows.hpp"

namespace bench {
namespace {

// Data that lies in one node and is needed in others.
void add_data_rows(suite& s) {
  row r{cluster_broadcast, "An array of 100 MB of one node: in 8 others", unit::milliseconds};
  r.note =
      "An argument of a task in each, which reads its first and last bytes, or all. Raw: blocking\n"
      "sockets and a thread for each of 8 processes, into memory that was used before.";
  r.passes = 2;
  s.add(r);
  for (const locality& of : localities) {
    r = row{of.row, "", unit::microseconds};
    r.title =
        std::string("A task that reads a byte of one of the arrays in 4 nodes: of ") + of.title;
    r.note =
        "One task after the other, an array drawn for each; the mean. n: how many tasks, 1,000 or\n"
        "as many as 4 s have room for. Copying: with map_arrays = no. With no place named the\n"
        "array is an argument: the driver, one of the 4 nodes, fetches it once, keeps it and runs\n"
        "the task itself; the cold round has what that costs.";
    r.passes = 2;
    r.warm_rounds = 2;
    s.add(r);
  }
  r = row{cluster_late, "Allreduce of 10 MB by a ring of 4 nodes, whose calls begin late by",
          unit::milliseconds};
  r.note = "The ring of examples/allreduce. Each call sleeps so long before its part.";
  r.passes = 2;
  s.add(r);
}

// Every task goes to the other node, which no program would have it do: what that costs.
void add_far_rows(suite& s) {
  row r{cluster_far, "Tasks async, each run by the other of 2 nodes", unit::per_second};
  r.note =
      "With check = far: whatever may go does, at once. TCP: two ranks that share no folder with\n"
      "sockets, by the loopback, where nothing is encrypted.";
  r.passes = 2;
  s.add(r);
  r = row{cluster_far_text, "The same with a text of 1 KiB there and back", unit::per_second};
  r.passes = 2;
  s.add(r);
  r = row{cluster_far_one, "One of them at a time", unit::microseconds};
  r.passes = 2;
  s.add(r);
  r = row{cluster_home, "Tasks async, run where they were made", unit::per_second};
  s.add(r);
  r = row{cluster_calls, "Actor calls async, the actor in the other of 2 nodes", unit::per_second};
  r.note =
      "CAF: over TCP between two processes, by an actor that has 1,000 requests under way. Open\n"
      "MPI: a thousand numbers sent, and their answers, at a time.";
  r.passes = 2;
  s.add(r);
  r = row{cluster_calls_text, "The same with a text of 1 KiB there and back", unit::per_second};
  r.passes = 2;
  s.add(r);
  r = row{cluster_call_one, "One of them at a time", unit::microseconds};
  r.note =
      "TCP, Open MPI: 128 bytes there and back, each process on a core of its own. CAF: a "
      "blocking\n"
      "actor. Open MPI's ranks wait by looking, and need their cores for that.";
  r.passes = 2;
  s.add(r);
  r = row{cluster_array,
          "An array of 100 MB that lies in the other of 2 nodes: asked for and there",
          unit::milliseconds};
  r.note =
      "Its first and last bytes are read. With map_arrays = no it is copied. Raw TCP (blocking)\n"
      "and Asio (its loop) read into memory that was used before, or into fresh. TCP: not\n"
      "encrypted, as theirs is not; TLS: as it is by default.";
  r.passes = 2;
  s.add(r);
  r = row{cluster_array_gib, "The same of 1 GiB", unit::milliseconds};
  r.passes = 2;
  s.add(r);
  r = row{cluster_vector, "A vector of 100 MB to an actor in the other of 2 nodes, and its answer",
          unit::milliseconds};
  r.note = "Moved into the call; its last number is read. By socket: with map_arrays = no.";
  r.passes = 2;
  s.add(r);
}

void add_rows(suite& s) {
  row r{cluster_life, "A job of 8 nodes: started, all joined, ended, all gone", unit::milliseconds};
  r.note = "mpirun: 8 times /bin/true, which joins nothing.";
  r.passes = 2;
  s.add(r);
  r = row{cluster_up, "The same, until all have joined", unit::milliseconds};
  r.passes = 2;
  s.add(r);
  r = row{cluster_join, "A job of 2 nodes, until both have joined", unit::milliseconds};
  r.passes = 2;
  s.add(r);
  r = row{cluster_death, "A node of 4 is killed: until the driver sees it", unit::milliseconds};
  r.passes = 2;
  r.warm_rounds = 1;
  s.add(r);
  const auto spread = [&](const char* key, int nodes) {
    r = row{key, "", unit::per_second};
    r.title =
        "Tasks that sleep 1 ms, all of one driver: nodes of 4 workers: " + std::to_string(nodes);
    r.passes = 2;
    s.add(r);
  };
  spread(cluster_spread_1, 1);
  spread(cluster_spread_2, 2);
  spread(cluster_spread_4, 4);
  spread(cluster_spread_8, 8);
  r = row{cluster_busy, "10,000 tasks that sleep 1 ms, 5 nodes of 1 worker, 4 of them idle",
          unit::per_second};
  r.passes = 2;
  s.add(r);
  r = row{cluster_new, "A job of 2 nodes with work: until the other one has run a task",
          unit::milliseconds};
  r.passes = 2;
  s.add(r);
  add_far_rows(s);
  add_data_rows(s);
}

void add_rival_bars(suite& s) {
  for (const char* const who : {"manta, copied", "manta, TCP"}) {
    const std::string its = std::string(who) + ": 100 MB of another node: at least ";
    s.add(bar{its + "0.75 of raw TCP's rate", cluster_array, who, 1 / 0.75, "raw TCP"});
    s.add(bar{its + "0.9 of Asio's", cluster_array, who, 1 / 0.9, "Asio"});
  }
}

void add_data_bars(suite& s) {
  for (const char* const who : {"manta", "manta, copied"}) {
    s.add(bar{std::string(who) + ": 100 MB to 8 nodes at most 1.3 x raw TCP", cluster_broadcast,
              who, 1.3, "raw TCP"});
  }
  for (const char* const who : {"manta, beside the data", "manta copying, beside the data"}) {
    s.add(bar{std::string(who) + ": 100 MB at most 2 x 100 KB", std::rbegin(localities)->row, who,
              2, who, localities[0].row});
  }
}

void add_bars(suite& s) {
  s.add(bar{"8 nodes are up within 1 s", cluster_up, "manta", 1000});
  s.add(bar{"8 nodes are up and gone within 2 s", cluster_life, "manta", 2000});
  s.add(bar{"a node has joined within 150 ms", cluster_join, "manta", 150});
  s.add(bar{"a death is seen within 20 ms", cluster_death, "manta", 20});
  s.add(bar{"8 nodes run 0.9 of 8 times what one does", cluster_spread_8, "manta", 0.9 * 8, "manta",
            cluster_spread_1});
  s.add(bar{"4 idle nodes make a busy one's 10,000 tasks 0.85 of 5 times as fast", cluster_busy,
            "manta, 5 nodes", 0.85 * 5, "manta, 1 node"});
  s.add(bar{"a task reaches a node that just joined within 200 ms", cluster_new, "manta", 200});
  for (const char* const who : {"manta", "manta, TCP"}) {
    const std::string its = std::string(who) + ": ";
    s.add(bar{its + "tasks async over two nodes: 600 k/s", cluster_far, who, 600e3});
    s.add(bar{its + "actor calls async over two nodes: 500 k/s", cluster_calls, who, 500e3});
    s.add(bar{its + "an actor call one at a time: at most 2.5 x raw TCP", cluster_call_one, who,
              2.5, "TCP, epoll"});
  }
  s.add(bar{"1 GiB of another node is readable within 1 ms", cluster_array_gib, "manta", 1});
  s.add(bar{"tasks that stay cost 3 % more at most with 3 nodes beside", cluster_home,
            "manta, 3 nodes beside", 0.97, "manta, alone"});
  add_rival_bars(s);
  add_data_bars(s);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
#ifdef BENCH_WITH_MANTA
  bench::be_a_node();
#endif
  bench::suite s("bench_cluster");
  bench::add_rows(s);
  bench::add_bars(s);
#ifdef BENCH_WITH_MANTA
  bench::add_our_clusters(s);
  bench::add_our_cluster_data(s);
  bench::add_our_late_calls(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
  bench::add_mpirun(s);
  bench::add_epoll_calls(s);
  bench::add_raw_bulk(s);
#ifdef BENCH_WITH_ASIO
  bench::add_asio_bulk(s);
#else
  s.absent("Asio", "not found when bench was configured; install libasio-dev");
#endif
#ifdef BENCH_WITH_CAF_IO
  bench::add_caf_far_actors(s);
#else
  s.absent("CAF", "not found when bench was configured; install libcaf-dev");
#endif
  bench::add_dask(s);
#ifdef BENCH_WITH_MPI
  bench::add_mpi(s);
#else
  s.absent("Open MPI's messages", "not found when bench was configured; install libopenmpi-dev");
#endif
  return s.run(argc, argv);
}
