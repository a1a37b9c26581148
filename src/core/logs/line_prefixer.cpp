// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/line_prefixer.hpp"

namespace cpprun {

void LinePrefixer::append(std::string_view text, bool ended, std::string& out) {
    const bool only_the_end = ended_for_another_ && ended && text.empty();
    ended_for_another_ = false;
    if (only_the_end) return;
    if (!open_) out.append(prefix_);
    out.append(text);
    if (ended) out.push_back('\n');
    open_ = !ended;
}

void LinePrefixer::feed(std::string_view bytes, std::string& out) {
    lines_.feed(bytes, [&](std::string_view text, bool ended) { append(text, ended, out); });
}

void LinePrefixer::show_partial(std::string& out) {
    lines_.flush([&](std::string_view text, bool ended) { append(text, ended, out); });
}

void LinePrefixer::finish(std::string& out) {
    lines_.finish([&](std::string_view text, bool ended) { append(text, ended, out); });
}

void LinePrefixer::interrupted() {
    ended_for_another_ = open_;
    open_ = false;
}

}  // namespace cpprun
