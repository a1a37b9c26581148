// SPDX-License-Identifier: BSD-3-Clause
// --numa-binding: the CPUs that one worker runs on (contract 1.9, user case B29). Decides only; the child itself sets
// its mask, so numactl is not needed.
#pragma once

#include "core/devices/cpu_list.hpp"
#include "core/error.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"

#include <string>
#include <vector>

namespace cpprun {

/// Which worker asks for which binding.
struct BindingRequest {
    NumaBinding how = NumaBinding::node;  ///< not NumaBinding::none
    int local_rank = 0;                   ///< the real one, also with --virtual-local-rank
    int local_world_size = 1;
    std::vector<std::string> device_pci;  ///< by local rank, see device_addresses_by_rank(); empty: no accelerator
    std::vector<int> affinity;            ///< our own mask, ascending; empty: not known, all CPUs of the machine
};

/// Where the worker may run.
struct CpuBinding {
    std::vector<int> cpus;          ///< ascending, not empty, all in the affinity mask
    std::vector<int> memory_nodes;  ///< the NUMA nodes of these CPUs, ascending; for a memory policy, if one is wanted
};

/// Chooses the CPUs of one worker.
/// With accelerators the worker's device is the one at its local rank; its NUMA node is what /sys says, a negative or
/// unknown one counts as node 0; candidates are that node's CPUs within the affinity mask.
///   node: all candidates. socket: those of all nodes in the same package. exclusive: physical cores of the node,
///   shared evenly among its devices in order, the first ones get one more where it does not divide. core-complex: the
///   group of CPUs that share a largest-level cache, biggest groups first, chosen by the device's place in its node,
///   modulo.
/// Without accelerators (or where no address is known) workers are spread by local rank over the whole mask.
///   node, socket, core-complex: neighbouring ranks on the same group, ranks spread over all groups. exclusive:
///   disjoint even shares of physical cores, in order of node.
/// Error, ErrorKind::failed: no CPU left within the mask, fewer cores than workers for exclusive, more workers than
/// devices.
Result<CpuBinding> bind_rank(const NumaFacts& facts, const BindingRequest& request);

/// bind_rank for all local ranks at once; `request.local_rank` is ignored.
Result<std::vector<CpuBinding>> bind_all_ranks(const NumaFacts& facts, BindingRequest request);

}  // namespace cpprun
