// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/virtual_rank.hpp"

#include "core/devices/visible_devices.hpp"

#include <spdlog/fmt/fmt.h>

namespace cpprun {
namespace {

VirtualDevices numbered(int nproc) {
    VirtualDevices result{{"CUDA_VISIBLE_DEVICES"}, {}};
    for (int rank = 0; rank < nproc; ++rank) result.entries.push_back(std::to_string(rank));
    return result;
}

}  // namespace

Result<VirtualDevices> virtual_device_list(const Environment& environment, int nproc) {
    const auto hip = environment.find("HIP_VISIBLE_DEVICES");
    const bool from_hip = hip != environment.end() && !hip->second.empty();
    const auto source = from_hip ? hip : environment.find("CUDA_VISIBLE_DEVICES");
    if (source == environment.end()) return numbered(nproc);

    VirtualDevices result{{"CUDA_VISIBLE_DEVICES"}, split_device_list(source->second)};
    if (from_hip) result.variables.emplace_back("HIP_VISIBLE_DEVICES");
    const int count = static_cast<int>(result.entries.size());
    if (nproc > count)
        return usage_error(
            fmt::format("local_rank {} exceeds available GPUs in {}={}", count, source->first, source->second),
            fmt::format("--virtual-local-rank gives each of the {} workers one entry of the list", nproc));
    result.entries.resize(static_cast<std::size_t>(std::max(0, nproc)));
    return result;
}

}  // namespace cpprun
