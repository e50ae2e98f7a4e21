// SPDX-License-Identifier: Apache-2.0
// What a task that came from another process is called: its id is what its parent, its index and
// its function give, there as here, since what it calls is named after it. Any other one is
// refused.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <semaphore>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "node/trip.hpp"
#include "node/workbench.hpp"

namespace manta_test::visit_id_test {
namespace {

namespace node = manta::node;
namespace wire = manta::wire;
using manta::base::id;

std::binary_semaphore may_end{0};
void holds_the_worker() { may_end.acquire(); }
long cubed(long x) { return x * x * x; }
long squared(long x) { return x * x; }

// The message of a task that waits for the only worker, as another process reads it once that is
// done to it.
class message_of_a_task {
 public:
  explicit message_of_a_task(const manta::future<long>& of) {
    REQUIRE(node::write_given(*written_, manta::detail::access::job(of), {7, 7}, 0, {}));
    const auto pieces = written_->writer.pieces();
    for (const auto& one : pieces) bytes_.insert(bytes_.end(), one.begin(), one.end());
  }
  wire::task_view view() {
    const auto read = reader_->reader.read(bytes_);
    REQUIRE(read.has_value());
    return std::get<wire::task_view>(read->body);
  }

 private:
  node::borrowed_workbench written_;
  node::borrowed_workbench reader_;
  std::vector<std::byte> bytes_;
};

std::string refusal_of(const wire::task_view& task) {
  try {
    manta::exec::job* const made = node::make_task(task);
    made->fail(manta::error::out_of_memory(), 1);
    made->drop();
    return "nothing";
  } catch (const manta::decode_failed& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("a task from elsewhere whose id is not what its parent and index give is refused",
          "[node]") {
  manta::config with;
  with.workers = 1;
  with.check = manta::check_mode::copy;  // so that each job can be written
  const manta::runtime rt(with);
  const auto busy = manta::remote<holds_the_worker>();
  const auto first = manta::remote<cubed>(3L);
  const auto second = manta::remote<squared>(3L);
  message_of_a_task written(first);
  const wire::task_view right = written.view();
  CHECK(refusal_of(right) == "nothing");
  const auto refused = [&](const std::function<void(wire::task_view&)>& change) {
    wire::task_view wrong = right;
    change(wrong);
    return refusal_of(wrong);
  };
  const Catch::Matchers::StdString::ContainsMatcher another =
      Catch::Matchers::Contains("another name");
  CHECK_THAT(refused([](auto& t) { t.id.low ^= 1U; }), another);
  CHECK_THAT(refused([](auto& t) { t.id.high ^= std::uint64_t{1} << 63U; }), another);
  CHECK_THAT(refused([](auto& t) { t.id = {}; }), another);
  CHECK_THAT(refused([](auto& t) { t.parent.low ^= 1U; }), another);
  CHECK_THAT(refused([](auto& t) { t.parent.high ^= 1U; }), another);
  CHECK_THAT(refused([](auto& t) { ++t.call_index; }), another);
  CHECK_THAT(refused([](auto& t) { t.call_index += std::uint64_t{1} << 32U; }), another);
  // The next call's, whose parent is the same.
  message_of_a_task next(second);
  const wire::task_view other = next.view();
  CHECK(refusal_of(other) == "nothing");
  CHECK_THAT(refused([&](auto& t) { t.id = other.id; }), another);
  CHECK_THAT(refused([&](auto& t) { t.function = other.function; }), another);
  may_end.release();
  CHECK(first.get() == 27);
  CHECK(second.get() == 9);
  busy.get();
}

}  // namespace manta_test::visit_id_test
