// SPDX-License-Identifier: BSD-3-Clause
// Values of options as the user writes them, for everything that shows a configuration.
#pragma once

#include "core/launch_config.hpp"

namespace cpprun {

/// "c10d" or "static".
constexpr const char* name_of(RendezvousKind kind) {
    return kind == RendezvousKind::c10d ? "c10d" : "static";
}

/// The value of --numa-binding; null for NumaBinding::none.
constexpr const char* name_of(NumaBinding binding) {
    switch (binding) {
        case NumaBinding::none:
            return nullptr;
        case NumaBinding::node:
            return "node";
        case NumaBinding::socket:
            return "socket";
        case NumaBinding::exclusive:
            return "exclusive";
        case NumaBinding::core_complex:
            return "core-complex";
    }
    return nullptr;
}

}  // namespace cpprun
