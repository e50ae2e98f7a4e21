// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one place of the version: CMake reads these three lines for the package, the library's
// soname and the pkg-config file. Until 1.0 a new minor version may break source and binary alike.
#define MANTA_VERSION_MAJOR 0
#define MANTA_VERSION_MINOR 1
#define MANTA_VERSION_PATCH 0
