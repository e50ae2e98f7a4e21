// SPDX-License-Identifier: Apache-2.0
#include "bulk/station.hpp"

#include <exception>
#include <future>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>

#include "bulk/client.hpp"
#include "bulk/reactor.hpp"
#include "bulk/server.hpp"

namespace manta::inline v0::bulk {

struct station::body {
  explicit body(const station_settings& with) : takes(at, with), gives(at, with, takes) {
    takes.tell([this](const base::id& of) { gives.look_again(of); });
  }

  reactor at;
  client takes;
  server gives;
  std::thread thread;
};

station::station(std::unique_ptr<body> made) noexcept : body_(std::move(made)) {}

result<std::unique_ptr<station>> station::start(const station_settings& with) {
  try {
    auto made = std::make_unique<body>(with);
    // The user's signals are for the user's threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      made->thread = std::thread([at = made.get()] {
        pthread_setname_np(pthread_self(), "manta-bulk");
        at->at.run();
      });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return std::unique_ptr<station>(new station(std::move(made)));
  } catch (const std::bad_alloc&) {
    return error::out_of_memory();
  } catch (const std::system_error& why) {
    return error(errc::storage_failed,
                 fmt::format("bulk: asked a thread for the bytes of objects, the machine gives "
                             "none: {}; raise the limits of this user",
                             why.what()));
  }
}

station::~station() {
  body_->at.stop();
  body_->thread.join();
}

// The station may end before it is taken.
void station::listen(int file) {
  const auto end = [](const int* of) {
    if (*of >= 0) close(*of);
    delete of;
  };
  int* const own = new (std::nothrow) int(file);
  if (own == nullptr) {
    close(file);
    throw std::bad_alloc();
  }
  const std::shared_ptr<int> held(own, end);
  body_->at.post([at = body_.get(), held] {
    try {
      at->gives.listen(std::exchange(*held, -1));
    } catch (const std::exception&) {
      // It is closed: others find nobody there.
    }
  });
}

// A function has to be copied, and an order is kept alive by what it goes with.
void station::fetch(order one) {
  auto kept = std::make_shared<order>(std::move(one));
  body_->at.post([at = body_.get(), kept] {
    const std::function<void(const error*)> done = kept->done;
    const pull_id number = kept->number;
    try {
      at->takes.fetch(std::move(*kept));
    } catch (const std::exception&) {
      at->takes.drop(number);
      const error why = error::out_of_memory();
      done(&why);
    }
  });
}

void station::drop(pull_id number) {
  body_->at.post([at = body_.get(), number] { at->takes.drop(number); });
}

void station::lose(holder_id number) {
  body_->at.post([at = body_.get(), number] { at->takes.lose(number); });
}

std::uint32_t station::chunk_bytes() const noexcept { return body_->takes.chunk_bytes(); }

station_counts station::counts() const {
  std::promise<station_counts> said;
  std::future<station_counts> is = said.get_future();
  body_->at.post([at = body_.get(), &said] {
    station_counts out = at->takes.counts();
    out.served_now = at->gives.lines();
    out.told_of_others = at->gives.told_of_others();
    said.set_value(out);
  });
  return is.get();
}

std::uint64_t station::sent_bytes() const noexcept { return body_->gives.sent_bytes(); }

}  // namespace manta::inline v0::bulk
