// SPDX-License-Identifier: BSD-3-Clause
// A native program under the launcher: each worker integrates 4 / (1 + x^2) over its share of [0, 1] and prints it; the
// shares add up to pi. --fail-rank=N makes worker N throw in the first attempt, to show the failure report.
#include <cpprun/worker.hpp>

#include <charconv>
#include <cstdio>
#include <optional>
#include <stdexcept>
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

int work(int argc, char** argv) {
    const cpprun::Place place = cpprun::place_from_environment();
    if (place.restart_count == 0 && fail_rank(argc, argv) == place.rank) {
        throw std::runtime_error("rank " + std::to_string(place.rank) + " lost its share");
    }
    std::printf("attempt %d, rank %d of %d (local %d of %d): %.12f\n", place.restart_count, place.rank,
                place.world_size, place.local_rank, place.local_world_size, share_of_pi(place));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return cpprun::run_recorded([&] { return work(argc, argv); });
}
