#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The checks must be able to fail: sh breaches.sh <checkout>. In a copy of the tree, each kind of
# breach is planted alone and must be refused with a message that names it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
spdx="// SPDX-License-Identifier: Apache-2.0"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
passed=0
failed=0

fresh_copy() {
  rm -rf "$copy/tree"
  mkdir -p "$copy/tree/test/tidy" "$copy/tree/cmake"
  for room in base spec exec store node; do
    mkdir -p "$copy/tree/include/manta/$room" "$copy/tree/src/$room"
    printf '%s\n#pragma once\n' "$spdx" >"$copy/tree/include/manta/$room/good.hpp"
    printf '%s\n#include <manta/%s/good.hpp>\n#include <vector>\n' "$spdx" "$room" \
      >"$copy/tree/src/$room/good.cpp"
    echo "  src/$room/good.cpp" >>"$copy/tree/cmake/sources.cmake"
  done
  sort -o "$copy/tree/cmake/sources.cmake" "$copy/tree/cmake/sources.cmake"
  sed -i "1i # ${spdx#// }" "$copy/tree/cmake/sources.cmake"
  echo "# ${spdx#// }" >"$copy/tree/test/CMakeLists.txt"
  : >"$copy/tree/test/tidy/size_exceptions.txt"
}

clean() {  # <check>: the copy without a breach must pass
  fresh_copy
  if sh "$here/$1.sh" "$copy/tree" >"$copy/out" 2>&1; then passed=$((passed + 1)); return; fi
  failed=$((failed + 1))
  echo "FAILED: $1 refuses a clean tree:" && cat "$copy/out"
}

planted() {  # <check> <message>: what was planted since fresh_copy must be refused with it
  if sh "$here/$1.sh" "$copy/tree" >"$copy/out" 2>&1; then
    failed=$((failed + 1)) && echo "FAILED: $1 accepts what should give '$2'"
  elif ! grep -qF -- "$2" "$copy/out"; then
    failed=$((failed + 1)) && echo "FAILED: $1 does not say '$2' but:" && cat "$copy/out"
  else
    passed=$((passed + 1))
  fi
  fresh_copy
}

in_include() { printf '%s\n#pragma once\n%s\n' "$spdx" "$2" >"$copy/tree/include/manta/$1"; }
in_src() { printf '%s\n%s\n' "$spdx" "$2" >"$copy/tree/src/$1"; }
lines() { awk -v n="$1" -v text="$2" 'BEGIN { for (i = 0; i < n; i++) print text }'; }

clean rooms
in_include base/bad.hpp '#include <manta/exec/good.hpp>'
planted rooms "include/manta/base/bad.hpp:3: room 'base' includes room 'exec' above it"
in_src exec/bad.cpp '#include <manta/store/good.hpp>'
planted rooms "src/exec/bad.cpp:2: room 'exec' includes room 'store' on its own floor"
in_src exec/bad.cpp '  #  include "../store/good.cpp"'
planted rooms "room 'exec' includes room 'store' on its own floor"
in_src node/bad.cpp '#include <manta/manta.hpp>'
planted rooms "room 'node' includes room 'front' above it"
in_include good.hpp '#include <manta/observe/page.hpp>'
planted rooms "room 'front' includes room 'observe' on its own floor"
for foreign in capnp/message.h kj/async.h asio.hpp rocksdb/db.h fmt/format.h openssl/ssl.h xxhash.h \
  unistd.h; do
  in_include node/bad.hpp "#include <$foreign>"
  planted rooms "public header includes <$foreign>"
done
in_include node/bad.hpp '#include "../../../src/node/good.cpp"'
planted rooms "public header includes private src/node/good.cpp"
in_src store/bad.cpp '#include <rocksdb/db.h>'
planted rooms "room 'store' includes <rocksdb/db.h>, which belongs to: control"
mkdir -p "$copy/tree/src/tool"
in_src tool/bad.cpp '#include <rocksdb/db.h>'
planted rooms "room 'tool' includes <rocksdb/db.h>, which belongs to: control"
in_src store/bad.cpp '#include <CLI/App.hpp>'
planted rooms "room 'store' includes <CLI/App.hpp>, which belongs to: tool"
in_src exec/bad.cpp '#include <wire/protocol.capnp.h>'
planted rooms "room 'exec' includes <wire/protocol.capnp.h>, which belongs to: wire"
in_src store/bad.cpp '#include "nowhere.hpp"'
planted rooms "found neither beside the file nor in src/"
mkdir -p "$copy/tree/src/attic" && in_src attic/bad.cpp ''
planted rooms "room 'attic' has no floor"

clean size
lines 500 '// filler' >"$copy/tree/include/manta/base/bad.hpp"
planted size "include/manta/base/bad.hpp has 500 lines, the limit is 400"
lines 601 '// filler' >"$copy/tree/src/base/bad.cpp"
planted size "src/base/bad.cpp has 601 lines, the limit is 600"
in_src base/bad.cpp "template <class T>
int small(T t) { return t; }
class thing {
 public:
  thing() : a_{1}, b_{2} {
    for (;;) {
$(lines 70 '      a_ += b_;  // }')
    }
  }
};"
planted size "src/base/bad.cpp:thing has 74 lines, the limit is 70"
in_src base/bad.cpp "namespace manta::base {
template <class T> requires true
auto long_one(T t) -> int {
$(lines 68 '  t += "{" + 1;')
  return t;
}
}"
planted size "src/base/bad.cpp:long_one has 72 lines, the limit is 70"
echo "src/base/good.cpp 700" >"$copy/tree/test/tidy/size_exceptions.txt"
planted size "src/base/good.cpp needs no exception"
if command -v git >/dev/null; then
  git -C "$copy/tree" init -q
  git -C "$copy/tree" add test
  git -C "$copy/tree" -c user.name=test -c user.email=test@localhost commit -q -m list
  lines 601 '// filler' >"$copy/tree/src/base/bad.cpp"
  echo "src/base/bad.cpp 601" >"$copy/tree/test/tidy/size_exceptions.txt"
  planted size "src/base/bad.cpp is new or larger than it was"
fi

clean text
echo 'int x;' >"$copy/tree/src/base/bad.cpp"
planted text "src/base/bad.cpp:1: line 1 must be '$spdx'"
echo "$spdx" >"$copy/tree/include/manta/base/bad.hpp"
planted text "has no '#pragma once'"
in_src base/bad.cpp "// $(lines 30 'wide' | tr '\n' ' ')."
planted text "src/base/bad.cpp:2: longer than 100 columns"
in_src base/bad.cpp "// TODO(""now): finish"
planted text "src/base/bad.cpp:2: TODO(""now) is still to be done"
in_src base/bad.cpp 'TEST_CASE("one; two") {}'
planted text "src/base/bad.cpp:2: a test case with a semicolon in its name"

clean sources
in_src base/bad.cpp ''
planted sources "cmake/sources.cmake: does not name src/base/bad.cpp"
mkdir -p "$copy/tree/src/tool" && in_src tool/bad.cpp ''
planted sources "cmake/tool.cmake: does not name src/tool/bad.cpp"
rm "$copy/tree/src/base/good.cpp"
planted sources "cmake/sources.cmake: names src/base/good.cpp, which is not there"
mkdir -p "$copy/tree/test/base" && echo "$spdx" >"$copy/tree/test/base/bad_test.cpp"
planted sources "test/CMakeLists.txt: does not name base/bad_test.cpp"

show_fault() {  # a case, and a table that names it
  fresh_copy
  printf '%s\nTEST_CASE("a long name "\n          "of a case", "[tag]") {}\n' "$spdx" \
    >"$copy/tree/test/good.cpp"
  echo '| fault | `test/good.cpp` | a long name of a case |' >"$copy/tree/test/README.md"
}
show_fault
sh "$here/faults.sh" "$copy/tree" >"$copy/out" || { failed=$((failed + 1)) &&
  echo "FAILED: faults refuses a clean tree:" && cat "$copy/out"; }
echo '| | `test/good.cpp` | a long name |' >>"$copy/tree/test/README.md"
planted faults 'test/good.cpp has no case "a long name"'
show_fault
echo '| | `test/gone.cpp` | a case |' >>"$copy/tree/test/README.md"
planted faults "names test/gone.cpp, which is not there"
show_fault
: >"$copy/tree/test/README.md"
planted faults "has no table of faults"

show_modes() {  # two cases, and a table with the reason of the second
  fresh_copy
  mkdir -p "$copy/tree/test/api"
  printf '%s\nTEST_CASE("a long name "\n          "of a case", "[tag][anywhere]") {}\n%s\n' "$spdx" \
    'TEST_CASE("another one", "[tag][stays:local]") {' >"$copy/tree/test/api/good_test.cpp"
  echo '| `[stays:local]` | a reason |' >"$copy/tree/test/README.md"
}
show_modes
sh "$here/modes.sh" "$copy/tree" >"$copy/out" || { failed=$((failed + 1)) &&
  echo "FAILED: modes refuses a clean tree:" && cat "$copy/out"; }
sed -i 's/\[anywhere\]//' "$copy/tree/test/api/good_test.cpp"
planted modes 'test/api/good_test.cpp: TEST_CASE("a long name "'
show_modes
: >"$copy/tree/test/README.md"
planted modes "what is tagged [stays:local], found none"
show_modes
sed -i 's/\[anywhere\]/[one_node]/; s/^TEST_CASE("a long/\n&/' "$copy/tree/test/api/good_test.cpp"
planted modes 'asked for a line above it that says why it is of one node, found none'
show_modes
sed -i 's/\[anywhere\]/[one_node]/; s/^TEST_CASE("a long/\/\/ Of one node.\n&/' "$copy/tree/test/api/good_test.cpp"
sh "$here/modes.sh" "$copy/tree" >"$copy/out" || { failed=$((failed + 1)) &&
  echo "FAILED: modes refuses a reason that is told:" && cat "$copy/out"; }
show_modes
: >"$copy/tree/test/api/good_test.cpp"
planted modes "has no cases"

show_good() {  # a public header and a snippet that shows all of it
  fresh_copy
  mkdir -p "$copy/tree/test/snippets"
  in_include good.hpp "namespace manta::inline v0 {
enum class colour { red };
template <class T>
class thing {
 public:
  thing();
  T get() const { return value_; }
  friend bool operator==(const thing&, const thing&) = default;
 private:
  T value_{};
  void hide();
};
namespace detail { void inner(); }
}"
  printf '%s\n' "$spdx" 'int f(manta::thing<manta::colour> t) { return t.get() == manta::colour::red; }' \
    >"$copy/tree/test/snippets/good.cpp"
  echo "snippets/good.cpp" >>"$copy/tree/test/CMakeLists.txt"
}
unshown() {  # <declaration> <message>: a declaration that no snippet shows
  show_good
  in_include bad.hpp "namespace manta::inline v0 { $1 }"
  planted snippets "$2"
}
show_good
planted_nothing=$(sh "$here/snippets.sh" "$copy/tree") || { failed=$((failed + 1)) &&
  echo "FAILED: snippets refuses a clean tree:" && echo "$planted_nothing"; }
unshown 'template <class R> requires(sizeof(R) > 1) R missing(R r) { return r; }' \
  "test/snippets: no snippet shows manta::missing"
unshown 'enum class colour { green = 2, red };' "no snippet shows colour::green"
unshown 'struct colour { int depth = 0; };' "no snippet shows .depth of colour"
unshown 'class thing { int get; public: void unseen(int x = {}); };' "no snippet shows .unseen of thing"
unshown 'namespace this_task { int id(); }' "no snippet shows this_task::id"
unshown 'using alias = int;' "no snippet shows manta::alias"
show_good
printf '%s\n' "$spdx" '// manta::commented' >"$copy/tree/test/snippets/good.cpp"
planted snippets "no snippet shows manta::colour"
show_good
echo "$spdx" >"$copy/tree/test/snippets/stray.cpp"
planted snippets "test/CMakeLists.txt: does not name snippets/stray.cpp"

echo "breaches: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
