// SPDX-License-Identifier: BSD-3-Clause
// --nproc-per-node given as a word, and the check of a number against the devices that are there (contract 1.4, user
// cases B26, B27, B28).
#pragma once

#include "core/devices/cpu_count.hpp"
#include "core/error.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// What a word came to.
struct WorkerCount {
    int count = 1;            ///< >= 1
    std::string kind;         ///< what was counted, as torchrun's INFO line names it: "cpu", "gpu", "xpu", "npu", …
    std::string explanation;  ///< e.g. "cpu -> 2 (affinity mask of 2 CPUs)"
    std::vector<Notice> notices;  ///< to be shown once
};

/// Turns a word for --nproc-per-node into a number. Words, case-sensitive: cpu; gpu (CUDA or ROCm); xpu; auto (the
/// accelerator if any is visible, else CPUs); the plug-in backends in plugin_backend_names(). A number is the caller's
/// business: here it is an unknown word.
/// `one_device_per_worker` says that --virtual-local-rank is on: then several MIG slices count as many, else as one.
/// Errors, all ErrorKind::usage: "Unsupported nproc_per_node value: …"; "Cuda is not available." and its like, followed
/// by everything that was looked at, visibility variables included.
Result<WorkerCount> count_workers(std::string_view word, const CpuFacts& cpus, const DeviceFacts& devices,
                                  const Environment& environment, CpuCountRule rule,
                                  bool one_device_per_worker = false);

/// One warning when the machine has accelerators and `nproc` workers would share those that are visible; it names both
/// numbers and the variable that limits. None without accelerators, or when the variable says that none is wanted.
std::vector<Notice> check_worker_count(int nproc, const DeviceFacts& devices, const Environment& environment,
                                       bool one_device_per_worker = false);

/// Whether deciding about `word` needs the drivers' own answer (MIG slices, UUIDs), beyond what files show.
bool needs_device_drivers(std::string_view word);

/// Names that PyTorch plug-ins register, of which device nodes are known well enough to count them: npu (Ascend), hpu
/// (Gaudi), mlu (Cambricon), musa (Moore Threads).
const std::vector<std::string>& plugin_backend_names();

}  // namespace cpprun
