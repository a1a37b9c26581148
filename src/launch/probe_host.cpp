// SPDX-License-Identifier: BSD-3-Clause
#include "launch/probe_host.hpp"

#include "runtime/devices/probe_cpus.hpp"
#include "runtime/os/disk_lookup.hpp"
#include "runtime/os/host_name.hpp"

#include <fmt/format.h>

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <unistd.h>

namespace cpprun {
namespace {

Environment read_environment() {
    Environment out;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const char* equals = std::strchr(*entry, '=');
        if (equals != nullptr && equals != *entry)
            out.emplace(std::string(static_cast<const char*>(*entry), equals), equals + 1);
    }
    return out;
}

std::string current_directory() {
    char buffer[PATH_MAX];
    return ::getcwd(buffer, sizeof buffer) != nullptr ? buffer : ".";
}

/// A version 4 UUID, as torchrun makes for runs that need an id of their own.
std::string random_uuid() {
    std::random_device random;
    std::uint32_t words[4] = {};
    for (std::uint32_t& word : words) word = random();
    words[1] = (words[1] & 0xffff0fffU) | 0x4000U;
    words[2] = (words[2] & 0x3fffffffU) | 0x80000000U;
    return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", words[0], words[1] >> 16U, words[1] & 0xffffU,
                       words[2] >> 16U, words[2] & 0xffffU, words[3]);
}

std::string called_path(const std::string& argv0, const HostFacts& facts) {
    if (argv0.find('/') != std::string::npos)
        return argv0.front() == '/' ? argv0 : facts.working_directory + "/" + argv0;
    const auto path = facts.environment.find("PATH");
    const auto found = find_on_path(argv0, path == facts.environment.end() ? "" : path->second, DiskLookup{});
    return found.value_or(argv0);
}

}  // namespace

HostFacts probe_host(const char* argv0) {
    HostFacts facts;
    facts.environment = read_environment();
    facts.working_directory = current_directory();
    const std::string called = argv0 != nullptr && *argv0 != '\0' ? argv0 : "cpprun";
    facts.program_name = called.substr(called.find_last_of('/') + 1);
    facts.program_path = called_path(called, facts);
    facts.host_name = host_name();
    facts.pid = ::getpid();
    facts.random_uuid = random_uuid();
    facts.cpu = probe_cpus(probe_roots(facts.environment));
    return facts;
}

}  // namespace cpprun
