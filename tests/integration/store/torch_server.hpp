// SPDX-License-Identifier: BSD-3-Clause
// PyTorch's own store in a process of its own.
#pragma once

#include "integration/store/child.hpp"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace cpprun::test {

/// `backend` is libuv or classic. None where the interpreter, or the one that CPPRUN_TORCH_PYTHON names, has no torch.
inline std::unique_ptr<Child> start_torch_server(const std::string& backend, const char* python) {
    static constexpr const char* program = R"(
import os, sys, time
os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
try:
    import torch
    import torch.distributed as dist
except ImportError:
    sys.exit(1)
store = dist.TCPStore("127.0.0.1", 0, None, True, use_libuv=sys.argv[1] == "libuv")
print("torch", torch.__version__, file=sys.stderr)
print(store.port, flush=True)
time.sleep(3600)
)";
    const char* other = std::getenv("CPPRUN_TORCH_PYTHON");
    auto child =
        std::make_unique<Child>(std::vector<std::string>{other != nullptr ? other : python, "-c", program, backend});
    return child->number() == 0 ? nullptr : std::move(child);
}

}  // namespace cpprun::test
