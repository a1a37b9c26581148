// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/port_owner.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace cpprun {
namespace {

struct CloseDirectory {
    void operator()(DIR* directory) const { closedir(directory); }
};

std::vector<std::string> entries(const std::string& path) {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, CloseDirectory> directory(opendir(path.c_str()));
    if (!directory) return names;
    while (const dirent* entry = readdir(directory.get())) names.emplace_back(entry->d_name);
    return names;
}

bool is_number(const std::string& text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// One row of /proc/net/tcp: "sl local:PORT remote state ... inode", numbers in hex but for the inode.
void collect_listeners(const char* table, std::uint16_t port, std::set<std::string>& inodes) {
    constexpr std::string_view listening = "0A";
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream row(line);
        std::vector<std::string> columns;
        for (std::string column; row >> column;) columns.push_back(column);
        constexpr std::size_t inode_column = 9;
        if (columns.size() <= inode_column || columns[3] != listening) continue;
        const auto colon = columns[1].rfind(':');
        if (std::strtoul(columns[1].c_str() + colon + 1, nullptr, 16) == port) inodes.insert(columns[inode_column]);
    }
}

bool holds_one(const std::string& process, const std::set<std::string>& inodes) {
    const std::string folder = "/proc/" + process + "/fd/";
    for (const std::string& fd : entries(folder)) {
        std::array<char, 64> target{};
        const ssize_t length = readlink((folder + fd).c_str(), target.data(), target.size() - 1);
        const std::string_view link(target.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
        constexpr std::string_view prefix = "socket:[";
        if (!link.starts_with(prefix) || link.back() != ']') continue;
        if (inodes.contains(std::string(link.substr(prefix.size(), link.size() - prefix.size() - 1)))) return true;
    }
    return false;
}

std::string process_name(const std::string& process) {
    std::string name;
    std::ifstream file("/proc/" + process + "/comm");
    std::getline(file, name);
    return name;
}

}  // namespace

std::string port_owner(std::uint16_t port) {
    std::set<std::string> inodes;
    collect_listeners("/proc/net/tcp", port, inodes);
    collect_listeners("/proc/net/tcp6", port, inodes);
    if (inodes.empty()) return {};
    for (const std::string& process : entries("/proc")) {
        if (is_number(process) && holds_one(process, inodes))
            return "by pid " + process + " (" + process_name(process) + ")";
    }
    return "by a process that we may not look at";
}

}  // namespace cpprun
