// SPDX-License-Identifier: BSD-3-Clause
// --capture: stderr by way of a file of the launcher's, with real workers.
#include "integration/logs/tail_rig.hpp"
#include "runtime/logs/captured_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>

namespace cpprun {
namespace {

using namespace testing_support;
using testing::EndsWith;
using testing::HasSubstr;

class CaptureTest : public testing::TestWithParam<bool> {
  protected:
    TailOptions options() const {
        return TailOptions{.stdout_fd = out.fd(), .stderr_fd = err.fd(), .use_inotify = GetParam()};
    }
    AttemptLogs begin(int nproc, std::vector<int> shown = {}, Capture how = Capture::file) {
        LogConfig config;
        config.capture = how;
        config.base_dir = scratch.path();
        config.local_ranks_filter = std::move(shown);
        runs.push_back(RunLogs::create(config, "none", {}).value());
        return runs.back().begin_attempt(0, 0, nproc).value();
    }
    static std::string no_prefix(int /*rank*/, Std /*stream*/) { return "never shown"; }
    static std::uint64_t memory_of(const WorkerLogs& worker) {
        struct stat facts {};
        ::fstat(worker.err.captured->get(), &facts);
        return static_cast<std::uint64_t>(facts.st_blocks) * 512;
    }

    ScratchDirectory scratch;
    std::vector<RunLogs> runs;
    PipeConsole out;
    PipeConsole err;
};

INSTANTIATE_TEST_SUITE_P(Notices, CaptureTest, testing::Values(true, false),
                         [](const auto& chosen) { return chosen.param ? "Inotify" : "Timer"; });

TEST_P(CaptureTest, BytesPassAsTheyAreWithoutPrefixAndWithoutWaitingForALinesEnd) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(1);
    follow(*rig.tail, attempt, no_prefix).value();
    const std::string text("50%\r\xff\xc3", 6);
    const pid_t pid = start_worker(R"(printf '50%%\r\377\303' >&2; exec sleep 1000)", attempt.workers[0]);
    EXPECT_EQ(err.read(text.size()), text);
    ::kill(pid, SIGKILL);
    wait_for(pid);
    EXPECT_TRUE(rig.drain());
    EXPECT_EQ(attempt.workers[0].out.target, WorkerStream::Target::inherit);
}

TEST_P(CaptureTest, AWorkerThatWritesMuchLosesNothingAndHoldsLittleMemory) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(1);
    follow(*rig.tail, attempt, no_prefix).value();
    const pid_t pid = start_worker("yes 0123456789abcdef | head -c 17000000 >&2", attempt.workers[0]);
    std::string text = err.read(17'000'000);
    wait_for(pid);
    ASSERT_TRUE(rig.drain());
    ASSERT_EQ(text.size(), 17'000'000U);
    for (std::size_t at = 0; at < text.size(); at += 17) ASSERT_EQ(text.compare(at, 17, "0123456789abcdef\n"), 0) << at;
    EXPECT_LT(memory_of(attempt.workers[0]), 1U << 20U);
    EXPECT_EQ(last_bytes(attempt.workers[0].err.captured->get()), text.substr(text.size() - last_words_bytes_max));
}

TEST_P(CaptureTest, ARankThatIsNotShownHoldsLittleMemoryAndItsLastWordsAreKnown) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(2, {0});
    follow(*rig.tail, attempt, no_prefix).value();
    const pid_t pid = start_worker("yes noise | head -c 9000000 >&2; echo last words >&2", attempt.workers[1]);
    wait_for(pid);
    ASSERT_TRUE(rig.run_until(hang_bound, [&] { return memory_of(attempt.workers[1]) < (1U << 20U); }));
    ASSERT_TRUE(rig.drain());
    err.close_writer();
    EXPECT_THAT(last_bytes(attempt.workers[1].err.captured->get()), EndsWith("last words\n"));
}

TEST_P(CaptureTest, AConsoleThatTakesNothingBlocksNoWorkerAndWhatIsLeftOutIsSaid) {
    TailOptions bounded = options();
    bounded.captured_bytes_max = 4U << 20U;
    TailRig rig(bounded);
    const AttemptLogs attempt = begin(1);
    follow(*rig.tail, attempt, no_prefix).value();
    // Nobody reads: the worker ends nevertheless.
    wait_for(start_worker("yes flood | head -c 30000000 >&2; echo last words >&2", attempt.workers[0]));
    ASSERT_TRUE(rig.run_until(hang_bound, [&] { return memory_of(attempt.workers[0]) < (6U << 20U); }));
    std::string text;
    std::thread reader([&] { text = err.read_all(); });
    EXPECT_TRUE(rig.drain());
    rig.tail->stop();
    err.close_writer();
    reader.join();
    EXPECT_THAT(text, HasSubstr(" bytes of local rank 0's stderr are left out here, as nobody took them]\n"));
    EXPECT_THAT(text, EndsWith("last words\n"));
}

TEST_P(CaptureTest, AClosedConsoleReachesNoWorker) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(1);
    follow(*rig.tail, attempt, no_prefix).value();
    err.close_reader();
    EXPECT_EQ(wait_for(start_worker("yes | head -c 1000000 >&2 && exit 7", attempt.workers[0])), 7 << 8);
    EXPECT_TRUE(rig.drain());
}

TEST_P(CaptureTest, WhatAWorkerHasSaidIsShownBeforeCatchUpReturns) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(1);
    follow(*rig.tail, attempt, no_prefix).value();
    wait_for(start_worker("echo last words >&2", attempt.workers[0]));
    rig.tail->catch_up(0, hang_bound);
    ASSERT_EQ(::write(err.fd(), "then\n", 5), 5);
    EXPECT_EQ(err.read(16), "last words\nthen\n");
    EXPECT_TRUE(rig.drain());
}

TEST_P(CaptureTest, AfterTheEndNobodyCanFillTheFile) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(1);
    follow(*rig.tail, attempt, no_prefix).value();
    wait_for(start_worker("echo one >&2", attempt.workers[0]));
    ASSERT_TRUE(rig.drain());
    EXPECT_NE(wait_for(start_worker("/bin/echo late >&2", attempt.workers[0])), 0);
    EXPECT_EQ(last_bytes(attempt.workers[0].err.captured->get()), "one\n");
}

TEST_P(CaptureTest, AShellThatOpensStderrAnewIsReadFromItsNewBeginning) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(1);
    follow(*rig.tail, attempt, no_prefix).value();
    const std::string first = "a first line that is long\n";
    const std::string go = scratch / "go";
    const pid_t pid = start_worker(
        "echo a first line that is long >&2; while test ! -e " + go + "; do sleep 0.01; done; echo new >/dev/stderr",
        attempt.workers[0]);
    EXPECT_EQ(err.read(first.size()), first);
    std::ofstream(go).put('!');
    wait_for(pid);
    EXPECT_EQ(err.read(4), "new\n");
    EXPECT_TRUE(rig.drain());
}

TEST_P(CaptureTest, WhatAShellWritesAnewIsSeenWhateverItsLength) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(1);
    follow(*rig.tail, attempt, no_prefix).value();
    // As long as before, the same once more, longer, and longer with the same beginning.
    const std::vector<std::string> texts{"one\n", "two\n", "two\n", "and three\n", "and three and more\n"};
    std::string script = "true";
    for (std::size_t i = 0; i < texts.size(); ++i) {
        script += "; while test ! -e " + (scratch / ("go" + std::to_string(i))) + "; do sleep 0.01; done; printf '" +
                  texts[i] + "' >/dev/stderr";
    }
    const pid_t pid = start_worker(script, attempt.workers[0]);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the time of a file goes by ticks of the kernel's
        std::ofstream(scratch / ("go" + std::to_string(i))).put('!');
        EXPECT_EQ(err.read(texts[i].size()), texts[i]) << i;
    }
    wait_for(pid);
    EXPECT_TRUE(rig.drain());
}

TEST_P(CaptureTest, APipeLosesNothingWhenAShellOpensItAnew) {
    TailRig rig(options());
    AttemptLogs attempt = begin(1, {}, Capture::pipe);
    follow(*rig.tail, attempt, no_prefix).value();
    const pid_t pid = start_worker(
        "for i in 0 1 2 3 4 5 6 7 8 9; do echo a$i >&2; echo b$i > /dev/stderr; done; seq 2000 > /dev/stderr; exit 3",
        attempt.workers[0]);
    attempt.workers[0].err.file.reset();
    attempt.workers[0].err.terminal.reset();
    std::string expected;
    for (const char digit : std::string("0123456789")) {
        expected += std::string("a") + digit + "\nb" + digit + "\n";
    }
    for (int i = 1; i <= 2000; ++i) expected += std::to_string(i) + "\n";
    EXPECT_EQ(err.read(expected.size()), expected);
    EXPECT_EQ(wait_for(pid), 3 << 8);
    EXPECT_TRUE(rig.drain());
    EXPECT_THAT(last_bytes(attempt.workers[0].err.captured->get()), EndsWith("1999\n2000\n"));
}

TEST_P(CaptureTest, ATerminalsBytesPassAsTheyAreAndItsLastWordsAreKnown) {
    TailRig rig(options());
    AttemptLogs attempt = begin(2, {0}, Capture::pty);
    follow(*rig.tail, attempt, no_prefix).value();
    std::vector<pid_t> pids;
    for (WorkerLogs& worker : attempt.workers) {
        pids.push_back(start_worker(R"(test -t 2 || exit 1; printf 'bar\rbar\n\377 %s\n' $RANK >&2)", worker));
        worker.err.file.reset();
        worker.err.terminal.reset();
    }
    for (const pid_t pid : pids) EXPECT_EQ(wait_for(pid), 0);
    ASSERT_TRUE(rig.drain());
    err.close_writer();
    EXPECT_EQ(err.read_all(), "bar\rbar\n\xff 0\n");
    EXPECT_EQ(last_bytes(attempt.workers[1].err.captured->get()), "bar\rbar\n\xff 1\n");
}

TEST_P(CaptureTest, AfterTheEndWritingToATerminalIsAnErrorAndNobodyWaitsInIt) {
    TailRig rig(options());
    AttemptLogs attempt = begin(1, {}, Capture::pty);
    follow(*rig.tail, attempt, no_prefix).value();
    attempt.workers[0].err.terminal.reset();
    wait_for(start_worker("echo one >&2", attempt.workers[0]));
    ASSERT_TRUE(rig.drain());
    EXPECT_NE(wait_for(start_worker("/bin/echo late >&2", attempt.workers[0])), 0);
}

TEST_P(CaptureTest, AConsoleThatTakesNothingBlocksNoWorkerOnATerminal) {
    TailRig rig(options());
    AttemptLogs attempt = begin(1, {}, Capture::pty);
    follow(*rig.tail, attempt, no_prefix).value();
    attempt.workers[0].err.terminal.reset();
    EXPECT_EQ(wait_for(start_worker("head -c 2000000 /dev/zero >&2", attempt.workers[0])), 0);
    auto reader = std::async(std::launch::async, [this] { return err.read(2000000).size(); });
    EXPECT_TRUE(rig.drain());
    EXPECT_EQ(reader.get(), 2000000U);
}

}  // namespace
}  // namespace cpprun
