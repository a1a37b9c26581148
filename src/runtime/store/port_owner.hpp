// SPDX-License-Identifier: BSD-3-Clause
// Who holds a TCP port of this machine, as far as /proc lets us see. Asked only after a bind has failed.
#pragma once

#include <cstdint>
#include <string>

namespace cpprun {

/// A phrase that fits after "in use": "by pid 4711 (python3)", "by a process that we may not look at", or empty where
/// the kernel shows no listener.
std::string port_owner(std::uint16_t port);

}  // namespace cpprun
