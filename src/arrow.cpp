// SPDX-License-Identifier: Apache-2.0
#include <manta/arrow.hpp>

#include <array>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include <manta/spec/error.hpp>

namespace manta::inline v0::detail {

namespace {

// What an exported array has beside the struct.
struct array_room {
  node::array_block* block;
  std::array<const void*, 2> buffers;  // which elements are missing, and the elements
};

// Its texts are the program's.
void release_schema(ArrowSchema* of) { of->release = nullptr; }

void release_array(ArrowArray* of) {
  auto* const room = static_cast<array_room*>(of->private_data);
  room->block->drop();
  delete room;
  of->release = nullptr;
}

[[noreturn]] void refuse(std::string_view what) {
  raise(errc::invalid_argument, fmt::format("import_from_arrow: {}", what));
}

}  // namespace

void export_arrow(node::array_block* block, std::size_t count, const char* format,
                  ArrowSchema* schema, ArrowArray* values) {
  if (block == nullptr) {
    raise(errc::invalid_argument, "export_to_arrow: an empty handle has no values");
  }
  auto* const room = new array_room{block, {nullptr, block->bytes().data()}};
  block->hold();
  *values = ArrowArray{.length = static_cast<std::int64_t>(count),
                       .null_count = 0,
                       .offset = 0,
                       .n_buffers = 2,
                       .n_children = 0,
                       .buffers = room->buffers.data(),
                       .children = nullptr,
                       .dictionary = nullptr,
                       .release = release_array,
                       .private_data = room};
  *schema = ArrowSchema{.format = format,
                        .name = "",
                        .metadata = nullptr,
                        .flags = 0,
                        .n_children = 0,
                        .children = nullptr,
                        .dictionary = nullptr,
                        .release = release_schema,
                        .private_data = nullptr};
}

arrow_import::~arrow_import() {
  if (schema_ != nullptr && schema_->release != nullptr) schema_->release(schema_);
  if (values_ != nullptr && values_->release != nullptr) values_->release(values_);
}

std::size_t arrow_import::count(const char* format) const {
  if (schema_ == nullptr || values_ == nullptr || schema_->release == nullptr ||
      values_->release == nullptr) {
    refuse("asked for two structs that are filled, found one that is null or has been released");
  }
  if (std::string_view(schema_->format) != format || schema_->dictionary != nullptr ||
      values_->n_buffers != 2) {
    refuse(fmt::format("asked for plain elements of the format '{}', found '{}'{}", format,
                       schema_->format,
                       schema_->dictionary != nullptr ? " with a dictionary" : ""));
  }
  if (values_->null_count != 0 && values_->buffers[0] != nullptr) {
    refuse("it may have missing elements (nulls), of which an array has none");
  }
  if (values_->length < 0 || values_->offset < 0) {
    refuse(fmt::format("its length is {} and its offset {}; both are 0 or more", values_->length,
                       values_->offset));
  }
  return static_cast<std::size_t>(values_->length);
}

}  // namespace manta::inline v0::detail
