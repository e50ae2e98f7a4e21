// SPDX-License-Identifier: Apache-2.0
// Valid with and without MANTA_BREACH; see test/CMakeLists.txt.
#ifdef MANTA_BREACH
int accepted = 0;
#endif
