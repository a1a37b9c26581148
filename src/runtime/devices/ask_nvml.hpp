// SPDX-License-Identifier: BSD-3-Clause
// Asks NVIDIA's management library, loaded at run time, which GPUs this process may use. Declarations are ours, after
// the public "NVML API Reference Guide".
#pragma once

#include "core/host_facts.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

/// What NVML said. `devices` is empty where it could not be asked; `outcome` says why, or how many devices it named.
struct NvmlAnswer {
    std::optional<std::vector<Device>> devices;
    std::string outcome;
};

/// Loads the first of `libraries` that can be loaded and lists its devices with UUIDs, PCI addresses and MIG slices, in
/// a forked child that is killed after `patience`. Never fails, never waits longer than `patience` and a little.
/// The child runs the library's code, so this process must not have threads that hold locks of the C library.
NvmlAnswer ask_nvml(const std::vector<std::string>& libraries, std::chrono::milliseconds patience);

}  // namespace cpprun
