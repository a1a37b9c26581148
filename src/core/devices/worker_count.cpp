// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/worker_count.hpp"

#include "core/devices/visible_devices.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

namespace cpprun {
namespace {

struct Question {
    std::string_view word;
    const CpuFacts& cpus;
    const DeviceFacts& devices;
    const Environment& environment;
    CpuCountRule rule;
    bool one_device_per_worker;
};

/// What is there to count, whatever drives it.
struct Accelerators {
    std::string kind;   ///< "gpu", "xpu" or a plug-in's name
    std::string maker;  ///< "NVIDIA", …
    int present = 0;
    int usable = 0;       ///< visible ones; with one device per worker all that are listed
    int slices = 0;       ///< MIG slices listed
    bool sliced = false;  ///< a whole GPU is listed that is cut into MIG slices
    std::string limited_by;
    bool none_wanted = false;
};

/// A value from outside on one line, however long or odd it is.
std::string shown(std::string_view value) {
    std::string text;
    for (const char c : value.substr(0, 200)) text += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? '?' : c;
    return value.size() > 200 ? text + "…" : text;
}

std::string plural(int count, std::string_view thing) {
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

int count_of_kind(const DeviceFacts& facts, DeviceKind kind) {
    return static_cast<int>(std::count_if(facts.devices.begin(), facts.devices.end(),
                                          [kind](const Device& device) { return device.kind == kind; }));
}

bool mig_slice(const Device& device) {
    return device.uuid.rfind("MIG-", 0) == 0;
}

Accelerators count_kind(const DeviceFacts& facts, const Environment& environment, DeviceKind kind, bool one_each) {
    const VisibleDevices visible = visible_devices(facts, environment, kind);
    Accelerators found{kind == DeviceKind::xpu ? "xpu" : "gpu", maker_name(kind)};
    found.present = count_of_kind(facts, kind);
    found.usable = static_cast<int>(one_each ? visible.listed.size() : visible.devices.size());
    found.slices = static_cast<int>(std::count_if(visible.listed.begin(), visible.listed.end(), mig_slice));
    found.sliced = std::any_of(visible.listed.begin(), visible.listed.end(),
                               [](const Device& device) { return !device.mig_uuids.empty(); });
    found.limited_by = shown(visible.limited_by);
    found.none_wanted = visible.none_wanted;
    return found;
}

/// A plug-in backend, its name for its makers' devices and the list that hides some of them.
struct PluginBackend {
    const char* name;
    const char* maker;
    const char* variable;
};

constexpr PluginBackend plugin_backends[] = {
    {"npu", "Ascend", "ASCEND_RT_VISIBLE_DEVICES"},
    {"hpu", "Gaudi", "HABANA_VISIBLE_MODULES"},
    {"mlu", "Cambricon", "MLU_VISIBLE_DEVICES"},
    {"musa", "Moore Threads", "MUSA_VISIBLE_DEVICES"},
};

const PluginBackend* plugin_backend(std::string_view word) {
    const auto* found = std::find_if(std::begin(plugin_backends), std::end(plugin_backends),
                                     [word](const PluginBackend& backend) { return word == backend.name; });
    return found == std::end(plugin_backends) ? nullptr : found;
}

/// The lists of these backends are indices, read by the rules of CUDA's.
Accelerators count_plugin(const DeviceFacts& facts, const Environment& environment, const PluginBackend& backend) {
    const auto seen = facts.plugin_devices.find(backend.name);
    const int present = seen == facts.plugin_devices.end() ? 0 : seen->second;
    DeviceFacts numbered;
    for (int index = 0; index < present; ++index) numbered.devices.push_back({DeviceKind::cuda, index});
    Environment list;
    const auto value = environment.find(backend.variable);
    if (value != environment.end()) list["CUDA_VISIBLE_DEVICES"] = value->second;
    const VisibleDevices visible = visible_devices(numbered, list, DeviceKind::cuda);

    Accelerators found{backend.name, backend.maker, present, static_cast<int>(visible.devices.size())};
    if (value != environment.end()) found.limited_by = shown(fmt::format("{}={}", value->first, value->second));
    found.none_wanted = visible.none_wanted;
    return found;
}

/// All kinds of accelerator the machine has, in the order in which `auto` prefers them.
std::vector<Accelerators> all_accelerators(const DeviceFacts& facts, const Environment& environment, bool one_each) {
    std::vector<Accelerators> all;
    for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::rocm, DeviceKind::xpu})
        if (count_of_kind(facts, kind) > 0) all.push_back(count_kind(facts, environment, kind, one_each));
    for (const PluginBackend& backend : plugin_backends) {
        auto found = count_plugin(facts, environment, backend);
        if (found.present > 0) all.push_back(std::move(found));
    }
    return all;
}

std::string describe(const Accelerators& found) {
    std::string text = found.usable < found.present
                           ? fmt::format("{} of {}", found.usable, plural(found.present, found.maker + " device"))
                           : plural(found.usable, found.maker + (found.slices > 0 ? " MIG slice" : " device"));
    if (!found.limited_by.empty()) text += ", " + found.limited_by;
    return text;
}

std::vector<Notice> slice_notices(const Accelerators& found, bool one_each) {
    if (one_each || (found.slices < 2 && !found.sliced)) return {};
    if (found.slices < 2)
        return {{Notice::Level::warning,
                 "a GPU is cut into MIG slices, of which one process sees only the first, and no other GPU: one worker "
                 "is started; for more, list their names in CUDA_VISIBLE_DEVICES and use --virtual-local-rank"}};
    return {{Notice::Level::warning,
             fmt::format("{} MIG slices are listed ({}), and one process can use only one: one worker is started; with "
                         "--virtual-local-rank there is one for each",
                         found.slices, found.limited_by)}};
}

WorkerCount counted(const Question& question, const Accelerators& found) {
    const bool automatic = question.word == "auto";
    return {found.usable, found.kind,
            fmt::format("{} -> {} ({}{})", question.word, found.usable, automatic ? found.kind + ": " : "",
                        describe(found)),
            slice_notices(found, question.one_device_per_worker)};
}

WorkerCount counted_cpus(const Question& question) {
    const CpuCount cpus = count_cpus(question.cpus, question.rule);
    const char* prefix = question.word == "auto" ? "cpu: " : "";
    return {cpus.count, "cpu", fmt::format("{} -> {} ({}{})", question.word, cpus.count, prefix, cpus.reason), {}};
}

std::string variable_as_seen(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? name + " (not set)" : name + "=" + shown(found->second);
}

/// "Looked at: …", with the variables first, as they are the usual culprits.
std::string looked_at(const Question& question, const std::vector<std::string>& variables) {
    std::string text;
    for (const std::string& name : variables)
        text += (text.empty() ? "" : "; ") + variable_as_seen(question.environment, name);
    for (const std::string& place : question.devices.looked_at) text += (text.empty() ? "" : "; ") + place;
    return "looked at " + text;
}

Error not_available(const Question& question, std::string_view name, const std::vector<std::string>& variables,
                    std::string hint) {
    return usage_error(fmt::format("nproc_per_node={}: {} is not available. ({})", question.word, name,
                                   looked_at(question, variables)),
                       std::move(hint));
}

std::string other_accelerators(const Question& question) {
    for (const Accelerators& found :
         all_accelerators(question.devices, question.environment, question.one_device_per_worker))
        if (found.usable > 0 && found.kind != question.word)
            return fmt::format("there are {}: use {} or auto", plural(found.usable, found.maker + " device"),
                               found.kind);
    return "auto counts CPUs where there is no accelerator; a number always works";
}

Result<WorkerCount> count_gpus(const Question& question) {
    for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::rocm}) {
        const auto found = count_kind(question.devices, question.environment, kind, question.one_device_per_worker);
        if (found.usable > 0) return counted(question, found);
    }
    return not_available(
        question, "Cuda",
        {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"},
        other_accelerators(question));
}

Result<WorkerCount> count_xpus(const Question& question) {
    const auto found =
        count_kind(question.devices, question.environment, DeviceKind::xpu, question.one_device_per_worker);
    if (found.usable > 0) return counted(question, found);
    return not_available(question, "Xpu", {"ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"}, other_accelerators(question));
}

Result<WorkerCount> count_backend(const Question& question, const PluginBackend& backend) {
    const auto found = count_plugin(question.devices, question.environment, backend);
    if (found.usable > 0) return counted(question, found);
    return not_available(question, backend.name, {backend.variable}, other_accelerators(question));
}

WorkerCount count_automatically(const Question& question) {
    for (const Accelerators& found :
         all_accelerators(question.devices, question.environment, question.one_device_per_worker))
        if (found.usable > 0) return counted(question, found);
    return counted_cpus(question);
}

std::string backend_names() {
    return fmt::format("{}", fmt::join(plugin_backend_names(), ", "));
}

}  // namespace

const std::vector<std::string>& plugin_backend_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> list;
        for (const PluginBackend& backend : plugin_backends) list.emplace_back(backend.name);
        return list;
    }();
    return names;
}

Result<WorkerCount> count_workers(std::string_view word, const CpuFacts& cpus, const DeviceFacts& devices,
                                  const Environment& environment, CpuCountRule rule, bool one_device_per_worker) {
    const Question question{word, cpus, devices, environment, rule, one_device_per_worker};
    if (word == "cpu") return counted_cpus(question);
    if (word == "gpu") return count_gpus(question);
    if (word == "xpu") return count_xpus(question);
    if (word == "auto") return count_automatically(question);
    if (const PluginBackend* backend = plugin_backend(word)) return count_backend(question, *backend);
    if (word == "privateuseone")
        return not_available(question, word, {},
                             "no PyTorch plug-in is loaded here, so a backend is counted by its own name (" +
                                 backend_names() + "), or given as a number");
    return usage_error(
        fmt::format("Unsupported nproc_per_node value: {} (accepted: a whole number, cpu, gpu, xpu, "
                    "auto, or a plug-in backend: {})",
                    shown(word), backend_names()));
}

std::vector<Notice> check_worker_count(int nproc, const DeviceFacts& devices, const Environment& environment,
                                       bool one_device_per_worker) {
    const auto all = all_accelerators(devices, environment, one_device_per_worker);
    const auto found = std::find_if(all.begin(), all.end(), [](const Accelerators& kind) { return kind.usable > 0; });
    const Accelerators* chosen = found != all.end() ? &*found : all.empty() ? nullptr : &all.front();
    if (!chosen || chosen->none_wanted || nproc <= chosen->usable) return {};
    return {
        {Notice::Level::warning,
         fmt::format("{} on this node, but only {} can be seen ({}): workers will share devices or ask for one that "
                     "is not there",
                     plural(nproc, "worker"), plural(chosen->usable, chosen->maker + " device"),
                     chosen->limited_by.empty() ? fmt::format("{} there", chosen->present)
                                                : fmt::format("{} there, {}", chosen->present, chosen->limited_by))}};
}

bool needs_device_drivers(std::string_view word) {
    return word == "gpu" || word == "auto";
}

}  // namespace cpprun
