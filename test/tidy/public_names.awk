# SPDX-License-Identifier: Apache-2.0
# Lists what programs may call: awk -f public_names.awk HEADER... prints one line for each public name,
# `manta::remote` or `this_task::id` for what lies in a namespace, `errc::timed_out` for an enumerator
# and `.get future` for a member of the class future.
#
# It reads the house's C++ (clang-format's), not all of C++: comments and strings go first, then
# declarations are cut at `;` and `{` outside of parentheses, and scopes are kept on a stack. Left out
# are the namespaces for the engine, private members, constructors, operators, friends and the types
# that every iterator has.

BEGIN {
  split("detail spec codec exec node sched base", list, " ")
  for (i in list) is_inner[list[i]] = 1
  split("iterator_concept difference_type value_type reference promise_type", list, " ")
  for (i in list) is_customary[list[i]] = 1
  is_shown["basic_result"] = is_shown["id"] = 1  # of base: they have other names in manta
}

{
  if (FNR == 1) finish_file()
  gsub(/\\"/, "")
  gsub(/"[^"]*"/, "0")
  gsub(/'[^']*'/, "0")
  sub(/\/\/.*/, "")
  if ($0 ~ /^#define MANTA_VERSION/) print "manta::" $2
  if ($0 ~ /^#/ || is_directive) {
    is_directive = $0 ~ /\\$/
    next
  }
  text = text " " $0
}

END { finish_file() }

function finish_file() {
  if (text != "") read_text(text)
  text = ""
}

function read_text(all, i, n, c) {
  depth = parens = skipped = 0
  declaration = ""
  n = length(all)
  for (i = 1; i <= n; i++) {
    c = substr(all, i, 1)
    if (skipped > 0) {
      skipped += (c == "{") - (c == "}")
      continue
    }
    if (c == "(") parens++
    if (c == ")") parens--
    if (parens > 0) declaration = declaration c
    else if (c == "{") open_scope()
    else if (c == "}") close_scope()
    else if (c == ";") end_declaration()
    else if (c == ":" && declaration ~ /^ *(public|private|protected) *$/) {
      hidden[depth] = declaration !~ /public/
      declaration = ""
    } else declaration = declaration c
  }
}

function trim(s) {
  gsub(/[ \t]+/, " ", s)
  sub(/^ /, "", s)
  sub(/ $/, "", s)
  return s
}

# Takes `template <...>` from the front.
function without_template(s, i, c, angles) {
  while (s ~ /^template ?</) {
    angles = 0
    for (i = index(s, "<"); i <= length(s); i++) {
      c = substr(s, i, 1)
      angles += (c == "<") - (c == ">" && substr(s, i - 1, 1) != "-")
      if (angles == 0) break
    }
    s = trim(substr(s, i + 1))
  }
  return s
}

function plain(s) {
  s = trim(s)
  gsub(/\[\[[a-z_]+\]\] ?/, "", s)
  gsub(/MANTA_API ?/, "", s)
  s = without_template(s)
  while (sub(/(requires|decltype|noexcept|alignas) ?\(([^()]|\(([^()]|\([^()]*\))*\))*\)/, "", s)) {}
  return trim(s)
}

function last_word(s) {
  while (gsub(/<[^<>]*>/, "", s)) {}
  sub(/\[.*/, "", s)
  s = trim(s)
  sub(/.*[^A-Za-z0-9_]/, "", s)
  return s
}

# The name that a declaration gives; empty for one that gives none.
function declared(s) {
  s = plain(s)
  if (s ~ /^(friend|static_assert|namespace|using namespace) ?/ || s ~ /operator/) return ""
  if (s ~ /^using /) return s ~ /=/ ? last_word(substr(s, 1, index(s, "=") - 1)) : ""
  if (s ~ /~/) return ""
  if (match(s, /\(\*[A-Za-z0-9_]+\)/)) return substr(s, RSTART + 2, RLENGTH - 3)
  if (s ~ /^[^(]*::[A-Za-z0-9_]+ ?\(/) return ""  # a member defined outside of its class
  if (s ~ /\(/) return last_word(substr(s, 1, index(s, "(") - 1))
  if (s ~ /=/) s = substr(s, 1, index(s, "=") - 1)
  return last_word(s)
}

function is_visible(i) {
  for (i = 1; i <= depth; i++) if (hidden[i]) return 0
  return depth > 0
}

function tell(name) {
  if (name == "" || name ~ /_$/ || name ~ /^[0-9]/ || is_customary[name] || !is_visible()) return
  if (kind[depth] == "class") {
    if (name != scope[depth]) print "." name " " scope[depth]
  } else print scope[depth] "::" name
}

function push(what, name, is_hidden) {
  depth++
  kind[depth] = what
  scope[depth] = name
  hidden[depth] = is_hidden
  declaration = ""
}

function open_scope(s, head, name, words) {
  s = plain(declaration)
  head = s
  sub(/\(.*/, "", head)
  if (s ~ /^namespace/) {
    gsub(/inline /, "", s)
    sub(/^namespace /, "", s)
    words = split(s, list, "::")
    name = "manta"
    for (i = 1; i <= words; i++) if (list[i] !~ /^v[0-9]+$/) name = list[i]
    push("namespace", name, is_inner[name] && name != "base")
  } else if (declaration ~ /requires *$/) {
    skipped = 1
  } else if (match(head, /^(requires [^;]* )?(enum (class )?|class |struct |union )[A-Za-z_]/)) {
    name = substr(head, RSTART + RLENGTH - 1)
    sub(/^[A-Za-z0-9_]*/, "&\n", name)
    name = substr(name, 1, index(name, "\n") - 1)
    if (scope[depth] != "base" || is_shown[name]) {
      if (scope[depth] != "base") tell(name)
      push(head ~ /enum/ ? "enum" : "class", name, head ~ /^(requires .* )?class /)
    } else push("class", name, 1)
  } else {
    if (scope[depth] != "base") tell(declared(declaration))
    declaration = ""
    skipped = 1
  }
}

function close_scope(i, n, list) {
  if (kind[depth] == "enum") {
    n = split(declaration, list, ",")
    for (i = 1; i <= n; i++) {
      sub(/=.*/, "", list[i])
      if (trim(list[i]) != "") tell(trim(list[i]))
    }
  }
  depth--
  declaration = ""
}

function end_declaration() {
  if (kind[depth] != "namespace" || scope[depth] != "base") tell(declared_or_type(declaration))
  declaration = ""
}

# A type that is only named in advance is told where it is defined.
function declared_or_type(s) {
  if (plain(s) ~ /^(class|struct|enum) /) return ""
  return declared(s)
}
