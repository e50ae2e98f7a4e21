// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/actor_end.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/options.hpp>
#include <manta/spec/parcel.hpp>
#include <manta/spec/resources.hpp>

#include "spec/cluster.hpp"

// The messages of src/wire/protocol.capnp as plain structs, without a name of Cap'n Proto: what
// each means, what it means twice and what a lost connection loses stands there.
//
// All of them borrow. What a writer is given lives until the written message is used or dropped;
// what a reader gives lives as long as the frame and until the reader's next read. Any thread, as
// any plain struct; one that writes and another that reads at the same time is the caller's fault.

namespace manta::inline v0::wire {

/// The limits of the protocol, for writing as well as for reading. Reaching one is a typed answer.
namespace limits {
inline constexpr std::size_t name_bytes = 1024;            ///< names of functions, calls, groups
inline constexpr std::size_t key_bytes = 64;               ///< resource keys, labels, node names
inline constexpr std::size_t error_text_bytes = 4096;      ///< each text of an error
inline constexpr std::size_t error_chain = 16;             ///< an error and its causes
inline constexpr std::size_t offer_bytes = 34'816;         ///< a node's resources, or its labels
inline constexpr std::size_t amounts = 256;                ///< resources of one task
inline constexpr std::size_t labels = 256;                 ///< labels of one placement
inline constexpr std::size_t segments = 262144;            ///< large ranges of one payload
inline constexpr std::size_t own_segments = 1024;          ///< of these, with their bytes
inline constexpr std::size_t references = 262144;          ///< handles in one payload
inline constexpr std::size_t groups = 256;                 ///< of an actor's calls
inline constexpr std::uint32_t group_limit = 65536;        ///< calls of a group at a time
inline constexpr std::size_t gpus = 1024;                  ///< that one task or actor holds
inline constexpr int gpu_index = 65535;                    ///< the largest one
inline constexpr std::size_t changes = 65536;              ///< reference changes in one message
inline constexpr std::size_t members = 65536;              ///< in one bulletin
inline constexpr std::size_t frame_segments = 2048;        ///< segments of a frame
inline constexpr std::int64_t amount = 1'000'000'000'000;  ///< thousandths of any resource
inline constexpr std::uint32_t credits = std::uint32_t{1} << 31U;
inline constexpr std::uint32_t count = (std::uint32_t{1} << 31U) - 1;
}  // namespace limits

/// What names a message, whatever it says.
struct envelope {
  base::id request = {};      ///< idempotency id; not zero
  std::uint64_t epoch = 0;    ///< the sender's
  std::uint32_t sending = 0;  ///< how often it was sent before
};

/// An amount of a resource that the user named, in thousandths.
struct amount_view {
  std::string_view key = {};
  std::int64_t amount = 0;
};

/// A label that a node has.
struct label_view {
  std::string_view key = {};
  std::string_view value = {};
};

/// manta::placement; the fields that its rule does not name do not travel.
struct placement_view {
  placement::rule by = placement::rule::anywhere;
  bool is_soft = false;
  std::string_view node = {};
  std::span<const label_view> labels = {};
  std::uint64_t group = 0;
  std::int32_t bundle = -1;
};

/// manta::isolation_mode, or none.
enum class asked_isolation : std::uint8_t { unset, threads, processes };

/// manta::options, as far as it travels.
struct options_view {
  std::int64_t cpus = 0;          ///< thousandths; 0 is none
  std::int64_t gpus = 0;          ///< thousandths
  std::int64_t memory_bytes = 0;  ///< 0 is none
  bool enforce_memory = false;    ///< memory_bytes is a cap
  bool losable = false;           ///< not made again
  manta::priority priority = manta::priority::normal;
  std::uint32_t max_retries = 3;         ///< runs after the first
  spec::function_id retry_filter = {};   ///< says which exceptions are retried; zero is none
  std::optional<duration> timeout = {};  ///< what is left; more than 0
  std::uint32_t stream_credits = static_cast<std::uint32_t>(default_stream_credits);
  std::string_view name = {};  ///< empty is none
  std::span<const amount_view> resources = {};
  placement_view where = {};
  asked_isolation isolation = asked_isolation::unset;
};

/// A job that another node is to run.
struct task_view {
  base::id id = {};
  base::id parent = {};
  std::uint64_t call_index = 0;
  spec::function_id function = {};
  base::id digest = {};        ///< hash of the encoded arguments
  std::uint32_t attempt = 0;   ///< 0 is the first run
  std::string_view name = {};  ///< the function's, for people
  /// Borrowed as well; null is all defaults. A reader gives null only where the sender did.
  const options_view* options = nullptr;
  spec::parcel_view arguments = {};
  std::span<const int> gpus = {};  ///< that it holds, by their indices
  base::id under = {};             ///< the nearest ancestor with a record; zero: none
};

/// One error of a chain: an error as manta::error holds it.
struct cause_view {
  errc code = errc::task_error;
  std::string_view message = {};
  bool has_failure = false;  ///< whether what follows counts
  std::int32_t attempt = 0;
  std::string_view type_name = {};
  std::string_view text = {};  ///< the exception's what()
  std::string_view function = {};
  std::string_view node = {};
};

/// An error, then each time what caused the one before.
struct error_view {
  std::span<const cause_view> chain = {};
};

/// The value stays in a node's store.
struct held_view {
  base::id node = {};
  std::uint64_t bytes = 0;
};

/// The result is that of another task.
struct alias_view {
  base::id task = {};
};

/// What became of a task or a call.
struct result_view {
  /// Why a task goes back that another node gave; the schema has the numbers.
  enum class sent_back : std::uint8_t { unread, line, arrays, begun };
  base::id task = {};
  std::uint32_t attempt = 0;
  std::uint64_t execution = 0;  ///< of a task of another node: the number it was given by; else 0
  duration ran{0};              ///< how long
  bool may_repeat = false;      ///< its retry filter matches what it threw
  sent_back back = sent_back::unread;  ///< of a task of another node that is to run at home
  std::variant<spec::parcel_view, error_view, held_view, alias_view> outcome = {};
};

/// A call of an actor's method.
struct call_view {
  base::id actor = {};
  std::uint64_t incarnation = 0;
  base::id caller = {};
  std::uint64_t call_number = 0;  ///< from 1 for each caller and actor
  spec::function_id method = {};
  std::optional<duration> timeout = {};
  std::uint32_t stream_credits = static_cast<std::uint32_t>(default_stream_credits);
  std::string_view group = {};  ///< empty is the actor's default
  std::string_view name = {};   ///< empty is the method's
  spec::parcel_view arguments = {};
  base::id parent = {};
  std::uint64_t call_index = 0;
};

/// Calls of an actor that share a limit.
struct group_view {
  std::string_view name = {};
  std::uint32_t limit = 1;
};

/// An actor that another process is to make.
struct spawn_view {
  base::id actor = {};
  base::id parent = {};
  std::uint64_t call_index = 0;
  spec::function_id function = {};  ///< the constructor
  std::string_view type_name = {};  ///< the compiler's spelling
  /// Borrowed as well; null is all defaults.
  const options_view* options = nullptr;
  std::string_view name_space = {};
  std::span<const group_view> groups = {};  ///< the default one first; empty: one call at a time
  std::uint32_t mailbox_cap = 0;
  bool refuses_when_full = false;
  std::uint32_t max_restarts = 0;
  spec::parcel_view arguments = {};
  bool reserves = false;           ///< its name only
  bool may_exist = false;          ///< of a reservation
  bool detached = false;           ///< likewise
  std::span<const int> gpus = {};  ///< that it holds all its life
};

/// An actor's object is gone, or is to go.
struct actor_end_view {
  base::id actor = {};
  end_reason reason = end_reason::ended;
  std::string_view message = {};
};

/// What a worker asks its node.
enum class question : std::uint8_t {
  find_actor,
  kv_write,
  kv_read,
  kv_list,
  kv_watch,
  kv_next,
  kv_unwatch,
  this_job,
  jobs,
  functions,
  actors,
  events,
  thing,
  future_value,
  cancel_future,
  actor_end,
  delegation,
  references,
  array_bytes,
  take_arrays,
  bookings,
  task_records,
  array_copy,
  transfer_time
};

/// A small fact is asked for, or changed.
struct ask_view {
  question what = question::find_actor;
  spec::parcel_view with = {};
};

/// What a generator yielded.
struct item_view {
  spec::parcel_view value = {};
};

/// How far a generator's reader is.
struct flow_view {
  std::uint64_t taken = 0;  ///< items
  std::uint32_t credits = static_cast<std::uint32_t>(default_stream_credits);
};

/// An object that travels to a node.
struct put_view {
  base::id object = {};
  base::id owner = {};
  bool is_primary = false;
  spec::parcel_view value = {};
};

/// What happens to a count of references.
enum class change_kind : std::uint8_t { lend, add, release };

/// One change of a count.
struct reference_change {
  base::id object = {};
  base::id peer = {};  ///< lend: to whom; else whose count it is
  std::uint32_t count = 1;
  change_kind kind = change_kind::lend;
  friend constexpr bool operator==(const reference_change&, const reference_change&) = default;
};

/// Changes in their order, all or none.
struct changes_view {
  std::span<const reference_change> changes = {};
};

/// spec::node_introduction.
struct introduction_view {
  std::string_view name = {};
  std::string_view address = {};
  std::string_view host = {};
  std::uint32_t pid = 0;
  spec::node_role as = spec::node_role::node;
  std::uint64_t functions = 0;
  std::uint32_t workers = 0;
  std::uint32_t gpus = 0;
  std::uint64_t memory_bytes = 0;
  std::string_view resources = {};
  std::string_view labels = {};
  std::uint64_t machine = 0;
  std::string_view bulk = {};
};

/// A process tells its head that it lives.
struct heartbeat_view {
  base::id process = {};
  spec::node_wish wish = spec::node_wish::stay;
  spec::node_load load = {};
  std::uint64_t head_epoch = 0;
  std::uint64_t revision = 0;
  introduction_view who = {};
  std::uint64_t loads = 0;
};

/// spec::node_member.
struct member_view {
  base::id process = {};
  std::uint64_t epoch = 0;
  spec::node_state is = spec::node_state::alive;
  spec::node_load load = {};
  std::string_view cause = {};
  introduction_view who = {};
};

/// A head tells a process what it is, and who has changed.
struct bulletin_view {
  base::id process = {};
  spec::node_verdict verdict = spec::node_verdict::member;
  std::uint64_t member = 0;  ///< the receiver's epoch
  std::string_view reason = {};
  std::uint64_t since = 0;
  std::uint64_t revision = 0;
  std::span<const member_view> changed = {};
  std::uint64_t loads_revision = 0;
  bool ends_with_driver = false;
  std::span<const spec::node_share> loads = {};
};

/// One of the messages.
using body_view =
    std::variant<task_view, result_view, call_view, put_view, changes_view, spawn_view,
                 actor_end_view, ask_view, item_view, flow_view, heartbeat_view, bulletin_view>;

/// A message that was read.
struct message_view {
  envelope head;
  body_view body;
};

}  // namespace manta::inline v0::wire
