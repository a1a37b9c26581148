// SPDX-License-Identifier: BSD-3-Clause
// What stands before each line of a teed stream (contract 5.4, 1.11): --log-line-prefix-template,
// TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE and --log-prefix.
#pragma once

#include "core/host_facts.hpp"
#include "core/launch_config.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

/// The template to use: `option` (the command line, or PET_LOG_LINE_PREFIX_TEMPLATE where the command line is silent),
/// then TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, then `[${role_name}${local_rank}]:`. An empty one counts as not given.
std::string choose_prefix_template(const std::optional<std::string>& option, const Environment& environment);

/// What a template may name. The ranks are those of the present round: make the prefix anew after each rendezvous.
struct PrefixValues {
    std::string role_name;
    int local_rank = 0;
    int rank = 0;
    std::string hostname;  ///< as gethostname() gives it, not the full name
};

/// The template with `${role_name}`, `${local_rank}`, `${rank}` and `${hostname}` replaced; other names stay.
std::string line_prefix(const std::string& prefix_template, const PrefixValues& values);

/// The template behind a value of --log-prefix: that of the preset `none`, `rank`, `host`, `time` or `full`, or `value`
/// itself when it names something by `$`. None: it is neither, a misspelt preset most likely.
std::optional<std::string> prefix_template_of(std::string_view value);

/// The moment of a line, as it may stand in a prefix.
struct LineMoment {
    std::string date;  ///< 2026-12-31
    std::string time;  ///< 23:59:59.999
};

/// The prefix of one stream of one worker. It is one text, unless the template names the date or the time.
class LinePrefix {
  public:
    /// A text that is the same for all lines; no colour.
    LinePrefix(std::string text) : text_(std::move(text)) {}

    /// From a template of --log-prefix, which knows `stream`, `attempt`, `date` and `time` beside the names of
    /// PrefixValues.
    static LinePrefix made(const std::string& prefix_template, const PrefixValues& values, Std stream, int attempt);

    /// Does it have to be made anew for each line's moment?
    bool has_moment() const { return has_moment_; }

    /// The prefix as it stands before a line of this moment. `painted`: in the colour of its rank, if that is known and
    /// the prefix is not empty.
    std::string text(const LineMoment& moment, bool painted) const;

    /// Whose lines these are; without it they have no colour.
    void belongs_to(int global_rank) { rank_ = global_rank; }
    int global_rank() const { return rank_; }

  private:
    std::string text_;
    bool has_moment_ = false;
    int rank_ = -1;
};

}  // namespace cpprun
