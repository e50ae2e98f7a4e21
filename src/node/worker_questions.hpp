// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include <manta/codec/codec.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/parker.hpp>
#include <manta/node/kv_bytes.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/options.hpp>

#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "node/worker_facts.hpp"
#include "wire/error_record.hpp"

// What runs in an isolated worker asks its node here; the node's side: worker_facts.hpp for what
// the control store has, worker_pool_asks.cpp for the names of actors.
//
// Each question has a number, by which its answer finds who takes it. Numbers have a bit that those
// of calls have not: both are requests of this worker. Who waits for an answer looks into the ring
// meanwhile, as who waits for a future does, and lends the core as he does.
//
// Threads: any. An answer is taken by the thread that found it in the ring, without a lock.

namespace manta::inline v0::node {

class worker_questions {
 public:
  /// What is asked by it in this process: nothing, since it is another one's; keys and values; or
  /// the history and actors' names, too.
  enum class scope : std::uint8_t { none, keys, all };
  /// That of this process, for keys and values; null: it is no worker.
  static worker_questions* here() noexcept;
  /// The same for all that can be asked.
  static worker_questions* for_all() noexcept;

  /// `sends` sends the message that was written there; `is_making` is set before the first that
  /// makes an actor known.
  worker_questions(std::uint64_t worker, void (*sends)(void* to, workbench& on) noexcept, void* to,
                   std::atomic<std::uint32_t>& is_making, scope asked_here = scope::all,
                   std::uint64_t life = 0) noexcept;

  /// Which of those that one process had, one after the other, asked under that number, as it was
  /// given when that was made; 0: it had none.
  static std::uint64_t life_of(std::uint64_t number) noexcept {
    return (number & ~question_mark) >> life_shift;
  }

  /// Whether who asked under that number waits for an answer.
  static bool has_answer(std::uint64_t number) noexcept {
    constexpr std::uint64_t in_life = (std::uint64_t{1} << life_shift) - 1;
    return (number & in_life) != 0;
  }

  ~worker_questions() { leave(); }
  worker_questions(const worker_questions&) = delete;
  worker_questions& operator=(const worker_questions&) = delete;

  /// What takes an answer; it does not throw.
  using taker = std::function<void(const wire::result_view& answer)>;

  /// Asks, and answers later, or at once why that can't be asked.
  template <class Answer, class Question>
  void ask(wire::question what, const Question& with, kv_answer<Answer> then);
  /// The same for an answer that is read in another way. Throws encode_failed, std::bad_alloc.
  template <class Question>
  void ask_raw(wire::question what, const Question& with, taker&& then);
  /// Asks and waits for the answer. Throws what the node says.
  template <class Answer, class Question>
  Answer ask_now(wire::question what, const Question& with);

  /// The living actor of that name, with a handle; null: there is none. Throws invalid_argument:
  /// it is of another type.
  exec::actor_core* find_actor(const std::string& name, const std::string& name_space,
                               const exec::actor_ops* kind);
  /// Takes the name of a new actor, to which its options were applied: others find it from here on,
  /// and its calls wait at the node until it is made. Or answers the living one of that name, with
  /// a handle, where that will do. Throws name_taken, invalid_argument, infeasible.
  exec::actor_core* reserve(exec::actor_core* made, const spawn_asked& asked,
                            const exec::actor_ops* kind);

  /// Nobody answers any more: what was asked, and will be, ends with `why`.
  void end(const error& why) noexcept;
  /// The same of those up to that number; later ones go on.
  void end_asked(const error& why, std::uint64_t until) noexcept;
  /// It is not that of this process any more.
  void leave() noexcept;

  /// Gives an answer to who asked. False: it is a call's.
  bool answer(std::uint64_t number, const wire::result_view& came) noexcept;

  // Writes the message of a question under that request.
  using writer = std::function<void(workbench& on, const base::id& request)>;
  /// Sends a question; `number`, when it is there, has its number before it goes. Throws what
  /// `write` does, but not when it was answered meanwhile: `then` is called, or this throws.
  void begin(const writer& write, taker then, std::uint64_t* number = nullptr);
  /// The same for what has no answer.
  void tell(const writer& write);
  template <class Question>
  void tell_of(wire::question what, const Question& with) {
    tell([&](workbench& on, const base::id& request) {
      on.out.clear();
      write_question(on, request, what, codec::encode(on.out, with));
    });
  }
  /// Waits as who waits for an answer does.
  static void wait(exec::parker& until);

 private:
  // In the number of a question, and in no call's.
  static constexpr std::uint64_t question_mark = std::uint64_t{1} << 63U;
  static constexpr unsigned life_shift = 40;
  exec::actor_core* ask_actor(const writer& write, const exec::actor_ops* kind);

  static void write_question(workbench& on, const base::id& request, wire::question what,
                             const spec::parcel_view& with);
  template <class Answer>
  static result<Answer> read(const wire::result_view& came);

  const std::uint64_t worker_;
  void (*const send_)(void*, workbench&) noexcept;
  void* const to_;
  std::atomic<std::uint32_t>& is_making_;
  std::mutex mutex_;
  const std::uint64_t life_;
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, taker> asked_;
  std::optional<error> over_;
};

template <class Answer>
result<Answer> worker_questions::read(const wire::result_view& came) {
  if (const auto* const failure = std::get_if<wire::error_view>(&came.outcome)) {
    return wire::to_error(*failure);
  }
  const auto* const value = std::get_if<spec::parcel_view>(&came.outcome);
  if (value == nullptr) return error(errc::decode_failed, "an answer came that is no value");
  try {
    return codec::decode<Answer>(*value);
  } catch (...) {
    return describe_current_exception("an answer of the node");
  }
}

template <class Question>
void worker_questions::ask_raw(wire::question what, const Question& with, taker&& then) {
  begin(
      [&](workbench& on, const base::id& request) {
        on.out.clear();
        write_question(on, request, what, codec::encode(on.out, with));
      },
      std::move(then));
}

template <class Answer, class Question>
void worker_questions::ask(wire::question what, const Question& with, kv_answer<Answer> then) {
  try {
    ask_raw(what, with, [then](const wire::result_view& came) { then(read<Answer>(came)); });
  } catch (...) {
    then(describe_current_exception("a question to the node"));
  }
}

template <class Answer, class Question>
Answer worker_questions::ask_now(wire::question what, const Question& with) {
  // Shared: who signals may touch it after the wait is over.
  struct waiting {
    exec::parker nap;
    std::optional<result<Answer>> got;
  };
  const auto until = std::make_shared<waiting>();
  ask<Answer>(what, with, kv_answer<Answer>([until](result<Answer> came) {
                until->got.emplace(std::move(came));
                until->nap.signal();
              }));
  wait(until->nap);
  if (!*until->got) until->got->error().raise();
  return **std::move(until->got);
}

}  // namespace manta::inline v0::node
