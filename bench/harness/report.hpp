// SPDX-License-Identifier: Apache-2.0
//
// The table (Markdown that also reads as plain text), the bars, and the JSON file.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "harness/machine.hpp"
#include "harness/suite.hpp"

namespace bench {

void print_head(const suite& s, const machine& where, bool quick);
void print_row(const row& r, const std::vector<result>& line);
void print_absences(const suite& s);
// On stdout, and appended to `path` unless that is empty.
void print_bars(const suite& s, const std::deque<result>& all, const std::string& path);
bool write_json(const suite& s, const machine& where, const std::deque<result>& all,
                const std::string& path);

}  // namespace bench
