// SPDX-License-Identifier: BSD-3-Clause
// The version of cpprun, for embedders and for `cpprun --version`.
#pragma once

namespace cpprun {

/// "MAJOR.MINOR.PATCH" of this build. A constant with static storage; never null.
inline constexpr const char* version = "0.1.0";

}  // namespace cpprun
