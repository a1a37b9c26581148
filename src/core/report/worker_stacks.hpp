// SPDX-License-Identifier: BSD-3-Clause
// What workers that do not move are doing: calls of Python or of native code as debuggers tell them, what the kernel
// shows of each process, and equal ones put together (docs/hangs.md). All texts come from workers and tools and are
// hostile: everything that is returned is bounded, and what is to be shown is safe for a terminal.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// One call. `line` 0: not known; `file` may be empty or, of native code, a library.
struct StackFrame {
    std::string function;
    std::string file;
    int line = 0;

    friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

/// The calls of a process's main thread, innermost first; frames_max at most.
using Stack = std::vector<StackFrame>;
inline constexpr std::size_t frames_max = 64;

/// What Python's faulthandler writes when its signal comes; other output may stand before, between and behind. Empty:
/// there is no such text in it. Of several dumps the last counts, of several threads the main one.
Stack parse_faulthandler(std::string_view text);
/// Whether that text ends with a complete stack, which reaches down to a module.
bool faulthandler_is_complete(std::string_view text);
/// What `py-spy dump` prints.
Stack parse_py_spy(std::string_view text);
/// What gdb's `thread apply all backtrace` prints.
Stack parse_gdb(std::string_view text);

/// "all_reduce (distributed_c10d.py:2806)".
std::string frame_text(const StackFrame& frame);
/// What a stack is doing, in a word or two: "all_reduce", "DataLoader", "step (train.py:37)". Empty: an empty stack.
std::string place_of(const Stack& stack);

/// What was found out about one worker.
struct WorkerSnapshot {
    int rank = 0;  ///< global
    int local_rank = 0;
    int pid = 0;
    char state = '\0';              ///< as in /proc/PID/stat; 0: not known
    std::string wait_channel = {};  ///< function of the kernel in which it sleeps; empty: none
    std::string system_call = {};   ///< "futex", or a number; empty: in none, or not known
    std::string kernel_stack = {};  ///< lines of /proc/PID/stack; empty: not readable
    Stack stack = {};
    std::string stack_note = {};  ///< why there is no stack, in a few words; empty: there is one, or none was asked for
};

/// Workers that do the same.
struct SnapshotGroup {
    std::string where;       ///< "all_reduce"; of a process without a known stack "the kernel's futex_do_wait"
    std::vector<int> ranks;  ///< global, sorted
    std::size_t first = 0;   ///< one of them in the snapshots
};

/// Equal stacks together, and of processes without a stack equal states; the largest group first.
std::vector<SnapshotGroup> group_snapshots(const std::vector<WorkerSnapshot>& snapshots);

/// Who is where, also of several nodes.
struct RanksAt {
    std::string where;
    std::vector<int> ranks;
};
std::vector<RanksAt> places_of(const std::vector<SnapshotGroup>& groups);
/// Those at the same place together, the largest group first. Bounded in groups and ranks.
std::vector<RanksAt> merge_places(const std::vector<RanksAt>& places);
/// "126 ranks in all_reduce, rank 37 in DataLoader".
std::string places_text(const std::vector<RanksAt>& merged);
/// Ranks that are not where more than half of all are, which is what keeps the others waiting; empty: nobody stands
/// out.
std::vector<int> odd_ranks(const std::vector<RanksAt>& merged);

/// All workers of a node at one moment, and why somebody looked.
struct HangEvidence {
    std::string reason;
    std::vector<WorkerSnapshot> workers;
};

/// A screen about it: who is where, and one stack of each group. Ends without a line break.
std::string evidence_text(const HangEvidence& evidence);
/// The same for --events and failure.json, without `reason`.
nlohmann::ordered_json evidence_json(const HangEvidence& evidence);

}  // namespace cpprun
