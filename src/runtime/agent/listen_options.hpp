// SPDX-License-Identifier: BSD-3-Clause
// What --store-bind, --store-allow and --store-legacy mean for a store of the agent's.
#pragma once

#include "core/launch_config.hpp"
#include "runtime/store/store_host.hpp"

namespace cpprun {

/// Every address, unless the options name one.
inline ListenSpec listen_spec(const StoreConfig& options, PortRange port) {
    ListenSpec spec;
    spec.scope = ListenScope::all;
    spec.port = port;
    spec.legacy = options.legacy;
    if (options.bind) spec.bind_addresses = {*options.bind};
    spec.allow_cidrs = options.allow;
    return spec;
}

}  // namespace cpprun
