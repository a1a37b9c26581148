// SPDX-License-Identifier: BSD-3-Clause
// What a batch system's variables say about how this launcher was started.
#pragma once

#include "core/host_facts.hpp"

#include <optional>
#include <string>

namespace cpprun {

/// Launchers that one batch step has started on this node, as Slurm, Open MPI or a PMI launcher counts its tasks.
struct TasksOnThisNode {
    int count = 1;
    int own_number = 0;    ///< from 0
    std::string variable;  ///< "SLURM_STEP_TASKS_PER_NODE=8"
};

/// None: no variable says so, or none that can be read. Slurm's variables of a batch script, which runs once whatever
/// they say, do not count: only those of a step do.
std::optional<TasksOnThisNode> tasks_on_this_node(const Environment& environment);

}  // namespace cpprun
