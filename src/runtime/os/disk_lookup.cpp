// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/disk_lookup.hpp"

#include "runtime/os/unique_fd.hpp"

#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>

namespace cpprun {
namespace {

bool has_elf_magic(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    char magic[4] = {};
    return fd && ::read(fd.get(), magic, sizeof magic) == sizeof magic && std::memcmp(magic, "\177ELF", 4) == 0;
}

}  // namespace

FileStatus DiskLookup::look(const std::string& path) const {
    FileStatus status;
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) return status;
    status.exists = true;
    status.directory = S_ISDIR(facts.st_mode);
    status.regular = S_ISREG(facts.st_mode);
    status.readable = ::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0;
    status.executable = !status.directory && ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
    status.native_program = status.regular && status.readable && has_elf_magic(path);
    status.contains_main_py = status.directory && ::access((path + "/__main__.py").c_str(), F_OK) == 0;
    return status;
}

std::optional<std::string> find_on_path(const std::string& name, const std::string& path, const FileLookup& files) {
    if (name.empty() || name.find('/') != std::string::npos) return std::nullopt;
    std::size_t begin = 0;
    while (true) {
        const std::size_t end = path.find(':', begin);
        const std::string folder = path.substr(begin, end == std::string::npos ? end : end - begin);
        const std::string candidate = folder.empty() ? name : folder + "/" + name;
        const FileStatus status = files.look(candidate);
        if (status.regular && status.executable) return candidate;
        if (end == std::string::npos) return std::nullopt;
        begin = end + 1;
    }
}

}  // namespace cpprun
