// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/bounded_file.hpp"

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"
#include "runtime/os/whole_io.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>

namespace cpprun {
namespace {

Error from_errno(const std::string& what, const std::string& path) {
    return failure(what + " " + path + ": " + error_text(errno));
}

}  // namespace

Result<std::optional<std::string>> read_untrusted_file(const std::string& path, std::size_t bytes_max) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (!fd) {
        if (errno == ENOENT || errno == ENOTDIR) return std::optional<std::string>{};
        if (errno == ELOOP) return failure("it is a symbolic link");
        return from_errno("cannot open", path);
    }
    struct stat facts {};
    if (::fstat(fd.get(), &facts) != 0) return from_errno("cannot look at", path);
    if (!S_ISREG(facts.st_mode)) return failure("it is no regular file");
    if (facts.st_uid != ::geteuid()) return failure("it belongs to user " + std::to_string(facts.st_uid));
    std::string content;
    char chunk[16384];
    while (true) {
        const ssize_t got = ::read(fd.get(), chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return from_errno("cannot read", path);
        if (got == 0) return std::optional(std::move(content));
        content.append(chunk, static_cast<std::size_t>(got));
        if (content.size() > bytes_max) return failure("it is longer than " + std::to_string(bytes_max) + " bytes");
    }
}

Result<void> write_file(const std::string& path, const std::string& content) {
    // A fresh file moved into place: a reader sees the old one or the whole new one, and a link there is replaced.
    std::string fresh = path + ".XXXXXX";
    const UniqueFd fd(::mkostemp(fresh.data(), O_CLOEXEC));
    if (!fd) return from_errno("cannot create", fresh);
    if (const Written written = write_whole(fd.get(), content); written.error != 0) {
        errno = written.error;
        const Error error = from_errno("cannot write", fresh);
        ::unlink(fresh.c_str());
        return error;
    }
    if (std::rename(fresh.c_str(), path.c_str()) != 0) {
        const Error error = from_errno("cannot replace", path);
        ::unlink(fresh.c_str());
        return error;
    }
    return boost::outcome_v2::success();
}

}  // namespace cpprun
