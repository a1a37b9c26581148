// SPDX-License-Identifier: BSD-3-Clause
// What the command line must know about files before a launch, as an interface, so that tests can state any disk.
// runtime/os/disk_lookup.cpp asks the real one.
#pragma once

#include <string>

namespace cpprun {

/// One path as this process sees it, symbolic links followed.
struct FileStatus {
    bool exists = false;
    bool directory = false;
    bool regular = false;
    bool readable = false;
    bool executable = false;        ///< may be executed by us; false for directories
    bool native_program = false;    ///< begins with the ELF magic
    bool contains_main_py = false;  ///< a directory with a file __main__.py in it
};

class FileLookup {
  public:
    virtual ~FileLookup() = default;
    /// Never fails: what cannot be looked at does not exist. Relative paths are taken from the working directory.
    virtual FileStatus look(const std::string& path) const = 0;
};

}  // namespace cpprun
