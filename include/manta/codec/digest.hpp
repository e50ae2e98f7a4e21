// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/base/export.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/parcel.hpp>

// What stands for encoded arguments in the record of a call: a task that is run again makes the
// same calls with the same arguments, and where a digest differs its control flow did. Not a
// signature: who can choose the bytes can make two with one digest.

namespace manta::inline v0::codec {

/// 128 bits over head, segments and references (what they name, not where they lie here). The same
/// in every process of a build. Cost: about a nanosecond for 8 bytes.
MANTA_API base::id digest(const spec::parcel_view& of) noexcept;

}  // namespace manta::inline v0::codec
