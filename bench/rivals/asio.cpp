// SPDX-License-Identifier: Apache-2.0
//
// asio::thread_pool with std::future, in the two ways it offers.
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>
#include <future>

#include "rivals/pool_rows.hpp"

namespace bench {
namespace {

class use_future_pool {
 public:
  explicit use_future_pool(int threads) : pool_(static_cast<std::size_t>(threads)) {}
  template <class F>
  auto submit(F function) {
    return asio::post(pool_, asio::use_future(std::move(function)));
  }

 private:
  asio::thread_pool pool_;
};

class packaged_task_pool {
 public:
  explicit packaged_task_pool(int threads) : pool_(static_cast<std::size_t>(threads)) {}
  template <class F>
  auto submit(F function) {
    // As a completion token a packaged_task makes post() return its future.
    return asio::post(pool_, std::packaged_task<std::invoke_result_t<F&>()>(std::move(function)));
  }

 private:
  asio::thread_pool pool_;
};

}  // namespace

void add_asio(suite& s) {
  for (int threads : {1, 2}) {
    const std::string thr = ", " + std::to_string(threads) + " thr";
    s.add(
        many<std::uint64_t, packaged_task_pool>("asio packaged_task" + thr, threads, threads == 1));
    s.add(many<std::uint64_t, use_future_pool>("asio use_future" + thr, threads, false));
    s.add(two_at_once<packaged_task_pool>("asio packaged_task" + thr, threads, false));
  }
  const std::string name = "asio packaged_task, 1 thr";
  s.add(many<std::uint8_t, packaged_task_pool>(name, 1, false));
  s.add(many<bytes_64, packaged_task_pool>(name, 1, false));
  s.add(many<std::string, packaged_task_pool>(name, 1, false));
  s.add(one_by_one<packaged_task_pool>(one, name, 1, 20000));
  s.add(one_by_one<use_future_pool>(one, "asio use_future, 1 thr", 1, 20000));
  s.add(one_by_one<packaged_task_pool>(one_asleep, name, 1, 0));
  s.add(queued<packaged_task_pool>("asio packaged_task, 2 thr", 2, false));
}

}  // namespace bench
