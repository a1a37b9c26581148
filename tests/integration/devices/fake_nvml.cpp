// SPDX-License-Identifier: BSD-3-Clause
// Stands in for libnvidia-ml.so.1: two GPUs, the second one cut into two slices. CPPRUN_FAKE_NVML=crash|hang|fail makes
// it misbehave as a broken driver does.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace {

struct Pci {
    std::array<char, 16> legacy;
    std::array<unsigned, 5> numbers;
    std::array<char, 32> bus_id;
};

// Handles are the addresses of these.
std::array<char, 4> handles;  // 0, 1: GPUs; 2, 3: slices of GPU 1

bool mode(const char* name) {
    const char* set = std::getenv("CPPRUN_FAKE_NVML");
    return set && std::strcmp(set, name) == 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
    std::puts("driver chatter that must not be seen");
    if (mode("crash")) std::abort();
    while (mode("hang")) ::pause();
    return mode("fail") ? 9 : 0;
}
int nvmlShutdown() {
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
    return *count = 2, 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    return *device = &handles.at(index), 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
    const long which = static_cast<char*>(device) - handles.data();
    std::snprintf(text, size, which < 2 ? "GPU-nvml-%ld" : "MIG-nvml-%ld", which);
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
    const long which = static_cast<char*>(device) - handles.data();
    std::snprintf(pci->bus_id.data(), pci->bus_id.size(), "00000000:%02lX:00.0", 0x3B + which);
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
    return *count = device == &handles[1] ? 7 : 0, 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned index, void** slice) {
    if (index >= 2) return 6;  // not found: there are gaps between slices
    return *slice = &handles.at(2 + index), 0;
}

}  // extern "C"
