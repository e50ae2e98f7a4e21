// SPDX-License-Identifier: Apache-2.0
#include <manta/codec/identity.hpp>

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <manta/base/type_name.hpp>
#include <manta/codec/function_table.hpp>

#include "codec/modules.hpp"
#include "codec/plugin.hpp"
#include "exec/support.hpp"
#include "folder.hpp"

#include <catch2/catch.hpp>

namespace ns {

int square(int value) { return value * value; }
struct trainer {
  int update(int value) const noexcept { return value; }
};

}  // namespace ns

namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
namespace codec = manta::codec;
using manta::errc;
using manta::spec::function_id;
using manta_test::entry_of;

int hidden(int value) { return value; }

// A library, loaded as long as this lives.
class loaded_library {
 public:
  explicit loaded_library(const std::string& path)
      : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) FAIL(dlerror());
  }
  loaded_library(const loaded_library&) = delete;
  loaded_library& operator=(const loaded_library&) = delete;
  ~loaded_library() { dlclose(handle_); }
  const codec::entry& entry(const char* function) const {
    return *reinterpret_cast<const codec::entry* (*)()>(dlsym(handle_, function))();
  }

 private:
  void* handle_;
};

const std::string with_build_id = MANTA_TEST_PLUGIN;
const std::string without_build_id = MANTA_TEST_PLUGIN_WITHOUT_BUILD_ID;
// What the linker was told to write into the first one.
constexpr std::uint64_t told_build = 0x0123456789abcdef;

bool is_loaded(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

std::string copy_into(const manta_test::folder& where, const std::string& file, const char* name) {
  std::filesystem::copy_file(file, where.path() / name);
  return (where.path() / name).string();
}

errc code_of(const function_id& id) {
  const auto found = codec::find(id);
  return found.has_value() ? errc::task_error : found.error().code();
}

bool leads_to(const function_id& id, const codec::entry& e) {
  const auto found = codec::find(id);
  return found.has_value() && *found == &e;
}

constexpr const char* child_variable = "MANTA_TEST_IDENTITY_CHILD";

// Before the static initialisers of the program and after its destructors; says so in a child of
// this program.
struct bracket {
  bracket() {
    if (std::getenv(child_variable) == nullptr) return;
    const function_id id = codec::id_of(entry_of<&ns::square>());
    std::printf("early: %llx %llx %s\n", static_cast<unsigned long long>(id.module),
                static_cast<unsigned long long>(id.offset), manta::to_string(code_of(id)));
  }
  ~bracket() {
    if (std::getenv(child_variable) == nullptr) return;
    const function_id id = codec::id_of(entry_of<&ns::square>());
    std::printf("late: %s\n", manta::to_string(code_of(id)));
    std::fflush(stdout);
  }
};
[[gnu::init_priority(200)]] const bracket around_everything;

// What a new process that runs this program says between its start and its end.
std::string said_by_child() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = std::string(child_variable) + "=1 '" + self + "' --list-reporters";
  const std::unique_ptr<FILE, int (*)(FILE*)> out(popen(command.c_str(), "re"), &pclose);
  std::string text;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), out.get()) != nullptr) {
    const std::string one = line.data();
    if (one.starts_with("early: ") || one.starts_with("late: ")) text += one;
  }
  return text;
}

struct made {
  static constexpr codec::entry_kind kind = codec::entry_kind::constructor;
  static constexpr const char* function() { return ""; }
  static constexpr const char* type() { return "T = ns::trainer()]"; }
  static constexpr const void* ops() { return &around_everything; }
};

struct blank {
  codec::entry value{codec::entry_kind::method, "by hand", "", nullptr, nullptr};
};

constinit std::array<blank, 64> by_hand;

// As hexadecimal digits.
std::string hex(std::uint64_t number) { return codec::build_text(number); }

codec::function_table table_of(std::uint64_t build, std::vector<codec::named_function> functions) {
  return {build, "/bin/app", std::move(functions)};
}

}  // namespace

TEST_CASE("a function is named with its parameters in both compilers' spelling", "[identity]") {
  const auto name = [](std::string function, std::string type) {
    const bool is_gcc = function.starts_with("gcc ");
    function.erase(0, function.find(' ') + 1);
    const std::string f =
        "s() [" + std::string(is_gcc ? "with auto F = " : "F = ") + function + "]";
    const std::string t = "s() [" + std::string(is_gcc ? "with T = " : "T = ") + type + "]";
    return codec::display_name(f.c_str(), t.c_str());
  };
  CHECK(name("gcc ns::square", "int (*)(int)") == "ns::square(int)");
  CHECK(name("clang &ns::square", "int (*)(int)") == "ns::square(int)");
  CHECK(name("gcc &ns::tr::up",
             "double (ns::tr::*)(std::vector<double>, const "
             "std::__cxx11::basic_string<char>&) const") ==
        "ns::tr::up(std::vector<double>, const std::string&) const");
  CHECK(name("clang &ns::tr::up",
             "double (ns::tr::*)(std::vector<double>, const "
             "std::basic_string<char> &) const") ==
        "ns::tr::up(std::vector<double>, const std::string&) const");
  CHECK(name("gcc &ns::tr::over", "int (ns::tr::*)(int) noexcept") == "ns::tr::over(int)");
  CHECK(name("clang &ns::tr::take", "int (ns::tr::*)(int) &&") == "ns::tr::take(int)&&");
  CHECK(name("gcc {anonymous}::f", "int (*)()") == "(anonymous)::f()");
  CHECK(name("clang &(anonymous namespace)::f", "int (*)()") == "(anonymous)::f()");
  CHECK(name("gcc ns::twice<std::vector<std::vector<int> > >", "void (*)(char *)") ==
        "ns::twice<std::vector<std::vector<int>>>(char*)");
  // The parameters of the function, not of what it takes or returns.
  CHECK(name("gcc g", "int (* (*)(int))(double)") == "g(int)");
  CHECK(name("clang &g", "std::function<int (*)(char)> (*)(int (*)(double), long)") ==
        "g(int(*)(double), long)");
  CHECK(name("gcc <lambda closure object>main()::<lambda(int)>()", "const main()::<lambda(int)>") ==
        "main()::<lambda(int)>");
  CHECK(name("gcc <lambda closure object><lambda(int)>()", "const<lambda(int)>") ==
        "<lambda(int)>");
  CHECK(name("clang {}", "const (lambda at main.cpp:9:22)") == "(lambda at main.cpp:9:22)");
}

TEST_CASE("a constructor is named by its type, and nonsense stays what it is", "[identity]") {
  CHECK(codec::display_name("", "s() [with T = ns::trainer(int, long)]") ==
        "ns::trainer(int, long)");
  CHECK(codec::display_name("", "s() [T = ns::trainer (int, long)]") == "ns::trainer(int, long)");
  CHECK(codec::display_name("plain", "") == "plain");
  CHECK(codec::display_name("", "").empty());
  CHECK(codec::display_name("f", "int (*)(((") == "f(((");
  CHECK(codec::display_name("f", "x*)(") == "f(");
}

TEST_CASE("the compiler at hand spells names that come out readable", "[identity]") {
  using manta::base::spelled_type;
  CHECK(entry_of<&ns::square>().name() == "ns::square(int)");
  CHECK(entry_of<&ns::trainer::update>().name() == "ns::trainer::update(int) const");
  CHECK(entry_of<&hidden>().name() == "(anonymous)::hidden(int)");
  CHECK(codec::display_name("", spelled_type<ns::trainer(const std::string&)>()) ==
        "ns::trainer(const std::string&)");
  const std::string lambda = entry_of<[](int v) { return v; }>().name();
  CHECK_THAT(lambda, Contains("lambda") && !Contains("closure"));
}

TEST_CASE("an entry keeps what it was described with", "[identity]") {
  const codec::entry& e = codec::registered<made>::value;
  CHECK(e.kind() == codec::entry_kind::constructor);
  CHECK(e.ops() == &around_everything);
  CHECK(leads_to(codec::id_of(e), e));
}

TEST_CASE("an id is the module's build and the entry's place in it", "[identity]") {
  const codec::entry& e = entry_of<&ns::square>();
  Dl_info info{};
  REQUIRE(dladdr(&e, &info) != 0);
  const function_id id = codec::id_of(e);
  CHECK(id.offset ==
        reinterpret_cast<std::uint64_t>(&e) - reinterpret_cast<std::uint64_t>(info.dli_fbase));
  CHECK(id.module != 0);
  CHECK(codec::id_of(e) == id);
  CHECK(leads_to(id, e));
  CHECK_FALSE(codec::id_of(entry_of<&hidden>()) == id);

  const loaded_library plugin(with_build_id);
  const codec::entry& other = plugin.entry("plugin_alone");
  REQUIRE(dladdr(&other, &info) != 0);
  CHECK(codec::id_of(other).module == told_build);
  CHECK(codec::id_of(other).offset ==
        reinterpret_cast<std::uint64_t>(&other) - reinterpret_cast<std::uint64_t>(info.dli_fbase));
}

TEST_CASE("an id is the same in each run, before main as well, and refused after all is over",
          "[identity]") {
  const function_id id = codec::id_of(entry_of<&ns::square>());
  std::array<char, 128> expected{};
  std::snprintf(expected.data(), expected.size(),
                "early: %llx %llx unknown_function\nlate: unknown_function\n",
                static_cast<unsigned long long>(id.module),
                static_cast<unsigned long long>(id.offset));
  CHECK(said_by_child() == expected.data());
  CHECK(said_by_child() == expected.data());
}

TEST_CASE("an id of another build is refused with both builds named", "[identity]") {
  const codec::entry& e = entry_of<&ns::square>();
  function_id id = codec::id_of(e);
  const std::uint64_t own = id.module;
  id.module = 0xfeedfacecafebeef;
  const auto found = codec::find(id);
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code() == errc::unknown_function);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  CHECK_THAT(found.error().message(),
             Contains("of build feedfacecafebeef") && Contains(hex(own) + " (" + self + ")") &&
                 Contains("run the same build") && !Contains("no function at that offset"));
  const loaded_library plugin(with_build_id);
  CHECK_THAT(codec::find(id).error().message(),
             Contains(hex(own) + " (" + self + ")") &&
                 Contains("0123456789abcdef (" + with_build_id + ")"));
}

TEST_CASE("an offset where no entry begins is refused, however near", "[identity]") {
  const function_id id = codec::id_of(entry_of<&ns::square>());
  for (const std::int64_t off : {-64, -8, -1, 1, 8, 16}) {
    const function_id near{id.module, id.offset + static_cast<std::uint64_t>(off)};
    const auto found = codec::find(near);
    // Another entry may stand exactly there; then it is that one.
    if (found.has_value()) {
      CHECK(codec::id_of(**found) == near);
      continue;
    }
    CHECK(found.error().code() == errc::unknown_function);
    CHECK_THAT(found.error().message(),
               Contains("no function at that offset") && Contains(hex(id.module)));
  }
  CHECK(code_of({id.module, id.offset + 1}) == errc::unknown_function);
  CHECK(code_of({id.module, id.offset - 1}) == errc::unknown_function);
  CHECK(code_of({id.module, 0}) == errc::unknown_function);
  CHECK(code_of({id.module, ~std::uint64_t{0}}) == errc::unknown_function);
  CHECK(code_of({}) == errc::unknown_function);
}

TEST_CASE("entries come with their library and go with it", "[identity]") {
  function_id id;
  {
    const loaded_library plugin(with_build_id);
    const codec::entry& e = plugin.entry("plugin_alone");
    id = codec::id_of(e);
    CHECK(leads_to(id, e));
    CHECK(e.name() == "plugin::alone(int)");
  }
  REQUIRE_FALSE(is_loaded(with_build_id));
  CHECK(code_of(id) == errc::unknown_function);
  const loaded_library again(with_build_id);
  CHECK(leads_to(id, again.entry("plugin_alone")));
}

TEST_CASE("a template that program and library instantiate has an entry in each", "[identity]") {
  const codec::entry& ours = entry_of<&manta_test::twice<int>>();
  const loaded_library plugin(with_build_id);
  const codec::entry& theirs = plugin.entry("plugin_twice");
  CHECK(&ours != &theirs);
  CHECK_FALSE(codec::id_of(ours) == codec::id_of(theirs));
  CHECK(leads_to(codec::id_of(ours), ours));
  CHECK(leads_to(codec::id_of(theirs), theirs));
  CHECK(ours.name() == theirs.name());
}

TEST_CASE("a library without a build id is known by its file's content", "[identity]") {
  const manta_test::folder place;
  function_id id;
  {
    const loaded_library plugin(without_build_id);
    const codec::entry& e = plugin.entry("plugin_alone");
    id = codec::id_of(e);
    CHECK(id.module != told_build);
    CHECK(id.module != 0);
    CHECK(leads_to(id, e));
  }
  {
    // Elsewhere and under another name, but the same bytes.
    const loaded_library copy(copy_into(place, without_build_id, "copy.so"));
    CHECK(codec::id_of(copy.entry("plugin_alone")) == id);
  }
  // One byte more makes another build.
  const std::string longer = copy_into(place, without_build_id, "longer.so");
  std::filesystem::resize_file(longer, std::filesystem::file_size(longer) + 1);
  const loaded_library other(longer);
  CHECK(codec::id_of(other.entry("plugin_alone")).offset == id.offset);
  CHECK(codec::id_of(other.entry("plugin_alone")).module != id.module);
}

TEST_CASE("a library whose file is gone is known by its memory", "[identity]") {
  const manta_test::folder place;
  const std::string path = copy_into(place, without_build_id, "gone.so");
  std::uint64_t first = 0;
  {
    const loaded_library plugin(path);
    std::filesystem::remove(path);
    const codec::entry& e = plugin.entry("plugin_alone");
    first = codec::id_of(e).module;
    CHECK(first != 0);
    CHECK(leads_to(codec::id_of(e), e));
  }
  // Wherever it lies.
  copy_into(place, without_build_id, "gone.so");
  const loaded_library elsewhere(with_build_id);
  const loaded_library plugin(path);
  std::filesystem::remove(path);
  CHECK(codec::id_of(plugin.entry("plugin_alone")).module == first);
}

TEST_CASE("a file loaded twice is one build, and either copy serves", "[identity]") {
  const manta_test::folder place;
  auto one = std::make_unique<loaded_library>(with_build_id);
  const std::uint64_t hash = codec::table_hash();
  const std::size_t count = codec::describe_table().functions.size();
  const loaded_library two(copy_into(place, with_build_id, "copy.so"));
  const codec::entry& first = one->entry("plugin_alone");
  const codec::entry& second = two.entry("plugin_alone");
  const function_id id = codec::id_of(second);
  REQUIRE(&first != &second);
  CHECK(codec::id_of(first) == id);
  CHECK((leads_to(id, first) || leads_to(id, second)));
  CHECK(codec::table_hash() == hash);
  CHECK(codec::describe_table().functions.size() == count);
  one.reset();
  CHECK(leads_to(id, second));
}

TEST_CASE("the table's hash tells sets of functions apart, not the order they came in",
          "[identity]") {
  const std::uint64_t alone = codec::table_hash();
  CHECK(codec::table_hash() == alone);
  std::uint64_t one = 0;
  std::uint64_t both = 0;
  {
    const loaded_library a(with_build_id);
    one = codec::table_hash();
    CHECK(one != alone);
    const loaded_library b(without_build_id);
    both = codec::table_hash();
    CHECK(both != one);
  }
  CHECK(codec::table_hash() == alone);
  const loaded_library b(without_build_id);
  CHECK(codec::table_hash() != one);  // as many functions, but others
  const loaded_library a(with_build_id);
  CHECK(codec::table_hash() == both);
}

TEST_CASE("the table as a value lists each function once, with its id and its name", "[identity]") {
  const loaded_library plugin(with_build_id);
  const codec::function_table table = codec::describe_table();
  CHECK(table.build == codec::id_of(entry_of<&ns::square>()).module);
  CHECK(table.file == std::filesystem::read_symlink("/proc/self/exe").string());
  int found = 0;
  for (std::size_t i = 0; i < table.functions.size(); ++i) {
    const codec::named_function& f = table.functions[i];
    if (i > 0) {
      const function_id& before = table.functions[i - 1].id;
      CHECK(std::pair(before.module, before.offset) < std::pair(f.id.module, f.id.offset));
    }
    if (f.id == codec::id_of(entry_of<&ns::square>())) found += f.name == "ns::square(int)" ? 1 : 0;
    if (f.id == codec::id_of(plugin.entry("plugin_alone"))) {
      found += f.name == "plugin::alone(int)" ? 1 : 0;
    }
  }
  CHECK(found == 2);
}

TEST_CASE("tables that differ are told apart in one sentence, equal ones in none", "[identity]") {
  const codec::function_table two = table_of(0xa, {{{0xa, 8}, "f()"}, {{0xa, 16}, "g()"}});
  const codec::function_table turned = table_of(0xa, {{{0xa, 16}, "g()"}, {{0xa, 8}, "f()"}});
  const codec::function_table one = table_of(0xa, {{{0xa, 8}, "f()"}});
  const codec::function_table rebuilt = table_of(0xb, {{{0xb, 8}, "f()"}, {{0xb, 16}, "g()"}});
  const codec::function_table none = table_of(0xb, {});
  CHECK(codec::describe_difference(two, two).empty());
  CHECK(codec::describe_difference(two, turned).empty());
  CHECK(codec::describe_difference(two, one) ==
        "the functions differ: here is build 000000000000000a (/bin/app, 2 functions), there build "
        "000000000000000a (/bin/app, 1 functions); the first function missing there is: \"g()\" of "
        "build 000000000000000a; load the same libraries in both processes before they meet");
  CHECK_THAT(codec::describe_difference(one, two), Contains("missing here is: \"g()\""));
  CHECK_THAT(codec::describe_difference(two, rebuilt),
             Contains("here is build 000000000000000a") &&
                 Contains("there build 000000000000000b") &&
                 Contains("another one there is: \"f()\" of build 000000000000000a") &&
                 EndsWith("start the same build of the program in both places"));
  CHECK_THAT(codec::describe_difference(none, two), Contains("missing here is: \"f()\""));
  CHECK_THAT(codec::describe_difference(two, none), Contains("missing there is: \"f()\""));
  const codec::function_table repeated = table_of(0xa, {{{0xa, 8}, "f()"}, {{0xa, 8}, "f()"}});
  CHECK_FALSE(codec::describe_difference(one, repeated).empty());
  const codec::function_table huge = table_of(0xa, {{{0xa, 8}, std::string(100000, 'x')}});
  CHECK(codec::describe_difference(none, huge).size() < 1000);
}

TEST_CASE("entries leave the list in any order and only once found", "[identity]") {
  const std::uint64_t before = codec::table_hash();
  std::vector<codec::entry*> present;
  manta_test::dice dice(manta_test::run_seed());
  CAPTURE(manta_test::run_seed());
  std::vector<codec::entry*> absent;
  for (blank& b : by_hand) absent.push_back(&b.value);
  for (int round = 0; round < 500; ++round) {
    auto& from = dice.one_in(2) ? absent : present;
    if (from.empty()) continue;
    const bool comes = &from == &absent;
    const std::size_t which = dice.below(from.size());
    codec::entry* const e = from[which];
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(which));
    (comes ? present : absent).push_back(e);
    comes ? codec::enroll(*e) : codec::withdraw(*e);
    bool is_right = true;
    for (const codec::entry* p : present) is_right = is_right && leads_to(codec::id_of(*p), *p);
    for (const codec::entry* a : absent) {
      is_right = is_right && code_of(codec::id_of(*a)) == errc::unknown_function;
    }
    REQUIRE(is_right);
  }
  for (codec::entry* e : present) codec::withdraw(*e);
  CHECK(codec::table_hash() == before);
}

// What could break: a lookup reads a table that was freed, or memory of a library that is unloaded;
// a coming or going is lost because another one happened at the time. Sanitizers see the first.
TEST_CASE("lookups go on while entries and libraries come and go", "[identity]") {
  const codec::entry& stays = entry_of<&ns::square>();
  const function_id id = codec::id_of(stays);
  const std::uint64_t before = codec::table_hash();
  const function_id gone = [] {
    const loaded_library plugin(with_build_id);
    return codec::id_of(plugin.entry("plugin_alone"));
  }();
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::atomic<int> looked{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!is_over.load()) {
        if (!leads_to(id, stays)) ++wrong;
        const auto found = codec::find(gone);  // there at times; not to be looked into
        if (!found.has_value() && found.error().code() != errc::unknown_function) ++wrong;
        ++looked;
      }
    });
  }
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 2000; ++round) {
        codec::entry& e = by_hand[2 * static_cast<std::size_t>(round % 30) + t].value;
        codec::enroll(e);
        if (!leads_to(codec::id_of(e), e)) ++wrong;
        codec::withdraw(e);
        if (code_of(codec::id_of(e)) != errc::unknown_function) ++wrong;
      }
    });
  }
  for (int round = 0; round < manta_test::scaled(200); ++round) {
    const loaded_library plugin(with_build_id);
    const codec::entry& e = plugin.entry("plugin_alone");
    if (!leads_to(codec::id_of(e), e)) ++wrong;
  }
  threads[2].join();
  threads[3].join();
  CHECK(manta_test::happens([&] { return looked.load() > 100; }));
  is_over = true;
  threads[0].join();
  threads[1].join();
  CHECK(wrong.load() == 0);
  CHECK(codec::table_hash() == before);
}

// What could break: two neighbours leave at once and one of them stays on the list.
TEST_CASE("neighbours on the list leave it at the same time", "[identity]") {
  const std::uint64_t before = codec::table_hash();
  std::atomic<int> started{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([t, &started] {
      ++started;
      manta_test::happens([&] { return started.load() == 4; });
      for (int round = 0; round < 5000; ++round) {
        for (std::size_t i = 0; i < 16; ++i) codec::enroll(by_hand[4 * i + t].value);
        for (std::size_t i = 0; i < 16; ++i) codec::withdraw(by_hand[4 * (i * 5 % 16) + t].value);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(codec::table_hash() == before);
}

TEST_CASE("a build id is found among other notes, and in none that are cut off", "[identity]") {
  const auto note = [](std::uint32_t type, std::string name, std::size_t align, std::string text) {
    name.push_back('\0');
    const auto word = [](std::size_t n) {
      const auto number = static_cast<std::uint32_t>(n);
      return std::string(reinterpret_cast<const char*>(&number), 4);
    };
    std::string out = word(name.size()) + word(text.size()) + word(type) + name;
    out.resize((out.size() + align - 1) / align * align);
    out += text;
    out.resize((out.size() + align - 1) / align * align);
    return out;
  };
  const auto found = [](const std::string& notes, std::size_t align) {
    const auto id = codec::find_build_id(std::as_bytes(std::span(notes)), align);
    return std::string(reinterpret_cast<const char*>(id.data()), id.size());
  };
  for (const std::size_t align : {4U, 8U}) {
    const std::string other = note(1, "GNU", align, "abi") + note(3, "Sun", align, "another's id");
    const std::string own = note(3, "GNU", align, "0123456789");
    CHECK(found(own, align) == "0123456789");
    CHECK(found(other + own, align) == "0123456789");
    CHECK(found(other, align).empty());
    for (std::size_t cut = 0; cut < (other + own).size() - 6; ++cut) {
      const std::string part = (other + own).substr(0, cut);
      // On the heap, so that a sanitizer sees the byte after it.
      CHECK(found(std::string(part.data(), part.size()), align).empty());
    }
  }
  CHECK(found(std::string(12, '\xff'), 4).empty());
  CHECK(found(note(3, "GNU", 4, ""), 4).empty());
  const std::string bytes = "\x01\x02\x03";
  CHECK(codec::first_eight(std::as_bytes(std::span(bytes))) == 0x0102030000000000);
  const std::string longer = "\x11\x22\x33\x44\x55\x66\x77\x08\x09";
  CHECK(codec::first_eight(std::as_bytes(std::span(longer))) == 0x1122334455667708);
}
