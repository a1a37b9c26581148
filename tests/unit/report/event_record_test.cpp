// SPDX-License-Identifier: BSD-3-Clause
// The expected lines were printed by torchrun 2.13.0.
#include "core/report/event_record.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

TEST(EventRecord, AnAgentsFirstRendezvousHasNoRankYet) {
    const EventRun run{.run_id = "057b6224-87e6-45e9-9550-01ed5c420d32",
                       .role = "default",
                       .hostname = "localhost",
                       .rdzv_backend = "c10d",
                       .entry_point = "sh"};
    EXPECT_EQ(event_line(run, AgentEventRecord{.state = EventState::rendezvous, .duration_ms = 59.79208600001584}),
              R"({"name": "torchelastic.worker.status.RENDEZVOUS", "source": "AGENT", "timestamp": 0, "metadata": )"
              R"({"run_id": "057b6224-87e6-45e9-9550-01ed5c420d32", "global_rank": null, "group_rank": null, )"
              R"("worker_id": null, "role": "default", "hostname": "localhost", "state": "RENDEZVOUS", )"
              R"("total_run_time": 0, "rdzv_backend": "c10d", "raw_error": null, )"
              R"("metadata": "{\"group_world_size\": null, \"entry_point\": \"sh\"}", )"
              R"("agent_restarts": 0, "duration_ms": 59.79208600001584}})");
}

TEST(EventRecord, AnAgentsSecondRendezvousHasTheRankOfTheFirst) {
    const EventRun run{.run_id = "75530786-15c4-43ba-b8b8-a556fa2b5983",
                       .role = "tr\"é",
                       .hostname = "localhost",
                       .rdzv_backend = "c10d",
                       .entry_point = "sh",
                       .agent_restarts = 1};
    EXPECT_EQ(event_line(run, AgentEventRecord{.state = EventState::assign_worker_ranks,
                                               .group_rank = 0,
                                               .group_world_size = 1,
                                               .duration_ms = 0.35198499995203747}),
              R"({"name": "torchelastic.worker.status.ASSIGN_WORKER_RANKS", "source": "AGENT", "timestamp": 0, )"
              R"("metadata": {"run_id": "75530786-15c4-43ba-b8b8-a556fa2b5983", "global_rank": null, )"
              R"("group_rank": 0, "worker_id": null, "role": "tr\"\u00e9", "hostname": "localhost", )"
              R"("state": "ASSIGN_WORKER_RANKS", "total_run_time": 0, "rdzv_backend": "c10d", "raw_error": null, )"
              R"("metadata": "{\"group_world_size\": 1, \"entry_point\": \"sh\"}", "agent_restarts": 1, )"
              R"("duration_ms": 0.35198499995203747}})");
}

TEST(EventRecord, AWorkerThatStartsHasAPidAsItsIdAndNoExitCode) {
    const EventRun run{.run_id = "057b6224-87e6-45e9-9550-01ed5c420d32",
                       .role = "default",
                       .hostname = "localhost",
                       .rdzv_backend = "c10d",
                       .entry_point = "sh"};
    const WorkerEventRecord event{.state = EventState::start,
                                  .global_rank = 1,
                                  .local_rank = 1,
                                  .role_rank = 1,
                                  .role_world_size = 2,
                                  .pid = 8007};
    EXPECT_EQ(event_line(run, event),
              R"({"name": "torchelastic.worker.status.START", "source": "WORKER", "timestamp": 0, "metadata": )"
              R"({"run_id": "057b6224-87e6-45e9-9550-01ed5c420d32", "global_rank": 1, "group_rank": 0, )"
              R"("worker_id": "8007", "role": "default", "hostname": "localhost", "state": "START", )"
              R"("total_run_time": 0, "rdzv_backend": "c10d", "raw_error": null, "metadata": )"
              R"("{\"group_world_size\": 1, \"entry_point\": \"sh\", \"local_rank\": [1], \"role_rank\": [1], )"
              R"(\"role_world_size\": [2], \"exit_code\": [null], \"worker_pid\": [null]}", )"
              R"("agent_restarts": 0, "duration_ms": null}})");
}

TEST(EventRecord, AFailedWorkerHasItsExitCodeAndARawError) {
    const EventRun run{.run_id = "ef5a7cb5-b395-46de-8142-3460d13e4cad",
                       .role = "default",
                       .hostname = "localhost",
                       .rdzv_backend = "c10d",
                       .entry_point = "sh",
                       .total_run_time = 1};
    const WorkerEventRecord event{.state = EventState::failed,
                                  .global_rank = 1,
                                  .local_rank = 1,
                                  .role_rank = 1,
                                  .role_world_size = 2,
                                  .pid = 11016,
                                  .exit_code = 3,
                                  .raw_error = worker_without_error_file};
    EXPECT_EQ(event_line(run, event),
              R"({"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, "metadata": )"
              R"({"run_id": "ef5a7cb5-b395-46de-8142-3460d13e4cad", "global_rank": 1, "group_rank": 0, )"
              R"("worker_id": "11016", "role": "default", "hostname": "localhost", "state": "FAILED", )"
              R"("total_run_time": 1, "rdzv_backend": "c10d", "raw_error": "{\"message\": \"<NONE>\", )"
              R"(\"errorTraits\": {\"category\": \"system_terminated_error\", \"retryability\": \"False\"}}", )"
              R"("metadata": "{\"group_world_size\": 1, \"entry_point\": \"sh\", \"local_rank\": [1], )"
              R"(\"role_rank\": [1], \"role_world_size\": [2], \"exit_code\": [3], \"worker_pid\": [11016]}", )"
              R"("agent_restarts": 0, "duration_ms": null}})");
}

TEST(EventRecord, AWorkerThatWasStoppedAndExitedWith0IsTerminated) {
    const EventRun run{.run_id = "ef5a7cb5-b395-46de-8142-3460d13e4cad",
                       .role = "default",
                       .hostname = "localhost",
                       .rdzv_backend = "c10d",
                       .entry_point = "sh",
                       .total_run_time = 1};
    const WorkerEventRecord event{.state = EventState::terminated, .role_world_size = 2, .pid = 11013};
    EXPECT_EQ(event_line(run, event),
              R"({"name": "torchelastic.worker.status.TERMINATED", "source": "WORKER", "timestamp": 0, "metadata": )"
              R"({"run_id": "ef5a7cb5-b395-46de-8142-3460d13e4cad", "global_rank": 0, "group_rank": 0, )"
              R"("worker_id": "11013", "role": "default", "hostname": "localhost", "state": "TERMINATED", )"
              R"("total_run_time": 1, "rdzv_backend": "c10d", "raw_error": null, "metadata": )"
              R"("{\"group_world_size\": 1, \"entry_point\": \"sh\", \"local_rank\": [0], \"role_rank\": [0], )"
              R"(\"role_world_size\": [2], \"exit_code\": [null], \"worker_pid\": [null]}", )"
              R"("agent_restarts": 0, "duration_ms": null}})");
}

TEST(EventRecord, AnAgentThatFailedSaysWhy) {
    const EventRun run{
        .run_id = "none", .role = "default", .hostname = "h", .rdzv_backend = "static", .entry_point = "sleep"};
    const std::string text = event_line(
        run, AgentEventRecord{
                 .state = EventState::failed, .group_rank = 0, .group_world_size = 1, .raw_error = "got signal: 15\n"});
    EXPECT_NE(text.find(R"("state": "FAILED", "total_run_time": 0, "rdzv_backend": "static", )"
                        R"("raw_error": "got signal: 15\n", "metadata": )"),
              std::string::npos)
        << text;
}

TEST(EventRecord, HostileBytesStayWithinOneLineOfJson) {
    const EventRun run{.run_id = "a\nb\xff", .role = "", .hostname = "h", .rdzv_backend = "c10d", .entry_point = "\"}"};
    const std::string text = event_line(run, AgentEventRecord{});
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_NE(text.find(R"("run_id": "a\nb\ufffd", )"), std::string::npos) << text;
    EXPECT_NE(text.find(R"(\"entry_point\": \"\\\"}\"})"), std::string::npos) << text;
}

}  // namespace
}  // namespace cpprun
