# SPDX-License-Identifier: Apache-2.0
@0xb7f3c2a96d1e4805;

# How a socket carries messages: Cap'n Proto's RPC with one interface, which both ends have and give
# as their bootstrap. Before it each end sends a greeting (src/wire/greeting.hpp).
#
# What a message says is none of this file's business: see protocol.capnp and courier.hpp.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("manta_mailbox_schema");

interface Mailbox {
  deliver @0 (messages :List(Data)) -> (room :Room);
  # Sent by an end that has messages and no call of this kind under way: an idle link sends at once,
  # and what is sent meanwhile makes the next batch. 1 to 1,024 messages of 1 byte or more.
  # The answer says that they lie with the receiver and how much more may come. It is held back while
  # there is no room, so a call that is not answered is what a full receiver looks like.
  # Twice: can't be, a connection repeats nothing; a second call while one is under way ends the link.
  # Lost connection: nobody knows whether the batch came. Who needs to know sends again what was not
  # answered (courier.hpp); this level forgets it.
}

struct Room {
  # What may be under way towards the one who says it, until it says something else: 1 or more of
  # both. The last message of a batch may go over `bytes`, so that a message of any size can travel.

  messages @0 :UInt32;
  bytes @1 :UInt64;
}
