// SPDX-License-Identifier: BSD-3-Clause
#include "core/process/cgroup_path.hpp"

#include <optional>
#include <sstream>

namespace cpprun {
namespace {

/// mountinfo writes blanks, tabs, line breaks and backslashes as \ and three octal digits (proc(5)).
std::string unescaped(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto octal = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
        if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
            out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

/// The path in the line "0::PATH"; one that leaves what we can see ("/../x") is none.
std::optional<std::string> own_path(std::string_view own) {
    for (const auto& [controllers, path] : cgroup_memberships(own)) {
        if (!controllers.empty() || !path.starts_with('/')) continue;
        if ((path + '/').find("/../") != std::string::npos) return std::nullopt;
        return path == "/" ? std::string() : path;
    }
    return std::nullopt;
}

}  // namespace

std::vector<CgroupMembership> cgroup_memberships(std::string_view own) {
    std::vector<CgroupMembership> found;
    std::istringstream lines{std::string(own)};
    for (std::string line; std::getline(lines, line);) {
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        found.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
    }
    return found;
}

std::vector<std::string> cgroup_directories(std::string_view own, std::string_view mounts) {
    std::vector<std::string> found;
    const auto path = own_path(own);
    if (!path) return found;
    std::istringstream lines{std::string(mounts)};
    for (std::string line; std::getline(lines, line);) {
        // ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [FIELDS...] - TYPE SOURCE ...
        const std::size_t separator = line.find(" - cgroup2 ");
        if (separator == std::string::npos) continue;
        std::istringstream fields(line.substr(0, separator));
        std::string id, parent, device, root, mount;
        if (!(fields >> id >> parent >> device >> root >> mount)) continue;
        root = unescaped(root);
        if (root == "/") root.clear();
        if (!(*path + '/').starts_with(root + '/')) continue;
        found.push_back(unescaped(mount) + path->substr(root.size()));
    }
    return found;
}

}  // namespace cpprun
