// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/stack_collector.hpp"

#include "core/agent/signal_names.hpp"
#include "core/text/whole_number.hpp"
#include "runtime/os/whole_io.hpp"
#include "runtime/process/ancestry.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds answers_read_every{20};
// A dump that does not reach down to a module, as of a program that is no script, has ended when it grows no more.
constexpr milliseconds quiet_after{250};
constexpr std::size_t answer_bytes_max = std::size_t{256} << 10U;
constexpr std::size_t tools_at_once = 4;

std::string proc_file(int pid, const char* name) {
    std::string text = kernel_file(fmt::format("/proc/{}/{}", pid, name)).value_or("");
    if (text.size() > answer_bytes_max) text.resize(answer_bytes_max);
    while (text.ends_with('\n')) text.pop_back();
    return text;
}

/// What a file holds from `from` on, answer_bytes_max at most.
std::string bytes_from(int file, off_t from) {
    std::string text;
    std::array<char, 16384> chunk{};
    while (text.size() < answer_bytes_max) {
        const ssize_t got = ::pread(file, chunk.data(), chunk.size(), from + static_cast<off_t>(text.size()));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return text;
}

off_t size_of(int file) {
    struct stat facts {};
    return ::fstat(file, &facts) == 0 ? facts.st_size : 0;
}

std::vector<std::string> tool_arguments(StackTool tool, const std::string& path, int pid) {
    if (tool == StackTool::py_spy) return {path, "dump", "--pid", std::to_string(pid)};
    // No file of the user's, the working directory's or the program's may give gdb commands, and no server is asked.
    return {path,
            "-nx",
            "-batch",
            "-iex",
            "set auto-load off",
            "-iex",
            "set debuginfod enabled off",
            "-p",
            std::to_string(pid),
            "-ex",
            "thread apply all backtrace 64"};
}

/// Starts the program with its output in a pipe; 0: it cannot be started.
pid_t start_program(const std::vector<std::string>& arguments, int output) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output, 1);
    ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    // The agent holds signals back and ignores some.
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::vector<char*> words;
    words.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, words.front(), &actions, &attributes, words.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? pid : 0;
}

}  // namespace

bool catches_signal(int pid, int signo) {
    const std::string status = proc_file(pid, "status");
    constexpr std::string_view name = "\nSigCgt:\t";
    const std::size_t at = status.find(name);
    if (at == std::string::npos || signo < 1 || signo > 64) return false;
    std::uint64_t caught = 0;
    const char* begin = status.data() + at + name.size();
    const auto [end, error] = std::from_chars(begin, status.data() + status.size(), caught, 16);
    return error == std::errc{} && ((caught >> (static_cast<unsigned>(signo) - 1U)) & 1U) != 0;
}

pid_t process_at_work(pid_t pid) {
    constexpr int wrappers_max = 16;
    for (int depth = 0; depth < wrappers_max; ++depth) {
        const std::string call = system_call_text(proc_file(pid, "syscall"));
        // The last is how some shells wait where a trap may interrupt them.
        const bool waits =
            call == "wait4" || call == "waitid" || call == "rt_sigsuspend" || proc_file(pid, "wchan") == "do_wait";
        if (!waits) return pid;
        const std::vector<pid_t> children = children_of(pid);
        const auto runs = [](pid_t child) { return process_state(child).letter != 'Z'; };
        const auto first = std::find_if(children.begin(), children.end(), runs);
        if (first == children.end()) return pid;
        pid = *first;
    }
    return pid;
}

bool reads_a_terminal(pid_t pid) {
    // The number of the call, then its arguments in hexadecimal.
    const std::string text = proc_file(pid, "syscall");
    const std::string beginning = fmt::format("{} 0x", SYS_read);
    if (!text.starts_with(beginning)) return false;
    unsigned fd = 0;
    const auto [end, error] = std::from_chars(text.data() + beginning.size(), text.data() + text.size(), fd, 16);
    if (error != std::errc{}) return false;
    std::array<char, 64> target{};
    const std::string link = fmt::format("/proc/{}/fd/{}", pid, fd);
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    const std::string_view name(target.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    return name.starts_with("/dev/pts/") || name.starts_with("/dev/tty") || name == "/dev/console";
}

WorkerSnapshot look_at_process(const StackSubject& subject) {
    WorkerSnapshot snapshot;
    snapshot.rank = subject.rank;
    snapshot.local_rank = subject.local_rank;
    snapshot.pid = subject.pid;
    snapshot.state = process_state(subject.pid).letter;
    snapshot.wait_channel = proc_file(subject.pid, "wchan");
    if (snapshot.wait_channel == "0") snapshot.wait_channel.clear();
    snapshot.system_call = system_call_text(proc_file(subject.pid, "syscall"));
    snapshot.kernel_stack = proc_file(subject.pid, "stack");
    return snapshot;
}

std::string system_call_text(std::string_view syscall_file) {
    static constexpr std::array names{
        std::pair{SYS_futex, "futex"},
        std::pair{SYS_read, "read"},
        std::pair{SYS_write, "write"},
        std::pair{SYS_readv, "readv"},
        std::pair{SYS_pread64, "pread64"},
        std::pair{SYS_pwrite64, "pwrite64"},
        std::pair{SYS_openat, "openat"},
        std::pair{SYS_close, "close"},
        std::pair{SYS_ppoll, "ppoll"},
        std::pair{SYS_pselect6, "pselect6"},
        std::pair{SYS_epoll_pwait, "epoll_pwait"},
        std::pair{SYS_recvfrom, "recvfrom"},
        std::pair{SYS_recvmsg, "recvmsg"},
        std::pair{SYS_sendto, "sendto"},
        std::pair{SYS_sendmsg, "sendmsg"},
        std::pair{SYS_connect, "connect"},
        std::pair{SYS_accept, "accept"},
        std::pair{SYS_accept4, "accept4"},
        std::pair{SYS_nanosleep, "nanosleep"},
        std::pair{SYS_clock_nanosleep, "clock_nanosleep"},
        std::pair{SYS_wait4, "wait4"},
        std::pair{SYS_waitid, "waitid"},
        std::pair{SYS_ioctl, "ioctl"},
        std::pair{SYS_fcntl, "fcntl"},
        std::pair{SYS_flock, "flock"},
        std::pair{SYS_fsync, "fsync"},
        std::pair{SYS_fdatasync, "fdatasync"},
        std::pair{SYS_rt_sigsuspend, "rt_sigsuspend"},
        std::pair{SYS_rt_sigtimedwait, "rt_sigtimedwait"},
        std::pair{SYS_restart_syscall, "restart_syscall"},
#ifdef SYS_poll
        std::pair{SYS_poll, "poll"},
        std::pair{SYS_select, "select"},
        std::pair{SYS_epoll_wait, "epoll_wait"},
        std::pair{SYS_pause, "pause"},
#endif
    };
    const std::string_view word = syscall_file.substr(0, syscall_file.find_first_of(" \n"));
    const auto number = whole_number<int>(word);
    if (!number || *number < 0) return {};
    for (const auto& [code, name] : names)
        if (code == *number) return name;
    return std::to_string(*number);
}

struct StackCollector::Work {
    explicit Work(boost::asio::io_context& io) : timer(io) {}

    struct Asked {
        std::size_t index = 0;  ///< in `snapshots`
        std::shared_ptr<const UniqueFd> file;
        off_t from = 0;
        off_t seen = 0;
        Clock::time_point grown;
    };
    std::vector<StackSubject> subjects;
    std::vector<WorkerSnapshot> snapshots;
    std::vector<Asked> asked;
    std::vector<std::shared_ptr<Tool>> tools;
    std::size_t next_tool = 0;
    Clock::time_point deadline;
    boost::asio::steady_timer timer;
    Done done;
    bool over = false;
};

struct StackCollector::Tool {
    explicit Tool(boost::asio::io_context& io) : output(io) {}
    ~Tool() {
        // By the descriptor: others may have reaped it, and the number may be somebody else's.
        if (process) ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
        siginfo_t ignored{};
        // One that is not gone yet is reaped as any stranger (Containment::tend).
        if (process) ::waitid(P_PIDFD, static_cast<id_t>(process.get()), &ignored, WEXITED | WNOHANG);
    }
    Tool(const Tool&) = delete;
    Tool& operator=(const Tool&) = delete;

    std::size_t index = 0;
    UniqueFd process;
    boost::asio::posix::stream_descriptor output;
    std::array<char, 16384> chunk{};
    std::string text;
};

StackCollector::StackCollector(boost::asio::io_context& io, StackCollectorOptions options)
    : io_(io), options_(std::move(options)) {}

StackCollector::~StackCollector() {
    if (work_) work_->over = true;
}

bool StackCollector::collect(const std::vector<StackSubject>& subjects, Done done) {
    if (work_) return false;
    work_ = std::make_shared<Work>(io_);
    const auto work = work_;
    work->subjects = subjects;
    work->done = std::move(done);
    for (const StackSubject& subject : subjects) work->snapshots.push_back(look_at_process(subject));
    if (options_.tool != StackTool::none) {
        work->deadline = Clock::now() + tool_time_max;
        start_tools(work);
    } else {
        work->deadline = Clock::now() + signal_time_max;
        ask_by_signal(work);
    }
    return true;
}

void StackCollector::ask_by_signal(const std::shared_ptr<Work>& work) {
    if (options_.stack_signal != 0) {
        const std::string name = signal_label(options_.stack_signal);
        for (std::size_t at = 0; at < work->subjects.size(); ++at) {
            const StackSubject& subject = work->subjects[at];
            WorkerSnapshot& snapshot = work->snapshots[at];
            Work::Asked asked{at, subject.captured_stderr};
            if (!asked.file && !subject.stderr_log.empty())
                asked.file = std::make_shared<const UniqueFd>(
                    ::open(subject.stderr_log.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
            const bool readable = asked.file && *asked.file;
            if (readable) asked.from = asked.seen = size_of(asked.file->get());
            asked.grown = Clock::now();
            // Immediately before the signal: without a handler it would end the worker.
            if (!catches_signal(subject.pid, options_.stack_signal)) {
                snapshot.stack_note = "it has no handler for " + name;
                continue;
            }
            if (snapshot.state == 'T' || snapshot.state == 't' || snapshot.state == 'Z') {
                snapshot.stack_note = "it cannot hear " + name;
                continue;
            }
            ::kill(subject.pid, options_.stack_signal);
            if (readable) {
                snapshot.stack_note = "no stack came upon " + name;
                work->asked.push_back(std::move(asked));
            } else {
                snapshot.stack_note = "its stack is in its stderr, which is not captured";
            }
        }
    }
    read_answers(work);
}

/// Workers write when they are scheduled, which nobody announces: a look now and then, for a bounded time.
void StackCollector::read_answers(const std::shared_ptr<Work>& work) {
    const auto now = Clock::now();
    std::erase_if(work->asked, [&](Work::Asked& asked) {
        const off_t size = size_of(asked.file->get());
        if (size != asked.seen) {
            asked.seen = size;
            asked.grown = now;
        }
        if (size == asked.from && now < work->deadline) return false;
        const std::string text = bytes_from(asked.file->get(), asked.from);
        const bool quiet = now - asked.grown >= quiet_after && size != asked.from;
        if (!faulthandler_is_complete(text) && !quiet && now < work->deadline) return false;
        WorkerSnapshot& snapshot = work->snapshots[asked.index];
        snapshot.stack = parse_faulthandler(text);
        if (!snapshot.stack.empty()) snapshot.stack_note.clear();
        return !snapshot.stack.empty() || now >= work->deadline;
    });
    if (work->asked.empty()) {
        boost::asio::post(io_, [this, work] { finish(work); });
        return;
    }
    work->timer.expires_after(answers_read_every);
    work->timer.async_wait([this, work](boost::system::error_code error) {
        if (!error && !work->over) read_answers(work);
    });
}

void StackCollector::start_tools(const std::shared_ptr<Work>& work) {
    if (options_.tool_path.empty() || work->subjects.empty()) {
        for (WorkerSnapshot& snapshot : work->snapshots) snapshot.stack_note = "the tool of --stack-tool is not there";
        boost::asio::post(io_, [this, work] { finish(work); });
        return;
    }
    for (WorkerSnapshot& snapshot : work->snapshots)
        snapshot.stack_note = fmt::format("no stack came within {} s", tool_time_max.count() / 1000);
    work->timer.expires_at(work->deadline);
    work->timer.async_wait([this, work](boost::system::error_code error) {
        if (!error && !work->over) finish(work);
    });
    while (work->next_tool < work->subjects.size() && work->next_tool < tools_at_once)
        start_tool(work, work->next_tool++);
}

void StackCollector::start_tool(const std::shared_ptr<Work>& work, std::size_t index) {
    auto tool = std::make_shared<Tool>(io_);
    tool->index = index;
    work->tools.push_back(tool);
    int ends[2] = {-1, -1};
    const bool piped = ::pipe2(ends, O_CLOEXEC) == 0;
    UniqueFd reader(piped ? ends[0] : -1);
    const UniqueFd writer(piped ? ends[1] : -1);
    const pid_t pid =
        !piped
            ? 0
            : start_program(tool_arguments(options_.tool, options_.tool_path, work->subjects[index].pid), writer.get());
    if (pid == 0) {
        work->snapshots[index].stack_note = "the tool of --stack-tool cannot be started";
        boost::asio::post(io_, [this, work, tool] { tool_ended(work, tool); });
        return;
    }
    tool->process.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    tool->output.assign(reader.release());
    read_tool(work, tool);
}

void StackCollector::read_tool(const std::shared_ptr<Work>& work, const std::shared_ptr<Tool>& tool) {
    tool->output.async_read_some(boost::asio::buffer(tool->chunk),
                                 [this, work, tool](boost::system::error_code error, std::size_t got) {
                                     if (work->over) return;
                                     tool->text.append(tool->chunk.data(), got);
                                     if (error || tool->text.size() > answer_bytes_max) {
                                         tool_ended(work, tool);
                                     } else {
                                         read_tool(work, tool);
                                     }
                                 });
}

void StackCollector::tool_ended(const std::shared_ptr<Work>& work, const std::shared_ptr<Tool>& tool) {
    if (work->over) return;
    WorkerSnapshot& snapshot = work->snapshots[tool->index];
    snapshot.stack = options_.tool == StackTool::py_spy ? parse_py_spy(tool->text) : parse_gdb(tool->text);
    if (!snapshot.stack.empty())
        snapshot.stack_note.clear();
    else if (tool->process)
        snapshot.stack_note = "the tool of --stack-tool has shown no stack";
    std::erase(work->tools, tool);
    if (work->next_tool < work->subjects.size()) {
        start_tool(work, work->next_tool++);
    } else if (work->tools.empty()) {
        finish(work);
    }
}

void StackCollector::finish(const std::shared_ptr<Work>& work) {
    if (std::exchange(work->over, true)) return;
    work->timer.cancel();
    work->tools.clear();
    work_.reset();
    work->done(std::move(work->snapshots));
}

}  // namespace cpprun
