// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/spawn.hpp"

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"

#include <boost/asio/execution.hpp>
#include <boost/process/v2/default_launcher.hpp>
#include <boost/process/v2/posix/vfork_launcher.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cpprun {
namespace {

namespace process = boost::process::v2;

// Boost's launcher announces the fork to the execution context of its executor, in the child too. With vfork that is
// our own memory, and an io_context would replace its epoll descriptor in there; this one has nothing to replace.
struct NoContext {
    void notify_fork(boost::asio::execution_context::fork_event) const {}
};

/// The least that Boost's launcher takes for an executor. It executes nothing.
struct NoExecutor {
    NoContext& query(boost::asio::execution::context_t) const noexcept {
        static NoContext context;
        return context;
    }
    template <class Function>
    void execute(Function&&) const noexcept {}
    bool operator==(const NoExecutor&) const noexcept { return true; }
    bool operator!=(const NoExecutor&) const noexcept { return false; }
};

}  // namespace
}  // namespace cpprun

/// What the launcher returns. Boost's own opens a descriptor for waiting, with a reactor behind it; that is
/// LocalWorkers' business.
template <>
struct boost::process::v2::basic_process<cpprun::NoExecutor> {
    explicit basic_process(cpprun::NoExecutor) {}
    basic_process(cpprun::NoExecutor, int) {}
};

namespace cpprun {
namespace {

// Dispositions that we or our caller may have set and that a worker must not inherit (contract 3.5).
constexpr std::array reset_signals{SIGTERM, SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ, SIGCHLD, SIGTTIN, SIGTTOU};

/// Runs in the child, between vfork and exec: only async-signal-safe calls, no allocation.
class ChildSetup {
  public:
    ChildSetup(const SpawnSpec& spec, const char* const* argv, const char* const* environment, int error_pipe)
        : spec_(spec), argv_(argv), environment_(environment), error_pipe_(error_pipe), parent_(::getpid()) {
        CPU_ZERO(&cpus_);
        for (const int cpu : spec.cpus)
            if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &cpus_);
    }

    /// The whole of a child that no launcher of Boost's stands around.
    [[noreturn]] void run() const {
        if (prepare())
            ::execve(spec_.executable.c_str(), const_cast<char* const*>(argv_), const_cast<char* const*>(environment_));
        report_and_exit();
    }

    template <class Launcher, class Path>
    boost::system::error_code on_setup(Launcher& launcher, const Path&, const char* const*& argv) const {
        argv = argv_;
        launcher.env = environment_;
        launcher.fd_whitelist.push_back(error_pipe_);
        return {};
    }

    template <class Launcher, class Path>
    boost::system::error_code on_exec_setup(Launcher&, const Path&, const char* const*&) const {
        if (!prepare()) report_and_exit();
        return {};
    }

    // Boost.Process ends a child whose exec failed with exit(), which in a vfork child would run our destructors.
    template <class... Whatever>
    void on_exec_error(Whatever&&...) const {
        report_and_exit();
    }

  private:
    bool prepare() const {
        if (::setsid() < 0) return false;
        if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
        if (::getppid() != parent_) ::_exit(127);
        if (spec_.announce_fd >= 0) {
            const pid_t self = ::getpid();
            ::send(spec_.announce_fd, &self, sizeof self, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        for (const int signo : reset_signals) ::signal(signo, SIG_DFL);
        if (!spec_.hangup_stays_ignored) ::signal(SIGHUP, SIG_DFL);
        sigset_t none;
        ::sigemptyset(&none);
        if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return false;
        if (spec_.descriptor_limit && ::setrlimit(RLIMIT_NOFILE, &*spec_.descriptor_limit) != 0) return false;
        if (!spec_.cpus.empty() && ::sched_setaffinity(0, sizeof cpus_, &cpus_) != 0) return false;
        return put(spec_.stdin_fd, STDIN_FILENO) && put(spec_.stdout_fd, STDOUT_FILENO) &&
               put(spec_.stderr_fd, STDERR_FILENO) && close_others_on_exec();
    }

    // Boost 1.81 keeps what lies between two descriptors of its list; exec closes it.
    static bool close_others_on_exec() {
        if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return true;
        rlimit limit{};
        if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
        const int end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1U << 20U));
        for (int fd = 3; fd < end; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
        return true;
    }

    static bool put(int from, int to) { return from == to || ::dup2(from, to) == to; }

    [[noreturn]] void report_and_exit() const {
        const int error = errno;
        const ssize_t written = ::write(error_pipe_, &error, sizeof error);
        ::_exit(written == sizeof error ? 127 : 126);
    }

    const SpawnSpec& spec_;
    const char* const* argv_;
    const char* const* environment_;
    int error_pipe_;
    pid_t parent_;
    cpu_set_t cpus_{};
};

Error spawn_error(const std::string& executable, int error) {
    const std::string reason = error_text(error);
    if (error == ENOENT)
        return {ErrorKind::not_found, "cannot execute " + executable + ": " + reason,
                "if the file is there, the interpreter that its first line names is missing"};
    if (error == ENOEXEC)
        return {ErrorKind::not_executable, "cannot execute " + executable + ": " + reason,
                "a script needs a first line such as #!/bin/sh"};
    if (error == EACCES) return {ErrorKind::not_executable, "cannot execute " + executable + ": " + reason};
    return failure("cannot start " + executable + ": " + reason);
}

/// The errno that the child reported; 0 when exec closed the pipe.
int reported_error(int fd) {
    int error = 0;
    ssize_t got = 0;
    do {
        got = ::read(fd, &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    return got == sizeof error ? error : 0;
}

/// `make_child` starts a process that does what the given ChildSetup says; its pid, or an error.
template <class MakeChild>
Result<pid_t> start_process(const SpawnSpec& spec, const MakeChild& make_child) {
    std::vector<const char*> argv;
    argv.reserve(spec.argv.size() + 1);
    for (const std::string& word : spec.argv) argv.push_back(word.c_str());
    argv.push_back(nullptr);
    std::vector<const char*> environment = spec.environment;
    environment.push_back(nullptr);

    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failure("cannot make a pipe: " + error_text(errno));
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);

    const ChildSetup setup(spec, argv.data(), environment.data(), write_end.get());
    BOOST_OUTCOME_TRY(const pid_t pid, make_child(setup));
    write_end.reset();
    const int exec_error = reported_error(read_end.get());
    if (exec_error == 0) return pid;
    ::waitpid(pid, nullptr, 0);
    return spawn_error(spec.executable, exec_error);
}

}  // namespace

Result<pid_t> spawn(const SpawnSpec& spec) {
    return start_process(spec, [&](const ChildSetup& setup) -> Result<pid_t> {
        process::posix::vfork_launcher launcher;
        boost::system::error_code error;
        launcher(NoExecutor{}, error, process::filesystem::path(spec.executable), std::vector<std::string>{}, setup);
        if (launcher.pid <= 0) return failure("cannot start " + spec.executable + ": " + error.message());
        return launcher.pid;
    });
}

Result<pid_t> spawn_in_cgroup(const SpawnSpec& spec, int cgroup) {
    return start_process(spec, [&](const ChildSetup& setup) -> Result<pid_t> {
        const pid_t pid = fork_into_cgroup(cgroup);
        if (pid == 0) setup.run();
        if (pid < 0) return failure("cannot start " + spec.executable + " in its cgroup: " + error_text(errno));
        return pid;
    });
}

pid_t fork_into_cgroup(int cgroup) {
    // Boost's launchers cannot do this, and a child that moved itself would wait for the kernel's other processors.
    clone_args arguments{};
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = SIGCHLD;
    arguments.cgroup = static_cast<decltype(arguments.cgroup)>(cgroup);
    return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

}  // namespace cpprun
