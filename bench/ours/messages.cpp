// SPDX-License-Identifier: Apache-2.0
//
// manta's messages, which are inside of libmanta.
#include <cstddef>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"
#include "wire/message.hpp"

namespace bench {

void add_our_messages(suite& s) {
  namespace wire = manta::wire;
  contestant c{task_message, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    const std::size_t count = how.count(1'000'000);
    auto writer = std::make_shared<wire::message_writer>();
    auto reader = std::make_shared<wire::message_reader>();
    struct alignas(64) line {
      std::byte bytes[64];
    };
    auto frame = std::make_shared<std::vector<line>>(64);
    return [=](const turn&) {
      const std::vector<std::byte> arguments(128, std::byte{3});
      wire::task_view task;
      task.id = {1, 2};
      task.parent = {3, 4};
      task.function = {5, 6};
      task.digest = {7, 8};
      task.name = "some::function(int)";
      task.arguments.head = arguments;
      std::size_t sum = 0;
      reading got = time_per_operation(unit::nanoseconds, count, [&] {
        for (std::size_t i = 0; i < count; ++i) {
          task.call_index = i;
          check(writer->write({{1, i + 1}, 1, 0}, task).has_value(), "written");
          const std::span<std::byte> to(frame->front().bytes, writer->size_bytes());
          writer->flatten(to);
          const auto read = reader->read(to);
          sum += std::get<wire::task_view>(read.value().body).arguments.head.size();
        }
      });
      check(sum == 128 * count, "bytes of arguments");
      return got;
    };
  };
  s.add(std::move(c));
}

}  // namespace bench
