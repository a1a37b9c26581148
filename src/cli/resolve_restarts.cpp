// SPDX-License-Identifier: BSD-3-Clause
#include "cli/resolve_restarts.hpp"

#include "cli/duration.hpp"
#include "cli/python_repr.hpp"
#include "cli/split_list.hpp"
#include "cli/wrong_value.hpp"
#include "core/text/python_number.hpp"
#include "core/text/whole_number.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace cpprun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds long_max = std::chrono::hours(24 * 30);

Result<std::vector<ExitStatus>> endings(const RawArgs& raw, OptionId id) {
    std::vector<ExitStatus> out;
    for (const std::string& value : raw[id].values) {
        if (value.empty()) continue;
        for (const std::string_view part : split_at_commas(value)) {
            const auto status = parse_exit_status(strip_blanks(part));
            if (!status) return wrong_value(option(id), raw[id].source, "invalid value: " + python_repr(part));
            out.push_back(*status);
        }
    }
    return out;
}

Result<milliseconds> duration(const RawArgs& raw, OptionId id) {
    const auto time = parse_duration(raw[id].text, long_max);
    if (!time) return invalid_value(raw, id);
    return *time;
}

Result<void> backoff(const RawArgs& raw, RestartConfig& config) {
    const std::string_view text = raw[OptionId::restart_backoff].text;
    const std::size_t colon = text.find(':');
    const auto first = parse_duration(text.substr(0, colon));
    const auto max = colon == std::string_view::npos ? first : parse_duration(text.substr(colon + 1));
    if (!first || !max) return invalid_value(raw, OptionId::restart_backoff);
    if (*max < *first) return invalid_value(raw, OptionId::restart_backoff, "MAX is less than FIRST");
    config.backoff_first = *first;
    config.backoff_max = *max;
    return boost::outcome_v2::success();
}

Result<void> window(const RawArgs& raw, RestartConfig& config) {
    const std::string_view text = raw[OptionId::restart_window].text;
    if (text.empty()) return boost::outcome_v2::success();
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return invalid_value(raw, OptionId::restart_window);
    const auto restarts = whole_number<int>(text.substr(0, slash));
    const auto time = parse_duration(text.substr(slash + 1), long_max);
    if (!restarts || *restarts < 1 || !time || time->count() == 0) return invalid_value(raw, OptionId::restart_window);
    config.window_restarts = *restarts;
    config.window = *time;
    return boost::outcome_v2::success();
}

/// None: there is no bound.
Result<std::optional<int>> bound(const RawArgs& raw, OptionId id) {
    if (raw[id].text.empty()) return std::optional<int>{};
    const auto number = parse_python_int(raw[id].text);
    if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) return invalid_value(raw, id);
    return std::optional(static_cast<int>(*number));
}

}  // namespace

Result<RestartConfig> resolve_restarts(const RawArgs& raw) {
    RestartConfig config;
    BOOST_OUTCOME_TRY(config.never_on, endings(raw, OptionId::no_restart_on));
    BOOST_OUTCOME_TRY(config.free_on, endings(raw, OptionId::free_restart_on));
    for (const ExitStatus& status : config.free_on)
        if (std::find(config.never_on.begin(), config.never_on.end(), status) != config.never_on.end())
            return wrong_value(option(OptionId::free_restart_on), raw[OptionId::free_restart_on].source,
                               python_repr(exit_status_text(status)) + " is in --no-restart-on too");
    BOOST_OUTCOME_TRY(config.min_uptime, duration(raw, OptionId::min_uptime));
    BOOST_OUTCOME_TRY(config.renewed_after, duration(raw, OptionId::restart_budget_renewed_after));
    BOOST_OUTCOME_TRY(backoff(raw, config));
    BOOST_OUTCOME_TRY(window(raw, config));
    BOOST_OUTCOME_TRY(config.job_restarts, bound(raw, OptionId::max_job_restarts));
    BOOST_OUTCOME_TRY(config.membership_changes, bound(raw, OptionId::max_membership_changes));
    return config;
}

}  // namespace cpprun
