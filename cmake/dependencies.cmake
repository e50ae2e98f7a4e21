# SPDX-License-Identifier: Apache-2.0
# Every third-party package that is linked or included, and why it is here. What a test or a bench
# alone needs is found beside it, so that who only links manta never has to have it.

# Threads: the executor's worker threads. Public: the headers start and join threads, too.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# fmt: error messages and reports, in .cpp files alone; std::format exists neither in GCC 12 nor in
# Clang 14. Header-only and private: the functions it needs are compiled into libmanta, so neither a
# static nor a shared package asks its users for libfmt, and a program that uses another version of
# fmt is not disturbed (fmt's inline namespace carries its version). Linking libfmt was rejected:
# a static package would have to find the same fmt again at each user's place.
if(NOT TARGET fmt::fmt-header-only)
  find_package(fmt 9 REQUIRED)
endif()
