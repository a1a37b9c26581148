// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/ancestry.hpp"

#include "core/text/whole_number.hpp"
#include "runtime/os/whole_io.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <unistd.h>
#include <unordered_map>

namespace cpprun {
namespace {

constexpr int generations_max = 1000;
constexpr std::size_t named_max = 10;

std::vector<pid_t> numbers_in(const std::filesystem::path& directory) {
    std::vector<pid_t> numbers;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
        if (const auto number = whole_number<pid_t>(entry->path().filename().native())) numbers.push_back(*number);
    }
    return numbers;
}

}  // namespace

ProcessState process_state(pid_t pid) {
    ProcessState state;
    const std::string text = kernel_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
    // The command name stands in parentheses and may hold anything, parentheses and line breaks included.
    const std::size_t begin = text.find('(');
    const std::size_t end = text.rfind(')');
    if (begin == std::string::npos || end == std::string::npos || end < begin) return state;
    state.command = text.substr(begin + 1, end - begin - 1);
    std::istringstream fields(text.substr(end + 1));
    pid_t group = 0;
    fields >> state.letter >> state.parent >> group >> state.session;
    return state;
}

bool descends_from(pid_t pid, const std::vector<pid_t>& ancestors) {
    for (int i = 0; i < generations_max && pid > 1; ++i) {
        if (std::find(ancestors.begin(), ancestors.end(), pid) != ancestors.end()) return true;
        pid = process_state(pid).parent;
    }
    return false;
}

bool children_are_told() {
    return ::access("/proc/thread-self/children", R_OK) == 0;
}

std::vector<pid_t> children_of(pid_t pid) {
    std::vector<pid_t> children;
    const std::string tasks = "/proc/" + std::to_string(pid) + "/task/";
    for (const pid_t thread : numbers_in(tasks)) {
        std::ifstream file(tasks + std::to_string(thread) + "/children");
        for (pid_t child = 0; file >> child;) children.push_back(child);
    }
    return children;
}

std::vector<pid_t> descendants_of(pid_t pid) {
    std::set<pid_t> seen{pid};
    std::vector<pid_t> found;
    std::vector<pid_t> waiting{pid};
    while (!waiting.empty()) {
        const pid_t parent = waiting.back();
        waiting.pop_back();
        for (const pid_t child : children_of(parent)) {
            if (!seen.insert(child).second) continue;
            waiting.push_back(child);
            if (process_state(child).lives()) found.push_back(child);
        }
    }
    return found;
}

std::vector<std::vector<pid_t>> members_of_sessions(const std::vector<pid_t>& sessions) {
    std::vector<std::vector<pid_t>> members(sessions.size());
    std::unordered_map<pid_t, std::size_t> place;
    for (std::size_t i = 0; i < sessions.size(); ++i) place.emplace(sessions[i], i);
    if (sessions.empty()) return members;
    for (const pid_t pid : numbers_in("/proc")) {
        const auto found = place.find(::getsid(pid));
        if (found == place.end() || found->first == pid) continue;
        if (process_state(pid).lives()) members[found->second].push_back(pid);
    }
    return members;
}

std::string describe_processes(const std::vector<pid_t>& pids) {
    std::string text;
    for (std::size_t i = 0; i < pids.size() && i < named_max; ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(pids[i]) + " (" + process_state(pids[i]).command + ")";
    if (pids.size() > named_max) text += " and " + std::to_string(pids.size() - named_max) + " more";
    return text;
}

}  // namespace cpprun
