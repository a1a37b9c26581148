// SPDX-License-Identifier: BSD-3-Clause
// The native half of a job whose workers are written in two languages: answers what the Python worker asks through the
// store that both were given.
#include <cpprun/store.hpp>
#include <cpprun/worker.hpp>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

int main() {
    return cpprun::run_recorded([] {
        const cpprun::Place place = cpprun::place_from_environment();
        const std::unique_ptr<cpprun::TcpStore> store = cpprun::TcpStore::from_environment();
        const std::string question = store->get("question", std::chrono::seconds(60));
        store->set("answer", "rank " + std::to_string(place.rank) + " has read '" + question + "'");
        store->barrier("done", place.world_size, std::chrono::seconds(60));
        std::printf("native rank %d: %s\n", place.rank, question.c_str());
        return 0;
    });
}
