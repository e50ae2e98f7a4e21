// SPDX-License-Identifier: Apache-2.0
#include "node/output_lines.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace manta::inline v0::node {

namespace {

// Nothing that people print; and if they do, a name is wrong.
constexpr std::string_view mark_begin = "\x1e\x1fmanta:";
constexpr std::size_t longest_name = 200;  // a mark is written whole: it is shorter than PIPE_BUF
constexpr std::size_t longest_mark = mark_begin.size() + longest_name + 1;

std::size_t index_of(output_stream s) noexcept { return static_cast<std::size_t>(s); }

std::string prefix_of(std::uint64_t worker, std::int64_t pid, std::string_view speaker) {
  return speaker.empty() ? fmt::format("(worker {}, pid {}) ", worker, pid)
                         : fmt::format("({}, worker {}, pid {}) ", speaker, worker, pid);
}

}  // namespace

std::string speaker_name(std::string readable) {
  for (const std::string_view unnamed :
       {"(anonymous namespace)::", "(anonymous)::", "{anonymous}::"}) {
    for (std::size_t at = 0; (at = readable.find(unnamed)) != std::string::npos;) {
      readable.erase(at, unnamed.size());
    }
  }
  // A lambda's is its place, in parentheses that come first.
  const std::size_t parameters = readable.find('(');
  if (parameters != 0 && parameters != std::string::npos) readable.erase(parameters);
  return readable;
}

std::string output_mark(std::string_view name) {
  std::string out(mark_begin);
  for (const char c : name.substr(0, longest_name)) {
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out += '\n';
}

void output_lines::text(std::uint64_t worker, std::int64_t pid, output_stream from,
                        std::string_view bytes, std::string_view speaker, base::time_point now,
                        lines& into) {
  source& of = sources_[worker];
  of.pid = pid;
  part& rest = of.parts[index_of(from)];
  rest.bytes += bytes;
  for (;;) {
    const std::size_t begin = rest.bytes.find(mark_begin);
    if (begin == std::string::npos) break;
    const std::size_t end = rest.bytes.find('\n', begin);
    if (std::min(end, rest.bytes.size()) - begin >= longest_mark) {
      rest.bytes.erase(begin, mark_begin.size());  // it only looks like one
      continue;
    }
    if (end == std::string::npos) break;  // more of it is to come
    const std::size_t at = begin + mark_begin.size();
    const std::string name = rest.bytes.substr(at, end - at);
    std::string marked = rest.bytes.substr(0, begin);
    std::string behind = rest.bytes.substr(end + 1);
    if (name.empty()) {  // an actor's: a line may go on behind it
      rest.bytes = marked + behind;
      continue;
    }
    take_lines(worker, of, from, marked, name, now, into);
    if (!marked.empty()) show(worker, of, from, marked, name, now, into);
    rest.bytes = std::move(behind);
  }
  take_lines(worker, of, from, rest.bytes, speaker, now, into);
  if (!rest.bytes.empty()) rest.speaker = speaker;
}

// Shows the lines that are whole, and what is too long; the rest stays.
void output_lines::take_lines(std::uint64_t worker, const source& of, output_stream from,
                              std::string& bytes, std::string_view speaker, base::time_point now,
                              lines& into) {
  const std::string_view all = bytes;
  std::size_t at = 0;
  for (;;) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    for (; end - at > most_line_bytes + longest_mark; at += most_line_bytes) {
      show(worker, of, from, all.substr(at, most_line_bytes), speaker, now, into);
    }
    if (end == all.size()) break;
    show(worker, of, from, all.substr(at, end - at), speaker, now, into);
    at = end + 1;
  }
  bytes.erase(0, at);
}

void output_lines::show(std::uint64_t worker, const source& of, output_stream to,
                        std::string_view text, std::string_view speaker, base::time_point now,
                        lines& into) {
  due(now, into);
  std::string prefix = prefix_of(worker, of.pid, speaker);
  const auto show_it = [&] { into.push_back({to, fmt::format("{}{}\n", prefix, text)}); };
  if (text.empty() || text.size() > longest_folded) return show_it();
  std::string key(1, to == output_stream::out ? 'o' : 'e');
  key += text;
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    memory& known = *found->second;
    known.workers.insert(worker);
    if (known.workers.size() == 1) return show_it();
    known.prefix = std::move(prefix);
    ++known.count;
    return;
  }
  if (recent_.size() >= most_remembered) {
    tell(recent_.front(), into);
    forget(recent_.begin());
  }
  show_it();
  recent_.push_back({to, std::move(key), {}, now + window_, 0, {worker}});
  by_key_.emplace(recent_.back().key, std::prev(recent_.end()));
}

bool output_lines::has_part(std::uint64_t worker) const noexcept {
  const auto found = sources_.find(worker);
  return found != sources_.end() &&
         std::ranges::any_of(found->second.parts, [](const part& p) { return !p.bytes.empty(); });
}

void output_lines::end_part(std::uint64_t worker, base::time_point now, lines& into) {
  const auto found = sources_.find(worker);
  if (found == sources_.end()) return;
  for (const output_stream s : {output_stream::out, output_stream::err}) {
    part& rest = found->second.parts[index_of(s)];
    if (rest.bytes.empty()) continue;
    const part last = std::exchange(rest, part{});
    show(worker, found->second, s, last.bytes, last.speaker, now, into);
  }
}

void output_lines::ended(std::uint64_t worker, base::time_point now, lines& into) {
  end_part(worker, now, into);
  sources_.erase(worker);
}

std::optional<base::time_point> output_lines::next_due() const noexcept {
  if (recent_.empty()) return std::nullopt;
  return recent_.front().until;
}

void output_lines::tell(const memory& of, lines& into) {
  if (of.count == 0) return;
  const std::string_view text = std::string_view(of.key).substr(1);
  into.push_back({of.to, of.count == 1
                             ? fmt::format("{}{}\n", of.prefix, text)
                             : fmt::format("{}{} [repeated {}x]\n", of.prefix, text, of.count)});
}

void output_lines::forget(place which) {
  by_key_.erase(which->key);
  recent_.erase(which);
}

// A line that came often enough to be counted is counted on, for another window.
void output_lines::due(base::time_point now, lines& into) {
  while (!recent_.empty() && recent_.front().until <= now) {
    memory& first = recent_.front();
    tell(first, into);
    if (first.count <= 1) {
      forget(recent_.begin());
      continue;
    }
    first.count = 0;
    first.until = now + window_;
    recent_.splice(recent_.end(), recent_, recent_.begin());
  }
}

void output_lines::close(lines& into) {
  for (const memory& one : recent_) tell(one, into);
  by_key_.clear();
  recent_.clear();
}

}  // namespace manta::inline v0::node
