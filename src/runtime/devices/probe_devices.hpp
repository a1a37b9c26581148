// SPDX-License-Identifier: BSD-3-Clause
// Finds accelerators without torch and without their vendors' headers.
#pragma once

#include "core/host_facts.hpp"
#include "runtime/devices/probe_roots.hpp"

namespace cpprun {

/// How far to look.
enum class ProbeDepth {
    files,    ///< /proc, /sys and /dev only: a few failed opens on a machine without accelerators
    drivers,  ///< also ask NVML, where an NVIDIA driver is loaded
};

/// Finds the accelerators that this process may open.
/// NVIDIA: /proc/driver/nvidia/gpus/*/information, of those the ones with a node /dev/nvidiaN (a container may show
/// more in /proc than it may use); /dev alone where /proc does not show them; MIG slices from /proc/driver/nvidia/
/// capabilities, named in the old form MIG-GPU-…/gi/ci; Jetson's /dev/nvhost-gpu or /dev/nvgpu counts as one device.
/// With ProbeDepth::drivers NVML's answer replaces all that.
/// AMD: KFD topology nodes with a gpu_id, whose render node is in /dev/dri, where /dev/kfd is there.
/// Intel: display-class PCI devices of vendor 0x8086 in /sys/class/drm driven by i915 or xe that have a render node in
/// /dev/dri and are discrete: not in the slot 00:02 of domain 0, where integrated graphics sit, or with local memory
/// (lmem_total_bytes). /sys cannot say whether a compute runtime supports them; a card with several tiles counts as
/// one. Plug-ins: /dev/davinciN (npu), /dev/accel/accelN and /dev/hlN of Habana's drivers (hpu), /dev/cambricon_devN
/// (mlu), /dev/mtgpu.N or /dev/mtgpuN (musa). Never fails; what was looked at, and what was found there, is in
/// DeviceFacts::looked_at. NVML runs in a short-lived child process, so that neither a crash nor its threads and memory
/// stay here; after five seconds it is killed and counts as silent. Call it before any thread is started.
DeviceFacts probe_devices(ProbeDepth depth, const ProbeRoots& roots = {});

}  // namespace cpprun
