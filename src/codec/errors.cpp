// SPDX-License-Identifier: Apache-2.0
#include <manta/codec/errors.hpp>

#include <string>
#include <utility>

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

void custom<exception_filter>::write(out_archive& out, const exception_filter& f) {
  if (f) {
    raise(errc::encode_failed,
          "encode: a retry filter names exception types of this process, which can't be written "
          "down; leave retry_exceptions unset in options that travel, and set it at the call");
  }
  out.raw(std::uint8_t{0});
}

exception_filter custom<exception_filter>::read(in_archive& in) {
  if (in.flag(name_of<exception_filter>())) {
    in.refuse("a retry filter can't have been written", name_of<exception_filter>());
  }
  return {};
}

}  // namespace manta::inline v0::codec
