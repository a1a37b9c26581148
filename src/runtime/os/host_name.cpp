// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/host_name.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace cpprun {

std::string host_name() {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
    return name;
}

std::string full_host_name(const std::string& name, const std::string& hosts_file) {
    std::ifstream file(hosts_file);
    std::string line;
    for (int lines = 0; lines < 10000 && std::getline(file, line); ++lines) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string address;
        words >> address;
        std::vector<std::string> names;
        for (std::string word; words >> word;) names.push_back(word);
        if (std::find(names.begin(), names.end(), name) == names.end()) continue;
        const auto full = std::find_if(names.begin(), names.end(), [&](const std::string& candidate) {
            return candidate.find('.') != std::string::npos && !candidate.starts_with("localhost");
        });
        if (full != names.end()) return *full;
    }
    return name;
}

}  // namespace cpprun
