// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/health_record.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cpprun {

std::string health_json(const HealthRecord& record) {
    const nlohmann::ordered_json json{{"phase", record.phase},
                                      {"seconds_in_phase", static_cast<double>(record.in_phase.count()) / 1000},
                                      {"round", record.round},
                                      {"world_size", record.world_size},
                                      {"local_world_size", record.local_world_size},
                                      {"restart_count", record.restart_count},
                                      {"pid", record.pid},
                                      {"time", record.time}};
    return json.dump() + "\n";
}

std::string health_answer(const HealthRecord& record) {
    const std::string body = health_json(record);
    return fmt::format(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
        "Connection: close\r\n\r\n{}",
        body.size(), body);
}

}  // namespace cpprun
