// SPDX-License-Identifier: BSD-3-Clause
#include "core/timer/file_timer.hpp"

#include "core/text/json_fields.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>

namespace cpprun {
namespace {

using nlohmann::json;

constexpr int signal_max = 64;

/// An integer field within bounds; none when it is missing, of another type or outside.
std::optional<int> integer_in(const json& object, const char* name, int least, int most) {
    const auto value = integer_field(object, name);
    return value && *value >= least && *value <= most ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

struct Request {
    int pid = 0;
    std::string scope;
    double expiration_time = 0;
    int signal = 0;
};

/// The request in a line, or why it is none.
std::optional<Request> parse_request(std::string_view line, std::string& problem) {
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object()) return problem = "not a JSON object", std::nullopt;
    if (integer_in(object, "version", 1, 1) != 1) return problem = "version is not 1", std::nullopt;
    const auto pid = integer_in(object, "pid", 2, std::numeric_limits<int>::max());
    if (!pid) return problem = "pid is not a process's number", std::nullopt;
    auto scope = text_field(object, "scope_id");
    if (!scope) return problem = "scope_id is not a text", std::nullopt;
    const auto time = object.find("expiration_time");
    if (time == object.end() || !time->is_number()) return problem = "expiration_time is not a number", std::nullopt;
    const auto signal = integer_in(object, "signal", 0, signal_max);
    if (!signal) return problem = "signal is not between 0 and 64", std::nullopt;
    return Request{*pid, std::move(*scope), time->get<double>(), *signal};
}

/// The beginning of a line, fit to be shown.
std::string shown(std::string_view line) {
    std::string text(line.substr(0, 120));
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

}  // namespace

void FileTimerTable::remark(std::string text, std::vector<std::string>& remarks) {
    if (remarks_given_ >= remarks_max) return;
    if (++remarks_given_ == remarks_max) text += "; no more such remarks will be made";
    remarks.push_back(std::move(text));
}

std::string FileTimerTable::set_or_release(std::string_view line) {
    std::string problem;
    auto request = parse_request(line, problem);
    if (!request) return problem;
    Key key{request->pid, std::move(request->scope)};
    if (request->expiration_time < 0) {
        timers_.erase(key);
        return "";
    }
    if (timers_.size() >= timers_max && timers_.count(key) == 0)
        return fmt::format("{} timers are set already", timers_max);
    timers_[std::move(key)] = {request->expiration_time, request->signal};
    return "";
}

void FileTimerTable::take_line(std::string_view line, std::vector<std::string>& remarks) {
    if (line.empty()) return;
    const std::string problem = set_or_release(line);
    if (!problem.empty()) remark(fmt::format("timer request ignored, {}: {}", problem, shown(line)), remarks);
}

std::vector<std::string> FileTimerTable::feed(std::string_view bytes) {
    std::vector<std::string> remarks;
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        const std::string_view piece = bytes.substr(0, end);
        bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
        if (!skipping_ && partial_.size() + piece.size() > timer_line_bytes_max) {
            remark(fmt::format("timer request ignored, longer than {} bytes: {}", timer_line_bytes_max,
                               shown(partial_.empty() ? piece : partial_)),
                   remarks);
            skipping_ = true;
            partial_.clear();
        }
        if (!skipping_) partial_ += piece;
        if (end == std::string_view::npos) break;
        if (!skipping_) take_line(partial_, remarks);
        skipping_ = false;
        partial_.clear();
    }
    return remarks;
}

std::vector<ExpiredTimer> FileTimerTable::expired(double now) {
    std::map<int, ExpiredTimer> earliest;
    for (auto timer = timers_.begin(); timer != timers_.end();) {
        const auto& [key, state] = *timer;
        if (state.expiration_time > now) {
            ++timer;
            continue;
        }
        const auto known = earliest.find(key.first);
        if (state.signal > 0 && (known == earliest.end() || state.expiration_time < known->second.expiration_time))
            earliest[key.first] = {key.first, state.signal, key.second, state.expiration_time};
        timer = timers_.erase(timer);
    }
    std::vector<ExpiredTimer> list;
    list.reserve(earliest.size());
    for (auto& [pid, timer] : earliest) list.push_back(std::move(timer));
    return list;
}

void FileTimerTable::forget(int pid) {
    const auto first = timers_.lower_bound({pid, ""});
    auto last = first;
    while (last != timers_.end() && last->first.first == pid) ++last;
    timers_.erase(first, last);
}

std::optional<double> FileTimerTable::next_expiration() const {
    const auto first = std::min_element(timers_.begin(), timers_.end(), [](const auto& a, const auto& b) {
        return a.second.expiration_time < b.second.expiration_time;
    });
    return first == timers_.end() ? std::nullopt : std::optional(first->second.expiration_time);
}

}  // namespace cpprun
