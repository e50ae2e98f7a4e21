# SPDX-License-Identifier: Apache-2.0
@0xd4c1a7e3b05f9268;

# What processes of one job say to each other. This file is the protocol's specification: a change
# that an older build would misread needs another protocol version and a decision note.
#
# A frame carries one Message, in the stream form of Cap'n Proto: a 32-bit number of segments less
# one, the 32-bit sizes of the segments in words of 8 bytes, zeros up to a multiple of 8, then the
# segments. Every large range (Segment.bytes) is a segment of its own, and segments are filled up
# with zeros so that each begins at a multiple of 64 from the frame's begin; who reads puts the
# frame at a multiple of 64. All of that is legal Cap'n Proto; any reader of it reads these frames.
#
# Rules for all messages
# - A request is named by `request`. Handling one twice is handling it once: the receiver remembers
#   the ids of requests it has handled for as long as the sender may send them again, and answers a
#   repeated one from its record. Resending leaves everything as it was but `sending`.
# - `epoch` is the sender's: who was fenced and comes back has a larger one. What comes with a
#   smaller epoch than the receiver knows of that sender is refused, whatever it says.
# - A number outside the range that stands at a field, a count above its limit and an enumerant
#   that this file does not have are refused as a whole message, typed; the link stays.
# - Limits: src/wire/views.hpp.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("manta_wire_schema");

struct Message {
  # What every frame holds.

  request :group { high @0 :UInt64; low @1 :UInt64; }
  # Idempotency id, drawn by the sender; not zero.
  epoch @2 :UInt64;
  # The sender's epoch when it made the request.
  sending @3 :UInt32;
  # How often this request was sent before. Not part of its identity; for records and diagnosis.

  union {
    task @4 :Task;
    result @5 :Result;
    call @6 :ActorCall;
    put @7 :Put;
    references @8 :List(ReferenceChange);
    # Sent by whoever lent, got or dropped handles, to the owner of what they name; at most 65,536
    # changes, applied in their order and all or none.
    # Twice: counted once, since counts are not idempotent by themselves but requests are.
    # Lost connection: nothing; the sender keeps the batch until it is acknowledged and sends it
    # again on the next connection. When the sender is dead the owner frees nothing it lent to it
    # until every live node has said that nothing from that sender is under way.
    spawn @9 :Spawn;
    actorEnd @10 :ActorEnd;
    ask @11 :Ask;
    item @12 :Item;
    flow @13 :Flow;
    heartbeat @14 :Heartbeat;
    bulletin @15 :Bulletin;
  }
}

struct Task {
  # Sent by the node that gives a job away (victim, spiller or recovering owner), to the one that
  # is to run it.
  # Twice: the same id and attempt run once; the second copy is answered with the first's result
  # or, while it runs, not at all. The same id with a larger attempt is a run of its own.
  # Lost connection: the sender still has the record of the job and sends it again, to this node or,
  # when that is dead, to another one with the next attempt.

  id :group { high @0 :UInt64; low @1 :UInt64; }
  # Name of the task and of its result; not zero.
  parent :group { high @2 :UInt64; low @3 :UInt64; }
  # The task that made the call.
  callIndex @4 :UInt64;
  # Which call of the parent it was; id is derived from parent, callIndex and function.
  function :group { module @5 :UInt64; offset @6 :UInt64; }
  # The module's build id (its first 8 bytes), and where the entry lies in it. Resolved only through
  # the table of functions that the receiver registered.
  digest :group { high @7 :UInt64; low @8 :UInt64; }
  # Hash of the encoded arguments. A re-run whose children differ from the record is noticed by it.
  attempt @9 :UInt32;
  # Which run this is; 0 the first. Results of smaller attempts are dropped.
  name @10 :Text;
  # The function's name, for people; cut at 1,024 bytes.
  options @11 :Options;
  # Absent: all defaults.
  arguments @12 :Payload;
  gpus @13 :List(Int32);
  # Indices of the gpus that it holds while it runs, as its node counts them; at most 1,024, each 0
  # to 65,535.
  under :group { high @14 :UInt64; low @15 :UInt64; }
  # The nearest ancestor that has a record of how it is run, as far as its node knows; zero: none.
}

struct Options {
  # What a task asks for (include/manta/spec/options.hpp). Amounts are thousandths.

  cpus @0 :Int64;
  # 0 to 1e12; 0 is none.
  gpus @1 :Int64;
  # 0, 1 to 999, or a multiple of 1000 up to 1e12.
  memoryBytes @2 :Int64;
  # 0 or more.
  enforceMemory @3 :Bool;
  losable @4 :Bool;
  # Not made again when it is lost.
  priority @5 :Priority = normal;
  maxRetries @6 :UInt32 = 3;
  # Runs after the first one; below 2^31.
  retryFilter :group { module @7 :UInt64; offset @8 :UInt64; }
  # The function that says which of the user's exceptions are retried; zero: none.
  timeoutNs @9 :Int64;
  # What is left of the time limit when the message is made; 0: none. Not negative: what is over
  # is not sent. The receiver's clock goes on from there, so that clocks need not agree.
  streamCredits @10 :UInt32 = 64;
  # 1 to 2^31.
  name @11 :Text;
  # Shown instead of Task.name; absent or empty: none. Cut at 1,024 bytes.
  resources @12 :List(Amount);
  # At most 256; keys of 1 to 64 bytes.
  where @13 :Placement;
  # Absent: anywhere.
  isolation @14 :Isolation;
  # Of an actor, too.
}

enum Isolation { unset @0; threads @1; processes @2; }
# unset: as the receiving node's runtime does it by default.

enum Priority { low @0; normal @1; high @2; }

struct Amount {
  key @0 :Text;
  amount @1 :Int64;
  # 1 to 1e12.
}

struct Placement {
  rule @0 :Rule;
  isSoft @1 :Bool;
  node @2 :Text;
  # For rule `node`; 1 to 64 bytes.
  labels @3 :List(Label);
  # For rule `labels`; at most 256.
  group @4 :UInt64;
  # For rule `group`.
  bundle @5 :Int32 = -1;
  # For rule `group`: index of the bundle; -1 for any.

  enum Rule { anywhere @0; spread @1; node @2; labels @3; group @4; }
}

struct Label {
  key @0 :Text;
  # 1 to 64 bytes, as the value.
  value @1 :Text;
}

struct Result {
  # Sent by the node that ran a task or a call, to the owner of the result.
  # Twice: the first one stands; a later one of the same attempt is acknowledged and dropped (a
  # result is immutable), one of a smaller attempt is stale.
  # Lost connection: the runner keeps it until it is acknowledged. When the runner is dead, so is
  # the result, and the owner makes it again within its retry budget.

  task :group { high @0 :UInt64; low @1 :UInt64; }
  # Not zero.
  attempt @2 :UInt32;
  execution @3 :UInt64;
  # Of a task that another node gave: the number of that request, since a parent that runs again
  # names its tasks as before. Else 0.
  ranNs @4 :Int64;
  # How long it ran; 0 or more. Feeds the estimate of waiting times.
  # Of a task that was sent back unread: how long it would have waited, which of arrays nobody knows.

  mayRepeat @10 :Bool;
  # It failed with an exception that the task's retry filter matches: the owner may have it run again.
  # Of a task that was given to another node: it can't end there, and has to be run by who gave it.
  sentBack @11 :UInt8;
  # Why, of such a task. 0: it has not begun there, since the node ends or has not what it needs. 1: it
  # would have waited there for long. 2: enough others wait there for their arrays. 3: it has begun, and
  # ended for what that node is. An enum would take a word more.

  union {
    value @5 :Payload;
    error @6 :Error;
    held @7 :Held;
    alias :group { high @8 :UInt64; low @9 :UInt64; }
    # The result is that of another task (delegation); not zero and not this task.
  }
}

struct Held {
  # The value stays in the store of a node.
  node :group { high @0 :UInt64; low @1 :UInt64; }
  # Not zero.
  bytes @2 :UInt64;
}

struct ActorCall {
  # Sent by the node of the caller straight to the node of the actor.
  # Twice: (caller, callNumber) runs once in an incarnation; the actor's window holds the answers of
  # calls that the caller may send again.
  # Lost connection: the caller keeps each call until a checkpoint covers it and resends all of them
  # in order, to the actor's next place if it died, with the new incarnation.

  actor :group { high @0 :UInt64; low @1 :UInt64; }
  # Not zero.
  incarnation @2 :UInt64;
  # The life of the actor that the call is for; another one's call is refused as stale.
  caller :group { high @3 :UInt64; low @4 :UInt64; }
  # The execution context that made the call; not zero.
  callNumber @5 :UInt64;
  # From 1, without gaps, for each caller and actor; calls run in this order.
  method :group { module @6 :UInt64; offset @7 :UInt64; }
  timeoutNs @8 :Int64;
  # As in Options.
  streamCredits @9 :UInt32 = 64;
  # As in Options.
  group @10 :Text;
  # The concurrency group; absent or empty: the actor's default. At most 1,024 bytes.
  name @11 :Text;
  # As in Options.
  arguments @12 :Payload;
  parent :group { high @13 :UInt64; low @14 :UInt64; }
  callIndex @15 :UInt64;
  # As in Task: what names the call, and by that its children.
}

struct Spawn {
  # Sent by the node that decided where an actor is to live, to the process that is to have it; by
  # a worker, to its node, to have one made. Answered by a Result without a value, or the error
  # that the constructor ended with.
  # Twice: the actor is made once in an incarnation; the second copy is answered with the first's
  # result.
  # Lost connection: the sender keeps it and sends it again; when the receiver is dead, the actor
  # is lost before it began, and restarts as it was asked to.

  actor :group { high @0 :UInt64; low @1 :UInt64; }
  # Named by the sender; not zero.
  parent :group { high @2 :UInt64; low @3 :UInt64; }
  callIndex @4 :UInt64;
  # As in Task.
  function :group { module @5 :UInt64; offset @6 :UInt64; }
  # The constructor.
  typeName @7 :Text;
  # The compiler's spelling of the object's type; at most 1,024 bytes.
  options @8 :Options;
  # What it asks for, and the actor's name. Absent: nothing.
  nameSpace @9 :Text;
  # At most 1,024 bytes.
  groups @10 :List(ConcurrencyGroup);
  # The first is the default group, whose name is empty; absent: one call at a time. At most 256.
  mailboxCap @11 :UInt32;
  # 0: none.
  refusesWhenFull @12 :Bool;
  maxRestarts @13 :UInt32;
  # Below 2^31.
  arguments @14 :Payload;
  reserves @15 :Bool;
  # By a worker, to its node: only the name in the options is taken, and the actor found by it. It is
  # made by a second Spawn of the same actor, without this; an ActorEnd with constructorFailed, or the
  # release of the worker's last handle, says instead that it never will be. Such a one has no
  # arguments. Answered by a Result without a value; with a handle to the living
  # actor of that name, where mayExist allows it; or the error.
  # Twice: the second one finds the name taken.
  # Lost connection: the name is free again with the worker's end.
  mayExist @16 :Bool;
  # Of a reservation: a living actor of that name and type will do.
  gpus @17 :List(Int32);
  # As in Task, for all its life.
  detached @18 :Bool;
  # Of a reservation between nodes: the receiver keeps a handle of its own until the actor ends.
}

struct ConcurrencyGroup {
  name @0 :Text;
  # At most 1,024 bytes.
  limit @1 :UInt32;
  # 1 to 65,536.
}

struct ActorEnd {
  # Sent by the process that has an actor, to the one that named it: the object is gone. Sent the
  # other way: the object is to end after the calls before this; between nodes, with `killed`: now.
  # Twice: the second one is about an actor that nobody knows any more, and dropped.
  # Lost connection: the end of the process that had the actor says the same.

  actor :group { high @0 :UInt64; low @1 :UInt64; }
  # Not zero.
  reason @2 :Reason;
  message @3 :Text;
  # The reason in words; cut at 4,096 bytes.

  enum Reason {
    ended @0;
    killed @1;
    exited @2;
    constructorFailed @3;
    runtimeEnded @4;
    processLost @5;
  }
}

struct Ask {
  # Sent by a worker to its node: a small fact that lives there is asked for, or changed, by what runs
  # in the worker. Answered by a Result under the same request, with the fact or the error; a change
  # that is waited for (kvNext) is answered when it comes.
  # Twice: answered twice; a write is made twice. Rings lose nothing, so nobody sends it twice.
  # Lost connection: the worker is gone with it, and so are its watches and whoever waited for the
  # answer. A write that had come is made.

  what @0 :What;
  with @1 :Payload;
  # The question's own values, as src/node/worker_facts.hpp and src/node/future_names.hpp have them. No references.

  enum What {
    findActor @0;
    # A handle to the living actor of a name, or no value.
    kvWrite @1;
    kvRead @2;
    kvList @3;
    kvWatch @4;
    # Begins one; the answer is its number.
    kvNext @5;
    kvUnwatch @6;
    thisJob @7;
    jobs @8;
    functions @9;
    actors @10;
    events @11;
    thing @12;
    # What is done with a channel, a semaphore or a barrier: src/node/worker_things.hpp. The only one
    # whose values may have references; some of it has no answer. Also between nodes, by who has a
    # handle to the node where the thing lives: src/node/node_things.hpp.
    # Twice: done twice. Neither rings nor couriers hand a question over twice.
    # Lost connection: of a worker, as above. Nodes ask on over the next one. When either node is
    # dead, what the asker waited for is withdrawn, its permits go back, and an item that was on its
    # way to it is lost; the asker hears node_lost of what is not answered.
    futureValue @13;
    # The answer is the result of that future's work, when it is there.
    cancelFuture @14;
    # Also of a task that was given to another node, or a call of an actor there, by who gave it: the
    # value has the low half of that request's id (src/node/stop_note.hpp). No answer.
    actorEnd @15;
    # How that actor ended, when it has; its id as src/node/worker_monitors.hpp has it.
    delegation @16;
    # What runs in the worker, or is its own, stands for another one's future. No answer.
    references @17;
    # Between nodes: what src/own/references.hpp says to another node, in its order. No answer.
    arrayBytes @18;
    # Between nodes: a part of an array that has stayed there, when it can't be had by src/bulk; the
    # answer is a Result with one segment, as src/node/far_pulls.hpp has it.
    takeArrays @19;
    # Between nodes, by one that is about to leave, or (its number is 2) that has lent more than half
    # of its store: what has stayed there is to be fetched now, in the second case as far as there
    # is room. No values, no answer.
    bookings @20;
    # Between nodes: bundles of placement groups, src/node/bookings.hpp. Answered by one of its own.
    taskRecords @21;
    # Between nodes, to the head's: the sender's records of tasks are written, deleted or read, as
    # src/node/task_records.hpp has it. The answer has those that were read.
    # Twice: written or deleted twice, which is once. In order with the sender's others.
    arrayCopy @22;
    # Between nodes: whether there is a copy of an array whose maker is lost, as src/node/far_copies.hpp
    # has it. The answer is a Result with yes or no; who says yes keeps the copy for a while. An answer
    # of who was not asked, or asked under another number, changes nothing.
    # Twice: kept for longer, answered twice. Lost connection: nodes ask on over the next one; who does
    # not answer in time is taken to have none.
    transferTime @23;
    # Between nodes: what bytes that were fetched there took to come, by who has fetched them, as
    # src/node/link_times.hpp has it. No answer.
    # Twice: counted twice. Lost connection: as other messages, or it is not known.
  }
}

struct Item {
  # Sent by the process that runs a generator, to the one that called it, under the request of that
  # call: what it yielded. They come in their order and before the Result, which is the end. Between
  # nodes the request's low half is twice that call's, and one more if it was an actor's.
  # Twice: two items. Rings lose nothing, so nobody sends it twice.
  # Lost connection: what did not come is lost with the generator, which is not run again when
  # anything did.

  value @0 :Payload;
}

struct Flow {
  # Sent by the process that called a generator, to the one that runs it, under the request of that
  # call, between nodes as an Item's: how far the reader is. A node tells its worker the same by the
  # socket beside the rings.
  # Twice, or out of order: the larger number counts.
  # Lost connection: the reader is gone, and the generator ends.

  taken @0 :UInt64;
  # Items that the reader has taken, of those that have come.
  credits @1 :UInt32 = 64;
  # 1 to 2^31: so many may be made before they are taken.
}

struct Heartbeat {
  # Sent by every process of a cluster to its head: that it lives, what it wants and what it has seen.
  # The envelope's epoch is its own; 0 while it is no member and asks to be one.
  # Twice: heard twice. Only the newest counts; one that is late says less than the head knows.
  # Lost connection: the next one, over another connection, says the same.

  process :group { high @0 :UInt64; low @1 :UInt64; }
  # Drawn by the process when it begins; not zero.
  wish @2 :Wish;
  queued @3 :UInt32;
  running @4 :UInt32;
  taskNs @5 :Int64;
  # Its load: tasks that wait, tasks that run, how long one takes on average (0 or more).
  headEpoch @6 :UInt64;
  revision @7 :UInt64;
  # What it has seen of the members: in that life of the head, up to that revision. 0: nothing.
  who @8 :Introduction;
  loads @9 :UInt64;
  # It has the others' loads up to that loadsRevision of that life of the head. 0: none.

  enum Wish {
    stay @0;
    drain @1;
    leave @2;
  }
}

struct Introduction {
  # Who a process is, by its own word.

  name @0 :Text;
  # Of a member 1 to 64 bytes. Who asks to be one may say any, and is refused with a reason; cut at
  # 1,024 bytes.
  address @1 :Text;
  # Where others reach it; empty: they don't. Up to 1,024 bytes.
  host @2 :Text;
  pid @3 :UInt32;
  role @4 :Role;
  functions @5 :UInt64;
  # Hash of the functions that others can call there; 0: it does not say. Drivers and nodes of a
  # cluster have the same.
  workers @6 :UInt32;
  # How many tasks it runs at a time, which is how many cpus they may ask for.
  gpus @7 :UInt32;
  memoryBytes @8 :UInt64;
  resources @9 :Text;
  labels @10 :Text;
  # What else they may ask for, and what it is: "license:3,disk:0.5" and "zone=a,kind=big". Up to 34,816
  # bytes each, which is more than 256 of the longest. Who can't read one knows of nothing in it.
  machine @11 :UInt64;
  # Processes that say the same may open each other's files below /proc; 0: others can't.
  bulk @12 :Text;
  # Where others connect to for the bytes of objects, as address (src/bulk/message.hpp says what is said
  # there); empty: they ask for them by arrayBytes. Up to 1,024 bytes.

  enum Role {
    driver @0;
    node @1;
    head @2;
    observer @3;
  }
}

struct Bulletin {
  # Sent by the head to a process that speaks to it: what that is to the head, and which members have
  # changed. The envelope's epoch is the head's: a smaller one than was seen is from a former life.
  # Twice: the second one changes nothing. One that is late has a smaller revision, and is dropped.
  # Lost connection: the next heartbeat says what was seen, and is answered with what was not.

  process :group { high @0 :UInt64; low @1 :UInt64; }
  # Whom it is for; not zero.
  verdict @2 :Verdict;
  member @3 :UInt64;
  # The epoch of the receiver; 0: it has none.
  reason @4 :Text;
  # Of a refusal, an end, or why it waits; cut at 4,096 bytes.
  since @5 :UInt64;
  revision @6 :UInt64;
  # The members are those that changed after `since`, up to `revision`; all that live, if it is 0.
  changed @7 :List(Member);
  # At most 65,536.
  loadsRevision @8 :UInt64;
  loads @9 :List(Share);
  # Loads that changed after the `loads` of the heartbeat that this answers, up to loadsRevision; at
  # most 65,536. 0: this is no answer, and has none.
  endsWithDriver @10 :Bool;
  # The head is in the driver's process: when that is gone, so is the work.

  enum Verdict {
    member @0;
    refused @1;
    ended @2;
    waits @3;
    # It is no member yet: another process has its name, or had it and may be dead.
    dissolved @4;
  }
}

struct Share {
  # What a member has to do, without all the rest of it.

  member @0 :UInt64;
  # Its epoch; not zero.
  queued @1 :UInt32;
  running @2 :UInt32;
  taskNs @3 :Int64;
  # 0 or more.
}

struct Member {
  process :group { high @0 :UInt64; low @1 :UInt64; }
  # Not zero.
  epoch @2 :UInt64;
  # Not zero.
  state @3 :State;
  queued @4 :UInt32;
  running @5 :UInt32;
  taskNs @6 :Int64;
  cause @7 :Text;
  # Of its end; cut at 4,096 bytes.
  who @8 :Introduction;

  enum State {
    alive @0;
    suspected @1;
    draining @2;
    ended @3;
  }
}

struct Put {
  # Sent by the node that made an object with put, to a node that needs it or keeps a copy.
  # Twice: the object is there already and the second one dropped; objects are immutable.
  # Lost connection: the sender keeps its pin until the receiver has acknowledged, and sends again.

  object :group { high @0 :UInt64; low @1 :UInt64; }
  # Not zero.
  owner :group { high @2 :UInt64; low @3 :UInt64; }
  # The node that counts its references; not zero.
  isPrimary @4 :Bool;
  # The receiver keeps it until it is released, and not as a copy that may be evicted.
  value @5 :Payload;
}

struct ReferenceChange {
  object :group { high @0 :UInt64; low @1 :UInt64; }
  # Not zero.
  peer :group { high @2 :UInt64; low @3 :UInt64; }
  # lend: to whom; register and release: whose count it is. Not zero.
  count @4 :UInt32;
  # 1 to 2^31 - 1.
  kind @5 :Kind;

  enum Kind {
    lend @0;
    # A handle left; the sender keeps its hold until the peer registers.
    register @1;
    # The peer holds it now, the lender's hold may go.
    release @2;
    # The peer's handles are gone.
  }
}

struct Error {
  # A manta::error and what caused it. A list and no recursion, so that its depth is a count.
  chain @0 :List(Cause);
  # The error itself, then each time what caused the one before; 1 to 16.
}

struct Cause {
  code @0 :Code;
  message @1 :Text;
  # This and the texts below: cut at 4,096 bytes with a mark that says how much is missing.
  hasFailure @2 :Bool;
  # Whether the rest counts: a user's exception.
  attempt @3 :Int32;
  # 0 or more.
  typeName @4 :Text;
  text @5 :Text;
  # The exception's what().
  function @6 :Text;
  node @7 :Text;

  enum Code {
    taskError @0;
    workerLost @1;
    nodeLost @2;
    objectLost @3;
    actorLost @4;
    timedOut @5;
    cancelled @6;
    storeFull @7;
    infeasible @8;
    decodeFailed @9;
    invalidArgument @10;
    invalidConfig @11;
    noRuntime @12;
    notUnique @13;
    selfWait @14;
    outOfMemory @15;
    nameTaken @16;
    mailboxFull @17;
    channelClosed @18;
    groupRemoved @19;
    unsupported @20;
    encodeFailed @21;
    unknownFunction @22;
    storageFailed @23;
  }
}

struct Payload {
  # An encoded value (manta::spec::parcel_view). `reference::local`, which has a meaning inside one
  # process only, does not travel.
  head @0 :Data;
  segments @1 :List(Segment);
  # At most 262,144, of these 1,024 with bytes.
  references @2 :List(Reference);
  # At most 262,144.
}

struct Segment {
  bytes @0 :Data;
  # A multiple of elementBytes; begins at a multiple of 64. Empty: the last references of the payload
  # have it, one for each such segment, in their order.
  type @1 :UInt64;
  elementBytes @2 :UInt32 = 1;
  # 1 or more.
}

struct Place {
  # Where an array's bytes lie: in a segment of the node's store, whose descriptor the node has given
  # to the worker, or the worker to the node, by the socket beside the rings before this message.
  # Whoever gets it looks whether the place is in that segment, and whether what it names is known.

  segment @0 :UInt64;
  # Between nodes of one machine: the segment's descriptor in the process of who counts the array, times
  # 2^32, and the last 32 bits of its inode. 0, between nodes alone: it stayed there, and is fetched.
  at @1 :UInt64;
  # A multiple of 64. Where the segment is 0: what its owner calls its bytes, and never others; 0: nothing.
  bytes @2 :UInt64;
  # 1 or more.
}

struct Reference {
  what :group { high @0 :UInt64; low @1 :UInt64; }
  owner :group { high @2 :UInt64; low @3 :UInt64; }
  type @4 :UInt64;
  kind @5 :Kind;

  enum Kind {
    future @0;
    actor @1;
    weakActor @2;
    stream @3;
    stopToken @4;
    channel @5;
    semaphore @6;
    permit @7;
    barrier @8;
    actorPool @9;
    placementGroup @10;
    array @11;
  }

  place @6 :Place;
  # Of an array, and absent else.
}
