// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices/probe_devices.hpp"

#include "runtime/devices/ask_nvml.hpp"
#include "runtime/devices/system_files.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace cpprun {
namespace {

constexpr std::chrono::milliseconds nvml_patience{5000};

std::string counted(std::size_t count, std::string_view thing) {
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

/// "/path: not there", or what `found` says.
void note(DeviceFacts& facts, const std::string& path, bool there, const std::string& found) {
    facts.looked_at.push_back(path + ": " + (there ? found : "not there"));
}

/// "Key: value" or "key value" lines.
std::map<std::string, std::string> read_fields(const std::string& path, char separator) {
    std::map<std::string, std::string> fields;
    std::istringstream lines(read_small_file(path).value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const std::size_t end = line.find(separator);
        if (end == std::string::npos) continue;
        const std::size_t value = line.find_first_not_of(" \t", end + 1);
        if (value == std::string::npos) continue;
        fields[line.substr(0, end)] = line.substr(value, line.find_last_not_of(" \t\r") - value + 1);
    }
    return fields;
}

// ---- NVIDIA ----

std::set<int> nvidia_nodes(const ProbeRoots& roots) {
    std::set<int> minors;
    for (const std::string& name : list_directory(roots.dev))
        if (const auto minor = number_after(name, "nvidia")) minors.insert(*minor);
    return minors;
}

/// Slices that the driver's access files show: capabilities/gpuMINOR/mig/giG/ciC.
std::vector<std::string> nvidia_slices(const ProbeRoots& roots, int minor, const std::string& uuid) {
    std::vector<std::string> slices;
    const std::string base = fmt::format("{}/driver/nvidia/capabilities/gpu{}/mig", roots.proc, minor);
    for (const std::string& instance : list_directory(base)) {
        const auto gi = number_after(instance, "gi");
        if (!gi) continue;
        for (const std::string& compute : list_directory(entry_of(base, instance)))
            if (const auto ci = number_after(compute, "ci"))
                slices.push_back(fmt::format("MIG-{}/{}/{}", uuid, *gi, *ci));
    }
    return slices;
}

struct NvidiaGpu {
    int minor = -1;
    Device device;
};

std::vector<NvidiaGpu> nvidia_from_proc(const ProbeRoots& roots) {
    std::vector<NvidiaGpu> gpus;
    const std::string base = roots.proc + "/driver/nvidia/gpus";
    for (const std::string& address : list_directory(base)) {
        const auto fields = read_fields(entry_of(base, address) + "/information", ':');
        if (fields.empty()) continue;
        NvidiaGpu gpu;
        gpu.device.pci_address = address;
        const auto uuid = fields.find("GPU UUID");
        // The driver writes question marks until the GPU was first used.
        if (uuid != fields.end() && uuid->second.find('?') == std::string::npos) gpu.device.uuid = uuid->second;
        const auto minor = fields.find("Device Minor");
        if (minor != fields.end()) gpu.minor = number_after(minor->second, "").value_or(-1);
        gpu.device.mig_uuids = nvidia_slices(roots, gpu.minor, gpu.device.uuid);
        gpus.push_back(std::move(gpu));
    }
    return gpus;
}

/// A GPU that /proc shows without a node in /dev belongs to another container; a node without an entry in /proc is a
/// GPU of which nothing more is known.
std::vector<Device> nvidia_usable(std::vector<NvidiaGpu> gpus, const std::set<int>& nodes) {
    std::vector<Device> devices;
    std::set<int> described;
    for (NvidiaGpu& gpu : gpus) {
        if (gpu.minor >= 0 && nodes.count(gpu.minor) == 0) continue;
        described.insert(gpu.minor);
        devices.push_back(std::move(gpu.device));
    }
    if (described.count(-1) == 0)
        for (const int minor : nodes)
            if (described.count(minor) == 0) devices.emplace_back();
    for (std::size_t i = 0; i < devices.size(); ++i) devices[i].index = static_cast<int>(i);
    return devices;
}

bool tegra_gpu(const ProbeRoots& roots) {
    return path_exists(roots.dev + "/nvhost-gpu") || path_exists(roots.dev + "/nvgpu/igpu0");
}

std::vector<Device> nvidia_from_files(DeviceFacts& facts, const ProbeRoots& roots) {
    const std::string proc = roots.proc + "/driver/nvidia/gpus";
    const bool in_proc = path_exists(proc);
    const bool in_dev = path_exists(roots.dev + "/nvidiactl") || path_exists(roots.dev + "/nvidia0");
    // /dev is long, so it is only read where a driver is there.
    const std::set<int> nodes = in_proc || in_dev ? nvidia_nodes(roots) : std::set<int>{};
    const auto gpus = in_proc ? nvidia_from_proc(roots) : std::vector<NvidiaGpu>{};
    note(facts, proc, in_proc, counted(gpus.size(), "GPU"));
    note(facts, roots.dev + "/nvidia[0-9]*", !nodes.empty(), counted(nodes.size(), "node"));
    std::vector<Device> devices = nvidia_usable(gpus, nodes);
    if (devices.empty() && tegra_gpu(roots)) {
        note(facts, roots.dev + "/nvhost-gpu or nvgpu", true, "1 GPU");
        devices.emplace_back();
    }
    return devices;
}

bool nvidia_driver_loaded(const ProbeRoots& roots) {
    // /dev/dxg is the driver's way into a WSL 2 guest, which has no /dev/nvidia*.
    return path_exists(roots.proc + "/driver/nvidia/version") || path_exists(roots.dev + "/nvidiactl") ||
           path_exists(roots.dev + "/dxg");
}

void probe_nvidia(DeviceFacts& facts, ProbeDepth depth, const ProbeRoots& roots) {
    std::vector<Device> devices = nvidia_from_files(facts, roots);
    if (depth == ProbeDepth::drivers) {
        NvmlAnswer answer{std::nullopt, "not asked, as no driver is loaded"};
        const bool may_ask = !roots.moved || path_exists(roots.nvml_libraries.front());
        if (nvidia_driver_loaded(roots) && may_ask) answer = ask_nvml(roots.nvml_libraries, nvml_patience);
        facts.looked_at.push_back("NVML: " + answer.outcome);
        if (answer.devices) devices = std::move(*answer.devices);
    }
    std::move(devices.begin(), devices.end(), std::back_inserter(facts.devices));
}

// ---- AMD ----

long long number_in(const std::map<std::string, std::string>& fields, const char* name) {
    const auto found = fields.find(name);
    if (found == fields.end()) return 0;
    std::istringstream text(found->second);
    unsigned long long value = 0;
    text >> value;
    return static_cast<long long>(value);
}

/// location_id is the bus, device and function as PCI packs them.
std::string kfd_pci_address(const std::map<std::string, std::string>& properties) {
    const auto location = static_cast<unsigned>(number_in(properties, "location_id"));
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", number_in(properties, "domain"), (location >> 8) & 0xff,
                       (location >> 3) & 0x1f, location & 7);
}

void probe_amd(DeviceFacts& facts, const ProbeRoots& roots) {
    const std::string base = roots.sys + "/class/kfd/kfd/topology/nodes";
    const bool openable = path_exists(roots.dev + "/kfd");
    int index = 0;
    for (const std::string& name : list_directory(base)) {
        const std::string node = entry_of(base, name);
        if (read_number(node + "/gpu_id").value_or(0) == 0) continue;  // a CPU, or a GPU of another container
        const auto properties = read_fields(node + "/properties", ' ');
        const long long render = number_in(properties, "drm_render_minor");
        if (!openable || (render > 0 && !path_exists(fmt::format("{}/dri/renderD{}", roots.dev, render)))) continue;
        const auto unique = static_cast<unsigned long long>(number_in(properties, "unique_id"));
        facts.devices.push_back({DeviceKind::rocm,
                                 index++,
                                 unique ? fmt::format("GPU-{:016x}", unique) : "",
                                 kfd_pci_address(properties),
                                 {}});
    }
    const bool there = path_exists(base);
    note(facts, base, there, counted(static_cast<std::size_t>(index), "usable GPU"));
    if (there && !openable) note(facts, roots.dev + "/kfd", false, "");
}

// ---- Intel ----

/// The name that a symbolic link such as `driver` ends in; /sys gives it in uevent too, which needs no readlink.
std::string uevent_value(const std::string& device, const std::string& key) {
    const auto fields = read_fields(device + "/uevent", '=');
    const auto found = fields.find(key);
    return found == fields.end() ? "" : found->second;
}

bool has_usable_render_node(const ProbeRoots& roots, const std::string& device) {
    const std::string dri = roots.dev + "/dri";
    for (const std::string& name : list_directory(device + "/drm"))
        if (number_after(name, "renderD") && path_exists(entry_of(dri, name))) return true;
    return false;
}

void probe_intel(DeviceFacts& facts, const ProbeRoots& roots) {
    const std::string base = roots.sys + "/class/drm";
    int index = 0, integrated = 0;
    for (const std::string& name : list_directory(base)) {
        if (!number_after(name, "card")) continue;
        const std::string card = entry_of(base, name);
        const std::string device = card + "/device";
        if (read_number(device + "/vendor").value_or(0) != 0x8086) continue;
        const std::string driver = uevent_value(device, "DRIVER");
        if ((driver != "i915" && driver != "xe") || !has_usable_render_node(roots, device)) continue;
        const std::string address = uevent_value(device, "PCI_SLOT_NAME");
        const bool own_memory = read_number(card + "/lmem_total_bytes").value_or(0) > 0;
        if (address.rfind("0000:00:02.", 0) == 0 && !own_memory) {
            ++integrated;
            continue;
        }
        facts.devices.push_back({DeviceKind::xpu, index++, "", address, {}});
    }
    std::string found = counted(static_cast<std::size_t>(index), "discrete Intel GPU");
    if (integrated > 0) found += ", integrated graphics not counted";
    note(facts, base, path_exists(base), found);
}

// ---- plug-ins ----

int count_nodes(const std::string& directory, const std::string& prefix) {
    int count = 0;
    for (const std::string& name : list_directory(directory))
        if (number_after(name, prefix)) ++count;
    return count;
}

/// Other makers' devices are in /dev/accel too, so the vendor (Habana Labs, 0x1da3) is looked at.
int count_gaudi(const ProbeRoots& roots) {
    const std::string accel = roots.sys + "/class/accel";
    int count = 0;
    for (const std::string& name : list_directory(roots.dev + "/accel")) {
        const bool node = number_after(name, "accel").has_value();
        if (node && read_number(entry_of(accel, name) + "/device/vendor").value_or(0) == 0x1da3) ++count;
    }
    if (count > 0) return count;
    return path_exists(roots.dev + "/hl0") ? count_nodes(roots.dev, "hl") : 0;
}

void probe_plugins(DeviceFacts& facts, const ProbeRoots& roots) {
    const std::string& dev = roots.dev;
    // The control nodes come first, so that /dev is not read in vain.
    facts.plugin_devices["npu"] = path_exists(dev + "/davinci_manager") ? count_nodes(dev, "davinci") : 0;
    facts.plugin_devices["hpu"] = count_gaudi(roots);
    facts.plugin_devices["mlu"] = path_exists(dev + "/cambricon_ctl") ? count_nodes(dev, "cambricon_dev") : 0;
    facts.plugin_devices["musa"] = path_exists(dev + "/mtgpu.0")  ? count_nodes(dev, "mtgpu.")
                                   : path_exists(dev + "/mtgpu0") ? count_nodes(dev, "mtgpu")
                                                                  : 0;
    const std::map<std::string, std::string> places = {{"npu", "/davinci[0-9]*"},
                                                       {"hpu", "/accel/accel[0-9]* of Habana, /hl[0-9]*"},
                                                       {"mlu", "/cambricon_dev[0-9]*"},
                                                       {"musa", "/mtgpu*"}};
    for (const auto& [name, count] : facts.plugin_devices)
        note(facts, dev + places.at(name), count > 0, counted(static_cast<std::size_t>(count), "node"));
}

}  // namespace

DeviceFacts probe_devices(ProbeDepth depth, const ProbeRoots& roots) {
    DeviceFacts facts;
    probe_nvidia(facts, depth, roots);
    probe_amd(facts, roots);
    probe_intel(facts, roots);
    probe_plugins(facts, roots);
    return facts;
}

}  // namespace cpprun
