# SPDX-License-Identifier: Apache-2.0
# The work of rooms.sh; arguments are the files, relative to the checkout.

BEGIN {
  floors["base"] = 0
  floors["spec"] = 1
  split("exec codec store wire bulk control own sched life", middle, " ")
  for (i in middle) floors[middle[i]] = 2
  floors["node"] = 3
  split("front observe tool", top, " ")
  for (i in top) floors[top[i]] = 4

  # Third-party folder -> rooms whose sources may include it. fmt is the foundation's, so all may.
  homes["fmt"] = "*"
  homes["cereal"] = "codec"
  homes["xxhash.h"] = "store bulk"
  homes["capnp"] = "wire control"
  homes["kj"] = "wire control observe"
  homes["control"] = "control"
  homes["wire"] = "wire"  # made from the schema: <wire/protocol.capnp.h>
  homes["openssl"] = "wire"
  homes["asio"] = "bulk"
  homes["asio.hpp"] = "bulk"
  homes["rocksdb"] = "control"
  homes["CLI"] = "tool"
}

# The room of a path relative to the checkout, include/ or src/.
function room_of(path, parts, n) {
  sub(/^include\//, "", path)
  sub(/^(manta|src)\//, "", path)
  n = split(path, parts, "/")
  return n == 1 ? "front" : parts[1]
}

function complain(message) {
  printf "%s:%d: %s\n", FILENAME, FNR, message
  breaches++
}

# Takes "a/b/../c" to "a/c".
function normal(path) {
  while (match(path, /[^\/]+\/\.\.\//)) {
    path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
  }
  return path
}

function exists(path, line, found) {
  found = (getline line < path) >= 0
  close(path)
  return found
}

# The path of a quoted include: beside the file, else below src/; "" if it is in neither.
function resolve(name, beside) {
  beside = FILENAME
  sub(/[^\/]*$/, "", beside)
  beside = normal(beside name)
  if (exists(beside)) return beside
  return exists("src/" name) ? "src/" name : ""
}

function check_rooms(target, to) {
  to = room_of(target)
  if (!(to in floors)) {
    complain("includes room '" to "', which has no floor; add it to test/tidy/rooms.awk")
  } else if (to != room && floors[to] == floors[room]) {
    complain("room '" room "' includes room '" to "' on its own floor; let them meet in node/")
  } else if (floors[to] > floors[room]) {
    complain("room '" room "' includes room '" to "' above it; includes go strictly down")
  }
}

function check_foreign(name, folder, file) {
  folder = name
  sub(/\/.*/, "", folder)
  if (name !~ /[.\/]/) return  # std
  if (is_public) {
    if (name != "cereal/access.hpp") {
      complain("public header includes <" name ">; allowed are std, manta and cereal/access.hpp")
    }
  } else if (folder in homes && homes[folder] != "*" && \
             index(" " homes[folder] " ", " " room " ") == 0) {
    complain("room '" room "' includes <" name ">, which belongs to: " homes[folder])
  }
}

FNR == 1 {
  room = room_of(FILENAME)
  is_public = FILENAME ~ /^include\//
  if (!(room in floors)) complain("room '" room "' has no floor; add it to test/tidy/rooms.awk")
}

/^[ \t]*#[ \t]*include[ \t]/ {
  name = $0
  sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
  quoted = name ~ /^"/
  sub(/^[<"]/, "", name)
  sub(/[>"].*$/, "", name)
  if (name ~ /^manta\//) {
    check_rooms(name)
  } else if (quoted) {
    target = resolve(name)
    if (target == "") complain("includes \"" name "\", found neither beside the file nor in src/")
    else if (is_public && target !~ /^include\//) complain("public header includes private " target)
    else check_rooms(target)
  } else {
    check_foreign(name)
  }
}

END {
  printf "rooms: %d files, %d breaches\n", ARGC - 1, breaches
  exit breaches > 0
}
