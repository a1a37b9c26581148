// SPDX-License-Identifier: BSD-3-Clause
// --rdzv-conf: its syntax, the keys that the rendezvous of torchrun 2.15 knows, and the values they take (contract
// 2.3, 2.4, 2.5, 3.6).
#pragma once

#include "core/launch_config.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// Adds the pairs of "key=value,key=value" to `conf`; a later value of a key replaces an earlier one. Returns an empty
/// text, or what is wrong, in torchrun's words.
std::string add_rdzv_conf(std::string_view text, std::map<std::string, std::string>& conf);

/// Checks the values of the keys that `kind` reads. Returns an empty text, or what is wrong.
std::string check_rdzv_conf(const std::map<std::string, std::string>& conf, RendezvousKind kind);

/// A warning for each key that no rendezvous reads, with the list of those that one does (user case B07).
std::vector<Notice> unknown_rdzv_conf_keys(const std::map<std::string, std::string>& conf);

}  // namespace cpprun
