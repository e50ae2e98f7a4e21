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

struct Name {
  # Of an actor, while it lives.
  type @0 :Text;
  job @1 :Text;
  since @2 :UInt64;
  nameSpace @3 :Text;
  name @4 :Text;
  # Both where the key has a hash of them, since it could not be as long.
}

struct Event {
  at @0 :UInt64;
  kind @1 :UInt8;
  # 0 start, 1 end, 2 retry, 3 failure; 4: a start, and an end `lasted` later.
  attempt @2 :UInt32;
  name @3 :UInt32;
  # Place in the list of names.
  taskHigh @4 :UInt64;
  taskLow @5 :UInt64;
  parentHigh @6 :UInt64;
  parentLow @7 :UInt64;
  text @8 :Text;
  # The cause of a retry or a failure.
  lasted @9 :UInt32;
  # Microseconds.
}

struct Events {
  # Many in one value: a record alone costs microseconds.
  all @0 :List(Event);
  names @1 :List(Text);
}

struct Amount {
  key @0 :Text;
  amount @1 :Int64;
  # Thousandths.
}

struct Demand {
  # Amounts in thousandths: what a node has, or what a part of a group asks for.
  cpus @0 :Int64;
  gpus @1 :Int64;
  memoryBytes @2 :Int64;
  custom @3 :List(Amount);
}

struct Label {
  key @0 :Text;
  value @1 :Text;
}

struct Node {
  epoch @0 :UInt64;
  state @1 :UInt8;
  # 0 alive, 1 draining, 2 ended.
  address @2 :Text;
  host @3 :Text;
  pid @4 :UInt32;
  has @5 :Demand;
  labels @6 :List(Label);
  joined @7 :UInt64;
  ended @8 :UInt64;
  cause @9 :Text;
  # Of its end.
  process :group { high @10 :UInt64; low @11 :UInt64; }
  role @12 :UInt8;
  # As spec::node_role counts.
}

struct Actor {
  name @0 :Text;
  nameSpace @1 :Text;
  # Empty: it has none.
  type @2 :Text;
  job @3 :Text;
  node @4 :Text;
  # Where it is; empty while it is nowhere.
  incarnation @5 :UInt64;
  restartsLeft @6 :UInt32;
  state @7 :UInt8;
  # 0 to be made, 1 alive, 2 to be made again, 3 ended.
  ended @8 :UInt64;
  cause @9 :Text;
  # Of its end.
  recipe @10 :Data;
  # How it is made: a message of wire/protocol.capnp.
}

struct Group {
  job @0 :Text;
  strategy @1 :UInt8;
  # 0 pack, 1 spread, 2 strict pack, 3 strict spread.
  bundles @2 :List(Demand);
  nodes @3 :List(Text);
  # One for each bundle; empty while it has no place.
}

struct Owner {
  job @0 :Text;
  adopter @1 :Text;
  # The node that took over; empty: the owner lives.
  ended @2 :UInt64;
}

struct Place {
  bytes @0 :UInt64;
  nodes @1 :List(Text);
  # Those that have the object whole.
  spilled @2 :Text;
  # The file it lies in; empty: none.
}

struct Task {
  high @0 :UInt64;
  low @1 :UInt64;
  parentHigh @2 :UInt64;
  parentLow @3 :UInt64;
  # The nearest ancestor that has a record; 0: none has.
  recipe @4 :Data;
  # How it is run: a message of wire/protocol.capnp.
}

struct Tasks {
  # Many in one value. Some may be over: a value goes when all of its tasks are.
  all @0 :List(Task);
}

struct Call {
  callerHigh @0 :UInt64;
  callerLow @1 :UInt64;
  number @2 :UInt64;
  # Which call of its caller.
  execution @3 :UInt64;
  # Which call of the actor.
  request @4 :Data;
  # A message of wire/protocol.capnp.
}

struct Calls {
  # What an actor was called, in the order of `execution`.
  all @0 :List(Call);
}

struct Checkpoint {
  # An actor's state after call `execution`; the bytes are in `parts` records of their own, which
  # were written before this one.
  incarnation @0 :UInt64;
  execution @1 :UInt64;
  at @2 :UInt64;
  bytes @3 :UInt64;
  parts @4 :UInt32;
}
