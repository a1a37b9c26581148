// SPDX-License-Identifier: BSD-3-Clause
// --print-config: the resolved configuration as JSON, for people and tests.
#pragma once

#include "cli/resolve_config.hpp"

#include <string>

namespace cpprun {

/// One JSON object with a key for each field of LaunchConfig, and "notices"; indented, with a line end. Durations are
/// in seconds. Bytes that are not UTF-8 become U+FFFD.
std::string config_json(const LaunchRequest& request);

}  // namespace cpprun
