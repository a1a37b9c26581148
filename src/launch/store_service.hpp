// SPDX-License-Identifier: BSD-3-Clause
// --store-only: a store for the agents of a c10d rendezvous that outlives every one of them.
#pragma once

#include "core/error.hpp"
#include "core/launch_config.hpp"
#include "runtime/os/signal_source.hpp"
#include "runtime/store/store_log.hpp"

namespace cpprun {

/// Serves an empty store on the endpoint's port until SIGTERM, SIGINT, SIGHUP or SIGQUIT arrives, which is its normal
/// end. Prints one line to stdout when clients may connect. Failure: the port is in use, and by whom.
Result<void> serve_store(const LaunchConfig& config, const SignalInheritance& signals, StoreLog complain);

}  // namespace cpprun
