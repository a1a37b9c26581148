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
    /// In the order in which the runtime numbers them. A listed device that cannot be told from the others has index -1
    /// and its entry in the list as uuid.
    std::vector<Device> devices;
    /// What the list names, or without a list what is there. More than `devices` only where MIG slices are about, of
    /// which one process sees just the first; with one device for each worker, each entry serves one.
    std::vector<Device> listed;
    std::string limited_by;    ///< the variables that decide, as "NAME=value"; empty when none is set
    bool none_wanted = false;  ///< the list says "no device": empty, -1 or NoDevFiles
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

/// PCI addresses of the devices that local ranks 0, 1, … use, for --numa-binding: those of VisibleDevices::listed, a
/// MIG slice's being that of its GPU. An unknown address is empty. Empty list: no accelerator.
std::vector<std::string> device_addresses_by_rank(const DeviceFacts& facts, const Environment& environment);

/// The maker's word for devices of a kind, for messages: "NVIDIA", "AMD" or "Intel".
const char* maker_name(DeviceKind kind);

/// Splits a visibility list on commas and takes blanks off both ends of each entry. An empty text is one empty entry.
std::vector<std::string> split_device_list(std::string_view text);

}  // namespace cpprun
