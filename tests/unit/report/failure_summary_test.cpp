// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/failure_summary.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

WorkerFailure failed(int local_rank, ExitStatus status, std::int64_t timestamp) {
    WorkerFailure failure;
    failure.local_rank = local_rank;
    failure.global_rank = 4 + local_rank;
    failure.pid = 4241 + local_rank;
    failure.status = status;
    failure.timestamp = timestamp;
    return failure;
}

TEST(FailureTable, IsTheOneOfTheContractByteForByte) {
    WorkerFailure root = failed(0, ExitStatus::exited(1), 100);
    root.record =
        parse_error_file(
            R"({"message":{"message":"ValueError: x","extraInfo":{"py_callstack":"Traceback (most recent call last):\n  File \"train.py\", line 3, in main\n    raise ValueError(\"x\")\nValueError: x\n","timestamp":"100"}}})")
            .value();
    root.error_file = "/tmp/torchelastic_ab12cd34/none_xy98zw76/attempt_0/0/error.json";
    const std::string table = failure_table("train.py", {root, failed(1, ExitStatus::killed_by(15), 101)},
                                            {"2026-03-04_05:06:06", "2026-03-04_05:06:07"}, "node1.example.com");
    EXPECT_EQ(table,
              "============================================================\n"
              "train.py FAILED\n"
              "------------------------------------------------------------\n"
              "Failures:\n"
              "[1]:\n"
              "  time      : 2026-03-04_05:06:07\n"
              "  host      : node1.example.com\n"
              "  rank      : 5 (local_rank: 1)\n"
              "  exitcode  : -15 (pid: 4242)  (SIGTERM)\n"
              "  error_file: <N/A>\n"
              "  traceback : Signal 15 (SIGTERM) received by PID 4242\n"
              "------------------------------------------------------------\n"
              "Root Cause (first observed failure):\n"
              "[0]:\n"
              "  time      : 2026-03-04_05:06:06\n"
              "  host      : node1.example.com\n"
              "  rank      : 4 (local_rank: 0)\n"
              "  exitcode  : 1 (pid: 4241) \n"
              "  error_file: /tmp/torchelastic_ab12cd34/none_xy98zw76/attempt_0/0/error.json\n"
              "  traceback : Traceback (most recent call last):\n"
              "    File \"train.py\", line 3, in main\n"
              "      raise ValueError(\"x\")\n"
              "  ValueError: x\n"
              "  \n"
              "============================================================");
}

TEST(FailureHint, B05ArgumentsThatAllRanksRefuseAreGuessed) {
    WorkerFailure refused = failed(0, ExitStatus::exited(2), 1);
    refused.age = std::chrono::milliseconds(300);
    WorkerFailure stopped = failed(1, ExitStatus::killed_by(15), 1);
    stopped.after_stop_signal = true;
    EXPECT_NE(failure_hint({refused, stopped}), "");
    EXPECT_NE(failure_hint({refused, refused}), "");
    EXPECT_EQ(failure_hint({stopped}), "");

    WorkerFailure late = refused;
    late.age = std::chrono::minutes(5);
    WorkerFailure other = refused;
    other.status = ExitStatus::exited(1);
    WorkerFailure signaled = refused;
    signaled.status = ExitStatus::killed_by(2);
    for (const WorkerFailure& failure : {late, other, signaled, failed(1, ExitStatus::exited(2), 1)})
        EXPECT_EQ(failure_hint({refused, failure}), "");
}

TEST(FailureTable, ALoneSignalIsAsWideAsItsLongestLine) {
    WorkerFailure only = failed(0, ExitStatus::killed_by(11), 1);
    only.pid = 10836;
    const std::string table = failure_table("sh", {only}, {"2026-03-04_05:06:06"}, "h");
    EXPECT_EQ(table.find('\n'), std::string("  traceback : Signal 11 (SIGSEGV) received by PID 10836").size());
    EXPECT_NE(table.find("\n  <NO_OTHER_FAILURES>\n"), std::string::npos);
}

TEST(FailureTable, ASignalWithoutANameLooksLikeAnExitCode) {
    const std::string table = failure_table("sh", {failed(0, ExitStatus::killed_by(40), 1)}, {"t"}, "h");
    EXPECT_NE(table.find("  exitcode  : -40 (pid: 4241) \n"), std::string::npos);
    EXPECT_NE(table.find("Signal 40 (<N/A>) received by PID 4241"), std::string::npos);
}

TEST(FailureTable, WorkersCannotWriteToTheTerminalThroughIt) {
    WorkerFailure evil = failed(0, ExitStatus::exited(1), 1);
    evil.record = parse_error_file(R"({"message":"a\u001b]0;x\u0007b\u009bc","timestamp":1})").value();
    const std::string table = failure_table("t\x1b[2J", {evil}, {"t"}, "h");
    EXPECT_EQ(table.find('\x1b'), std::string::npos);
    EXPECT_EQ(table.find('\x07'), std::string::npos);
    EXPECT_NE(table.find("traceback : a]0;xbc"), std::string::npos);
}

TEST(RootCause, IsTheEarliestAndOfEqualOnesTheFirstRecorded) {
    const auto exit1 = ExitStatus::exited(1);
    EXPECT_EQ(root_cause({failed(0, exit1, 5), failed(1, exit1, 5), failed(2, exit1, 4)}), 2U);
    EXPECT_EQ(root_cause({failed(1, exit1, 5), failed(0, exit1, 5)}), 0U);
}

}  // namespace
}  // namespace cpprun
