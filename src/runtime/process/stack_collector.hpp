// SPDX-License-Identifier: BSD-3-Clause
// Finds out what live workers are doing: the kernel's word from /proc, the stack that Python's faulthandler writes when
// its signal comes, or what a debugger says. docs/hangs.md says when which of them is used.
#pragma once

#include "core/launch_config.hpp"
#include "core/report/worker_stacks.hpp"
#include "runtime/os/unique_fd.hpp"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cpprun {

/// A worker to look at: it runs or has not been reaped.
struct StackSubject {
    int rank = 0;  ///< global
    int local_rank = 0;
    int pid = 0;
    /// Where its stderr can be read, for the stack that it writes itself: a file of the launcher's or one by name.
    std::shared_ptr<const UniqueFd> captured_stderr = {};
    std::string stderr_log = {};
};

struct StackCollectorOptions {
    int stack_signal = 0;  ///< --stack-signal; 0: none
    StackTool tool = StackTool::none;
    std::string tool_path = {};  ///< of `tool`; empty: there is none
};

/// Whether /proc/PID/status says that the process has a handler for the signal. False when it cannot be read.
bool catches_signal(int pid, int signo);

/// "futex" for the beginning of /proc/PID/syscall, "202" for a call without a name here; empty: in none, or not known.
std::string system_call_text(std::string_view syscall_file);

/// The process that does the work: below a shell, or another wrapper, that only waits for a child, the first of its
/// children that runs, and so on down. `pid` itself where it waits for none, or the kernel does not tell.
pid_t process_at_work(pid_t pid);

/// Whether the process waits in a read of a terminal.
bool reads_a_terminal(pid_t pid);

/// What the kernel tells about the process at once; its stack is not asked for.
WorkerSnapshot look_at_process(const StackSubject& subject);

class StackCollector {
  public:
    using Done = std::function<void(std::vector<WorkerSnapshot>)>;

    /// `io` must outlive the collector; everything happens on its thread, and nothing blocks it for long.
    StackCollector(boost::asio::io_context& io, StackCollectorOptions options);
    /// Nothing is called back any more; tools that run are killed.
    ~StackCollector();

    /// Looks at all of them and calls `done` once, never from within this call: after signal_time_max where workers
    /// are asked by signal and do not answer, after tool_time_max with a debugger. One collection at a time: false, and
    /// nothing happens, while another one is under way.
    bool collect(const std::vector<StackSubject>& subjects, Done done);
    bool busy() const { return work_ != nullptr; }

    static constexpr std::chrono::milliseconds signal_time_max{1500};
    static constexpr std::chrono::milliseconds tool_time_max{10000};

  private:
    struct Work;
    struct Tool;

    void ask_by_signal(const std::shared_ptr<Work>& work);
    void read_answers(const std::shared_ptr<Work>& work);
    void start_tools(const std::shared_ptr<Work>& work);
    void start_tool(const std::shared_ptr<Work>& work, std::size_t index);
    void read_tool(const std::shared_ptr<Work>& work, const std::shared_ptr<Tool>& tool);
    void tool_ended(const std::shared_ptr<Work>& work, const std::shared_ptr<Tool>& tool);
    void finish(const std::shared_ptr<Work>& work);

    boost::asio::io_context& io_;
    StackCollectorOptions options_;
    std::shared_ptr<Work> work_;  ///< none: nothing is under way
};

}  // namespace cpprun
