// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/prefix_template.hpp"

#include "core/text/python_template.hpp"

namespace cpprun {

std::string choose_prefix_template(const std::optional<std::string>& option, const Environment& environment) {
    if (option && !option->empty()) return *option;
    const auto variable = environment.find("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    if (variable != environment.end() && !variable->second.empty()) return variable->second;
    return "[${role_name}${local_rank}]:";
}

std::string line_prefix(const std::string& prefix_template, const PrefixValues& values) {
    return safe_substitute(prefix_template, {{"role_name", values.role_name},
                                             {"local_rank", std::to_string(values.local_rank)},
                                             {"rank", std::to_string(values.rank)},
                                             {"hostname", values.hostname}});
}

}  // namespace cpprun
