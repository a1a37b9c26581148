// SPDX-License-Identifier: BSD-3-Clause
// bench_spawn_loop N PROGRAM ARGS...: the least that a launcher could do: N times posix_spawn, then wait for all.
#include "stamp.hpp"

#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <vector>

namespace {

std::vector<char*> environment_of(int rank, std::vector<std::string>& texts) {
    texts = {"RANK=" + std::to_string(rank), "LOCAL_RANK=" + std::to_string(rank)};
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
    for (std::string& text : texts) environment.push_back(text.data());
    environment.push_back(nullptr);
    return environment;
}

bool spawn(int rank, char** command) {
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    std::vector<std::string> texts;
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, command[0], nullptr, &attributes, command, environment_of(rank, texts).data());
    posix_spawnattr_destroy(&attributes);
    return error == 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const int workers = std::atoi(argv[1]);
    for (int rank = 0; rank < workers; ++rank) {
        if (!spawn(rank, argv + 2)) return 1;
    }
    int failed = 0;
    for (int status = 0; wait(&status) > 0;) failed += status == 0 ? 0 : 1;
    return failed == 0 ? 0 : 1;
}
