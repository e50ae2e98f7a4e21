// SPDX-License-Identifier: Apache-2.0
#include "node/output_lines.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace {

using namespace std::chrono_literals;
using manta::base::time_point;
using manta::node::output_lines;
using manta::node::output_mark;
using manta::node::output_stream;

// What comes out, as text; standard error has an exclamation mark in front.
class page {
 public:
  void says(std::uint64_t worker, std::string_view text, std::string_view speaker = "f",
            output_stream to = output_stream::out) {
    lines_.text(worker, static_cast<std::int64_t>(worker) + 100, to, text, speaker, now, got_);
  }
  void fails(std::uint64_t worker, std::string_view text) {
    says(worker, text, "f", output_stream::err);
  }
  std::string read() {
    std::string out;
    for (const auto& one : got_) out += (one.to == output_stream::err ? "!" : "") + one.text;
    got_.clear();
    return out;
  }
  std::string end_part(std::uint64_t worker) {
    lines_.end_part(worker, now, got_);
    return read();
  }
  std::string ended(std::uint64_t worker) {
    lines_.ended(worker, now, got_);
    return read();
  }
  std::string at(time_point when) {
    now = when;
    lines_.due(when, got_);
    return read();
  }
  std::string close() {
    lines_.close(got_);
    return read();
  }
  bool has_part(std::uint64_t worker) const { return lines_.has_part(worker); }
  auto next_due() const { return lines_.next_due(); }

  time_point now{};

 private:
  output_lines lines_{5s};
  output_lines::lines got_;
};

std::string f(int worker, std::string_view text) {
  return "(f, worker " + std::to_string(worker) + ", pid " + std::to_string(100 + worker) + ") " +
         std::string(text) + "\n";
}

}  // namespace

TEST_CASE("lines come out whole, with who printed them", "[node]") {
  page p;
  p.says(1, "on");
  CHECK(p.read().empty());
  p.says(2, "two\n");
  p.says(1, "e\nand mo");
  CHECK(p.read() == f(2, "two") + f(1, "one"));
  CHECK(p.has_part(1));
  CHECK_FALSE(p.has_part(2));
  p.says(1, "re\n\n");
  CHECK(p.read() == f(1, "and more") + f(1, ""));
  p.says(3, "nobody's\n", "");
  CHECK(p.read() == "(worker 3, pid 103) nobody's\n");
}

TEST_CASE("a function is named without what only compilers need", "[node]") {
  using manta::node::speaker_name;
  CHECK(speaker_name("ns::f") == "ns::f");
  CHECK(speaker_name("{anonymous}::f") == "f");
  CHECK(speaker_name("ns::(anonymous namespace)::f(int)") == "ns::f");
  CHECK(speaker_name("(lambda at x.cpp:1)") == "(lambda at x.cpp:1)");
  CHECK(speaker_name("").empty());
}

TEST_CASE("streams stay apart", "[node]") {
  page p;
  p.says(1, "out ");
  p.fails(1, "err\n");
  p.says(1, "goes on\n");
  p.fails(1, "out goes on\n");
  CHECK(p.read() == "!" + f(1, "err") + f(1, "out goes on") + "!" + f(1, "out goes on"));
}

TEST_CASE("a mark names what comes before it, and ends its last line", "[node]") {
  page p;
  p.says(1, "a\nb" + output_mark("first") + "c\n" + output_mark("second") + "d\n", "third");
  CHECK(p.read() ==
        "(first, worker 1, pid 101) a\n(first, worker 1, pid 101) b\n"
        "(second, worker 1, pid 101) c\n(third, worker 1, pid 101) d\n");
  // In pieces of any size.
  const std::string all = "x" + output_mark("first") + "y\n";
  for (std::size_t cut = 1; cut < all.size(); ++cut) {
    page q;
    q.says(1, std::string_view(all).substr(0, cut), "third");
    q.says(1, std::string_view(all).substr(cut), "third");
    CHECK(q.read() == "(first, worker 1, pid 101) x\n(third, worker 1, pid 101) y\n");
  }
  p.says(1, "one " + output_mark("") + "line\n");
  CHECK(p.read() == f(1, "one line"));
  // A name can't be longer than what is written in one piece, nor end the mark.
  CHECK(output_mark(std::string(5000, 'n')).size() < 512);
  p.says(1, "z\n" + output_mark("a\nb"));
  CHECK(p.read() == "(a b, worker 1, pid 101) z\n");
  // Something that looks like one is text.
  p.says(1, "\x1e\x1fmanta:" + std::string(300, 'x') + "\n");
  CHECK(p.read().size() > 300);
}

TEST_CASE("what has no end is shown when its writer has ended", "[node]") {
  page p;
  p.says(1, "out");
  p.fails(1, "err");
  CHECK(p.end_part(1) == f(1, "out") + "!" + f(1, "err"));
  CHECK_FALSE(p.has_part(1));
  CHECK(p.end_part(1).empty());
  p.says(1, "last words");
  CHECK(p.ended(1) == f(1, "last words"));
  CHECK(p.ended(1).empty());
  CHECK(p.ended(77).empty());
}

TEST_CASE("a line that is too long comes in parts, and nothing of it is lost", "[node]") {
  page p;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i) + ",";
  for (std::size_t at = 0; at < text.size(); at += 777) {
    p.says(1, std::string_view(text).substr(at, 777), "");
  }
  p.says(1, "\n", "");
  std::string joined;
  std::size_t count = 0;
  const std::string all = p.read();
  for (std::size_t at = 0; at < all.size(); ++count) {
    const std::size_t end = all.find('\n', at);
    CHECK(end - at < output_lines::most_line_bytes + 1000);
    joined += all.substr(all.find(") ", at) + 2, end - all.find(") ", at) - 2);
    at = end + 1;
  }
  CHECK(count > 5);
  CHECK(joined == text);
}

TEST_CASE("the same line of other workers is counted until the window ends", "[node]") {
  page p;
  p.says(1, "loading\n");
  CHECK(p.read() == f(1, "loading"));
  p.says(1, "loading\n");
  CHECK(p.read() == f(1, "loading"));  // its own
  for (std::uint64_t w = 2; w <= 13; ++w) p.says(w, "loading\n");
  p.fails(2, "loading\n");  // another stream's
  CHECK(p.read() == "!" + f(2, "loading"));
  CHECK(p.next_due() == time_point{} + 5s);
  CHECK(p.at(time_point{} + 4s).empty());
  CHECK(p.at(time_point{} + 5s) == f(13, "loading [repeated 12x]"));
  // It is counted on, and one alone is shown as it is.
  p.says(3, "loading\n");
  CHECK(p.read().empty());
  CHECK(p.at(time_point{} + 10s) == f(3, "loading"));
  CHECK_FALSE(p.next_due());
  p.says(4, "loading\n");
  CHECK(p.read() == f(4, "loading"));
  p.says(5, "loading\n");
  CHECK(p.close() == f(5, "loading"));
  CHECK(p.close().empty());
}

TEST_CASE("a line is counted also when nobody asks what is due", "[node]") {
  page p;
  p.says(1, "x\n");
  p.says(2, "x\n");
  p.says(3, "x\n");
  p.now += 6s;
  p.says(1, "y\n");
  CHECK(p.read() == f(1, "x") + f(3, "x [repeated 2x]") + f(1, "y"));
}

TEST_CASE("so many lines are remembered, and each one is shown or counted", "[node]") {
  // Against a count of all that was printed: a line that is neither shown nor counted is lost.
  manta_test::dice roll(manta_test::run_seed());
  page p;
  std::size_t printed = 0;
  std::size_t shown = 0;
  const auto count = [&](const std::string& all) {
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = all.find('\n', at);
      const std::string one = all.substr(at, end - at);
      const std::size_t times = one.find(" [repeated ");
      shown += times == std::string::npos ? 1 : std::stoul(one.substr(times + 11));
      at = end + 1;
    }
  };
  for (int i = 0; i < 20'000; ++i) {
    p.now += std::chrono::milliseconds(roll.below(4));
    const auto many = static_cast<int>(roll.below(3000));
    p.says(roll.below(5), "line " + std::to_string(roll.one_in(2) ? many : many % 5) + "\n");
    ++printed;
    if (i % 100 == 0) count(p.at(p.now));
  }
  count(p.read());
  count(p.close());
  CHECK(shown == printed);
}
