// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/worker_starter.hpp"

#include "core/agent/worker_command.hpp"
#include "runtime/os/disk_lookup.hpp"

namespace cpprun {
namespace {

std::string found_on_path(const std::string& name, const Environment& environment) {
    const auto path = environment.find("PATH");
    return find_on_path(name, path == environment.end() ? "/bin:/usr/bin" : path->second, DiskLookup{}).value_or("");
}

}  // namespace

WorkerStarter::WorkerStarter(const LaunchConfig& config, const Environment& environment,
                             const std::optional<VirtualDevices>& devices)
    : config_(config), environment_(environment), devices_(devices) {}

Environment WorkerStarter::own_variables(const WorkerPlace& place) const {
    Environment variables = rank_variables(config_, place);
    if (devices_)
        for (const std::string& name : devices_->variables)
            variables[name] = devices_->entries.at(static_cast<std::size_t>(place.local_rank));
    return variables;
}

void WorkerStarter::begin_attempt(const WorkerPlace& place) {
    // A native SCRIPT is executed where it is, and macros may make it another for each rank.
    executable_.clear();
    if (!config_.program.native_script)
        executable_ = found_on_path(worker_argv(config_.program, 0).front(), environment_);

    WorkerPlace first = place;
    first.local_rank = 0;
    const Environment own = own_variables(first);
    const Environment shared = group_variables(config_, first, environment_);
    shared_texts_.clear();
    for (const auto& [name, value] : environment_)
        if (!shared.contains(name) && !own.contains(name)) shared_texts_.push_back(name + "=" + value);
    for (const auto& [name, value] : shared)
        if (!own.contains(name)) shared_texts_.push_back(name + "=" + value);
}

SpawnSpec WorkerStarter::prepare(const WorkerPlace& place) {
    SpawnSpec spec;
    spec.argv = worker_argv(config_.program, place.local_rank);
    spec.executable = executable_.empty() ? spec.argv.front() : executable_;
    own_texts_.clear();
    for (const auto& [name, value] : own_variables(place)) own_texts_.push_back(name + "=" + value);
    spec.environment.reserve(shared_texts_.size() + own_texts_.size() + 1);
    for (const auto* texts : {&shared_texts_, &own_texts_})
        for (const std::string& text : *texts) spec.environment.push_back(text.c_str());
    return spec;
}

}  // namespace cpprun
