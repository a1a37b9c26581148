// SPDX-License-Identifier: BSD-3-Clause
#include "cli/batch_system.hpp"

#include "cli/split_list.hpp"
#include "core/text/whole_number.hpp"

#include <array>

namespace cpprun {
namespace {

const std::string* text_of(const Environment& environment, const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : &found->second;
}

std::optional<int> number_of(const Environment& environment, const char* name) {
    const std::string* text = text_of(environment, name);
    return text == nullptr ? std::nullopt : whole_number<int>(*text);
}

/// Entry `node` of Slurm's "2(x3),1": 2, 2, 2, 1.
std::optional<int> slurm_entry(std::string_view list, int node) {
    for (const std::string_view part : split_at_commas(list)) {
        const std::size_t times_at = part.find("(x");
        const auto value = whole_number<int>(part.substr(0, times_at));
        int times = 1;
        if (times_at != std::string_view::npos) {
            if (!part.ends_with(')')) return std::nullopt;
            times = whole_number<int>(part.substr(times_at + 2, part.size() - times_at - 3)).value_or(0);
        }
        if (!value || times < 1) return std::nullopt;
        if (node < times) return value;
        node -= times;
    }
    return std::nullopt;
}

struct TaskVariables {
    const char* count;
    const char* own_number;
};
constexpr std::array<TaskVariables, 3> task_variables{{{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                                                       {"MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
                                                       {"PMI_LOCAL_SIZE", "PMI_LOCAL_RANK"}}};

}  // namespace

std::optional<TasksOnThisNode> tasks_on_this_node(const Environment& environment) {
    if (const std::string* list = text_of(environment, "SLURM_STEP_TASKS_PER_NODE")) {
        const int node = number_of(environment, "SLURM_NODEID").value_or(0);
        const auto count = slurm_entry(*list, node);
        const auto own = number_of(environment, "SLURM_LOCALID");
        if (count && own) return TasksOnThisNode{*count, *own, "SLURM_STEP_TASKS_PER_NODE=" + *list};
    }
    for (const TaskVariables& names : task_variables) {
        const auto count = number_of(environment, names.count);
        const auto own = number_of(environment, names.own_number);
        if (count && own) return TasksOnThisNode{*count, *own, std::string(names.count) + "=" + std::to_string(*count)};
    }
    return std::nullopt;
}

}  // namespace cpprun
