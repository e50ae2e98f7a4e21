// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <manta/handles.hpp>
#include <manta/stream_parts.hpp>

// stream<T>: what a generator gives: futures one by one. How items travel is told in
// exec/stream_core.hpp.

namespace manta::inline v0 {

template <class T>
class stream;

namespace detail {

template <class T>
struct stream_promise : promise_base, frame_outcome<void> {
  exec::stream_ref core;

  stream<T> get_return_object() noexcept {
    handle = std::coroutine_handle<stream_promise>::from_promise(*this);
    return stream<T>(this);
  }
  template <class U>
  requires std::is_constructible_v<T, U&&> yield_awaiter yield_value(U&& from) {
    using item = stream_item<T>;
    item* const made = make_job<item, item::front>(std::forward<U>(from));
    exec::name_child(made);
    if (exec::inherits_extra()) [[unlikely]]
      check_item(made);
    core->push(made);
    return yield_awaiter(*core.get());
  }
};

/// What async_next answers, to be awaited at once.
template <class T>
class next_item {
 public:
  explicit next_item(exec::stream_core& core) noexcept : core_(&core) {}
  friend auto manta_await(next_item&& n) { return awaiter<next_source<T>>(*n.core_); }

 private:
  exec::stream_core* core_;
};

template <class T>
struct is_coroutine<stream<T>> : std::true_type {};
template <class T>
struct flat<stream<T>> {
  using type = void;
};

[[noreturn]] MANTA_API void raise_not_a_stream();
[[noreturn]] MANTA_API void raise_next_timed_out(duration timeout);

}  // namespace detail

/// The return type of a generator, a function that uses co_yield, and what calling it remotely
/// gives: futures of its items, one by one.
///
///     manta::stream<int> squares(int n) {
///       for (int i = 0; i < n; ++i) co_yield i * i;
///     }
///     for (manta::future<int>& f : manta::remote<squares>(10)) use(f.get());
///
/// The generator is a task: it may co_await, takes its parameters by value, and runs ahead of its
/// consumer by at most `credits` items, then it is suspended without a thread. An exception that it
/// throws, or that keeps it from beginning, is in the future of the item it would have made, which
/// is the last one. Dropping the stream ends the generator: at once when it is suspended or has not
/// begun (its frame is destroyed on a worker), else at its next item. Futures that were handed out
/// stay valid.
///
/// A handle moves (also into another task, as an argument) and is for one thread at a time. Empty
/// after a move; then everything but assignment throws invalid_argument. Called directly instead of
/// remotely a generator does not run. Cost of an item: one block and two atomic operations.
template <class T>
class [[nodiscard]] stream {
  static_assert(!std::is_reference_v<T> && !std::is_void_v<T>,
                "manta::stream<T>: items are values; T must not be a reference or void");
  static_assert(!detail::is_future<T>::value,
                "manta::stream<future<T>>: co_yield co_await the future, as stream<T>");

 public:
  /// The type of the items.
  using value_type = T;
  /// For the compiler.
  using promise_type = detail::stream_promise<T>;

  /// An empty stream.
  stream() noexcept = default;
  /// Takes the handle over and leaves `other` empty.
  stream(stream&& other) noexcept
      : core_(std::move(other.core_)), frame_(std::exchange(other.frame_, nullptr)) {}
  /// Drops the stream that this was, then takes over that of `other`.
  stream& operator=(stream&& other) noexcept {
    stream old(std::move(*this));
    core_ = std::move(other.core_);
    frame_ = std::exchange(other.frame_, nullptr);
    return *this;
  }
  ~stream() {
    if (frame_ != nullptr) frame_->handle.destroy();
    if (core_) core_->abandon();
  }

  /// The future of the next item, as soon as it was made; nothing at the end. It is ready. Waits
  /// and meanwhile runs the generator on this thread where it can; a worker that sleeps lends its
  /// core. Throws cancelled when the waiting task is cancelled.
  std::optional<future<T>> next() {
    core().wait({});
    return take();
  }
  /// The same with a limit: throws timed_out, and the item can be asked for again. Runs nothing
  /// here.
  std::optional<future<T>> next(duration timeout) {
    if (!core().wait(base::after(timeout))) detail::raise_next_timed_out(timeout);
    return take();
  }
  /// The same for coroutines: `std::optional<manta::future<T>> f = co_await s.async_next();`
  detail::next_item<T> async_next() { return detail::next_item<T>(core()); }

  /// How many items the generator makes before they are taken: at least 1, 64 unless told. At any
  /// time; a lower number holds from the next item on. Throws invalid_argument for 0 and above
  /// 2^31.
  void credits(std::size_t items) {
    spec::check_stream_credits(items);
    core().set_credits(static_cast<std::uint32_t>(items));
  }

  /// Whether this is a handle to a generator that was called remotely.
  bool valid() const noexcept { return static_cast<bool>(core_); }

  /// Goes through the items once: an input iterator.
  class iterator {
   public:
    using iterator_concept = std::input_iterator_tag;  ///< walks once, forward
    using difference_type = std::ptrdiff_t;            ///< as iterators must have; without use here
    using value_type = future<T>;                      ///< what it walks over

    iterator() noexcept = default;
    /// Made by stream::begin; waits for the first item.
    explicit iterator(stream* from) : from_(from), item_(from->next()) {}
    /// The item; it may be moved from.
    future<T>& operator*() const noexcept { return *item_; }
    /// Waits for the next item.
    iterator& operator++() {
      item_ = from_->next();
      return *this;
    }
    /// The same.
    void operator++(int) { ++*this; }
    /// Whether the stream is at its end.
    friend bool operator==(const iterator& i, std::default_sentinel_t /*end*/) noexcept {
      return !i.item_;
    }

   private:
    stream* from_ = nullptr;
    mutable std::optional<future<T>> item_;
  };
  /// `for (future<T>& f : s)` takes the items until the end. Call it once.
  iterator begin() { return iterator(this); }
  /// The end of the range.
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  template <class U>
  friend bool cancel(const stream<U>& s);
  friend promise_type;
  template <class R>
  friend struct detail::frame_starter;
  template <class R>
  friend struct detail::stream_starter;

  explicit stream(exec::coroutine_frame* frame) noexcept : frame_(frame) {}
  explicit stream(exec::stream_ref core) noexcept : core_(std::move(core)) {}

  exec::stream_core& core() const {
    if (!core_) [[unlikely]]
      detail::raise_not_a_stream();
    return *core_.get();
  }
  std::optional<future<T>> take() {
    exec::job* const item = core_->take();
    if (item == nullptr) return std::nullopt;
    return detail::access::make<T>(item);
  }

  exec::stream_ref core_;
  exec::coroutine_frame* frame_ = nullptr;  // of a generator that was called directly
};

/// Ends the generator as dropping the stream does, asks what it called to stop, too (dropping
/// leaves that alone), and keeps the stream: items made before can be taken, then comes a future
/// that failed with cancelled, then the end. False when the generator had ended. Throws
/// invalid_argument for an empty stream. Any thread.
template <class T>
bool cancel(const stream<T>& s) {
  return s.core().cancel();
}

namespace detail {

template <class T>
struct frame_starter<stream<T>> {
  static std::uint64_t settle(exec::job* j, exec::coroutine_frame* root) noexcept {
    std::uint64_t bits = exec::job_bits::ready;
    try {
      static_cast<stream_promise<T>*>(root)->take();
    } catch (...) {
      new (j->slot(1))
          error(describe_current_exception(shown_name(j, j->ops->function), attempt_of(j)));
      bits |= exec::job_bits::failed;
    }
    root->handle.destroy();
    return bits;
  }
  static exec::coroutine_frame* frame(stream<T> made) {
    if (made.frame_ == nullptr) raise_not_a_stream();
    return std::exchange(made.frame_, nullptr);
  }
};

template <class T>
struct stream_starter<stream<T>> {
  static constexpr bool is_stream = true;

  /// What a call has for its generator.
  struct seat {
    exec::stream_ref core;
  };
  static seat make_seat() { return {exec::stream_ref::make()}; }
  static exec::stream_core* core_of(const seat& in) noexcept { return in.core.get(); }
  /// An item that came from another process, or could not be read.
  static exec::job* read_item(codec::in_archive& in) {
    using item = stream_item<T>;
    if constexpr (node::can_travel<T>) {
      return make_job<item, item::front>(codec::read<T>(in));
    } else {
      in.refuse("its type can't travel", codec::name_of<T>());
    }
  }
  static exec::job* fail_item(error why) {
    using item = stream_item<T>;
    return make_job<item, item::front>(failed_item{}, std::move(why));
  }
  /// Connects a generator's frame with its stream.
  static stream<T> seated(const seat& in, stream<T> made) {
    if (made.frame_ == nullptr) raise_not_a_stream();
    static_cast<stream_promise<T>*>(made.frame_)->core = in.core;
    return made;
  }
  /// Calls F.
  template <auto F>
  struct callee : seat {
    using described = described_function<F, codec::entry_kind::task>;
    template <class... A>
    stream<T> operator()(A&&... args) const {
      return seated(*this, F(std::forward<A>(args)...));
    }
    static constexpr const char* name() noexcept { return base::spelled_function<F>(); }
  };

  template <auto F, class Pack, class... Args>
  static stream<T> start(const exec::extra_source* with, Args&&... args) {
    // Not run again after a failure: its items are out.
    using job = task<callee<F>, stream<T>, Pack, false>;
    exec::executor::require();
    exec::stream_ref core = exec::stream_ref::make();
    if (with != nullptr) set_credits(*core.get(), with->task);
    const future<void> generator =
        with != nullptr
            ? start_task_with<stream<T>, job>(*with, callee<F>{{core}}, std::forward<Args>(args)...)
            : start_task<stream<T>, job>(callee<F>{{core}}, std::forward<Args>(args)...);
    return watched(std::move(core), generator);
  }
  /// As the call's options say; `with` may be null.
  template <class Options>
  static void set_credits(exec::stream_core& core, const Options* with) noexcept {
    if (with != nullptr) core.set_credits(static_cast<std::uint32_t>(with->stream_credits));
  }
  /// The handle, when the generator's job was submitted.
  static stream<T> watched(exec::stream_ref core, const future<void>& generator) {
    core->watch(access::job(generator));
    return stream<T>(std::move(core));
  }
};

}  // namespace detail
}  // namespace manta::inline v0

namespace manta::inline v0::codec {

/// Moves, as streams do: who reads it has the stream.
template <class T>
struct custom<stream<T>> {
  static void write(out_archive& out, const stream<T>& s) {
    // To another node it can't go, which is found out when it is written: it stays whole.
    if (out.node() != 0 && s.valid()) {
      return detail::write_handle<stream<T>>(out, spec::reference_kind::stream, {1, 1},
                                             const_cast<stream<T>*>(&s),
                                             [](const spec::reference& /*lent*/) noexcept {});
    }
    // What is written was given away: the job's own copy of an argument.
    auto* const moved = s.valid() ? new stream<T>(std::move(const_cast<stream<T>&>(s))) : nullptr;
    detail::write_handle<stream<T>>(out, spec::reference_kind::stream, {1, 1}, moved,
                                    [](const spec::reference& lent) noexcept {
                                      delete reinterpret_cast<stream<T>*>(lent.local);
                                    });
  }
  static stream<T> read(in_archive& in) {
    auto* const moved = detail::read_handle<stream<T>, stream<T>>(in, spec::reference_kind::stream);
    return moved != nullptr ? std::move(*moved) : stream<T>();
  }
};

}  // namespace manta::inline v0::codec
