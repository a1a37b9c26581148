// SPDX-License-Identifier: BSD-3-Clause
// Tail against real files, pipes and worker processes. Streams of an attempt are set up as the agent does it.
#include "runtime/logs/tail.hpp"

#include "integration/logs/tail_rig.hpp"
#include "runtime/logs/copier.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace cpprun {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

/// Both ways to learn of new bytes: inotify, and a timer where there is none.
class TailTest : public testing::TestWithParam<bool> {
  protected:
    TailOptions options() const {
        return TailOptions{.stdout_fd = out.fd(), .stderr_fd = err.fd(), .use_inotify = GetParam()};
    }
    AttemptLogs begin(LogConfig config, int nproc) {
        config.base_dir = scratch.path();
        runs.push_back(RunLogs::create(config, "none", {}).value());
        return runs.back().begin_attempt(0, 0, nproc).value();
    }
    static LogConfig teed(Std streams) {
        LogConfig config;
        config.tee.for_all = streams;
        return config;
    }
    static std::string prefix(int rank, Std /*stream*/) { return "[default" + std::to_string(rank) + "]:"; }

    ScratchDirectory scratch;
    std::vector<RunLogs> runs;
    PipeConsole out;
    PipeConsole err;
};

INSTANTIATE_TEST_SUITE_P(Notices, TailTest, testing::Values(true, false),
                         [](const auto& chosen) { return chosen.param ? "Inotify" : "Timer"; });

TEST_P(TailTest, EachStreamGoesToItsConsoleWithItsPrefix) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::all), 2);
    follow(*rig.tail, attempt, prefix).value();
    for (const WorkerLogs& worker : attempt.workers) {
        wait_for(start_worker("echo out $RANK; echo err $RANK >&2", worker));
    }
    ASSERT_TRUE(rig.drain());
    out.close_writer();
    err.close_writer();
    EXPECT_THAT(lines_of(out.read_all()), testing::UnorderedElementsAre("[default0]:out 0", "[default1]:out 1"));
    EXPECT_THAT(lines_of(err.read_all()), testing::UnorderedElementsAre("[default0]:err 0", "[default1]:err 1"));
    EXPECT_EQ(contents(attempt.workers[1].out.path), "out 1\n");
}

TEST_P(TailTest, LinesAppearWhileTheWorkerLives) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    const pid_t pid = start_worker("echo one; read never </dev/zero; sleep 1000", attempt.workers[0]);
    const std::string line = "[default0]:one\n";
    EXPECT_EQ(out.read(line.size()), line);
    ::kill(pid, SIGKILL);
    wait_for(pid);
    EXPECT_TRUE(rig.drain());
}

TEST_P(TailTest, OddBytesReachTheConsoleUnharmedAndTheFileAsTheyWere) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    wait_for(start_worker(R"(printf 'line1\n\ncr1\rcr2\rcr3\ncrlf\r\nbad\377\376end\n'; printf '\303'; sleep 0.3
                             printf '\251\nlast')",
                          attempt.workers[0]));
    ASSERT_TRUE(rig.drain());
    out.close_writer();
    EXPECT_EQ(out.read_all(),
              "[default0]:line1\n[default0]:\n[default0]:cr1\n[default0]:cr2\n[default0]:cr3\n[default0]:crlf\n"
              "[default0]:bad\377\376end\n[default0]:\303\251\n[default0]:last");
    EXPECT_EQ(contents(attempt.workers[0].out.path), "line1\n\ncr1\rcr2\rcr3\ncrlf\r\nbad\377\376end\n\303\251\nlast");
}

TEST_P(TailTest, APromptWithoutLineEndIsShownAndItsAnswerFollowsOnTheSameLine) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    const std::string gate = scratch / "gate";
    ::mkfifo(gate.c_str(), 0600);
    const pid_t pid = start_worker("printf 'go on? '; read answer <" + gate + "; echo yes", attempt.workers[0]);
    const std::string prompt = "[default0]:go on? ";
    EXPECT_EQ(out.read(prompt.size()), prompt);
    std::ofstream(gate) << "\n" << std::flush;
    wait_for(pid);
    ASSERT_TRUE(rig.drain());
    out.close_writer();
    EXPECT_EQ(out.read_all(), "yes\n");
}

TEST_P(TailTest, AnOpenLineIsEndedBeforeAnotherRankWrites) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 2);
    follow(*rig.tail, attempt, prefix).value();
    const std::string gate = scratch / "gate";
    ::mkfifo(gate.c_str(), 0600);
    const pid_t open_line = start_worker("printf part; read go <" + gate + "; echo ial", attempt.workers[0]);
    EXPECT_EQ(out.read(15), "[default0]:part");
    wait_for(start_worker("echo other", attempt.workers[1]));
    EXPECT_EQ(out.read(18), "\n[default1]:other\n");
    std::ofstream(gate) << "\n" << std::flush;
    wait_for(open_line);
    ASSERT_TRUE(rig.drain());
    out.close_writer();
    EXPECT_EQ(out.read_all(), "[default0]:ial\n");
}

TEST_P(TailTest, WhenStdoutAndStderrAreOnePipeNoLineIsTornByTheOther) {
    TailOptions both = options();
    both.stderr_fd = ::dup(out.fd());
    const UniqueFd owner(both.stderr_fd);
    TailRig rig(both);
    const AttemptLogs attempt = begin(teed(Std::all), 1);
    follow(*rig.tail, attempt, prefix).value();
    const pid_t pid = start_worker("printf half; sleep 0.5; echo error >&2", attempt.workers[0]);
    EXPECT_EQ(out.read(15), "[default0]:half");
    EXPECT_EQ(out.read(18), "\n[default0]:error\n");
    wait_for(pid);
    EXPECT_TRUE(rig.drain());
}

std::string numbered_lines_script(const std::string& count, const std::string& last_words = "") {
    return "seq -f \"rank $RANK line %.0f of many\" " + count + "; " + last_words;
}

TEST_P(TailTest, TwoTimes200000LinesArriveWholeAndInOrder) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 2);
    follow(*rig.tail, attempt, prefix).value();
    auto reader = std::async(std::launch::async, [this] { return out.read_all(); });
    std::vector<pid_t> pids;
    for (const WorkerLogs& worker : attempt.workers) {
        pids.push_back(start_worker(numbered_lines_script("200000"), worker));
    }
    for (const pid_t pid : pids) wait_for(pid);
    EXPECT_TRUE(rig.drain());
    out.close_writer();
    std::array<int, 2> seen{};
    for (const std::string& line : lines_of(reader.get())) {
        const auto rank = static_cast<std::size_t>(line.at(8) - '0');
        ASSERT_LT(rank, 2U) << line;
        const std::string number = std::to_string(++seen.at(rank));
        ASSERT_EQ(line, prefix(static_cast<int>(rank), Std::out) + "rank " + std::to_string(rank) + " line " + number +
                            " of many");
    }
    EXPECT_THAT(seen, ElementsAre(200000, 200000));
}

TEST_P(TailTest, TheLastLineBeforeAWorkerKillsItselfIsThere) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    auto reader = std::async(std::launch::async, [this] { return out.read_all(); });
    const int status = wait_for(start_worker(numbered_lines_script("200000", "kill -9 $$"), attempt.workers[0]));
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    EXPECT_TRUE(rig.drain());
    out.close_writer();
    const std::vector<std::string> lines = lines_of(reader.get());
    EXPECT_EQ(lines.size(), 200000U);
    EXPECT_EQ(lines.back(), "[default0]:rank 0 line 200000 of many");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool memory_is_measurable = false;  // the sanitizers' own memory is far larger
#else
constexpr bool memory_is_measurable = true;
#endif

std::size_t resident_bytes() {
    std::size_t total = 0;
    std::size_t resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_P(TailTest, AConsoleThatNobodyReadsBlocksNoWorkerAndEverythingComesOnceItIsRead) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::all), 1);
    follow(*rig.tail, attempt, prefix).value();
    const std::size_t before = resident_bytes();
    wait_for(start_worker(numbered_lines_script("300000", "echo done >&2"), attempt.workers[0]));
    const std::string last_words = "[default0]:done\n";
    EXPECT_EQ(err.read(last_words.size()), last_words) << "the other console is not held up";
    if (memory_is_measurable) {
        EXPECT_LT(resident_bytes(), before + (std::size_t{4} << 20U))
            << "the log has 8 MB, of which the pipe took 64 KiB";
    }
    EXPECT_FALSE(rig.drain(200ms));
    auto reader = std::async(std::launch::async, [this] { return out.read_all(); });
    EXPECT_TRUE(rig.drain());
    out.close_writer();
    const std::vector<std::string> lines = lines_of(reader.get());
    ASSERT_EQ(lines.size(), 300000U);
    EXPECT_EQ(lines.back(), "[default0]:rank 0 line 300000 of many");
}

TEST_P(TailTest, StopDoesNotWaitForAConsoleThatNobodyReads) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    wait_for(start_worker(numbered_lines_script("100000"), attempt.workers[0]));
    EXPECT_FALSE(rig.drain(300ms));
    rig.tail->stop(hang_bound);
    SUCCEED() << "came back";
}

TEST_P(TailTest, AClosedConsoleIsSaidOnceAndTheOtherGoesOn) {
    TailRig rig(options());
    LogConfig config = teed(Std::all);
    config.duplicate_stdout_filters = {"line 99999 "};
    const AttemptLogs attempt = begin(config, 1);
    follow(*rig.tail, attempt, prefix).value();
    out.close_reader();
    wait_for(start_worker(numbered_lines_script("100000", "echo end >&2"), attempt.workers[0]));
    ASSERT_TRUE(rig.drain());
    err.close_writer();
    EXPECT_EQ(err.read_all(), "[default0]:end\n");
    EXPECT_THAT(rig.problems, ElementsAre(HasSubstr("stdout any more: Broken pipe")));
    EXPECT_EQ(contents(attempt.directory + "/filtered_stdout.log"), "[default0]:rank 0 line 99999 of many\n");
}

TEST_P(TailTest, FilteredLinesOfAllRanksGoToOneFileAndTheConsoleIsUnchanged) {
    TailRig rig(options());
    LogConfig config = teed(Std::out);
    config.duplicate_stdout_filters = {"alpha", "be"};
    config.duplicate_stderr_filters = {"zzz"};
    const AttemptLogs attempt = begin(config, 2);
    follow(*rig.tail, attempt, prefix).value();
    for (const WorkerLogs& worker : attempt.workers) {
        wait_for(start_worker("echo alpha $RANK; echo gamma; echo beta $RANK", worker));
    }
    ASSERT_TRUE(rig.drain());
    out.close_writer();
    EXPECT_EQ(lines_of(out.read_all()).size(), 6U);
    EXPECT_THAT(lines_of(contents(attempt.directory + "/filtered_stdout.log")),
                testing::UnorderedElementsAre("[default0]:alpha 0", "[default0]:beta 0", "[default1]:alpha 1",
                                              "[default1]:beta 1"));
    EXPECT_EQ(contents(attempt.directory + "/filtered_stderr.log"), "");
}

TEST_P(TailTest, WhatAWorkersChildWritesAfterTheEndIsInTheFileOnlyAndHoldsNothingUp) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    const std::string gate = scratch / "gate";
    ::mkfifo(gate.c_str(), 0600);
    wait_for(start_worker("echo first; (read go <" + gate + "; echo late) &", attempt.workers[0]));
    ASSERT_TRUE(rig.drain());
    std::ofstream(gate) << "\n" << std::flush;
    EXPECT_TRUE(rig.run_until(hang_bound, [&] { return contents(attempt.workers[0].out.path) == "first\nlate\n"; }));
    out.close_writer();
    EXPECT_EQ(out.read_all(), "[default0]:first\n");
}

TEST_P(TailTest, TheNextAttemptIsFollowedToo) {
    TailRig rig(options());
    for (int count = 0; count < 3; ++count) {
        const AttemptLogs attempt = begin(teed(Std::out), 1);
        follow(*rig.tail, attempt, prefix).value();
        wait_for(start_worker("printf 'att " + std::to_string(count) + "'", attempt.workers[0]));
        ASSERT_TRUE(rig.drain());
    }
    out.close_writer();
    EXPECT_EQ(out.read_all(), "[default0]:att 0\n[default0]:att 1\n[default0]:att 2");
}

TEST_P(TailTest, NothingOfTheNextAttemptComesBeforeTheRestOfTheLast) {
    TailRig rig(options());
    const AttemptLogs first = begin(teed(Std::out), 1);
    follow(*rig.tail, first, prefix).value();
    wait_for(start_worker(numbered_lines_script("100000"), first.workers[0]));
    EXPECT_FALSE(rig.drain(50ms)) << "nobody reads the console yet";
    const AttemptLogs next = begin(teed(Std::out), 1);
    follow(*rig.tail, next, prefix).value();
    wait_for(start_worker("echo next", next.workers[0]));
    auto reader = std::async(std::launch::async, [this] { return out.read_all(); });
    EXPECT_TRUE(rig.drain());
    out.close_writer();
    const std::vector<std::string> lines = lines_of(reader.get());
    ASSERT_EQ(lines.size(), 100001U);
    EXPECT_EQ(lines.back(), "[default0]:next");
}

TEST_P(TailTest, AFileThatAShellTruncatedIsReadFromItsNewBeginning) {
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    const std::string gate = scratch / "gate";
    ::mkfifo(gate.c_str(), 0600);
    const pid_t pid =
        start_worker("echo a long first line; read go <" + gate + "; echo x >/dev/stdout; echo y", attempt.workers[0]);
    const std::string first = "[default0]:a long first line\n";
    EXPECT_EQ(out.read(first.size()), first);
    std::ofstream(gate) << "\n" << std::flush;
    wait_for(pid);
    ASSERT_TRUE(rig.drain());
    out.close_writer();
    EXPECT_EQ(out.read_all(), "[default0]:x\n[default0]:y\n");
}

TEST_P(TailTest, TheConsolesFlagsAreLeftAsTheyAre) {
    const int before = ::fcntl(out.fd(), F_GETFL);
    TailRig rig(options());
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    wait_for(start_worker("echo x", attempt.workers[0]));
    ASSERT_TRUE(rig.drain());
    EXPECT_EQ(::fcntl(out.fd(), F_GETFL), before);
}

TEST_P(TailTest, AFileAsConsoleIsWrittenAtItsOwnPosition) {
    const std::string path = scratch / "console";
    const UniqueFd console(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::write(console.get(), "before\n", 7), 7);
    TailOptions to_file = options();
    to_file.stdout_fd = console.get();
    TailRig rig(to_file);
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    wait_for(start_worker("echo x", attempt.workers[0]));
    ASSERT_TRUE(rig.drain());
    EXPECT_EQ(contents(path), "before\n[default0]:x\n");
}

TEST_P(TailTest, ASocketAsConsoleGetsEverything) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    TailOptions to_socket = options();
    to_socket.stdout_fd = writer.get();
    TailRig rig(to_socket);
    const AttemptLogs attempt = begin(teed(Std::out), 1);
    follow(*rig.tail, attempt, prefix).value();
    auto received = std::async(std::launch::async, [&] {
        std::size_t total = 0;
        std::array<char, 65536> buffer{};
        for (ssize_t got = 0; (got = ::read(reader.get(), buffer.data(), buffer.size())) > 0;) {
            total += static_cast<std::size_t>(got);
        }
        return total;
    });
    wait_for(start_worker("seq 100000", attempt.workers[0]));
    ASSERT_TRUE(rig.drain());
    writer.reset();
    EXPECT_EQ(received.get(),
              std::filesystem::file_size(attempt.workers[0].out.path) + 100000 * prefix(0, Std::out).size());
}

TEST_P(TailTest, AFileThatIsNotThereIsAFailure) {
    TailRig rig(options());
    const auto added = rig.tail->add_stream(TailStream{.path = scratch / "absent", .prefix = std::string()});
    ASSERT_FALSE(added.has_value());
    EXPECT_THAT(added.error().message, HasSubstr("absent: No such file or directory"));
}

TEST_P(TailTest, ADrainWithoutStreamsEndsToo) {
    TailRig rig(options());
    EXPECT_TRUE(rig.drain());
}

/// Runs `test` in a child with a mount namespace of its own; skips where that is not allowed.
void in_own_mounts(const std::function<void()>& test) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root for a small file system of its own";
    const pid_t pid = ::fork();
    if (pid == 0) {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(77);
        test();
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    const int status = wait_for(pid);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mount namespace may be made here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(TailTest, AFullDiskIsSaidOnceAndTheJobGoesOn) {
    in_own_mounts([this] {
        const std::string disk = scratch / "disk";
        std::filesystem::create_directory(disk);
        if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0) _exit(77);
        const std::string console_path = scratch / "console";
        const UniqueFd console(::open(console_path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        TailOptions to_file = options();
        to_file.stdout_fd = console.get();
        TailRig rig(to_file);
        LogConfig config = teed(Std::out);
        config.redirects.for_all = Std::err;
        config.base_dir = disk;
        RunLogs run = RunLogs::create(config, "none", {}).value();
        const AttemptLogs attempt = run.begin_attempt(0, 0, 1).value();
        follow(*rig.tail, attempt, prefix).value();
        const std::string gate = scratch / "gate";
        ::mkfifo(gate.c_str(), 0600);
        const pid_t pid = start_worker("echo before; head -c 2000000 /dev/zero >&2 2>/dev/null; read go <" + gate +
                                           "; echo fits into the last page; exit 0",
                                       attempt.workers[0]);
        const auto said = [&] { return !rig.problems.empty(); };
        EXPECT_TRUE(rig.run_until(hang_bound, said)) << "not said while the worker lives";
        std::ofstream(gate) << "\n" << std::flush;
        EXPECT_EQ(wait_for(pid), 0);
        EXPECT_TRUE(rig.drain());
        EXPECT_THAT(rig.problems, ElementsAre(HasSubstr("no space is left")));
        rig.tail->stop();
        EXPECT_EQ(contents(console_path), "[default0]:before\n[default0]:fits into the last page\n");
    });
}

TEST(TailWithoutInotify, AUserWithoutInstancesLeftStillSeesEveryLine) {
    std::vector<UniqueFd> instances;
    for (;;) {
        UniqueFd instance(::inotify_init1(IN_CLOEXEC));
        if (!instance) break;
        instances.push_back(std::move(instance));
    }
    ScratchDirectory scratch;
    PipeConsole out;
    TailRig rig(TailOptions{.stdout_fd = out.fd(), .stderr_fd = out.fd()});
    const std::string path = scratch / "log";
    std::ofstream log(path);
    rig.tail->add_stream(TailStream{.path = path, .prefix = std::string("P:")}).value();
    log << "one\n" << std::flush;
    EXPECT_EQ(out.read(6), "P:one\n");
    log << "two\n" << std::flush;
    EXPECT_EQ(out.read(6), "P:two\n");
    EXPECT_THAT(rig.problems, testing::IsEmpty());
}

/// How often the copying threads of this process have gone to sleep.
long naps_of_copying_threads() {
    long sum = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        if (contents(task.path().string() + "/comm") != std::string(Copier::thread_name) + "\n") continue;
        for (const std::string& line : lines_of(contents(task.path().string() + "/status"))) {
            if (line.rfind("voluntary_ctxt_switches:", 0) == 0) sum += std::stol(line.substr(24));
        }
    }
    return sum;
}

/// The processor time of the same threads.
std::chrono::nanoseconds work_of_copying_threads() {
    std::chrono::nanoseconds sum{0};
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        if (contents(task.path().string() + "/comm") != std::string(Copier::thread_name) + "\n") continue;
        sum += std::chrono::nanoseconds(std::stoll(contents(task.path().string() + "/schedstat")));
    }
    return sum;
}

TEST(TailAtRest, TheCopyingThreadDoesNotWakeWhileNothingIsWritten) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the thread sanitizer has a thread of its own, which wakes up by itself";
#endif
    ScratchDirectory scratch;
    PipeConsole out;
    TailRig rig(TailOptions{.stdout_fd = out.fd(), .stderr_fd = out.fd()});
    for (int rank = 0; rank < 64; ++rank) {
        const std::string path = scratch / std::to_string(rank);
        std::ofstream(path) << "hello\n" << std::flush;
        rig.tail->add_stream(TailStream{.path = path, .prefix = std::string("P:")}).value();
    }
    const std::size_t all = 64 * std::string("P:hello\n").size();
    EXPECT_EQ(out.read(all).size(), all);
    EXPECT_GT(naps_of_copying_threads(), 0);
    EXPECT_TRUE(rig.run_until(hang_bound, [] {
        const long before = naps_of_copying_threads();
        std::this_thread::sleep_for(1s);
        return naps_of_copying_threads() == before;
    }));
}

TEST(TailAtRest, ALineThatAClosedConsoleNeverGotKeepsNobodyAwake) {
    ScratchDirectory scratch;
    PipeConsole out;
    TailRig rig(TailOptions{.stdout_fd = out.fd(), .stderr_fd = out.fd()});
    const std::string path = scratch / "log";
    std::ofstream file(path);
    const auto needles = std::vector<std::string>{"x"};
    const auto filtered =
        std::make_shared<const UniqueFd>(::open((scratch / "filtered").c_str(), O_WRONLY | O_CREAT, 0600));
    rig.tail
        ->add_stream(
            TailStream{.path = path, .prefix = std::string("P:"), .filters = needles, .filtered_file = filtered})
        .value();
    out.close_reader();
    file << "a line\na line without end" << std::flush;
    EXPECT_TRUE(rig.run_until(hang_bound, [&] { return !rig.problems.empty(); }));
    std::this_thread::sleep_for(500ms);
    EXPECT_TRUE(rig.run_until(10s, [] {
        const auto before = work_of_copying_threads();
        std::this_thread::sleep_for(1s);
        return work_of_copying_threads() < before + 20ms;
    }));
}

}  // namespace
}  // namespace cpprun
