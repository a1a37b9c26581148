// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/logs/file_watch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/inotify.h>
#include <sys/vfs.h>

namespace cpprun {
namespace {

/// f_type of file systems on which another machine may write to the file (statfs(2), linux/magic.h).
constexpr std::array<std::uint32_t, 12> remote_file_systems = {
    0x6969U,      // NFS
    0x517bU,      // SMB
    0xff534d42U,  // CIFS
    0xfe534d42U,  // SMB2
    0x65735546U,  // FUSE
    0x0bd00bd0U,  // Lustre
    0x00c36400U,  // Ceph
    0x47504653U,  // GPFS
    0x5346414fU,  // AFS
    0x01021997U,  // 9p
    0x19830326U,  // BeeGFS
    0x7461636fU,  // OCFS2
};

}  // namespace

FileWatch::FileWatch(bool use_inotify) {
    if (use_inotify) inotify_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
}

bool FileWatch::suits(int file) const {
    struct statfs where {};
    if (!inotify_ || ::fstatfs(file, &where) != 0) return false;
    const auto type = static_cast<std::uint32_t>(where.f_type);
    return std::find(remote_file_systems.begin(), remote_file_systems.end(), type) == remote_file_systems.end();
}

bool FileWatch::arm(int file, int token) {
    if (!inotify_) return false;
    // By descriptor, so that a file that has been renamed or unlinked is found too.
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    const int watch = ::inotify_add_watch(inotify_.get(), path.c_str(), IN_MODIFY | IN_ONESHOT);
    if (watch < 0) return false;
    token_of_watch_[watch] = token;
    return true;
}

void FileWatch::disarm(int token) {
    for (auto watch = token_of_watch_.begin(); watch != token_of_watch_.end();) {
        if (watch->second != token) {
            ++watch;
            continue;
        }
        ::inotify_rm_watch(inotify_.get(), watch->first);
        watch = token_of_watch_.erase(watch);
    }
}

FileWatch::Notices FileWatch::take() {
    Notices notices;
    alignas(inotify_event) std::array<char, 16384> buffer{};
    for (;;) {
        const ssize_t bytes = ::read(inotify_.get(), buffer.data(), buffer.size());
        if (bytes <= 0) return notices;
        for (std::size_t at = 0; at < static_cast<std::size_t>(bytes);) {
            inotify_event event{};
            std::memcpy(&event, buffer.data() + at, sizeof event);
            at += sizeof event + event.len;
            if ((event.mask & IN_Q_OVERFLOW) != 0) notices.overflow = true;
            if ((event.mask & IN_MODIFY) == 0) continue;
            const auto token = token_of_watch_.find(event.wd);
            if (token == token_of_watch_.end()) continue;
            notices.tokens.push_back(token->second);
            token_of_watch_.erase(token);
        }
    }
}

}  // namespace cpprun
