// SPDX-License-Identifier: BSD-3-Clause
// Finding a program by its name as execvp(3) does.
#pragma once

#include "core/file_lookup.hpp"
#include "core/host_facts.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

/// What a search found: `executable` is the first regular file on PATH that may be executed; `refused` the first one
/// that is there and may not. Both absolute.
struct PathSearch {
    std::optional<std::string> executable;
    std::optional<std::string> refused;
};

/// Searches PATH (where it is not set: /bin and /usr/bin, as execvp does) for `name`, which has no slash.
PathSearch search_path(std::string_view name, const HostFacts& host, const FileLookup& files);

/// `path` itself if absolute, else below the working directory.
std::string absolute_path(std::string_view path, const HostFacts& host);

}  // namespace cpprun
