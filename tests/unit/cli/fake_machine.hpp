// SPDX-License-Identifier: BSD-3-Clause
// A machine to parse command lines on: files, environment and devices as a test states them.
#pragma once

#include "cli/command_line.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace cpprun::test {

inline FileStatus regular_file() {
    return {.exists = true, .regular = true, .readable = true};
}
inline FileStatus program_file() {
    return {.exists = true, .regular = true, .readable = true, .executable = true};
}
inline FileStatus folder() {
    return {.exists = true, .directory = true, .readable = true};
}

/// A disk that holds what was put on it. Relative paths are taken from /home/user, as FakeMachine works there.
class FakeDisk : public FileLookup {
  public:
    void put(const std::string& path, FileStatus status) { files_[absolute(path)] = status; }
    FileStatus look(const std::string& path) const override {
        const auto found = files_.find(absolute(path));
        return found == files_.end() ? FileStatus{} : found->second;
    }

  private:
    static std::string absolute(const std::string& path) {
        return (std::filesystem::path("/home/user") / path).lexically_normal();
    }
    std::map<std::string, FileStatus> files_;
};

/// A machine with two processors, no accelerator, python3 on PATH, and w.py in the working directory.
struct FakeMachine {
    HostFacts host;
    FakeDisk disk;
    DeviceFacts devices;
    int probes = 0;              ///< how often the devices were looked at
    bool drivers_asked = false;  ///< whether the last look included their drivers

    FakeMachine() {
        host.environment = {{"PATH", "/usr/bin:/bin"}, {"HOME", "/home/user"}, {"LANG", "C.UTF-8"}};
        host.program_path = "/usr/local/bin/cpprun";
        host.working_directory = "/home/user";
        host.host_name = "vm";
        host.random_uuid = "01234567-89ab-4cde-8f01-23456789abcd";
        host.cpu.affinity = {0, 1};
        host.cpu.online = 2;
        disk.put("/usr/bin/python3", program_file());
        disk.put("/usr/bin/env", program_file());
        disk.put("w.py", regular_file());
    }

    FakeMachine& set(const std::string& name, const std::string& value) {
        host.environment[name] = value;
        return *this;
    }

    Result<Invocation> parse(const std::vector<std::string>& arguments) {
        return parse_command_line(arguments, host, disk, [this](bool ask_drivers) {
            ++probes;
            drivers_asked = ask_drivers;
            return devices;
        });
    }

    /// The launch that `arguments` describe; a test failure and an empty launch when they describe none.
    LaunchRequest launch(const std::vector<std::string>& arguments) {
        auto parsed = parse(arguments);
        if (!parsed) {
            ADD_FAILURE() << parsed.error().message;
            return {};
        }
        if (auto* request = std::get_if<LaunchRequest>(&parsed.value())) return std::move(*request);
        ADD_FAILURE() << "text instead of a launch: " << std::get<TextOutput>(parsed.value()).text;
        return {};
    }
    LaunchConfig config(const std::vector<std::string>& arguments) { return launch(arguments).config; }

    /// The printed text; a test failure when there is none.
    std::string text(const std::vector<std::string>& arguments) {
        auto parsed = parse(arguments);
        if (!parsed) {
            ADD_FAILURE() << parsed.error().message;
            return {};
        }
        const auto* output = std::get_if<TextOutput>(&parsed.value());
        if (output == nullptr) ADD_FAILURE() << "a launch instead of a text";
        return output == nullptr ? std::string() : output->text;
    }

    /// The error; a test failure when there is none, or when it is not one line.
    Error error(const std::vector<std::string>& arguments) {
        auto parsed = parse(arguments);
        if (parsed) {
            ADD_FAILURE() << "accepted: " << nlohmann::json(arguments).dump();
            return {};
        }
        EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos) << parsed.error().message;
        return parsed.error();
    }

    /// Like error(), which must be of the kind that exits with 2.
    std::string usage(const std::vector<std::string>& arguments) {
        const Error found = error(arguments);
        EXPECT_EQ(found.kind, ErrorKind::usage) << found.message;
        return found.message;
    }
};

/// The texts of `notices` at `level`.
inline std::vector<std::string> texts(const std::vector<Notice>& notices,
                                      Notice::Level level = Notice::Level::warning) {
    std::vector<std::string> found;
    for (const Notice& notice : notices)
        if (notice.level == level) found.push_back(notice.text);
    return found;
}

}  // namespace cpprun::test
