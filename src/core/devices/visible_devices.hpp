// SPDX-License-Identifier: BSD-3-Clause
// Which accelerators a worker's runtime will show it: the visibility variables applied to the devices that the machine
// has (user cases B26, B27). Rules of CUDA_VISIBLE_DEVICES: NVIDIA's CUDA programming guide, "CUDA Environment
// Variables", and the MIG user guide, "Device Enumeration". HIP_ and ROCR_VISIBLE_DEVICES: AMD's ROCm documentation,
// "GPU isolation techniques". ZE_AFFINITY_MASK: the oneAPI Level Zero specification, "Environment Variables".
#pragma once

#include "core/host_facts.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// The devices of one kind that a process with this environment would see.
struct VisibleDevices {
    std::vector<Device> devices;     ///< in the order in which the runtime numbers them. A listed device that cannot
                                     ///< be told from the others has index -1 and its token as uuid
    std::string variable;            ///< the variable that decides, or empty when none is set
    std::string value;               ///< its value as given
    bool none_wanted = false;        ///< the value says "no device": empty, -1 or NoDevFiles
    std::vector<Device> mig_slices;  ///< one for each MIG slice that the variable lists; uuid is its token. A process
                                     ///< sees the first one only, which is then the one entry of `devices`
};

/// Applies the variables of `kind` to the devices of `kind` in `facts`.
/// cuda: CUDA_VISIBLE_DEVICES; the first entry that is unknown, repeated or of another form ends the list; UUIDs may be
/// cut short as long as they name one device; where a MIG slice is visible the process sees exactly that one device.
/// rocm: ROCR_VISIBLE_DEVICES picks first, then HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES where HIP's is not set,
/// picks among those. xpu: ZE_AFFINITY_MASK; unknown and repeated entries are skipped, an empty value is no mask.
VisibleDevices visible_devices(const DeviceFacts& facts, const Environment& environment, DeviceKind kind);

/// The kind that the worker's "current accelerator" has: the first of cuda, rocm, xpu of which a device exists.
/// None when the machine has no such device.
std::optional<DeviceKind> accelerator_kind(const DeviceFacts& facts);

/// PCI addresses of the devices that local ranks 0, 1, … use, for --numa-binding: those of the visible devices, or with
/// several MIG slices listed those of the GPUs that hold them. An unknown address is empty. Empty list: no accelerator.
std::vector<std::string> device_addresses_by_rank(const DeviceFacts& facts, const Environment& environment);

/// Splits a visibility list on commas and takes blanks off both ends of each entry. An empty text is one empty entry.
std::vector<std::string> split_device_list(std::string_view text);

}  // namespace cpprun
