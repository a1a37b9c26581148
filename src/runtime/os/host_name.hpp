// SPDX-License-Identifier: BSD-3-Clause
// How reports name this machine, without asking any name service.
#pragma once

#include <string>

namespace cpprun {

/// What gethostname() says; "localhost" when it says nothing.
std::string host_name();

/// The full name that /etc/hosts (or `hosts_file`) gives for `name`, if it has a dot; else `name`. No DNS.
std::string full_host_name(const std::string& name, const std::string& hosts_file = "/etc/hosts");

}  // namespace cpprun
