// SPDX-License-Identifier: Apache-2.0
// A chain of errors from anybody becomes an error here, which is described, written, read and made
// again: after two journeys at most nothing changes any more.
//
// An input: how many causes; for each of them the code, whether there is a failure (bit 0) and its
// type's name is wrapped as one that others are nested in (bit 1), which type, and the lengths of
// the texts; the texts are cut where they stand.
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/harness.hpp"
#include "wire/check.hpp"
#include "wire/error_record.hpp"
#include "wire/message.hpp"

namespace {

namespace wire = manta::wire;

constexpr std::array<std::string_view, 14> type_names = {
    "std::runtime_error", "std::logic_error",     "std::out_of_range", "std::invalid_argument",
    "std::domain_error",  "std::length_error",    "std::range_error",  "std::overflow_error",
    "std::bad_alloc",     "std::underflow_error", "std::exception",    "std::_Nested_exception<",
    "manta::task_error",  "manta::v0::timed_out",
};

class chain {
 public:
  explicit chain(std::span<const std::uint8_t> input) : cut_(input) {
    const std::size_t n = cut_.byte() % 20;
    for (std::size_t i = 0; i < n; ++i) causes_.push_back(cause());
  }
  wire::error_view view() const { return {causes_}; }

 private:
  std::string_view text() {
    std::size_t n = cut_.byte();
    // Lengths about the limit, which no short input has.
    const bool is_long = n >= 0xf0;
    if (is_long) n = wire::limits::error_text_bytes - 0xf8 + n;
    const auto bytes = cut_.take(is_long ? 16 : n);
    std::string& made = texts_.emplace_back();
    for (const std::byte b : bytes) made.push_back(static_cast<char>(b));
    if (is_long) made.resize(n, 'x');
    return made;
  }
  std::string_view type_name(bool is_wrapped) {
    const std::uint8_t which = cut_.byte();
    const std::string_view name = which < type_names.size() ? type_names[which] : text();
    if (!is_wrapped) return name;
    return texts_.emplace_back("std::_Nested_exception<" + std::string(name) + ">");
  }
  wire::cause_view cause() {
    wire::cause_view made;
    made.code = static_cast<manta::errc>(cut_.byte());
    const unsigned flags = cut_.byte();
    made.message = text();
    made.has_failure = (flags & 1U) != 0;
    if (!made.has_failure) return made;
    made.attempt = static_cast<std::int8_t>(cut_.byte());
    made.type_name = type_name((flags & 2U) != 0);
    made.text = text();
    made.function = text();
    made.node = text();
    return made;
  }

  fuzz::cutter cut_;
  std::vector<wire::cause_view> causes_;
  std::deque<std::string> texts_;
};

// Over the wire; empty when the writer refuses it.
std::vector<std::byte> written(const wire::error_view& failed) {
  wire::result_view done;
  done.task = {1, 2};
  done.outcome = failed;
  wire::message_writer writer;
  if (!writer.write({{1, 1}, 1, 0}, done)) return {};
  std::vector<std::byte> bytes(writer.size_bytes());
  writer.flatten(bytes);
  return bytes;
}

manta::error made_from(const std::vector<std::byte>& from) {
  const fuzz::block bytes(from);
  wire::message_reader reader;
  const auto back = reader.read(bytes.bytes());
  if (!back) {
    fuzz::fail("what was written is refused", "errors", back.error().message().c_str());
  }
  return to_error(std::get<wire::error_view>(std::get<wire::result_view>(back->body).outcome));
}

std::vector<std::byte> described(const manta::error& from) {
  const wire::error_record record(from);
  std::vector<std::byte> bytes = written(record.view());
  if (bytes.empty()) fuzz::fail("an error can't be written", "errors", from.message().c_str());
  return bytes;
}

void check_chain(std::span<const std::uint8_t> input) {
  const chain made(input);
  const std::vector<std::byte> asked = written(made.view());
  if (asked.empty()) return;
  const manta::error first = made_from(asked);
  const auto& cause = made.view().chain.front();
  if (!cause.has_failure && first.code() != cause.code) {
    fuzz::fail("an error has another code than what it was made from", "errors");
  }
  const std::vector<std::byte> once = described(first);
  const std::vector<std::byte> twice = described(made_from(once));
  // A message that tells of a text which was cut tells so with another length the next time.
  if (twice != once && described(made_from(twice)) != twice) {
    fuzz::fail("an error changes when it travels again", "errors");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_chain({data, size});
  return 0;
}
