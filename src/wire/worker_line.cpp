// SPDX-License-Identifier: Apache-2.0
#include "wire/worker_line.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace manta::inline v0::wire {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr int line_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
static_assert(sizeof(worker_page) <= page_bytes);

error failed(const char* step, int why) {
  return {errc::store_full,
          fmt::format("wire: asked {} bytes to share with an isolated worker, {} failed: {}",
                      page_bytes, step, std::strerror(why))};
}

}  // namespace

worker_line::worker_line(ring_memory to_worker, ring_memory to_node, int file,
                         worker_page* page) noexcept
    : to_worker_(std::move(to_worker)), to_node_(std::move(to_node)), file_(file), page_(page) {}

worker_line::worker_line(worker_line&& other) noexcept
    : to_worker_(std::move(other.to_worker_)),
      to_node_(std::move(other.to_node_)),
      file_(std::exchange(other.file_, -1)),
      page_(std::exchange(other.page_, nullptr)) {}

worker_line::~worker_line() {
  if (page_ != nullptr) munmap(page_, page_bytes);
  if (file_ >= 0) close(file_);
}

result<worker_line> worker_line::with_page(ring_memory to_worker, ring_memory to_node, int file) {
  void* const at = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    const int why = errno;
    close(file);
    return failed("mmap", why);
  }
  return worker_line(std::move(to_worker), std::move(to_node), file, static_cast<worker_page*>(at));
}

result<worker_line> worker_line::make() {
  result<ring_memory> to_worker = ring_memory::make(ring_bytes);
  if (!to_worker) return to_worker.error();
  result<ring_memory> to_node = ring_memory::make(ring_bytes);
  if (!to_node) return to_node.error();
  const int file = memfd_create("manta-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return failed("memfd_create", errno);
  if (fallocate(file, 0, 0, page_bytes) != 0 || fcntl(file, F_ADD_SEALS, line_seals) != 0) {
    const int why = errno;
    close(file);
    return failed("fallocate", why);
  }
  result<worker_line> made = with_page(*std::move(to_worker), *std::move(to_node), file);
  if (made) new (made->page_) worker_page;
  return made;
}

result<worker_line> worker_line::map(const std::array<int, file_count>& files) {
  result<ring_memory> to_worker = ring_memory::map(files[0], ring_bytes);
  result<ring_memory> to_node = ring_memory::map(files[1], ring_bytes);
  struct stat is {};
  const bool is_page = fcntl(files[2], F_GET_SEALS) == line_seals && fstat(files[2], &is) == 0 &&
                       is.st_size == static_cast<off_t>(page_bytes);
  if (!to_worker || !to_node || !is_page) {
    close(files[2]);
    if (!to_worker) return to_worker.error();
    if (!to_node) return to_node.error();
    return error(
        errc::decode_failed,
        "wire: got a file that is no page of a worker; whoever sent it is no manta process");
  }
  return with_page(*std::move(to_worker), *std::move(to_node), files[2]);
}

std::array<int, worker_line::file_count> worker_line::files() const noexcept {
  return {to_worker_.file(), to_node_.file(), file_};
}

}  // namespace manta::inline v0::wire
