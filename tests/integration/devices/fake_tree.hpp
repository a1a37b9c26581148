// SPDX-License-Identifier: BSD-3-Clause
// A machine made of files: a temporary directory with proc, sys and dev in it, for probes to look at.
#pragma once

#include "runtime/devices/probe_roots.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace cpprun {

class FakeTree {
  public:
    FakeTree() {
        std::string name = (std::filesystem::temp_directory_path() / "cpprun-tree-XXXXXX").string();
        if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary directory");
        root_ = name;
        for (const char* part : {"/proc", "/sys", "/dev"}) std::filesystem::create_directory(root_ + part);
    }
    ~FakeTree() {
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
    FakeTree(const FakeTree&) = delete;
    FakeTree& operator=(const FakeTree&) = delete;

    const std::string& root() const { return root_; }
    ProbeRoots roots() const { return probe_roots({{"CPPRUN_PROBE_ROOT", root_}}); }

    FakeTree& write(const std::string& path, const std::string& text = "") {
        prepare(path);
        std::ofstream(root_ + path, std::ios::binary) << text;
        return *this;
    }
    FakeTree& link(const std::string& path, const std::string& target) {
        prepare(path);
        std::filesystem::create_symlink(target, root_ + path);
        return *this;
    }
    FakeTree& fifo(const std::string& path) {
        prepare(path);
        if (::mkfifo((root_ + path).c_str(), 0600) != 0) throw std::runtime_error("no fifo");
        return *this;
    }
    FakeTree& directory(const std::string& path) {
        std::filesystem::create_directories(root_ + path);
        return *this;
    }

    /// An NVIDIA GPU as its driver shows it, with its node in /dev.
    FakeTree& nvidia_gpu(int minor, const std::string& pci, const std::string& uuid) {
        write("/proc/driver/nvidia/version", "NVRM version: 550\n");
        write("/proc/driver/nvidia/gpus/" + pci + "/information",
              "Model: \t\t NVIDIA H100\nIRQ:   \t\t 42\nGPU UUID: \t " + uuid + "\nBus Location: \t " + pci +
                  "\nDevice Minor: \t " + std::to_string(minor) + "\n");
        write("/dev/nvidiactl");
        return write("/dev/nvidia" + std::to_string(minor));
    }

  private:
    void prepare(const std::string& path) {
        const auto parent = std::filesystem::path(root_ + path).parent_path();
        if (!std::filesystem::exists(parent)) std::filesystem::create_directories(parent);
    }
    std::string root_;
};

}  // namespace cpprun
