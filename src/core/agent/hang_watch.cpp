// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/hang_watch.hpp"

#include <algorithm>
#include <cstddef>

namespace cpprun {

void HangWatch::begin(int workers, Time now) {
    workers_.assign(static_cast<std::size_t>(workers), Worker{now});
}

void HangWatch::heard_output(int local_rank, Time now) {
    note(local_rank, now, false);
}

void HangWatch::heard_heartbeat(int local_rank, Time now) {
    note(local_rank, now, true);
}

void HangWatch::note(int local_rank, Time now, bool beats) {
    const auto at = static_cast<std::size_t>(local_rank);
    if (at >= workers_.size()) return;
    Worker& worker = workers_[at];
    worker.heard = now;
    worker.beats = worker.beats || beats;
    worker.told = false;
    if (worker.beats) return;
    for (Worker& other : workers_)
        if (!other.beats) other.told = false;
}

void HangWatch::ended(int local_rank) {
    const auto at = static_cast<std::size_t>(local_rank);
    if (at < workers_.size()) workers_[at].ended = true;
}

void HangWatch::forgive(Time now) {
    for (Worker& worker : workers_) worker.heard = now;
}

HangWatch::Time HangWatch::heard(const Worker& worker) const {
    if (worker.beats) return worker.heard;
    Time latest = worker.heard;
    for (const Worker& other : workers_)
        if (!other.beats) latest = std::max(latest, other.heard);
    return latest;
}

std::vector<int> HangWatch::look(Time now) {
    std::vector<int> silent;
    for (std::size_t at = 0; at < workers_.size(); ++at) {
        Worker& worker = workers_[at];
        if (worker.ended || worker.told || now - heard(worker) < silent_after_) continue;
        worker.told = true;
        silent.push_back(static_cast<int>(at));
    }
    return silent;
}

HangWatch::Time HangWatch::next_look() const {
    Time next = Time::max();
    for (const Worker& worker : workers_)
        if (!worker.ended && !worker.told) next = std::min(next, heard(worker) + silent_after_);
    return next;
}

}  // namespace cpprun
