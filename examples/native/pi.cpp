// SPDX-License-Identifier: BSD-3-Clause
// A native program under the launcher: each worker integrates 4 / (1 + x^2) over its share of [0, 1] and prints it; the
// shares meet in the job's store, where worker 0 adds them up to pi. --fail-rank=N makes worker N throw in the first
// attempt, to show the failure report.
#include <cpprun/store.hpp>
#include <cpprun/worker.hpp>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

constexpr int steps = 1'000'000;

/// The midpoint rule over every world_size-th step, beginning with step `rank`.
double share_of_pi(const cpprun::Place& place) {
    double sum = 0;
    for (int step = place.rank; step < steps; step += place.world_size) {
        const double x = (step + 0.5) / steps;
        sum += 4 / (1 + x * x);
    }
    return sum / steps;
}

std::optional<int> fail_rank(int argc, char** argv) {
    constexpr std::string_view option = "--fail-rank=";
    if (argc < 2) return std::nullopt;
    const std::string_view argument = argv[1];
    int rank = 0;
    if (argument.substr(0, option.size()) != option ||
        std::from_chars(argument.data() + option.size(), argument.data() + argument.size(), rank).ec != std::errc{}) {
        throw std::invalid_argument("usage: pi [--fail-rank=N]");
    }
    return rank;
}

std::string share_key(int rank) {
    return "pi/" + std::to_string(rank);
}

/// Puts this worker's share into the store and waits at a barrier until all have done so; worker 0 then adds them up.
void exchange(const cpprun::Place& place, double share) {
    const std::unique_ptr<cpprun::TcpStore> store = cpprun::TcpStore::from_environment();
    store->set(share_key(place.rank), std::to_string(share));
    store->barrier("pi/all", place.world_size, std::chrono::seconds(30));
    if (place.rank != 0) return;
    double sum = 0;
    for (int rank = 0; rank < place.world_size; ++rank) sum += std::stod(store->get(share_key(rank)));
    std::printf("together: %.4f\n", sum);
}

int work(int argc, char** argv) {
    const cpprun::Place place = cpprun::place_from_environment();
    if (place.restart_count == 0 && fail_rank(argc, argv) == place.rank) {
        throw std::runtime_error("rank " + std::to_string(place.rank) + " lost its share");
    }
    const double share = share_of_pi(place);
    std::printf("attempt %d, rank %d of %d (local %d of %d): %.12f\n", place.restart_count, place.rank,
                place.world_size, place.local_rank, place.local_world_size, share);
    exchange(place, share);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return cpprun::run_recorded([&] { return work(argc, argv); });
}
