// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices/ask_nvml.hpp"

#include "runtime/os/unique_fd.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t answer_bytes_max = std::size_t{256} * 1024;
constexpr unsigned devices_max = 256;
constexpr unsigned slices_max = 64;

struct PciInfo {
    std::array<char, 16> bus_id_legacy;
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    std::array<char, 32> bus_id;
};
using DeviceHandle = void*;

/// The functions that we call. All return 0 for success.
struct Nvml {
    int (*init)();
    int (*shutdown)();
    int (*device_count)(unsigned*);
    int (*device_by_index)(unsigned, DeviceHandle*);
    int (*uuid)(DeviceHandle, char*, unsigned);
    int (*pci_info)(DeviceHandle, PciInfo*);
    int (*slice_count_max)(DeviceHandle, unsigned*);
    int (*slice_by_index)(DeviceHandle, unsigned, DeviceHandle*);
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
    void* symbol = ::dlsym(library, name);
    std::memcpy(&function, &symbol, sizeof symbol);
    return symbol != nullptr;
}

bool find_functions(void* library, Nvml& nvml) {
    // MIG came with driver 450; without it there are no slices.
    if (!find(library, "nvmlDeviceGetMaxMigDeviceCount", nvml.slice_count_max) ||
        !find(library, "nvmlDeviceGetMigDeviceHandleByIndex", nvml.slice_by_index))
        nvml.slice_count_max = nullptr;
    return find(library, "nvmlInit_v2", nvml.init) && find(library, "nvmlShutdown", nvml.shutdown) &&
           find(library, "nvmlDeviceGetCount_v2", nvml.device_count) &&
           find(library, "nvmlDeviceGetHandleByIndex_v2", nvml.device_by_index) &&
           find(library, "nvmlDeviceGetUUID", nvml.uuid) && find(library, "nvmlDeviceGetPciInfo_v3", nvml.pci_info);
}

/// A name from the driver, fit for a line of our answer.
std::string word(const char* text, std::size_t size_max) {
    std::string name(text, ::strnlen(text, size_max));
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c <= ' ' || c > '~'; }, '?');
    return name.empty() ? "-" : name;
}

std::string uuid_of(const Nvml& nvml, DeviceHandle device) {
    std::array<char, 128> text{};
    return nvml.uuid(device, text.data(), text.size()) == 0 ? word(text.data(), text.size()) : "-";
}

std::string slices_of(const Nvml& nvml, DeviceHandle device) {
    std::string line;
    unsigned count = 0;
    if (!nvml.slice_count_max || nvml.slice_count_max(device, &count) != 0) return line;
    for (unsigned i = 0; i < std::min(count, slices_max); ++i) {
        DeviceHandle slice = nullptr;
        if (nvml.slice_by_index(device, i, &slice) != 0) continue;
        line += " " + uuid_of(nvml, slice);
    }
    return line;
}

/// "device INDEX UUID PCI SLICE…", one line for each device.
std::string list_devices(const Nvml& nvml) {
    std::string answer;
    unsigned count = 0;
    if (nvml.device_count(&count) != 0) return "problem it cannot count the devices\n";
    for (unsigned i = 0; i < std::min(count, devices_max); ++i) {
        DeviceHandle device = nullptr;
        if (nvml.device_by_index(i, &device) != 0) continue;
        PciInfo pci{};
        const bool has_pci = nvml.pci_info(device, &pci) == 0;
        answer += fmt::format("device {} {} {}{}\n", i, uuid_of(nvml, device),
                              has_pci ? word(pci.bus_id.data(), pci.bus_id.size()) : "-", slices_of(nvml, device));
    }
    return answer + "end\n";
}

std::string question_library(const std::vector<std::string>& libraries) {
    void* library = nullptr;
    for (const std::string& name : libraries) {
        library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library) break;
    }
    if (!library) return "problem it cannot be loaded\n";
    Nvml nvml{};
    if (!find_functions(library, nvml)) return "problem it lacks a function\n";
    if (const int code = nvml.init(); code != 0) return fmt::format("problem nvmlInit returned {}\n", code);
    std::string answer = list_devices(nvml);
    nvml.shutdown();
    return answer;
}

[[noreturn]] void run_child(const std::vector<std::string>& libraries, int out) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The driver may print; that is not our output.
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        ::dup2(null, STDOUT_FILENO);
        ::dup2(null, STDERR_FILENO);
    }
    const std::string answer = question_library(libraries);
    const char* at = answer.data();
    for (std::size_t left = answer.size(); left > 0;) {
        const ssize_t written = ::write(out, at, left);
        if (written <= 0) break;
        at += written;
        left -= static_cast<std::size_t>(written);
    }
    ::_exit(0);
}

int milliseconds_until(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    return static_cast<int>(std::max<long long>(0, left.count()));
}

/// What the child writes until it closes its end, or until the deadline.
std::string read_answer(int fd, Clock::time_point deadline) {
    std::string answer;
    while (answer.size() < answer_bytes_max) {
        pollfd ready{fd, POLLIN, 0};
        const int count = ::poll(&ready, 1, milliseconds_until(deadline));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        std::array<char, 4096> buffer{};
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        answer.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return answer;
}

/// Collects a killed child. One that hangs in the driver cannot be collected; it stays, we go on.
void reap(pid_t child) {
    for (int i = 0; i < 100; ++i) {
        if (::waitpid(child, nullptr, WNOHANG) != 0) return;
        ::poll(nullptr, 0, 2);
    }
}

/// "00000000:3B:00.0" -> "0000:3b:00.0", as /sys names it.
std::string sys_pci_address(std::string bus_id) {
    if (bus_id == "-") return "";
    std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t colon = bus_id.find(':');
    return colon == 8 && bus_id.compare(0, 4, "0000") == 0 ? bus_id.substr(4) : bus_id;
}

Device parse_device(std::istringstream& fields) {
    Device device;
    std::string uuid, bus_id;
    fields >> device.index >> uuid >> bus_id;
    device.uuid = uuid == "-" ? "" : uuid;
    device.pci_address = sys_pci_address(bus_id);
    for (std::string slice; fields >> slice;) device.mig_uuids.push_back(slice);
    return device;
}

NvmlAnswer parse_answer(const std::string& text) {
    std::vector<Device> devices;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        std::string kind;
        fields >> kind;
        if (kind == "device") devices.push_back(parse_device(fields));
        if (kind == "problem") return {std::nullopt, line.substr(kind.size() + 1)};
        if (kind == "end") {
            const std::size_t count = devices.size();
            return {std::move(devices), fmt::format("{} device{}", count, count == 1 ? "" : "s")};
        }
    }
    return {std::nullopt, "no answer"};
}

}  // namespace

NvmlAnswer ask_nvml(const std::vector<std::string>& libraries, std::chrono::milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {std::nullopt, "no pipe"};
    const UniqueFd in(ends[0]);
    UniqueFd out(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) run_child(libraries, out.get());
    out.reset();
    if (child < 0) return {std::nullopt, "no process"};
    const std::string answer = read_answer(in.get(), deadline);
    ::kill(child, SIGKILL);
    reap(child);
    return parse_answer(answer);
}

}  // namespace cpprun
