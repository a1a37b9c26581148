// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/line_prefixer.hpp"

#include <algorithm>
#include <utility>

namespace cpprun {
namespace {

/// To the first column, and nothing to the right of it (ECMA-48: erase in line).
constexpr std::string_view erase_line = "\r\x1b[K";

bool is_blank(std::string_view text) {
    return text.find_first_not_of(' ') == std::string_view::npos;
}

}  // namespace

void LinePrefixer::begin_text(std::string& out) {
    if (replaceable_) {
        out.append(erase_line);
        open_ = false;
    }
    replaceable_ = false;
    if (!open_) out.append(prefix_);
}

void LinePrefixer::append_line(std::string_view text, std::string& out) {
    begin_text(out);
    out.append(text).push_back('\n');
    open_ = false;
}

void LinePrefixer::append_part(std::string_view text, std::string& out, Time now) {
    // Blanks that only wipe a bar out are not worth its last state.
    if (in_bar_ && (state_ || replaceable_) && is_blank(text)) return;
    state_.reset();
    begin_text(out);
    out.append(text);
    open_ = true;
    if (in_bar_) count_state(now);
}

void LinePrefixer::append_state(std::string_view text, std::string& out, Time now) {
    in_bar_ = true;
    if (open_ && !replaceable_) {
        // Its beginning has been shown as a line without an end.
        out.append(text);
        replaceable_ = style_ == ProgressStyle::in_place;
        if (!replaceable_) out.push_back('\n');
        open_ = replaceable_;
        return;
    }
    empty_return_ = text.empty() && !state_ && !replaceable_;
    if (is_blank(text)) return;
    state_.emplace(text);
    if (now >= next_state()) show_state(out, now);
}

void LinePrefixer::append(std::string_view text, LineEnd end, std::string& out, Time now) {
    if (end == LineEnd::late_newline && style_ == ProgressStyle::all) return;
    const bool only_the_end = ended_for_another_ && end != LineEnd::none && text.empty() && !state_;
    ended_for_another_ = false;
    if (only_the_end) return;
    if (end == LineEnd::none) {
        append_part(text, out, now);
    } else if (end == LineEnd::carriage_return && style_ != ProgressStyle::all) {
        append_state(text, out, now);
    } else {
        const std::optional<std::string> state = std::exchange(state_, std::nullopt);
        const bool empty_line = end == LineEnd::late_newline ? empty_return_ : text.empty();
        in_bar_ = empty_return_ = false;
        if (!text.empty() || (empty_line && !state && !replaceable_)) {
            append_line(text, out);
        } else if (state) {
            append_line(*state, out);
        } else if (open_) {
            out.push_back('\n');
            open_ = replaceable_ = false;
        }
    }
}

void LinePrefixer::feed(std::string_view bytes, std::string& out, Time now) {
    lines_.feed(bytes, [&](std::string_view text, LineEnd end) { append(text, end, out, now); });
    partial_due_.reset();
    if (!lines_.has_partial()) return;
    partial_due_ = now + quiet_time_;
    if (in_bar_) partial_due_ = std::max(*partial_due_, next_state());
}

LinePrefixer::Time LinePrefixer::next_state() const {
    if (style_ == ProgressStyle::lines) return credit_ - (states_at_once - 1) * state_interval;
    if (!last_state_) return Time::min();
    return *last_state_ + (replaceable_ ? in_place_interval : state_interval);
}

void LinePrefixer::count_state(Time now) {
    last_state_ = now;
    credit_ = std::max(credit_, now) + state_interval;
}

void LinePrefixer::show_state(std::string& out, Time now) {
    const std::string state = *std::exchange(state_, std::nullopt);
    if (style_ == ProgressStyle::in_place) {
        begin_text(out);
        out.append(state);
        open_ = replaceable_ = true;
    } else {
        append_line(state, out);
    }
    count_state(now);
}

std::optional<LinePrefixer::Time> LinePrefixer::due() const {
    if (!state_) return partial_due_;
    return partial_due_ ? std::min(next_state(), *partial_due_) : next_state();
}

void LinePrefixer::show_due(std::string& out, Time now) {
    if (partial_due_ && now >= *partial_due_) {
        partial_due_.reset();
        lines_.flush([&](std::string_view text, LineEnd end) { append(text, end, out, now); });
    }
    if (!state_ || now < next_state()) return;
    show_state(out, now);
    if (partial_due_) partial_due_ = std::max(*partial_due_, next_state());
}

void LinePrefixer::finish(std::string& out) {
    lines_.finish([&](std::string_view text, LineEnd end) { append(text, end, out, last_state_.value_or(Time{})); });
    partial_due_.reset();
    if (const auto state = std::exchange(state_, std::nullopt)) append_line(*state, out);
    if (!replaceable_) return;
    out.push_back('\n');
    open_ = replaceable_ = false;
}

void LinePrefixer::interrupted() {
    ended_for_another_ = open_;
    open_ = false;
    replaceable_ = false;
}

}  // namespace cpprun
