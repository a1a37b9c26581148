// SPDX-License-Identifier: BSD-3-Clause
// How the store says what an operator should hear. It has no logger of its own: it is linked into programs that do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace cpprun {

enum class StoreLogLevel : std::uint8_t { debug, info, warning };

/// Takes one line without a line break. Called from the store's threads, never from two at once; must not call the
/// store.
using StoreLog = std::function<void(StoreLogLevel level, const std::string& line)>;

}  // namespace cpprun
