// SPDX-License-Identifier: BSD-3-Clause
#include "cli/search_path.hpp"

#include <algorithm>

namespace cpprun {
namespace {

void consider(std::string path, const FileLookup& files, PathSearch& found) {
    const FileStatus status = files.look(path);
    if (status.regular && status.executable) {
        found.executable = std::move(path);
    } else if (status.exists && !found.refused) {
        found.refused = std::move(path);
    }
}

}  // namespace

std::string absolute_path(std::string_view path, const HostFacts& host) {
    if (path.starts_with('/')) return std::string(path);
    if (path.empty()) return host.working_directory;
    return host.working_directory + (host.working_directory.ends_with('/') ? "" : "/") + std::string(path);
}

PathSearch search_path(std::string_view name, const HostFacts& host, const FileLookup& files) {
    const auto variable = host.environment.find("PATH");
    std::string_view rest = variable == host.environment.end() ? "/bin:/usr/bin" : std::string_view(variable->second);
    PathSearch found;
    for (bool more = true; more && !found.executable;) {
        const std::size_t colon = std::min(rest.find(':'), rest.size());
        std::string directory = absolute_path(rest.substr(0, colon), host);
        if (!directory.ends_with('/')) directory += '/';
        consider(directory + std::string(name), files, found);
        more = colon < rest.size();
        rest.remove_prefix(more ? colon + 1 : colon);
    }
    return found;
}

}  // namespace cpprun
