# SPDX-License-Identifier: Apache-2.0
# The work of size.sh; arguments are the files. A function is a block in braces whose head has a
# parenthesis and that stands at file, namespace or class level; it counts from the first line of
# its head to its closing brace, with the comments and lambdas inside.

function load(file, table, line, parts) {
  while (file != "" && (getline line < file) > 0) {
    if (line ~ /^[ \t]*(#|$)/) continue
    split(line, parts, " ")
    table[parts[1]] = parts[2] + 0
  }
}

function complain(message) {
  print message
  breaches++
}

# One measured thing; its name is `path` or `path:function`.
function judge(name, where, size, limit) {
  if (size <= limit) return
  used[name] = 1
  if (!(name in allowed)) {
    complain(where ": " name " has " size " lines, the limit is " limit "; split it")
  } else if (size > allowed[name]) {
    complain(where ": " name " has " size " lines, its exception ends at " allowed[name])
  } else if (size < allowed[name]) {
    complain(where ": " name " has only " size " lines now; lower its entry from " allowed[name])
  }
}

# The line without what may hold braces but is no code: literals, comments, the preprocessor's lines.
function code_of(line, code) {
  gsub(/\\./, "", line)
  gsub(/"[^"]*"/, "s", line)
  gsub(/'[{}();,"]'/, "c", line)
  code = ""
  while (line != "") {
    if (in_comment) {
      if (!match(line, /\*\//)) return code
      in_comment = 0
    } else if (!match(line, /\/\*|\/\//)) {
      code = code line
      break
    } else {
      code = code substr(line, 1, RSTART - 1)
      if (substr(line, RSTART, 2) == "//") break
      in_comment = 1
    }
    line = substr(line, RSTART + 2)
  }
  if (code ~ /^[ \t]*(public|private|protected):[ \t]*$/) return ""
  return code
}

# Drops template<...> in front, whose parameters say `class` though the thing is a function.
function without_template(text, depth, i, c) {
  while (match(text, /^[ \t]*template[ \t]*</)) {
    depth = 1
    for (i = RSTART + RLENGTH; i <= length(text) && depth > 0; i++) {
      c = substr(text, i, 1)
      if (c == "<") depth++
      if (c == ">" && substr(text, i - 1, 1) != "-") depth--
    }
    text = substr(text, i)
  }
  sub(/^[ \t]+/, "", text)
  return text
}

function is_function(text) {
  text = without_template(text)
  if (text ~ /^(inline |typedef |friend )*(namespace|class|struct|union|enum|extern s)([^A-Za-z0-9_]|$)/) {
    return 0
  }
  return text ~ /\(/ && text !~ /=[ \t]*$/
}

function name_of(text) {
  text = without_template(text)
  if (text ~ /^(TEST_CASE|SCENARIO|TEMPLATE_)/) return "test_case"
  if (match(text, /operator[^A-Za-z0-9_ (]+/)) return substr(text, RSTART, RLENGTH)
  sub(/[ \t]*\(.*/, "", text)
  sub(/.*[ \t*&>]/, "", text)
  return text
}

function forget_head() {
  head = ""
  head_line = 0
}

# A body's closing brace may be a constructor's `member_{value}`; only the next sign tells: after
# that, `,` or `{` go on with the same head.
function settle(c) {
  if (!closed_line || c ~ /[ \t\n]/) return
  if (c !~ /[,{]/) {
    judge(file ":" name_of(head), file ":" head_line, closed_line - head_line + 1, 70)
    forget_head()
  }
  closed_line = 0
}

function take(c, number) {
  settle(c)
  if (c == "{") {
    if (depth > 0 || is_function(head)) depth++
    else forget_head()
  } else if (c == "}") {
    if (depth > 0 && --depth == 0) closed_line = number
    else if (depth == 0) forget_head()
  } else if (depth == 0) {
    if (c == ";") { forget_head(); return }
    if (head_line == 0 && c !~ /[ \t\n]/) head_line = number
    if (head_line != 0) head = head (c == "\n" ? " " : c)
  }
}

function measure(line, number, code, i, is_macro) {
  depth = 0
  closed_line = 0
  in_comment = 0
  forget_head()
  is_macro = 0
  while ((getline line < file) > 0) {
    number++
    if (is_macro || (!in_comment && line ~ /^[ \t]*#/)) {
      is_macro = line ~ /\\$/
      continue
    }
    code = code_of(line)
    if (depth > 0 && code !~ /[{}]/) continue  # most lines of a body
    for (i = 1; i <= length(code); i++) take(substr(code, i, 1), number)
    take("\n", number)
  }
  settle(";")
  close(file)
  judge(file, file, number + 0, file ~ /\.hpp$/ ? 400 : 600)
}

BEGIN {
  load(list, allowed)
  load(known, earlier)
  for (n = 1; n < ARGC; n++) {
    file = ARGV[n]
    measure()
  }
  for (name in allowed) {
    if (!(name in used)) complain(list ": " name " needs no exception; drop its line")
    if (known == "") continue
    if (!(name in earlier) || allowed[name] > earlier[name]) {
      complain(list ": " name " is new or larger than it was; the list may only shrink")
    }
  }
  printf "size: %d files, %d breaches\n", ARGC - 1, breaches
  exit breaches > 0
}
