// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/worker_stacks.hpp"

#include "core/report/failure_report.hpp"
#include "core/text/terminal_safe.hpp"
#include "core/text/whole_number.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cpprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t text_bytes_max = std::size_t{256} << 10U;
constexpr std::size_t name_bytes_max = 200;
constexpr std::size_t places_shown_max = 6;
constexpr std::size_t frames_shown_max = 10;
constexpr std::size_t kernel_lines_shown_max = 4;
constexpr std::size_t groups_recorded_max = 256;
constexpr std::size_t kernel_stack_bytes_max = 2048;
constexpr std::size_t ranks_named_max = 4;
constexpr std::string_view dump_head = "(most recent call first):";

std::string bounded(std::string_view text) {
    return terminal_safe(text.substr(0, name_bytes_max));
}

/// Calls `take` for each line, without its end.
template <class Take>
void each_line(std::string_view text, Take take) {
    if (text.size() > text_bytes_max) text.remove_prefix(text.size() - text_bytes_max);
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        take(line);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

void add(Stack& stack, StackFrame frame) {
    if (stack.size() < frames_max) stack.push_back(std::move(frame));
}

/// `  File "/x/train.py", line 37 in step`
std::optional<StackFrame> faulthandler_frame(std::string_view line) {
    constexpr std::string_view begin = "  File \"";
    constexpr std::string_view middle = "\", line ";
    constexpr std::string_view before_name = " in ";
    if (!line.starts_with(begin)) return std::nullopt;
    line.remove_prefix(begin.size());
    const std::size_t quote = line.rfind(middle);
    if (quote == std::string_view::npos) return std::nullopt;
    const std::string_view rest = line.substr(quote + middle.size());
    const std::size_t in = rest.find(before_name);
    if (in == std::string_view::npos) return std::nullopt;
    const auto number = whole_number<int>(rest.substr(0, in));
    return StackFrame{bounded(rest.substr(in + before_name.size())), bounded(line.substr(0, quote)),
                      number.value_or(0)};
}

/// `    step (train.py:37)`
std::optional<StackFrame> py_spy_frame(std::string_view line) {
    if (!line.starts_with("    ")) return std::nullopt;
    line.remove_prefix(4);
    const std::size_t open = line.rfind(" (");
    if (open == std::string_view::npos || !line.ends_with(")")) return std::nullopt;
    const std::string_view place = line.substr(open + 2, line.size() - open - 3);
    const std::size_t colon = place.rfind(':');
    StackFrame frame{bounded(line.substr(0, open)), bounded(place.substr(0, colon))};
    if (colon != std::string_view::npos) frame.line = whole_number<int>(place.substr(colon + 1)).value_or(0);
    return frame;
}

/// `#1  0x00007f in step (x=1) at train.c:37`, or `… () from /lib/libc.so.6`
std::optional<StackFrame> gdb_frame(std::string_view line) {
    if (!line.starts_with("#")) return std::nullopt;
    std::size_t at = line.find_first_not_of("0123456789", 1);
    if (at == std::string_view::npos || at == 1) return std::nullopt;
    line = line.substr(std::min(line.find_first_not_of(' ', at), line.size()));
    if (line.starts_with("0x")) {
        const std::size_t in = line.find(" in ");
        if (in == std::string_view::npos) return std::nullopt;
        line.remove_prefix(in + 4);
    }
    const std::size_t arguments = line.find(" (");
    if (arguments == std::string_view::npos || arguments == 0) return std::nullopt;
    StackFrame frame{bounded(line.substr(0, arguments)), ""};
    const std::size_t from = line.rfind(") from ");
    const std::size_t where = line.rfind(") at ");
    if (where != std::string_view::npos) {
        const std::string_view place = line.substr(where + 5);
        const std::size_t colon = place.rfind(':');
        frame.file = bounded(place.substr(0, colon));
        if (colon != std::string_view::npos) frame.line = whole_number<int>(place.substr(colon + 1)).value_or(0);
    } else if (from != std::string_view::npos) {
        frame.file = bounded(line.substr(from + 7));
    }
    return frame;
}

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

/// Of Python itself, where whoever waits waits in somebody's name.
bool is_standard_library(const std::string& file) {
    if (file.starts_with("<frozen")) return true;
    const std::size_t lib = file.find("/lib/python3");
    return lib != std::string::npos && file.find("-packages/") == std::string::npos;
}

/// Calls by which a place has a name of its own.
std::string known_place(const Stack& stack) {
    std::string collective;
    for (const StackFrame& frame : stack) {
        if (frame.file.ends_with("torch/utils/data/dataloader.py") && collective.empty()) return "DataLoader";
        // The outermost one is what the program has called.
        if (frame.file.ends_with("torch/distributed/distributed_c10d.py")) collective = frame.function;
        if (!collective.empty()) continue;
        if (frame.file.ends_with("torch/autograd/graph.py") || frame.file.ends_with("torch/autograd/__init__.py"))
            return "backward";
        if (frame.file.ends_with("torch/cuda/__init__.py") && frame.function == "synchronize")
            return "cuda.synchronize";
        if (frame.file.ends_with("torch/serialization.py") && (frame.function == "save" || frame.function == "load"))
            return "torch." + frame.function;
    }
    return collective;
}

std::string state_words(char state) {
    switch (state) {
        case 'R':
            return "running";
        case 'S':
            return "asleep";
        case 'D':
            return "in uninterruptible sleep";
        case 'T':
            return "stopped by a signal";
        case 't':
            return "stopped by a debugger";
        case 'Z':
            return "ended";
        default:
            return "in a state that is not known";
    }
}

std::string where(const WorkerSnapshot& worker) {
    if (!worker.stack.empty()) return place_of(worker.stack);
    if (worker.wait_channel.empty())
        return worker.state == 'S' && !worker.system_call.empty() ? "the system call " + worker.system_call
                                                                  : state_words(worker.state);
    return "the kernel's " + worker.wait_channel;
}

/// "in" goes before a place, but not before a state.
std::string with_preposition(const std::string& place) {
    for (const char state : {'R', 'S', 'D', 'T', 't', 'Z', '?'})
        if (place == state_words(state)) return place;
    return "in " + place;
}

std::string key_of(const WorkerSnapshot& worker) {
    std::string key;
    for (const StackFrame& frame : worker.stack)
        key += fmt::format("{}\n{}\n{}\n", frame.function, frame.file, frame.line);
    if (key.empty()) key = fmt::format("\t{}\t{}\t{}", worker.state, worker.wait_channel, worker.system_call);
    return key;
}

std::string named(const std::vector<int>& ranks) {
    if (ranks.size() > ranks_named_max) return fmt::format("{} ranks", ranks.size());
    return (ranks.size() == 1 ? "rank " : "ranks ") + rank_ranges(ranks);
}

template <class Group>
void sort_by_size(std::vector<Group>& groups) {
    for (Group& group : groups) std::sort(group.ranks.begin(), group.ranks.end());
    std::stable_sort(groups.begin(), groups.end(), [](const Group& left, const Group& right) {
        if (left.ranks.size() != right.ranks.size()) return left.ranks.size() > right.ranks.size();
        return left.ranks < right.ranks;
    });
}

std::string kernel_words(const WorkerSnapshot& worker) {
    std::string text = state_words(worker.state);
    if (!worker.wait_channel.empty()) text += " in the kernel's " + worker.wait_channel;
    if (!worker.system_call.empty()) text += ", system call " + worker.system_call;
    if (!worker.stack_note.empty()) text += "; " + terminal_safe(worker.stack_note);
    return text;
}

std::vector<std::string> stack_lines(const Stack& stack) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < stack.size(); ++at) {
        // The outermost calls say which part of the program it is, the innermost what it waits for.
        if (stack.size() > frames_shown_max && at == frames_shown_max - 3) {
            lines.push_back(fmt::format("... {} more", stack.size() - frames_shown_max));
            at = stack.size() - 3;
        }
        lines.push_back(frame_text(stack[at]));
    }
    return lines;
}

std::vector<std::string> kernel_lines(const std::string& kernel_stack, std::size_t lines_max) {
    std::vector<std::string> lines;
    each_line(kernel_stack, [&](std::string_view line) {
        if (line.starts_with("[<")) line.remove_prefix(std::min(line.find(' ') + 1, line.size()));
        if (!line.empty() && lines.size() < lines_max) lines.push_back(bounded(line));
    });
    return lines;
}

}  // namespace

Stack parse_faulthandler(std::string_view text) {
    Stack stack;
    bool in_dump = false;
    each_line(text, [&](std::string_view line) {
        if (line.ends_with(dump_head)) {
            // Python 3.14 can append the interpreter's own calls, which say less.
            in_dump = line.find("C stack trace") == std::string_view::npos;
            if (in_dump) stack.clear();
            return;
        }
        if (!in_dump) return;
        if (auto frame = faulthandler_frame(line)) add(stack, std::move(*frame));
    });
    return stack;
}

bool faulthandler_is_complete(std::string_view text) {
    const std::size_t head = text.rfind(dump_head);
    if (head == std::string_view::npos) return false;
    const std::string_view dump = text.substr(head);
    return dump.find(" in <module>\n") != std::string_view::npos;
}

Stack parse_py_spy(std::string_view text) {
    Stack stack;
    bool main_found = false;
    bool in_main = false;
    each_line(text, [&](std::string_view line) {
        if (line.starts_with("Thread ")) {
            in_main = line.find("\"MainThread\"") != std::string_view::npos || (stack.empty() && !main_found);
            if (in_main && !stack.empty()) stack.clear();
            main_found = main_found || line.find("\"MainThread\"") != std::string_view::npos;
            return;
        }
        if (!in_main) return;
        if (auto frame = py_spy_frame(line)) add(stack, std::move(*frame));
    });
    return stack;
}

Stack parse_gdb(std::string_view text) {
    Stack stack;
    each_line(text, [&](std::string_view line) {
        // The main thread is number 1 and comes last.
        if (line.starts_with("Thread ")) stack.clear();
        if (auto frame = gdb_frame(line)) add(stack, std::move(*frame));
    });
    return stack;
}

std::string frame_text(const StackFrame& frame) {
    if (frame.file.empty()) return frame.function;
    if (frame.line == 0) return fmt::format("{} ({})", frame.function, base_name(frame.file));
    return fmt::format("{} ({}:{})", frame.function, base_name(frame.file), frame.line);
}

std::string place_of(const Stack& stack) {
    if (stack.empty()) return {};
    if (std::string known = known_place(stack); !known.empty()) return known;
    const auto own = std::find_if(stack.begin(), stack.end(),
                                  [](const StackFrame& frame) { return !is_standard_library(frame.file); });
    return frame_text(own == stack.end() ? stack.front() : *own);
}

std::vector<SnapshotGroup> group_snapshots(const std::vector<WorkerSnapshot>& snapshots) {
    std::vector<SnapshotGroup> groups;
    std::map<std::string, std::size_t> by_key;
    for (std::size_t at = 0; at < snapshots.size(); ++at) {
        const auto [entry, added] = by_key.try_emplace(key_of(snapshots[at]), groups.size());
        if (added) groups.push_back({where(snapshots[at]), {}, at});
        groups[entry->second].ranks.push_back(snapshots[at].rank);
    }
    sort_by_size(groups);
    return groups;
}

std::vector<RanksAt> places_of(const std::vector<SnapshotGroup>& groups) {
    std::vector<RanksAt> places;
    for (const SnapshotGroup& group : groups) places.push_back({group.where, group.ranks});
    return merge_places(places);
}

std::vector<RanksAt> merge_places(const std::vector<RanksAt>& places) {
    std::vector<RanksAt> merged;
    for (const RanksAt& place : places) {
        const auto found = std::find_if(merged.begin(), merged.end(),
                                        [&](const RanksAt& other) { return other.where == place.where; });
        if (found == merged.end()) {
            if (merged.size() < groups_recorded_max) merged.push_back(place);
        } else {
            found->ranks.insert(found->ranks.end(), place.ranks.begin(), place.ranks.end());
        }
    }
    sort_by_size(merged);
    return merged;
}

std::string places_text(const std::vector<RanksAt>& merged) {
    std::string text;
    for (std::size_t at = 0; at < merged.size(); ++at) {
        if (at == places_shown_max) {
            text += fmt::format(" and {} more places", merged.size() - at);
            break;
        }
        text += (at == 0 ? "" : ", ") + named(merged[at].ranks) + " " + with_preposition(merged[at].where);
    }
    return text;
}

std::vector<int> odd_ranks(const std::vector<RanksAt>& merged) {
    std::size_t all = 0;
    for (const RanksAt& place : merged) all += place.ranks.size();
    std::vector<int> odd;
    if (merged.size() < 2 || 2 * merged.front().ranks.size() <= all) return odd;
    for (std::size_t at = 1; at < merged.size(); ++at)
        odd.insert(odd.end(), merged[at].ranks.begin(), merged[at].ranks.end());
    std::sort(odd.begin(), odd.end());
    return odd;
}

std::string evidence_text(const HangEvidence& evidence) {
    const std::vector<SnapshotGroup> groups = group_snapshots(evidence.workers);
    std::string out = "---- cpprun evidence: " + terminal_safe(evidence.reason);
    out += "\nwhere     : " + places_text(places_of(groups));
    for (std::size_t at = 0; at < groups.size(); ++at) {
        if (at == places_shown_max) {
            out += fmt::format("\nand {} more groups", groups.size() - at);
            break;
        }
        const SnapshotGroup& group = groups[at];
        const WorkerSnapshot& worker = evidence.workers[group.first];
        out += fmt::format("\n{:<10}: {}", (group.ranks.size() == 1 ? "rank " : "ranks ") + rank_ranges(group.ranks),
                           kernel_words(worker));
        const std::vector<std::string> lines = worker.stack.empty()
                                                   ? kernel_lines(worker.kernel_stack, kernel_lines_shown_max)
                                                   : stack_lines(worker.stack);
        for (const std::string& line : lines) out += "\n  | " + line;
    }
    return terminal_safe(out);
}

Json evidence_json(const HangEvidence& evidence) {
    const std::vector<SnapshotGroup> groups = group_snapshots(evidence.workers);
    Json out{{"where", places_text(places_of(groups))}, {"odd_ranks", odd_ranks(places_of(groups))}};
    out["groups"] = Json::array();
    for (const SnapshotGroup& group : groups) {
        if (out["groups"].size() == groups_recorded_max) break;
        const WorkerSnapshot& worker = evidence.workers[group.first];
        Json entry{{"ranks", group.ranks}, {"where", group.where}, {"pid", worker.pid}};
        if (worker.state != '\0') entry["state"] = std::string(1, worker.state);
        if (!worker.wait_channel.empty()) entry["wait_channel"] = worker.wait_channel;
        if (!worker.system_call.empty()) entry["system_call"] = worker.system_call;
        if (!worker.stack_note.empty()) entry["note"] = worker.stack_note;
        entry["stack"] = Json::array();
        for (const StackFrame& frame : worker.stack)
            entry["stack"].push_back({{"function", frame.function}, {"file", frame.file}, {"line", frame.line}});
        entry["kernel_stack"] = kernel_lines(worker.kernel_stack.substr(0, kernel_stack_bytes_max), frames_max);
        out["groups"].push_back(std::move(entry));
    }
    return out;
}

}  // namespace cpprun
