// SPDX-License-Identifier: BSD-3-Clause
// How long to wait before the next try, so that a thousand clients that failed together do not come back together.
#pragma once

#include <chrono>

namespace cpprun {

/// Waits that grow by half each time up to a cap, each drawn evenly from half to one and a half times its size.
class Backoff {
  public:
    using Duration = std::chrono::milliseconds;

    explicit Backoff(Duration first = Duration(100), Duration cap = Duration(10'000)) : size_(first), cap_(cap) {}

    /// The next wait. `chance` is from 0 to 1.
    Duration next(double chance);

  private:
    Duration size_;
    Duration cap_;
};

}  // namespace cpprun
