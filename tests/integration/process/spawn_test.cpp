// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/spawn.hpp"

#include "runtime/os/unique_fd.hpp"
#include "support/temp_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {
namespace {

using test::TempDir;
using testing::HasSubstr;
using testing::Not;

struct Output {
    int status = 0;
    std::string text;
};

/// Runs a shell command through spawn() and gives back what it printed.
Output run_shell(const TempDir& dir, const std::string& command, const std::function<void(SpawnSpec&)>& change = {}) {
    const std::string path = dir / "out";
    const UniqueFd out(::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600));
    SpawnSpec spec;
    spec.executable = "/bin/sh";
    spec.argv = {"sh", "-c", command};
    spec.environment = {"PATH=/usr/bin:/bin", "GREETING=hello there"};
    spec.stdout_fd = out.get();
    spec.stderr_fd = out.get();
    if (change) change(spec);
    const pid_t pid = spawn(spec).value();
    Output output;
    ::waitpid(pid, &output.status, 0);
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    output.text = text.str();
    return output;
}

TEST(Spawn, GivesTheWorkerASessionOfItsOwnAndOurselvesAsParent) {
    const TempDir dir;
    const Output output = run_shell(dir, "echo $$ $PPID $(ps -o pgid=,sid= -p $$)");
    std::istringstream words(output.text);
    int pid = 0, parent = 0, group = 0, session = 0;
    words >> pid >> parent >> group >> session;
    EXPECT_GT(pid, 0);
    EXPECT_EQ(parent, ::getpid());
    EXPECT_EQ(group, pid);
    EXPECT_EQ(session, pid);
}

TEST(Spawn, LeavesTheWorkerDescriptorsZeroOneAndTwoAlone) {
    const TempDir dir;
    const int leaking = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC, on purpose
    const Output output = run_shell(dir, "exec ls -l /proc/self/fd");
    ::close(leaking);
    EXPECT_THAT(output.text, HasSubstr(" 3 -> /proc/"));  // ls itself has that one open
    EXPECT_THAT(output.text, Not(HasSubstr(" 4 -> ")));
}

TEST(Spawn, ArgumentsAndEnvironmentArriveByteForByte) {
    const TempDir dir;
    const Output output = run_shell(dir, "", [](SpawnSpec& spec) {
        spec.argv = {"odd name", "-c", "printf '<%s>' \"$0\" \"$@\" \"$GREETING\"", "zero", "", "a\nb",
                     "\xff\xfe", "*"};
    });
    EXPECT_EQ(output.text, "<zero><><a\nb><\xff\xfe><*><hello there>");
}

TEST(Spawn, StartsWithAnEmptyMaskAndDefaultActions) {
    const TempDir dir;
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    const auto old_pipe = ::signal(SIGPIPE, SIG_IGN);
    const auto old_int = ::signal(SIGINT, SIG_IGN);
    const auto old_usr2 = ::signal(SIGUSR2, SIG_IGN);
    const Output output = run_shell(dir, "exec grep -E 'SigBlk|SigIgn' /proc/self/status");
    sigprocmask(SIG_SETMASK, &old, nullptr);
    ::signal(SIGPIPE, old_pipe);
    ::signal(SIGINT, old_int);
    ::signal(SIGUSR2, old_usr2);
    EXPECT_THAT(output.text, HasSubstr("SigBlk:\t0000000000000000"));
    EXPECT_THAT(output.text, HasSubstr("SigIgn:\t0000000000000800"));  // SIGUSR2 alone, as the caller had it
}

TEST(Spawn, AnIgnoredHangupIsKeptOnlyWhenAskedFor) {
    const TempDir dir;
    const auto old = ::signal(SIGHUP, SIG_IGN);
    const Output reset = run_shell(dir, "exec grep SigIgn /proc/self/status");
    const Output kept =
        run_shell(dir, "exec grep SigIgn /proc/self/status", [](SpawnSpec& spec) { spec.hangup_stays_ignored = true; });
    ::signal(SIGHUP, old);
    EXPECT_THAT(reset.text, HasSubstr("0000000000000000"));
    EXPECT_THAT(kept.text, HasSubstr("0000000000000001"));
}

TEST(Spawn, SetsAffinityAndTheDescriptorLimit) {
    const TempDir dir;
    cpu_set_t mine;
    ASSERT_EQ(::sched_getaffinity(0, sizeof mine, &mine), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &mine)) ++cpu;
    const Output output = run_shell(dir, "taskset -pc $$; ulimit -n", [&](SpawnSpec& spec) {
        spec.cpus = {cpu};
        spec.descriptor_limit = rlimit{77, 99};
    });
    EXPECT_THAT(output.text, HasSubstr("list: " + std::to_string(cpu) + "\n77\n"));
}

TEST(Spawn, NamesWhatCannotBeExecutedAndWhy) {
    const TempDir dir;
    const auto error_of = [&](const std::string& path) {
        SpawnSpec spec;
        spec.executable = path;
        spec.argv = {path};
        const Result<pid_t> result = spawn(spec);
        EXPECT_FALSE(result.has_value()) << path;
        return result ? Error{} : result.error();
    };
    EXPECT_EQ(error_of(dir / "missing").kind, ErrorKind::not_found);
    EXPECT_THAT(error_of(dir / "missing").message, HasSubstr("missing: No such file"));
    const std::string plain = dir.write("plain", "text");
    EXPECT_EQ(error_of(plain).kind, ErrorKind::not_executable);
    ::chmod(plain.c_str(), 0755);
    EXPECT_THAT(error_of(plain).message, HasSubstr("Exec format error"));
    const std::string lost = dir.write("lost", "#!/no/such/interpreter\n");
    ::chmod(lost.c_str(), 0755);
    EXPECT_EQ(error_of(lost).kind, ErrorKind::not_found);
    EXPECT_THAT(error_of(lost).hint, HasSubstr("interpreter"));
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
}

TEST(Spawn, TheWorkerDiesWithTheProcessThatStartedIt) {
    const TempDir dir;
    const std::string pid_file = dir / "pid";
    const pid_t parent = ::fork();
    if (parent == 0) {
        SpawnSpec spec;
        spec.executable = "/bin/sh";
        spec.argv = {"sh", "-c",
                     "echo $$ > " + pid_file + ".new; mv " + pid_file + ".new " + pid_file + "; exec sleep 300"};
        if (!spawn(spec)) ::_exit(1);
        ::pause();
        ::_exit(0);
    }
    int worker = 0;
    for (int i = 0; i < 1000 && worker == 0; ++i) {
        std::ifstream(pid_file) >> worker;
        ::usleep(10000);
    }
    ASSERT_GT(worker, 0);
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    bool gone = false;
    for (int i = 0; i < 1000 && !gone; ++i) {
        std::string state;
        std::ifstream status("/proc/" + std::to_string(worker) + "/status");
        for (std::string line; std::getline(status, line);)
            if (line.starts_with("State:")) state = line;
        gone = state.empty() || state.find('Z') != std::string::npos;
        ::usleep(10000);
    }
    EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace cpprun
