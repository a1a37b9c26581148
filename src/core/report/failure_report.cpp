// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/failure_report.hpp"

#include "core/report/known_errors.hpp"
#include "core/report/last_words.hpp"
#include "core/text/terminal_safe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>

namespace cpprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t lines_shown_max = 8;
constexpr std::size_t groups_shown_max = 4;
// So that there is room for the nodes.
constexpr std::size_t lines_shown_beside_nodes = 4;
constexpr std::size_t nodes_shown_max = 2;
constexpr std::size_t words_in_json_max = 4096;
constexpr int failure_json_version = 1;
constexpr const char* hang_meaning =
    "a lock, a collective that not all ranks have entered, or a device or disk that does not answer";

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

/// Of a worker's own record, else of its stderr.
LastWords words_of(const WorkerFailure& failure) {
    LastWords words = read_last_words(failure.evidence.last_words, lines_shown_max);
    if (failure.record && !failure.record->message.empty())
        words.exception = first_line(terminal_safe(failure.record->message));
    return words;
}

/// Two failures are alike when they differ in numbers only: ranks, addresses, pids.
std::string without_numbers(const std::string& text) {
    std::string out;
    for (const char c : text)
        if (c < '0' || c > '9') out += c;
    return out;
}

std::string kind_of_exception(const std::string& exception) {
    const std::string name = exception.substr(0, exception.find(':'));
    return name.find(' ') == std::string::npos ? name : std::string();
}

std::string duration_text(std::chrono::milliseconds time) {
    const auto seconds = std::chrono::duration<double>(time).count();
    if (seconds < 60) return fmt::format("{:.1f} s", seconds);
    const auto minutes = static_cast<std::int64_t>(seconds / 60);
    if (minutes < 60) return fmt::format("{} min {} s", minutes, static_cast<std::int64_t>(seconds) % 60);
    return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string plural(const std::vector<int>& ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ") + rank_ranges(ranks);
}

const char* name_of(FailureClass kind) {
    switch (kind) {
        case FailureClass::cause:
            return "cause";
        case FailureClass::consequence:
            return "consequence";
        case FailureClass::stopped:
            return "stopped";
    }
    return "";
}

const char* name_of(MemoryKill kill) {
    switch (kill) {
        case MemoryKill::not_asked:
            return "not asked";
        case MemoryKill::unknown:
            return "unknown";
        case MemoryKill::no:
            return "no";
        case MemoryKill::likely:
            return "likely";
        case MemoryKill::yes:
            return "yes";
    }
    return "";
}

std::string memory_text(const FailureEvidence& evidence) {
    const std::string limit = evidence.memory_limit.empty() ? "" : "; limit " + terminal_safe(evidence.memory_limit);
    const std::string peak =
        evidence.peak_kib == 0 ? "" : fmt::format("; peak {:.1f} MiB", static_cast<double>(evidence.peak_kib) / 1024);
    switch (evidence.memory_kill) {
        case MemoryKill::not_asked:
            return {};
        case MemoryKill::unknown:
            return "killed by the kernel for want of memory: unknown" + limit + peak;
        case MemoryKill::no:
            return "killed by the kernel for want of memory: no" + peak;
        case MemoryKill::likely:
            return "killed by the kernel for want of memory: likely, it did so on this machine meanwhile" + limit +
                   peak;
        case MemoryKill::yes:
            return "killed by the kernel for want of memory: yes" + limit + peak;
    }
    return {};
}

ClassifiedFailure classify(std::size_t index, const WorkerFailure& failure) {
    ClassifiedFailure classified{index};
    // What it says when it is stopped has nothing to do with it.
    if (failure.hung) return classified;
    const LastWords words = words_of(failure);
    classified.said = !words.exception.empty() ? words.exception : words.lines.empty() ? "" : words.lines.back();
    classified.exception = kind_of_exception(words.exception);
    if (failure.after_stop_signal) {
        classified.kind = FailureClass::stopped;
        return classified;
    }
    // Signals but SIGABRT, which watchdogs use, come from no broken connection.
    const bool may_follow = !failure.status.signaled || failure.status.value == SIGABRT;
    std::string all = words.exception;
    for (const std::string& line : words.lines) all += "\n" + line;
    if (failure.record) all += "\n" + failure.record->message.substr(0, words_in_json_max);
    const KnownError* known = find_known_error(all);
    if (known == nullptr) return classified;
    classified.because = known->explanation;
    if (known->consequence && may_follow) classified.kind = FailureClass::consequence;
    return classified;
}

/// The earliest of this kind; size() if there is none.
std::size_t earliest(const FailureReportInput& input, const std::vector<ClassifiedFailure>& all, FailureClass kind) {
    std::size_t found = all.size();
    for (const ClassifiedFailure& one : all) {
        if (one.kind != kind) continue;
        if (found == all.size() || input.failures[one.index].timestamp < input.failures[found].timestamp)
            found = one.index;
    }
    return found;
}

std::vector<int> odd_of(const FailureReportInput& input) {
    if (!input.places.empty()) return odd_ranks(input.places);
    if (input.evidence.empty()) return {};
    return odd_ranks(places_of(group_snapshots(input.evidence.back().workers)));
}

/// When all are silent, the one that is somewhere else keeps the others waiting.
void choose_among_silent(const FailureReportInput& input, FailureStory& story) {
    if (!input.failures[story.root].hung) return;
    const std::vector<int> odd = odd_of(input);
    const auto found = std::find_if(story.all.begin(), story.all.end(), [&](const ClassifiedFailure& one) {
        const WorkerFailure& failure = input.failures[one.index];
        return failure.hung && std::binary_search(odd.begin(), odd.end(), failure.global_rank);
    });
    if (found != story.all.end()) story.root = found->index;
}

/// Of a run that a signal has ended: those that did not end when they were told to have something to tell.
void choose_among_stopped(const FailureReportInput& input, FailureStory& story) {
    if (input.ended_by.empty() || story.all[story.root].kind != FailureClass::stopped) return;
    const auto found = std::find_if(story.all.begin(), story.all.end(), [&](const ClassifiedFailure& one) {
        return input.failures[one.index].status == ExitStatus::killed_by(SIGKILL);
    });
    if (found != story.all.end()) story.root = found->index;
}

class Writer {
  public:
    Writer(const FailureReportInput& input, const FailureStory& story)
        : input_(input), story_(story), root_(input.failures[story.root]) {}

    std::string text() {
        out_ = "---- cpprun report: " + terminal_safe(input_.script);
        root_cause_lines();
        evidence_lines();
        other_lines();
        job_lines();
        if (!input_.log_directory.empty()) line("logs", terminal_safe(input_.log_directory));
        line("restarts", fmt::format("{} of {} used", input_.restarts_used, input_.max_restarts));
        line("verdict", verdict());
        return std::move(out_);
    }

    std::string verdict() const {
        if (input_.ended_by.empty()) return verdict_of_failures();
        if (story_.all[story_.root].kind != FailureClass::stopped)
            return verdict_of_failures() + "; then the run was ended by " + input_.ended_by;
        const std::string place = places();
        return fmt::format("the run was ended by {}; {} on {} had to be stopped with {}{}", input_.ended_by,
                           plural(story_.alike), input_.host, status_text(root_.status),
                           place.empty() ? "" : "; " + place);
    }

    std::string verdict_of_failures() const {
        if (!story_.ended_early.empty())
            return fmt::format(
                "{} on {} ended early with exit code 0, and the others, which waited for {}, failed then",
                plural(story_.ended_early), input_.host, story_.ended_early.size() == 1 ? "it" : "them");
        if (const JobFailure* first = first_of_job(input_.job_failures); first != nullptr && !first->own)
            return fmt::format("rank {} on {} failed first in the job, {}; {} on {} followed", first->rank, first->host,
                               how(*first), plural(story_.alike), input_.host);
        if (root_.hung) {
            const std::string place = places();
            return fmt::format("{} on {} hung: silent for {}, without output or heartbeat{}", plural(story_.alike),
                               input_.host, duration_text(*root_.hung), place.empty() ? "" : "; " + place);
        }
        const std::string who = fmt::format("{} on {} failed first", plural(story_.alike), input_.host);
        const std::string& kind = story_.all[story_.root].exception;
        std::string what = "with " + status_text(root_.status) + (kind.empty() ? "" : " (" + kind + ")");
        if (root_.status.signaled) what = "killed by " + status_text(root_.status);
        if (root_.evidence.memory_kill == MemoryKill::yes) what += ", by the kernel for want of memory";
        if (story_.all[story_.root].kind == FailureClass::stopped) what = "stopped by the launcher";
        const std::string& because = story_.all[story_.root].because;
        return who + ", " + what + (because.empty() ? "" : ": " + because);
    }

  private:
    void line(std::string_view name, const std::string& text) { out_ += fmt::format("\n{:<10}: {}", name, text); }

    /// Who was where when somebody last looked.
    std::string places() const {
        if (!input_.places.empty()) return places_text(input_.places);
        if (input_.evidence.empty()) return {};
        return places_text(places_of(group_snapshots(input_.evidence.back().workers)));
    }

    static std::string how(const JobFailure& failed) {
        return (failed.status.starts_with("SIG") ? "killed by " : "with ") + failed.status +
               (failed.said.empty() ? "" : " (" + failed.said + ")");
    }

    /// The other nodes' failures of the round, in their order.
    void job_lines() {
        if (input_.job_failures.size() < 2) return;
        const JobFailure* first = first_of_job(input_.job_failures);
        std::size_t shown = 0;
        for (const JobFailure& one : input_.job_failures) {
            if (++shown > nodes_shown_max) {
                line("", fmt::format("and {} more nodes", input_.job_failures.size() - nodes_shown_max));
                break;
            }
            line(shown == 1 ? "job" : "", fmt::format("rank {} on {}: {}{}{}", one.rank, one.host, one.status,
                                                      one.said.empty() ? "" : " (" + one.said + ")",
                                                      &one == first     ? ", the first"
                                                      : one.consequence ? ", a consequence"
                                                                        : ""));
        }
    }

    void root_cause_lines() {
        const std::string hung =
            root_.hung ? "silent for " + duration_text(*root_.hung) + ", then stopped with " : std::string();
        const std::string after = root_.age ? " after " + duration_text(*root_.age) : "";
        line("root cause", fmt::format("rank {} (local rank {}) on {}, pid {}: {}{}{}, attempt {}", root_.global_rank,
                                       root_.local_rank, input_.host, root_.pid, hung, status_text(root_.status), after,
                                       input_.restarts_used));
        if (story_.alike.size() > 1)
            line("alike",
                 fmt::format("{} ({} ranks) failed in the same way", plural(story_.alike), story_.alike.size()));
        const std::string meaning = root_.hung ? hang_meaning : usual_meaning(root_.status);
        if (!meaning.empty()) line("usually", meaning);
        if (const std::string place = places(); !place.empty())
            line("where",
                 place + (input_.evidence.empty() ? "" : " (" + terminal_safe(input_.evidence.back().reason) + ")"));
    }

    void evidence_lines() {
        const FailureEvidence& evidence = root_.evidence;
        const std::string memory = memory_text(evidence);
        if (!memory.empty()) line("memory", memory);
        if (evidence.shared_memory_free)
            line("/dev/shm",
                 fmt::format("{:.1f} MiB are free", static_cast<double>(*evidence.shared_memory_free) / (1024 * 1024)));
        if (!evidence.core.empty()) line("core", terminal_safe(evidence.core));
        const LastWords words = words_of(root_);
        if (root_.record) {
            // Its traceback stands in the table above.
            line("error file", words.exception);
            return;
        }
        if (!evidence.last_words_known) {
            line("stderr", "not captured (--capture)");
            return;
        }
        line("stderr", words.lines.empty() ? "nothing was written there" : "the last of it");
        const std::size_t most = input_.job_failures.size() > 1 ? lines_shown_beside_nodes : words.lines.size();
        for (std::size_t at = words.lines.size() - std::min(most, words.lines.size()); at < words.lines.size(); ++at)
            out_ += "\n  | " + words.lines[at];
        if (!evidence.stderr_log.empty()) line("all of it", terminal_safe(evidence.stderr_log));
    }

    void other_lines() {
        std::map<std::string, std::vector<int>> groups;
        std::vector<std::string> order;
        for (const ClassifiedFailure& one : story_.all) {
            const WorkerFailure& failure = input_.failures[one.index];
            if (std::binary_search(story_.alike.begin(), story_.alike.end(), failure.global_rank)) continue;
            std::string text = status_text(failure.status);
            if (one.kind == FailureClass::stopped) text = "stopped by the launcher, " + text;
            if (one.kind == FailureClass::consequence) text = "a consequence, " + text + ": " + one.because;
            if (one.kind == FailureClass::cause) text += one.said.empty() ? "" : ": " + one.said;
            if (failure.hung) text = "silent for " + duration_text(*failure.hung) + " too, then " + text;
            const auto [entry, added] = groups.try_emplace(std::move(text));
            if (added) order.push_back(entry->first);
            entry->second.push_back(failure.global_rank);
        }
        std::size_t shown = 0;
        for (const std::string& text : order) {
            std::vector<int>& ranks = groups[text];
            std::sort(ranks.begin(), ranks.end());
            if (++shown > groups_shown_max) {
                line("", fmt::format("and {} more kinds of failures", order.size() - groups_shown_max));
                break;
            }
            line(shown == 1 ? "others" : "", plural(ranks) + ": " + text);
        }
        if (!story_.ended_early.empty()) line("before", plural(story_.ended_early) + ": ended with exit code 0");
    }

    const FailureReportInput& input_;
    const FailureStory& story_;
    const WorkerFailure& root_;
    std::string out_;
};

Json failure_entry(const FailureReportInput& input, const ClassifiedFailure& one) {
    const WorkerFailure& failure = input.failures[one.index];
    const FailureEvidence& evidence = failure.evidence;
    Json entry{{"rank", failure.global_rank}, {"local_rank", failure.local_rank}, {"pid", failure.pid},
               {"host", input.host},          {"class", name_of(one.kind)},       {"timestamp", failure.timestamp}};
    entry[failure.status.signaled ? "signal" : "exit_code"] = failure.status.value;
    entry["status"] = status_text(failure.status);
    entry["meaning"] = usual_meaning(failure.status);
    if (failure.hung) {
        entry["meaning"] = hang_meaning;
        entry["silent_seconds"] = std::chrono::duration<double>(*failure.hung).count();
    }
    if (failure.age) entry["seconds"] = std::chrono::duration<double>(*failure.age).count();
    if (!one.said.empty()) entry["said"] = one.said;
    if (!one.because.empty()) entry["because"] = one.because;
    if (failure.record) entry["record"] = failure.record->json;
    if (evidence.memory_kill != MemoryKill::not_asked) entry["killed_for_memory"] = name_of(evidence.memory_kill);
    if (!evidence.memory_limit.empty()) entry["memory_limit"] = evidence.memory_limit;
    if (evidence.peak_kib != 0) entry["peak_kib"] = evidence.peak_kib;
    if (!evidence.core.empty()) {
        entry["core_dumped"] = evidence.core_dumped;
        entry["core"] = evidence.core;
    }
    if (evidence.shared_memory_free) entry["shared_memory_free"] = *evidence.shared_memory_free;
    if (!evidence.stderr_log.empty()) entry["stderr_log"] = evidence.stderr_log;
    const std::string& words = evidence.last_words;
    entry["stderr"] = terminal_safe(words.substr(words.size() - std::min(words.size(), words_in_json_max)));
    return entry;
}

}  // namespace

std::string rank_ranges(const std::vector<int>& sorted_ranks) {
    std::string out;
    for (std::size_t at = 0; at < sorted_ranks.size();) {
        std::size_t end = at;
        while (end + 1 < sorted_ranks.size() && sorted_ranks[end + 1] == sorted_ranks[end] + 1) ++end;
        if (!out.empty()) out += ", ";
        out += std::to_string(sorted_ranks[at]);
        if (end > at) out += "-" + std::to_string(sorted_ranks[end]);
        at = end + 1;
    }
    return out;
}

FailureStory tell_failures(const FailureReportInput& input) {
    FailureStory story;
    for (std::size_t i = 0; i < input.failures.size(); ++i) story.all.push_back(classify(i, input.failures[i]));
    for (const FailureClass kind : {FailureClass::cause, FailureClass::consequence, FailureClass::stopped}) {
        story.root = earliest(input, story.all, kind);
        if (story.root != story.all.size()) break;
    }
    choose_among_silent(input, story);
    choose_among_stopped(input, story);
    const ClassifiedFailure& root = story.all[story.root];
    const WorkerFailure& failure = input.failures[story.root];
    const std::vector<int> odd = odd_of(input);
    const bool root_is_odd = std::binary_search(odd.begin(), odd.end(), failure.global_rank);
    for (const ClassifiedFailure& one : story.all) {
        const WorkerFailure& other = input.failures[one.index];
        if (other.hung.has_value() != failure.hung.has_value()) continue;
        if (failure.hung && root_is_odd && !std::binary_search(odd.begin(), odd.end(), other.global_rank)) continue;
        if (one.kind == root.kind && (other.status == failure.status || failure.hung) &&
            (one.index == story.root || without_numbers(one.said) == without_numbers(root.said)))
            story.alike.push_back(other.global_rank);
    }
    std::sort(story.alike.begin(), story.alike.end());
    if (root.kind == FailureClass::consequence) {
        for (const WorkerHistory& worker : input.workers)
            if (worker.status && worker.status->success())
                story.ended_early.push_back(input.first_rank + worker.local_rank);
    }
    return story;
}

std::string failure_report(const FailureReportInput& input, const FailureStory& story) {
    return Writer(input, story).text();
}

std::string failure_json(const FailureReportInput& input, const FailureStory& story) {
    Json out{{"v", failure_json_version},
             {"script", input.script},
             {"host", input.host},
             {"attempt", input.restarts_used},
             {"max_restarts", input.max_restarts},
             {"verdict", Writer(input, story).verdict()},
             {"root_cause", failure_entry(input, story.all[story.root])},
             {"alike", story.alike},
             {"ended_early", story.ended_early}};
    out["failures"] = Json::array();
    for (const ClassifiedFailure& one : story.all) out["failures"].push_back(failure_entry(input, one));
    for (const JobFailure& one : input.job_failures)
        out["job"].push_back({{"rank", one.rank},
                              {"host", one.host},
                              {"status", one.status},
                              {"said", one.said},
                              {"consequence", one.consequence}});
    for (const HangEvidence& evidence : input.evidence) {
        Json entry{{"reason", evidence.reason}};
        entry.update(evidence_json(evidence));
        out["evidence"].push_back(std::move(entry));
    }
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cpprun
