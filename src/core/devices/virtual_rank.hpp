// SPDX-License-Identifier: BSD-3-Clause
// --virtual-local-rank: each worker sees one device, as device 0 (contract 3.4 and 3.6, user case B17).
#pragma once

#include "core/error.hpp"
#include "core/host_facts.hpp"

#include <string>
#include <vector>

namespace cpprun {

/// What to put into the workers' environments. LOCAL_RANK=0 comes on top, and is the caller's business.
struct VirtualDevices {
    std::vector<std::string> variables;  ///< each is set to the rank's entry: CUDA_VISIBLE_DEVICES, and where
                                         ///< HIP_VISIBLE_DEVICES was the source, that too
    std::vector<std::string> entries;    ///< by real local rank, entries verbatim: index, UUID or MIG name
};

/// Deals the inherited visibility list out to `nproc` local ranks. The source is a HIP_VISIBLE_DEVICES that is not
/// empty, else CUDA_VISIBLE_DEVICES; where neither is set each rank gets its own number. An empty CUDA_VISIBLE_DEVICES
/// is a list of one empty entry. Error, ErrorKind::usage: fewer entries than workers, "local_rank 1 exceeds available
/// GPUs in CUDA_VISIBLE_DEVICES=3".
Result<VirtualDevices> virtual_device_list(const Environment& environment, int nproc);

}  // namespace cpprun
