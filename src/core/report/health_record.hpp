// SPDX-License-Identifier: BSD-3-Clause
// What an agent says of itself to whatever watches over it: the content of --health-file, the answer of --health-port.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace cpprun {

struct HealthRecord {
    std::string_view phase;  ///< a state of the agent: "joining", "running", "barrier"; static lifetime
    std::chrono::milliseconds in_phase{0};
    std::int64_t round = 0;  ///< of the last round that this node was in
    int world_size = 0;      ///< 0: no round yet
    int local_world_size = 0;
    int restart_count = 0;
    int pid = 0;            ///< the agent's
    std::int64_t time = 0;  ///< epoch seconds
};

/// One JSON object on one line, with a line break.
std::string health_json(const HealthRecord& record);

/// The whole HTTP answer with that body, after which the connection is closed.
std::string health_answer(const HealthRecord& record);

}  // namespace cpprun
