// SPDX-License-Identifier: Apache-2.0
#include "harness/report.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "harness/measure.hpp"

namespace bench {
namespace {

using getter = double (*)(const sample&);

bool use_warm(const result& r) { return r.in->warm_rounds > 0; }

std::vector<double> pick(const result& r, bool cold, getter get) {
  std::vector<double> values;
  for (const sample& s : r.samples) {
    const double v = get(s);
    if (s.cold == cold && !std::isnan(v)) values.push_back(v);
  }
  return values;
}

double middle(const result& r, bool cold, getter get) {
  std::vector<double> values = pick(r, cold, get);
  return quantile(values, 0.5);
}

double value_of(const sample& s) { return s.got.value; }
double n_of(const sample& s) { return s.got.n; }
double p50_of(const sample& s) { return s.got.p50; }
double p99_of(const sample& s) { return s.got.p99; }
double cpu_ns_of(const sample& s) { return (s.user_s + s.system_s) * 1e9 / s.got.operations; }
double threads_of(const sample& s) { return s.threads; }
double peak_of(const sample& s) { return s.rss_peak / (1 << 20); }
double after_of(const sample& s) { return s.rss_after / (1 << 20); }

double headline(const result& r, getter get = value_of) { return middle(r, !use_warm(r), get); }

// The peak of all rounds: later ones reuse the memory of the first.
double most_bytes(const result& r) {
  double most = not_measured;
  for (const sample& s : r.samples) {
    if (std::isnan(most) || s.got.bytes > most) most = s.got.bytes;
  }
  return most;
}

const char* symbol(unit in) {
  switch (in) {
    case unit::nanoseconds:
      return "ns";
    case unit::microseconds:
      return "us";
    case unit::milliseconds:
      return "ms";
    case unit::seconds:
      return "s";
    case unit::per_second:
      return "per s";
    case unit::bytes:
      return "bytes";
    case unit::percent:
      return "%";
  }
  return "";
}

// Three or four significant digits; thousands as they are read aloud for rates.
std::string number(double v) {
  if (std::isnan(v)) return "";
  char text[32];
  const double size = std::fabs(v);
  if (size < 100 && size == std::floor(size)) {
    std::snprintf(text, sizeof text, "%.0f", v);
  } else if (size >= 1e6) {
    std::snprintf(text, sizeof text, "%.2f M", v / 1e6);
  } else if (size >= 1e4) {
    std::snprintf(text, sizeof text, "%.1f k", v / 1e3);
  } else if (size >= 100) {
    std::snprintf(text, sizeof text, "%.0f", v);
  } else if (size >= 10) {
    std::snprintf(text, sizeof text, "%.1f", v);
  } else {
    std::snprintf(text, sizeof text, size >= 0.1 ? "%.2f" : "%.4f", v);
  }
  return text;
}

std::string label(const result& r) {
  std::string text = r.of->who == side::ours ? "**" + r.of->name + "**" : r.of->name;
  if (r.of->who == side::reference) text = "(" + r.of->name + ")";
  return r.allocator.empty() ? text : text + ", " + r.allocator;
}

using cells = std::vector<std::string>;

void print_cells(std::FILE* out, const std::vector<cells>& table) {
  std::vector<std::size_t> width(table.front().size(), 3);
  for (const cells& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  for (std::size_t n = 0; n < table.size(); ++n) {
    std::string text = "|";
    for (std::size_t i = 0; i < width.size(); ++i) {
      const std::string& cell = table[n][i];
      const std::string pad(width[i] - cell.size(), ' ');
      text += i == 0 ? " " + cell + pad + " |" : " " + pad + cell + " |";
    }
    std::fprintf(out, "%s\n", text.c_str());
    if (n != 0) continue;
    for (std::size_t i = 0; i < width.size(); ++i) {
      const std::string rule(width[i] + 1, '-');
      std::fprintf(out, "%s%s", i == 0 ? "|" : "|", (rule + (i == 0 ? "-" : ":")).c_str());
    }
    std::fprintf(out, "|\n");
  }
}

cells table_line(const result& r) {
  if (!r.failure.empty()) {
    cells line(13);
    line[0] = label(r);
    line[1] = r.failure;
    return line;
  }
  std::vector<double> values = pick(r, !use_warm(r), value_of);
  const double low = quantile(values, 0.1);
  const double high = quantile(values, 0.9);
  std::vector<double> lines = r.line_us;
  std::string memory = number(headline(r, peak_of)) + " / " + number(headline(r, after_of));
  return {label(r),
          number(quantile(values, 0.5)),
          number(low) + " - " + number(high),
          number(static_cast<double>(values.size())),
          number(middle(r, true, value_of)),
          number(headline(r, n_of)),
          number(headline(r, p50_of)),
          number(headline(r, p99_of)),
          number(headline(r, cpu_ns_of)),
          number(most_bytes(r)),
          memory,
          number(headline(r, threads_of)),
          number(quantile(lines, 0.5))};
}

// Columns that nobody filled are left out.
void drop_empty_columns(std::vector<cells>& table) {
  for (std::size_t column = table.front().size(); column-- > 1;) {
    const bool filled = std::any_of(table.begin() + 1, table.end(),
                                    [&](const cells& line) { return !line[column].empty(); });
    if (filled) continue;
    for (cells& line : table) line.erase(line.begin() + static_cast<std::ptrdiff_t>(column));
  }
}

const result* find(const std::deque<result>& all, const std::string& row, const std::string& who) {
  for (const result& r : all) {
    if (r.in->key == row && r.of->name == who && r.allocator.empty()) return &r;
  }
  return nullptr;
}

// The best of the rivals whose name begins with `who`, in any allocator; or ours of just that name.
const result* best(const std::deque<result>& all, const std::string& row, const std::string& who) {
  const result* found = nullptr;
  for (const result& r : all) {
    const bool is_candidate =
        r.in->key == row && r.failure.empty() && !r.samples.empty() &&
        (r.of->who == side::ours ? r.of->name == who : r.of->name.rfind(who, 0) == 0);
    if (!is_candidate) continue;
    const bool more_is_better = r.in->in == unit::per_second;
    if (found == nullptr ||
        (more_is_better ? headline(r) > headline(*found) : headline(r) < headline(*found))) {
      found = &r;
    }
  }
  return found;
}

cells judge(const bar& b, const std::deque<result>& all) {
  const result* ours = find(all, b.row, b.ours);
  if (ours == nullptr || ours->samples.empty()) return {b.text, "", "", "not measured"};
  const double got = b.of_bytes ? most_bytes(*ours) : headline(*ours);
  const bool more_is_better = ours->in->in == unit::per_second && !b.of_bytes;
  double limit = b.limit;
  std::string reference;
  if (!b.against.empty()) {
    const result* rival = best(all, b.against_row.empty() ? b.row : b.against_row, b.against);
    if (rival == nullptr) return {b.text, number(got), "", "no reference here"};
    limit *= headline(*rival);
    reference = " = " + number(b.limit) + " x " + label(*rival);
  }
  const char* in = b.of_bytes ? "bytes" : symbol(ours->in->in);
  const bool is_met = more_is_better ? got >= limit : got <= limit;
  return {b.text, number(got) + " " + in, number(limit) + " " + in + reference,
          is_met ? "met" : "MISSED"};
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string json_number(double v) {
  if (std::isnan(v)) return "null";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

template <class Values, class Format>
std::string json_list(const Values& values, Format format) {
  std::string out = "[";
  for (const auto& v : values) out += (out.size() > 1 ? ", " : "") + format(v);
  return out + "]";
}

std::string json_sample(const sample& s) {
  std::string out = std::string("{\"cold\": ") + (s.cold ? "true" : "false");
  const auto put = [&](const char* key, double v) {
    out += std::string(", \"") + key + "\": " + json_number(v);
  };
  put("value", s.got.value);
  put("operations", s.got.operations);
  put("p50", s.got.p50);
  put("p99", s.got.p99);
  put("bytes", s.got.bytes);
  put("n", s.got.n);
  put("wall_s", s.wall_s);
  put("user_s", s.user_s);
  put("system_s", s.system_s);
  put("rss_peak", s.rss_peak);
  put("rss_after", s.rss_after);
  put("threads", s.threads);
  return out + "}";
}

std::string json_result(const result& r) {
  std::vector<double> values = pick(r, !use_warm(r), value_of);
  const auto integer = [](int v) { return std::to_string(v); };
  std::string out = "    {\"row\": " + quoted(r.in->title) + ", \"key\": " + quoted(r.in->key);
  out += ", \"who\": " + quoted(r.of->name) + ", \"allocator\": " + quoted(r.allocator);
  out += ", \"unit\": " + quoted(symbol(r.in->in));
  out += ", \"repeats\": " + std::to_string(values.size());
  out += ", \"median\": " + json_number(quantile(values, 0.5));
  out += ", \"p10\": " + json_number(quantile(values, 0.1));
  out += ", \"p90\": " + json_number(quantile(values, 0.9));
  double sum = 0, squares = 0;
  for (double v : values) sum += v;
  const double mean = values.empty() ? not_measured : sum / static_cast<double>(values.size());
  for (double v : values) squares += (v - mean) * (v - mean);
  out += ", \"mean\": " + json_number(mean) + ", \"deviation\": " +
         json_number(
             std::sqrt(squares / static_cast<double>(std::max<std::size_t>(values.size(), 1))));
  out += ", \"ray_2_48\": " + json_number(r.in->ray);
  out += ", \"ray_best\": " + json_number(r.in->ray_best);
  out += ", \"failure\": " + quoted(r.failure);
  out += ", \"pids\": " + json_list(r.pids, integer);
  out += ", \"cache_line_round_trip_us\": " + json_list(r.line_us, json_number);
  out += ",\n     \"samples\": " + json_list(r.samples, json_sample);
  return out + "}";
}

}  // namespace

void print_head(const suite& s, const machine& where, bool quick) {
  std::printf("\n## %s%s\n\n", s.name().c_str(), quick ? " (quick: figures mean nothing)" : "");
  std::printf("%s, %d cpus, cpu set", where.cpu.c_str(), where.cpus);
  for (int cpu : where.allowed) std::printf(" %d", cpu);
  std::printf("; %s; %s, %s %s; commit %s\n", where.kernel.c_str(), where.compiler.c_str(),
              where.build_type.c_str(), where.flags.c_str(), where.commit.c_str());
}

void print_row(const row& r, const std::vector<result>& line) {
  std::printf("\n### %s\n\n", r.title.c_str());
  const bool is_ray = !std::isnan(r.ray);
  std::vector<cells> table{{is_ray ? "mode" : "who", std::string("median, ") + symbol(r.in),
                            "p10 - p90", "repeats", "cold", "n", "p50", "p99", "cpu ns per op",
                            "bytes per op", "RSS peak / after, MiB", "threads", "line us"}};
  for (const result& one : line) table.push_back(table_line(one));
  drop_empty_columns(table);
  print_cells(stdout, table);
  if (is_ray) {
    std::printf("\nRay 2.48: %s; best Ray logged: %s (one m5.16xlarge, 64 vCPU, Python callers).\n",
                number(r.ray).c_str(), number(r.ray_best).c_str());
  }
  if (!r.note.empty()) std::printf("\n%s\n", r.note.c_str());
  std::fflush(stdout);
}

void print_absences(const suite& s) {
  for (const absence& a : s.absences()) {
    std::printf("\n%s: not measured here (%s)\n", a.who.c_str(), a.why.c_str());
  }
}

void print_bars(const suite& s, const std::deque<result>& all, const std::string& path) {
  if (s.bars().empty()) return;
  std::vector<cells> table{{"bar", "measured", "limit", "verdict"}};
  for (const bar& b : s.bars()) {
    const bool was_run =
        std::any_of(all.begin(), all.end(), [&](const result& r) { return r.in->key == b.row; });
    if (was_run) table.push_back(judge(b, all));  // a filter leaves rows out
  }
  if (table.size() == 1) return;
  std::printf("\n### Bars of %s\n\n", s.name().c_str());
  print_cells(stdout, table);
  if (path.empty()) return;
  std::FILE* out = std::fopen(path.c_str(), "a");
  if (out == nullptr) return;
  std::fprintf(out, "\n%s:\n\n", s.name().c_str());
  print_cells(out, table);
  std::fclose(out);
}

bool write_json(const suite& s, const machine& where, const std::deque<result>& all,
                const std::string& path) {
  std::FILE* out = std::fopen(path.c_str(), "w");
  if (out == nullptr) {
    std::fprintf(stderr, "bench: cannot write %s; give another --json\n", path.c_str());
    return false;
  }
  const auto integer = [](int v) { return std::to_string(v); };
  std::fprintf(out, "{\n  \"program\": %s,\n", quoted(s.name()).c_str());
  std::fprintf(out,
               "  \"machine\": {\"cpu\": %s, \"cpus\": %d, \"cpu_set\": %s, \"kernel\": %s},\n",
               quoted(where.cpu).c_str(), where.cpus, json_list(where.allowed, integer).c_str(),
               quoted(where.kernel).c_str());
  std::fprintf(out, "  \"commit\": %s,\n", quoted(where.commit).c_str());
  std::fprintf(out, "  \"build\": {\"type\": %s, \"flags\": %s, \"compiler\": %s},\n",
               quoted(where.build_type).c_str(), quoted(where.flags).c_str(),
               quoted(where.compiler).c_str());
  std::string rows;
  for (const result& r : all) rows += (rows.empty() ? "" : ",\n") + json_result(r);
  std::fprintf(out, "  \"rows\": [\n%s\n  ]\n}\n", rows.c_str());
  return std::fclose(out) == 0;
}

}  // namespace bench
