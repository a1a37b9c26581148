// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/backoff.hpp"

#include <algorithm>

namespace cpprun {

Backoff::Duration Backoff::next(double chance) {
    const auto wait = std::chrono::duration_cast<Duration>(size_ * (0.5 + chance));
    size_ = std::min(cap_, size_ + size_ / 2);
    return wait;
}

}  // namespace cpprun
