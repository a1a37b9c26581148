// SPDX-License-Identifier: BSD-3-Clause
// The options that say when a failed worker group is not started again, or later.
#pragma once

#include "cli/raw_args.hpp"
#include "core/error.hpp"
#include "core/launch_config.hpp"

namespace cpprun {

/// --no-restart-on, --free-restart-on, --min-uptime, --restart-backoff, --restart-window,
/// --restart-budget-renewed-after and --max-job-restarts. Error, ErrorKind::usage: a wrong value, or an ending that
/// stands in both lists.
Result<RestartConfig> resolve_restarts(const RawArgs& raw);

}  // namespace cpprun
