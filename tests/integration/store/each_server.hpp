// SPDX-License-Identifier: BSD-3-Clause
// Tests that run against a store of each kind: "ours", and PyTorch's "libuv" and "classic" where torch is installed.
#pragma once

#include "integration/store/child.hpp"
#include "integration/store/torch_server.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace cpprun::test {

template <class Ours>
struct EachServer {
    std::unique_ptr<Ours> ours;
    std::unique_ptr<Child> torch;
    std::uint16_t port() const { return ours ? ours->port() : torch->port(); }
};

/// One of each kind for all tests of a process. `start` makes ours.
template <class Ours>
EachServer<Ours>& server_of(const std::string& kind, std::unique_ptr<Ours> (*start)()) {
    static std::map<std::string, EachServer<Ours>> servers;
    EachServer<Ours>& found = servers[kind];
    if (kind == "ours" && !found.ours) found.ours = start();
    if (kind != "ours" && !found.torch) found.torch = start_torch_server(kind, CPPRUN_TORCH_PYTHON);
    return found;
}

/// A key that no other test of this process has.
inline std::string key_of_test(const std::string& name) {
    return std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "/" + name;
}

}  // namespace cpprun::test
