// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/visible_devices.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace cpprun {
namespace {

using Devices = std::vector<Device>;

const std::string* value_of(const Environment& environment, const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : &found->second;
}

bool starts_with(std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
}

bool digit(char c) {
    return c >= '0' && c <= '9';
}

/// The number at the beginning of an entry, as atoi reads it ("1gpu" is 1). None: no digit there, or a minus sign.
std::optional<int> leading_index(std::string_view entry) {
    if (!entry.empty() && entry.front() == '+') entry.remove_prefix(1);
    int value = 0;
    if (entry.empty() || !digit(entry.front())) return std::nullopt;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), value);
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

/// "2" or "2.1": a card, or one tile of it. None: anything else.
std::optional<int> card_index(std::string_view entry) {
    const bool plain = std::all_of(entry.begin(), entry.end(), [](char c) { return digit(c) || c == '.'; });
    return plain ? leading_index(entry) : std::nullopt;
}

Devices of_kind(const DeviceFacts& facts, DeviceKind kind) {
    Devices devices;
    std::copy_if(facts.devices.begin(), facts.devices.end(), std::back_inserter(devices),
                 [kind](const Device& device) { return device.kind == kind; });
    return devices;
}

Devices pick_by_index(const Devices& all, const std::vector<std::string>& entries) {
    Devices picked;
    std::set<int> seen;
    for (const std::string& entry : entries) {
        const auto index = leading_index(entry);
        if (!index || *index >= static_cast<int>(all.size()) || !seen.insert(*index).second) break;
        picked.push_back(all[static_cast<std::size_t>(*index)]);
    }
    return picked;
}

/// The one device whose UUID begins with `entry`; null when there is none or more than one.
const Device* device_by_uuid(const Devices& all, std::string_view entry) {
    const auto matches = [entry](const Device& device) { return starts_with(device.uuid, entry); };
    const auto found = std::find_if(all.begin(), all.end(), matches);
    if (found == all.end() || std::find_if(found + 1, all.end(), matches) != all.end()) return nullptr;
    return &*found;
}

bool uuids_unknown(const Devices& all) {
    return std::all_of(all.begin(), all.end(), [](const Device& device) { return device.uuid.empty(); });
}

Devices pick_by_uuid(const Devices& all, const std::vector<std::string>& entries) {
    Devices picked;
    std::set<std::string> seen;
    for (const std::string& entry : entries) {
        if (!starts_with(entry, "GPU-") || picked.size() == all.size()) break;
        const Device* device = device_by_uuid(all, entry);
        if (!device && !uuids_unknown(all)) break;
        Device chosen = device ? *device : Device{all.front().kind, -1, entry, {}, {}};
        if (!seen.insert(chosen.uuid).second) break;
        picked.push_back(std::move(chosen));
    }
    return picked;
}

bool old_slice_name(std::string_view name) {
    return starts_with(name, "MIG-GPU-");
}

bool slice_names_known(const Devices& all) {
    for (const Device& device : all)
        for (const std::string& name : device.mig_uuids)
            if (!old_slice_name(name)) return true;
    return false;
}

bool holds_slice(const Device& device, std::string_view entry) {
    // The old form MIG-GPU-<uuid>/<gi>/<ci> carries its GPU's UUID.
    if (old_slice_name(entry)) {
        const std::string_view gpu = entry.substr(4, entry.find('/') - 4);
        return !device.uuid.empty() && device.uuid == gpu;
    }
    return std::any_of(device.mig_uuids.begin(), device.mig_uuids.end(),
                       [entry](const std::string& name) { return starts_with(name, entry); });
}

/// The slice that `entry` names; none when the names are known and this one is not among them.
std::optional<Device> find_slice(const Devices& all, const std::string& entry) {
    const auto parent =
        std::find_if(all.begin(), all.end(), [&entry](const Device& device) { return holds_slice(device, entry); });
    if (parent != all.end()) return Device{parent->kind, parent->index, entry, parent->pci_address, {}};
    const bool could_be_checked = old_slice_name(entry) ? !uuids_unknown(all) : slice_names_known(all);
    if (could_be_checked || all.empty()) return std::nullopt;
    return Device{all.front().kind, -1, entry, all.size() == 1 ? all.front().pci_address : std::string{}, {}};
}

Devices pick_slices(const Devices& all, const std::vector<std::string>& entries) {
    Devices picked;
    std::set<std::string> seen;
    for (const std::string& entry : entries) {
        if (!starts_with(entry, "MIG-") || !seen.insert(entry).second) break;
        auto slice = find_slice(all, entry);
        if (!slice) break;
        picked.push_back(std::move(*slice));
    }
    return picked;
}

Devices pick(const Devices& all, const std::vector<std::string>& entries) {
    if (starts_with(entries.front(), "MIG-")) return pick_slices(all, entries);
    if (starts_with(entries.front(), "GPU-")) return pick_by_uuid(all, entries);
    return pick_by_index(all, entries);
}

Devices pick_cards(const Devices& all, const std::vector<std::string>& entries) {
    std::set<int> cards;
    for (const std::string& entry : entries) {
        const auto card = card_index(entry);
        if (card && *card < static_cast<int>(all.size())) cards.insert(*card);
    }
    Devices picked;
    for (const int card : cards) picked.push_back(all[static_cast<std::size_t>(card)]);
    return picked;
}

bool wants_none(const std::string& first_entry) {
    return first_entry.empty() || first_entry == "NoDevFiles" || starts_with(first_entry, "-1");
}

/// Narrows `result.listed` by one variable.
void narrow(VisibleDevices& result, const char* name, const std::string& value) {
    const auto entries = split_device_list(value);
    result.listed = pick(result.listed, entries);
    result.limited_by += (result.limited_by.empty() ? "" : " ") + std::string(name) + "=" + value;
    result.none_wanted = result.none_wanted || wants_none(entries.front());
}

/// A process sees one MIG slice at most, and no whole device beside it.
Devices seen_by_one_process(const Devices& listed) {
    const auto sliced = std::find_if(listed.begin(), listed.end(), [](const Device& device) {
        return starts_with(device.uuid, "MIG-") || !device.mig_uuids.empty();
    });
    if (sliced == listed.end()) return listed;
    Device first = *sliced;
    if (!first.mig_uuids.empty()) first.uuid = first.mig_uuids.front();
    first.mig_uuids.clear();
    return {first};
}

void apply_xpu_mask(VisibleDevices& result, const Environment& environment) {
    const std::string* mask = value_of(environment, "ZE_AFFINITY_MASK");
    if (!mask || mask->empty()) return;
    result.listed = pick_cards(result.listed, split_device_list(*mask));
    result.limited_by = "ZE_AFFINITY_MASK=" + *mask;
}

void apply_rocm_lists(VisibleDevices& result, const Environment& environment) {
    if (const auto* value = value_of(environment, "ROCR_VISIBLE_DEVICES"))
        narrow(result, "ROCR_VISIBLE_DEVICES", *value);
    const char* upper = value_of(environment, "HIP_VISIBLE_DEVICES") ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
    if (const auto* value = value_of(environment, upper)) narrow(result, upper, *value);
}

}  // namespace

std::vector<std::string> split_device_list(std::string_view text) {
    std::vector<std::string> entries;
    for (;;) {
        const std::size_t comma = text.find(',');
        std::string_view entry = text.substr(0, comma);
        const auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
        while (!entry.empty() && blank(entry.front())) entry.remove_prefix(1);
        while (!entry.empty() && blank(entry.back())) entry.remove_suffix(1);
        entries.emplace_back(entry);
        if (comma == std::string_view::npos) return entries;
        text.remove_prefix(comma + 1);
    }
}

VisibleDevices visible_devices(const DeviceFacts& facts, const Environment& environment, DeviceKind kind) {
    VisibleDevices result;
    result.listed = of_kind(facts, kind);
    if (kind == DeviceKind::xpu) {
        apply_xpu_mask(result, environment);
    } else if (kind == DeviceKind::rocm) {
        apply_rocm_lists(result, environment);
    } else if (const auto* value = value_of(environment, "CUDA_VISIBLE_DEVICES")) {
        narrow(result, "CUDA_VISIBLE_DEVICES", *value);
    }
    result.devices = seen_by_one_process(result.listed);
    return result;
}

std::optional<DeviceKind> accelerator_kind(const DeviceFacts& facts) {
    for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::rocm, DeviceKind::xpu})
        if (!of_kind(facts, kind).empty()) return kind;
    return std::nullopt;
}

std::vector<std::string> device_addresses_by_rank(const DeviceFacts& facts, const Environment& environment) {
    std::vector<std::string> addresses;
    const auto kind = accelerator_kind(facts);
    if (!kind) return addresses;
    for (const Device& device : visible_devices(facts, environment, *kind).listed)
        addresses.push_back(device.pci_address);
    return addresses;
}

const char* maker_name(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::cuda:
            return "NVIDIA";
        case DeviceKind::rocm:
            return "AMD";
        case DeviceKind::xpu:
            return "Intel";
    }
    return "";
}

}  // namespace cpprun
