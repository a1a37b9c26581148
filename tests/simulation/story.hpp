// SPDX-License-Identifier: BSD-3-Clause
// Stories as text: what happens to which node when, and what must have come of it. tests/simulation/stories/README.txt
// has the words.
#pragma once

#include <cstdint>
#include <string>

namespace cpprun::simulation {

/// Tells the story in `text` with these differences: another seed, led agents. Returns what went otherwise than it
/// says, with the events up to there, or an empty text.
std::string tell_story(const std::string& text, std::uint64_t seed, bool led);

}  // namespace cpprun::simulation
