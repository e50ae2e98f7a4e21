# SPDX-License-Identifier: Apache-2.0
@0xb7e0c5d21f4a8963;

# What the control store keeps, as values. This file is the specification of what lies in its
# folders: fields are only added, at the end, and one that is not there has its default. Keys are in
# src/control/rows.hpp.
#
# Each value is one message in the stream form of Cap'n Proto. Times are microseconds since 1970,
# UTC; 0: it has not happened.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("manta_control_schema");

struct Job {
  program @0 :Text;
  host @1 :Text;
  pid @2 :UInt32;
  version @3 :Text;
  workers @4 :UInt32;
  started @5 :UInt64;
  ended @6 :UInt64;
  # 0: it runs, or was killed.
  tasksRun @7 :UInt64;
  eventsDropped @8 :UInt64;
  functions @9 :UInt64;
  # Names the list in the table of functions.
}

struct Functions {
  # All that a program can call remotely.
  names @0 :List(Text);
}

struct Actor {
  type @0 :Text;
  job @1 :Text;
  since @2 :UInt64;
}

struct Event {
  at @0 :UInt64;
  kind @1 :UInt8;
  # 0 start, 1 end, 2 retry, 3 failure.
  attempt @2 :UInt32;
  name @3 :UInt32;
  # Place in the list of names.
  taskHigh @4 :UInt64;
  taskLow @5 :UInt64;
  parentHigh @6 :UInt64;
  parentLow @7 :UInt64;
  text @8 :Text;
  # The cause of a retry or a failure.
}

struct Events {
  # Many in one value: a record alone costs microseconds.
  all @0 :List(Event);
  names @1 :List(Text);
}
