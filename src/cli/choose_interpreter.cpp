// SPDX-License-Identifier: BSD-3-Clause
#include "cli/choose_interpreter.hpp"

#include "cli/python_repr.hpp"
#include "cli/search_path.hpp"

#include <optional>

namespace cpprun {
namespace {

/// An interpreter that some place offers.
struct Candidate {
    std::string path;
    std::string environment;  ///< the folder of its virtual or conda environment; empty: it is in none
    std::string reason;
};

std::string parent(const std::string& path) {
    const std::size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return {};
    return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_environment(const std::string& folder, const FileLookup& files) {
    return !folder.empty() &&
           (files.look(folder + "/pyvenv.cfg").exists || files.look(folder + "/conda-meta").directory);
}

bool can_run(const std::string& path, const FileLookup& files) {
    const FileStatus status = files.look(path);
    return status.regular && status.executable;
}

std::optional<Candidate> in_folder(const std::string& folder, const std::string& environment, std::string reason,
                                   const FileLookup& files) {
    for (const char* name : {"/python3", "/python"})
        if (can_run(folder + name, files)) return Candidate{folder + name, environment, std::move(reason)};
    return std::nullopt;
}

std::optional<Candidate> beside_us(const HostFacts& host, const FileLookup& files) {
    const std::string folder = parent(host.program_path);
    const std::string environment = parent(folder);
    if (folder.empty() || !is_environment(environment, files)) return std::nullopt;
    return in_folder(folder, environment, "beside " + host.program_name + ", in the environment " + environment, files);
}

/// python3 or python as PATH leads to it; one that lies in an environment comes first.
std::optional<Candidate> on_path(const HostFacts& host, const FileLookup& files) {
    std::optional<Candidate> plain;
    for (const char* name : {"python3", "python"}) {
        const PathSearch found = search_path(name, host, files);
        if (!found.executable) continue;
        const std::string environment = parent(parent(*found.executable));
        if (is_environment(environment, files))
            return Candidate{*found.executable, environment, "on PATH, in the environment " + environment};
        if (!plain) plain = Candidate{*found.executable, {}, "on PATH"};
    }
    return plain;
}

std::optional<Candidate> named_by(const char* variable, const HostFacts& host, const FileLookup& files) {
    const auto found = host.environment.find(variable);
    if (found == host.environment.end() || found->second.empty()) return std::nullopt;
    std::string environment = absolute_path(found->second, host);
    while (environment.size() > 1 && environment.ends_with('/')) environment.pop_back();
    return in_folder(environment + "/bin", environment, std::string("named by ") + variable, files);
}

Result<Interpreter> from_python_exec(const std::string& given, const HostFacts& host, const FileLookup& files) {
    if (given.empty()) return usage_error("the variable PYTHON_EXEC is set but empty; it must name an interpreter");
    Interpreter chosen{given, false, "named by PYTHON_EXEC", {}};
    const std::string name = "PYTHON_EXEC=" + python_repr(given);
    const bool is_path = given.find('/') != std::string::npos;
    const PathSearch found = is_path ? PathSearch{} : search_path(given, host, files);
    if (is_path ? can_run(given, files) : found.executable.has_value()) return chosen;
    if (is_path ? files.look(given).exists : found.refused.has_value())
        return Error{ErrorKind::not_executable, name + ": permission denied, or not a file"};
    return Error{ErrorKind::not_found, name + ": no such interpreter" + (is_path ? "" : " on PATH")};
}

bool disagrees(const std::optional<Candidate>& other, const Candidate& chosen) {
    return other && !other->environment.empty() && other->environment != chosen.environment;
}

/// One warning when the places name different environments, or when the chosen one is not what `python3` would start.
std::vector<Notice> disagreement(const Candidate& chosen, const std::vector<std::optional<Candidate>>& others,
                                 const std::optional<Candidate>& path, bool chosen_by_variable) {
    std::string list;
    const auto add = [&list](const Candidate& other) {
        const std::string entry = other.path + " (" + other.reason + ")";
        if (list.find(entry) == std::string::npos) list += (list.empty() ? "" : ", ") + entry;
    };
    for (const auto& other : others)
        if (disagrees(other, chosen)) add(*other);
    if (chosen_by_variable && path && path->path != chosen.path && path->environment != chosen.environment) add(*path);
    if (list.empty()) return {};
    return {{Notice::Level::warning, "the workers' interpreter is " + chosen.path + " (" + chosen.reason +
                                         "), although there is also " + list + "; PYTHON_EXEC chooses another one"}};
}

}  // namespace

Result<Interpreter> choose_interpreter(const HostFacts& host, const FileLookup& files) {
    const auto exec = host.environment.find("PYTHON_EXEC");
    if (exec != host.environment.end()) return from_python_exec(exec->second, host, files);

    const auto beside = beside_us(host, files);
    const auto path = on_path(host, files);
    const auto virtual_env = named_by("VIRTUAL_ENV", host, files);
    const auto conda = named_by("CONDA_PREFIX", host, files);
    const bool path_is_environment = path && !path->environment.empty();

    const std::optional<Candidate>& chosen = beside                ? beside
                                             : path_is_environment ? path
                                             : virtual_env         ? virtual_env
                                             : conda               ? conda
                                                                   : path;
    if (!chosen)
        return Error{ErrorKind::not_found,
                     "no Python interpreter: neither PYTHON_EXEC, VIRTUAL_ENV nor CONDA_PREFIX names one, and there is "
                     "no python3 or python on PATH"};
    const bool by_variable = !beside && !path_is_environment && (virtual_env || conda);
    const auto other_conda = virtual_env ? std::nullopt : conda;
    return Interpreter{chosen->path, true, chosen->reason,
                       disagreement(*chosen, {beside, path, virtual_env, other_conda}, path, by_variable)};
}

}  // namespace cpprun
