// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <vector>

#include <manta/manta.hpp>

struct leaf {
  int number = 0;
  const char* name = nullptr;
};
struct branch {
  std::map<std::string, std::vector<leaf>> leaves;
};
struct tree {
  double height = 0;
  std::vector<branch> branches;
};

std::size_t count(const tree& of) { return of.branches.size(); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<count>(tree{}));
#endif
}
