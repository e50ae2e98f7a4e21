// SPDX-License-Identifier: Apache-2.0
#include <manta/codec/errors.hpp>

#include <string>
#include <utility>

#include <fmt/format.h>

#include <manta/codec/containers.hpp>

namespace manta::inline v0::codec {

void custom<error>::write(out_archive& out, const error& e) {
  const task_failure* const failure = e.failure();
  out(e.code(), failure != nullptr);
  if (failure == nullptr) {
    out(e.message());
  } else {
    out(failure->type_name, failure->message, failure->function, failure->node, failure->attempt);
  }
}

error custom<error>::read(in_archive& in) {
  const auto code = codec::read<errc>(in);
  if (!codec::read<bool>(in)) return {code, codec::read<std::string>(in)};
  task_failure failure;
  in(failure.type_name, failure.message, failure.function, failure.node, failure.attempt);
  return error(std::move(failure));
}

exception_filter filter_of(const entry& e) {
  if (e.kind() != entry_kind::filter) {
    raise(errc::decode_failed,
          fmt::format("decode: a retry filter is named by the id of the function {}; the bytes are "
                      "damaged, or were not written by this program's build",
                      e.name()));
  }
  return {static_cast<const filter_parts*>(e.ops())->test, &e};
}

bool is_known(const exception_filter& f) {
  return f.entry != nullptr && filter_of(*f.entry).test == f.test;
}

void custom<exception_filter>::write(out_archive& out, const exception_filter& f) {
  if (f && !is_known(f)) {
    raise(errc::encode_failed,
          "encode: a retry filter that was made by hand is known in this process only; use "
          "manta::any_exception() or manta::exceptions<E...>() in options that travel");
  }
  out.raw(static_cast<std::uint8_t>(f ? 1 : 0));
  if (!f) return;
  const spec::function_id id = id_of(*f.entry);
  out(id.module, id.offset);
}

exception_filter custom<exception_filter>::read(in_archive& in) {
  if (!in.flag(name_of<exception_filter>())) return {};
  spec::function_id id;
  in(id.module, id.offset);
  const result<const entry*> found = find(id);
  if (!found) in.refuse(found.error().message().c_str(), name_of<exception_filter>());
  return filter_of(**found);
}

}  // namespace manta::inline v0::codec
