// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <manta/base/export.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/parcel.hpp>

// Which function a call from another process means, without a macro and without generated code.
//
// Problem: a function's address differs from process to process, and its name is not unique
// (overloads, lambdas, two libraries). An address that came by wire must never be called.
//
// Idea: each function that can be called remotely has one `entry`, a static object of a template.
// The static initialisers of the module (the executable or a shared library) put it into the
// process's list, its destructor takes it out when the module is unloaded. Between processes the
// entry is named by the module's build and its place in there: two processes of one build agree on
// that without talking. What comes in is looked up among the entries of the list, never computed
// into an address.
//
// Invariants
// 1. An entry is constant-initialised: it is complete before any initialiser has run, only its
//    place in the list is not. So id_of works at any time.
// 2. The list needs no initialiser and is never destroyed: entries come and go before main, while
//    libraries are loaded, and at exit, in any order.
// 3. An entry belongs to the module that has the call. The template's statics are hidden from the
//    dynamic linker whatever a module is compiled with: a template that two modules instantiate has
//    an entry in each, both are found, and ids don't depend on what was loaded first. (A shared
//    static of a template would be STB_GNU_UNIQUE, and its library could never be unloaded.)
// 4. `find` answers only with entries that are in the list, and reads no entry: one whose library
//    is unloaded meanwhile costs no invalid access there. As with the library's code, who may call
//    it must keep it loaded.
//
// All modules of a process must share one libmanta, or each has a list of its own: link the shared
// library, or export the static one's names from the executable (-rdynamic, ENABLE_EXPORTS in
// CMake) and link plugins without it.

namespace manta::inline v0::codec {

/// What an entry is called for.
enum class entry_kind : std::uint8_t {
  task,         ///< a function
  method,       ///< a member function of an actor's class
  constructor,  ///< the constructor of an actor's class
  filter,       ///< not called from outside: says which exceptions a task is run again for
};

class registrar;

/// What this process knows about a function that can be called remotely; its address is its
/// identity. Made by `registered` only. Immutable but for what it remembers; any thread.
class entry {
 public:
  /// `function`, `type`: what display_name takes. All pointers are to static storage.
  constexpr entry(entry_kind kind, const char* function, const char* type, const void* ops,
                  const registrar* /*keeper*/) noexcept
      : function_(function), type_(type), ops_(ops), kind_(kind) {}
  entry(const entry&) = delete;
  entry& operator=(const entry&) = delete;

  /// What it is called for.
  entry_kind kind() const noexcept { return kind_; }
  /// What the engine put there to call it with.
  const void* ops() const noexcept { return ops_; }
  /// "ns::square(int)", for people; see display_name.
  MANTA_API std::string name() const;

 private:
  friend struct entry_access;

  const char* function_;
  const char* type_;
  const void* ops_;
  entry* next_ = nullptr;
  // Its id once it was asked for. The module is stored last, with release: who sees it not 0 sees
  // the offset.
  mutable std::atomic<std::uint64_t> module_{0};
  mutable std::atomic<std::uint64_t> offset_{0};
  entry_kind kind_;
};

/// Puts an entry into the process's list. Any thread, lock-free, allocates nothing.
MANTA_API void enroll(entry& e) noexcept;
/// Takes it out; afterwards nothing here touches it. Any thread; may wait for a lookup that makes
/// the table anew, so not from within dl_iterate_phdr.
MANTA_API void withdraw(entry& e) noexcept;

/// Keeps an entry in the list as long as its module is loaded.
class registrar {
 public:
  /// `e` is constant-initialised and outlives this.
  explicit registrar(entry& e) noexcept : entry_(e) { enroll(e); }
  registrar(const registrar&) = delete;
  registrar& operator=(const registrar&) = delete;
  ~registrar() { withdraw(entry_); }

 private:
  entry& entry_;
};

/// The entry of the function that Described describes: whoever mentions `registered<D>::value` has
/// it registered. Described has, all of them static and constexpr, `kind`, `function()` and
/// `type()` as display_name takes them, and `ops()`, the pointer that entry::ops gives.
template <class Described>
struct [[gnu::visibility("hidden")]] registered {
  /// The entry.
  static entry value;

 private:
  static const registrar keeper;
};

// The mention of `keeper` in the entry's initialiser is what instantiates it: a static member of a
// template comes to be where it is used only, and everybody uses `value` alone.
template <class Described>
constinit entry registered<Described>::value{Described::kind, Described::function(),
                                             Described::type(), Described::ops(), &keeper};
template <class Described>
const registrar registered<Described>::keeper{registered<Described>::value};

/// The name of an entry in other processes of the same build. The module is known by the first 8
/// bytes of its build id; where the linker wrote none, by a 64-bit hash over its file. The first
/// call for an entry reads the module's headers (a hash: its file), later ones cost two loads.
/// Requires that `e` lies in a loaded module. Any thread.
MANTA_API spec::function_id id_of(const entry& e);

/// The entry that `id` means here; errc::unknown_function when this process has none exactly there.
/// One probe of a hash table, without a lock; the first call after a module came or went makes the
/// table anew. Any thread.
MANTA_API result<const entry*> find(const spec::function_id& id);

/// A hash over module, offset and name of all entries; the order in which they came does not
/// matter. Two processes with equal hashes mean the same by all ids. Cost as find. Any thread.
MANTA_API std::uint64_t table_hash();

/// A name for people: "ns::square(int)", "ns::trainer::update(int) const", "ns::trainer(int)".
/// `function` is what base::spelled_function says about it and `type` what base::spelled_type says
/// about its pointer's type; for a constructor `function` is "" and `type` is about T(A...).
/// Clang spells no template arguments of functions, and no lambda but by its place.
MANTA_API std::string display_name(const char* function, const char* type);

}  // namespace manta::inline v0::codec
