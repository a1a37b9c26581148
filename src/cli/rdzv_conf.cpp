// SPDX-License-Identifier: BSD-3-Clause
#include "cli/rdzv_conf.hpp"

#include "cli/python_repr.hpp"
#include "core/text/python_number.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace cpprun {
namespace {

enum class ValueRule { anything, real, positive_real, positive_integer, boolean, non_negative_real, store_type };

struct KnownKey {
    std::string_view name;
    ValueRule rule = ValueRule::anything;
};

// torchrun does not check the two keep_alive ones: 0 for either makes its agent spin for ever (contract 2.4). It takes
// whole seconds only.
constexpr std::array<KnownKey, 12> known_keys{{
    {"timeout", ValueRule::real},
    {"rank", ValueRule::anything},
    {"store_type", ValueRule::store_type},
    {"read_timeout", ValueRule::positive_real},
    {"is_host", ValueRule::boolean},
    {"join_timeout", ValueRule::positive_real},
    {"last_call_timeout", ValueRule::positive_real},
    {"close_timeout", ValueRule::positive_real},
    {"heartbeat_timeout", ValueRule::positive_real},
    {"keep_alive_interval", ValueRule::positive_real},
    {"keep_alive_max_attempt", ValueRule::positive_integer},
    {"cas_backoff_max_seconds", ValueRule::non_negative_real},
}};

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

const KnownKey* find_key(std::string_view name) {
    const auto found =
        std::find_if(known_keys.begin(), known_keys.end(), [&](const KnownKey& key) { return key.name == name; });
    return found == known_keys.end() ? nullptr : &*found;
}

bool is_boolean(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    constexpr std::array<std::string_view, 10> words{"1", "true", "t", "yes", "y", "0", "false", "f", "no", "n"};
    return std::find(words.begin(), words.end(), lower) != words.end();
}

/// What `text` must be and is not; empty when it is.
std::string_view missed_rule(ValueRule rule, std::string_view text) {
    switch (rule) {
        case ValueRule::anything:
            return {};
        case ValueRule::real:
            return std::isfinite(parse_python_float(text).value_or(no_number)) ? std::string_view{} : "a valid number";
        case ValueRule::positive_real: {
            const double value = parse_python_float(text).value_or(no_number);
            return std::isfinite(value) && value > 0 ? std::string_view{} : "a valid number above 0";
        }
        case ValueRule::positive_integer:
            return parse_python_int(text).value_or(0) > 0 ? std::string_view{} : "a valid integer value above 0";
        case ValueRule::boolean:
            return is_boolean(text) ? std::string_view{} : "a valid boolean value";
        case ValueRule::non_negative_real: {
            const double value = parse_python_float(text).value_or(-1);
            return std::isfinite(value) && value >= 0 ? std::string_view{} : "a finite number of at least 0";
        }
        case ValueRule::store_type:
            return text == "tcp" || text == "file" ? std::string_view{} : "tcp or file";
    }
    return {};
}

std::string key_list() {
    std::string list;
    for (const KnownKey& key : known_keys) list.append(list.empty() ? "" : ", ").append(key.name);
    return list;
}

}  // namespace

std::string add_rdzv_conf(std::string_view text, std::map<std::string, std::string>& conf) {
    std::string_view rest = strip_blanks(text);
    for (bool more = !rest.empty(); more;) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        const std::string_view pair = rest.substr(0, comma);
        more = comma < rest.size();
        rest.remove_prefix(more ? comma + 1 : comma);
        const std::size_t equals = std::min(pair.find('='), pair.size());
        const std::string_view key = strip_blanks(pair.substr(0, equals));
        const std::string_view value = strip_blanks(pair.substr(std::min(equals + 1, pair.size())));
        if (key.empty())
            return "invalid value: " + python_repr(text) +
                   ": The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>.";
        if (value.empty())
            return "The rendezvous configuration option " + python_repr(key) + " must have a value specified.";
        conf[std::string(key)] = std::string(value);
    }
    return {};
}

std::string check_rdzv_conf(const std::map<std::string, std::string>& conf, RendezvousKind kind) {
    for (const auto& [key, value] : conf) {
        const KnownKey* known = find_key(key);
        if (known == nullptr || (kind == RendezvousKind::static_ranks && key != "timeout")) continue;
        const std::string_view missed = missed_rule(known->rule, value);
        if (!missed.empty())
            return "The rendezvous configuration option " + python_repr(key) + " does not represent " +
                   std::string(missed) + ": " + python_repr(value);
    }
    return {};
}

std::vector<Notice> unknown_rdzv_conf_keys(const std::map<std::string, std::string>& conf) {
    std::vector<Notice> notices;
    for (const auto& entry : conf)
        if (find_key(entry.first) == nullptr)
            notices.push_back({Notice::Level::warning, "--rdzv-conf: no rendezvous reads the key " +
                                                           python_repr(entry.first) + "; known keys: " + key_list()});
    return notices;
}

}  // namespace cpprun
