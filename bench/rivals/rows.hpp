// SPDX-License-Identifier: Apache-2.0
//
// Keys of the rows that several contestants share, their payload types, and who adds contestants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "harness/suite.hpp"

namespace bench {

// bench_tasks
inline constexpr const char* many_1 = "many_1";        // 1 M tasks with a result of 1 byte
inline constexpr const char* many_8 = "many_8";        // of 8 bytes
inline constexpr const char* many_64 = "many_64";      // of 64 bytes
inline constexpr const char* many_text = "many_text";  // of a std::string of 40 characters
inline constexpr const char* two_submitters = "two_submitters";
inline constexpr const char* fib = "fib";
inline constexpr const char* one = "one";                // submit + get, nothing else running
inline constexpr const char* one_hot = "one_hot";        // never in place, worker awake
inline constexpr const char* one_asleep = "one_asleep";  // never in place, worker asleep
inline constexpr const char* held = "held";              // 1 M queued, then released
inline constexpr const char* idle = "idle";              // cpu use 5 s after the last call
inline constexpr const char* long_run = "long_run";      // 100 M in one run, in windows

// bench_codec
inline constexpr const char* coded_struct = "coded_struct";
inline constexpr const char* coded_doubles = "coded_doubles";  // out
inline constexpr const char* read_doubles = "read_doubles";    // in
inline constexpr const char* coded_texts = "coded_texts";
inline constexpr const char* task_message = "task_message";
inline constexpr const char* isolated_many = "isolated_many";
inline constexpr const char* isolated_large = "isolated_large";
inline constexpr const char* isolated_awake = "isolated_awake";
inline constexpr const char* isolated_asleep = "isolated_asleep";
inline constexpr const char* isolated_nested = "isolated_nested";
inline constexpr const char* isolated_death = "isolated_death";
inline constexpr const char* isolated_calls = "isolated_calls";
inline constexpr const char* isolated_kills = "isolated_kills";
inline constexpr const char* link_one = "link_one";
inline constexpr const char* link_rest = "link_rest";
inline constexpr const char* link_many = "link_many";
inline constexpr const char* cluster_life = "cluster_life";
inline constexpr const char* cluster_up = "cluster_up";
inline constexpr const char* cluster_join = "cluster_join";
inline constexpr const char* cluster_death = "cluster_death";
inline constexpr const char* cluster_spread_1 = "cluster_spread_1";
inline constexpr const char* cluster_spread_2 = "cluster_spread_2";
inline constexpr const char* cluster_spread_4 = "cluster_spread_4";
inline constexpr const char* cluster_spread_8 = "cluster_spread_8";
inline constexpr const char* cluster_busy = "cluster_busy";
inline constexpr const char* cluster_new = "cluster_new";
inline constexpr const char* cluster_far = "cluster_far";
inline constexpr const char* cluster_far_text = "cluster_far_text";
inline constexpr const char* cluster_far_one = "cluster_far_one";
inline constexpr const char* cluster_home = "cluster_home";
inline constexpr const char* cluster_calls = "cluster_calls";
inline constexpr const char* cluster_calls_text = "cluster_calls_text";
inline constexpr const char* cluster_call_one = "cluster_call_one";
inline constexpr const char* cluster_vector = "cluster_vector";
inline constexpr const char* cluster_array = "cluster_array";
inline constexpr const char* cluster_array_gib = "cluster_array_gib";
inline constexpr const char* cluster_broadcast = "cluster_broadcast";
inline constexpr const char* cluster_late = "cluster_late";
struct locality {
  const char* row;
  const char* title;
  std::size_t bytes;    // of an array
  std::size_t objects;  // of each node
};
inline constexpr locality localities[] = {
    {"cluster_locality_100k", "100 KB, 10 in each", 100'000, 10},
    {"cluster_locality_1m", "1 MB, 10 in each", 1'000'000, 10},
    {"cluster_locality_10m", "10 MB, 10 in each", 10'000'000, 10},
    {"cluster_locality_100m", "100 MB, 10 in each", 100'000'000, 10},
};
inline constexpr std::size_t broadcast_nodes = 8;
inline std::size_t bulk_bytes(const plan& p) { return p.quick ? 100'000'000 / 16 : 100'000'000; }
inline constexpr const char* checked_tasks = "checked_tasks";  // the check-copy mode

// bench_actors
inline constexpr const char* window_1 = "window_1";  // calls with 1, 10, ... in flight
inline constexpr const char* window_10 = "window_10";
inline constexpr const char* window_1000 = "window_1000";
inline constexpr const char* window_10000 = "window_10000";
inline constexpr const char* one_way = "one_way";
inline constexpr const char* actor_sync = "actor_sync";
inline constexpr const char* actor_asleep = "actor_asleep";
inline constexpr const char* actor_crowd = "actor_crowd";  // 10,000 made, called once, ended
inline constexpr const char* actor_bytes = "actor_bytes";

// bench_arrays
struct array_size {
  const char* row;
  const char* title;
  std::size_t bytes;
  std::size_t repeats;  // in a round
};
inline constexpr array_size array_sizes[] = {
    {"array_1k", "1 KiB", std::size_t{1} << 10U, 10000},
    {"array_1m", "1 MiB", std::size_t{1} << 20U, 500},
    {"array_64m", "64 MiB less a page", (std::size_t{64} << 20U) - 4096, 10},
    {"array_1g", "1 GiB", std::size_t{1} << 30U, 1},
};

inline constexpr int array_threads[] = {1, 2, 4, 8, 16};

inline constexpr std::size_t million = 1000000;
inline constexpr int fib_of = 30;
inline constexpr std::int64_t fib_value = 832040;
inline constexpr std::size_t fib_calls = 2692537;  // calls of fib in fib(30), leaves included

struct bytes_64 {
  std::array<std::uint64_t, 8> words;
};

// The results of the rows: made from the task's number, so that the sum shows that each was run.
template <class R>
struct payload;

template <>
struct payload<std::uint8_t> {
  static constexpr const char* row = many_1;
  static std::uint8_t make(std::uint32_t i) { return static_cast<std::uint8_t>(i); }
  static std::uint64_t read(std::uint8_t v) { return v; }
};
template <>
struct payload<std::uint64_t> {
  static constexpr const char* row = many_8;
  static std::uint64_t make(std::uint32_t i) { return i & 0xffU; }
  static std::uint64_t read(std::uint64_t v) { return v; }
};
template <>
struct payload<bytes_64> {
  static constexpr const char* row = many_64;
  static bytes_64 make(std::uint32_t i) { return {{i & 0xffU, 0, 0, 0, 0, 0, 0, 0}}; }
  static std::uint64_t read(const bytes_64& v) { return v.words[0]; }
};
template <>
struct payload<std::string> {
  static constexpr const char* row = many_text;
  static std::string make(std::uint32_t i) { return std::string(40, static_cast<char>(i & 0xffU)); }
  static std::uint64_t read(const std::string& v) { return static_cast<unsigned char>(v[39]); }
};

// The sum that `count` payloads give.
inline std::uint64_t payload_sum(std::size_t count) {
  const std::uint64_t whole = count / 256;
  const std::uint64_t rest = count % 256;
  return whole * (255 * 256 / 2) + (rest > 0 ? rest * (rest - 1) / 2 : 0);
}

// bench_library
inline constexpr const char* completed = "completed";          // as_completed over 1 M futures
inline constexpr const char* parts = "parts";                  // the parts of a split future
inline constexpr const char* awaited = "awaited";              // co_await of a task just submitted
inline constexpr const char* resumed = "resumed";              // coroutines that await one future
inline constexpr const char* streamed = "streamed";            // a generator's items
inline constexpr const char* cancelled = "cancelled";          // 1 M queued tasks
inline constexpr const char* reduced = "reduced";              // a sum of 1e8 doubles
inline constexpr const char* callbacks = "callbacks";          // on_ready
inline constexpr const char* channel_alone = "channel_alone";  // one thread sends and receives
inline constexpr const char* channel_pair = "channel_pair";    // one thread to another

void add_minimal(suite& s);                 // the least a pool with futures can be
void add_std(suite& s);                     // std::async; packaged_task with mutex and deque
void add_futex(suite& s, const char* row);  // round trips between two threads
void add_tbb(suite& s);                     // oneTBB
void add_asio(suite& s);                    // asio::thread_pool
void add_caf_actors(suite& s);              // CAF
void add_our_tasks(suite& s);               // manta
void add_our_actors(suite& s);
void add_our_ray_rows(suite& s);
void add_our_codec(suite& s);
void add_our_messages(suite& s);
void add_our_isolation(suite& s);
void add_our_arrays(suite& s);
void add_our_array_gets(suite& s);
/// Past the caches, where the machine can, or by memcpy.
void copy_once(std::uint8_t* to, const std::uint8_t* from, std::size_t size, bool is_streaming);
void add_our_spills(suite& s);
void add_our_rings(suite& s);  // of libmanta's own build
void add_mpirun(suite& s);
void add_mpi(suite& s);  // its messages, or that mpirun is not installed
void add_our_clusters(suite& s);
void be_a_node();              // in a process that such a job has started; else nothing
void be_a_ray_node();          // the same, of a row of Ray's
void add_our_links(suite& s);  // of libmanta's own build
void add_our_cluster_data(suite& s);
void add_our_late_calls(suite& s);
void add_epoll(suite& s);        // a unix socket between two processes
void add_epoll_calls(suite& s);  // TCP, in rows of bench_cluster
void add_raw_bulk(suite& s);     // blocking TCP
void add_asio_bulk(suite& s);
void add_caf_far_actors(suite& s);
void add_dask(suite& s);  // or that it is not installed
void add_plain_codec(suite& s);
void add_cereal(suite& s);
void add_our_library(suite& s);
void add_plain_library(suite& s);  // a mutex and a std::deque
void add_tbb_library(suite& s);
void add_plain_graphs(suite& s);  // one thread; the minimal pool
void add_tbb_graphs(suite& s);
void add_our_graphs(suite& s);
void add_our_control(suite& s);        // writes and reads
void add_our_control_times(suite& s);  // fsync, a long run, a crash
void add_our_control_events(suite& s);
void add_raw_rocksdb(suite& s);
void add_redis(suite& s);  // or that it is not installed

}  // namespace bench
