// SPDX-License-Identifier: BSD-3-Clause
// Which workers have been silent for too long: --hang-after. A function of what was heard and when; times are of any
// clock that does not jump.
#pragma once

#include <chrono>
#include <vector>

namespace cpprun {

/// A worker that has sent a heartbeat is judged by itself: by its heartbeats and its output. The others of a node are
/// judged together, as often only one of them writes: they are silent when none of them has written anything.
class HangWatch {
  public:
    using Time = std::chrono::milliseconds;

    explicit HangWatch(Time silent_after) : silent_after_(silent_after) {}

    /// `workers` new workers run; all counts from now.
    void begin(int workers, Time now);
    void heard_output(int local_rank, Time now);
    void heard_heartbeat(int local_rank, Time now);
    void ended(int local_rank);
    /// The workers stood still by somebody's wish: all counts from now.
    void forgive(Time now);

    /// The local ranks that are silent and were not when look() was last called; sorted.
    std::vector<int> look(Time now);
    /// When look() can next have something to say; max() where it cannot.
    Time next_look() const;

  private:
    struct Worker {
        Time heard{0};
        bool beats = false;  ///< has sent a heartbeat
        bool ended = false;
        bool told = false;  ///< its silence
    };
    Time heard(const Worker& worker) const;
    void note(int local_rank, Time now, bool beats);

    Time silent_after_;
    std::vector<Worker> workers_;
};

}  // namespace cpprun
