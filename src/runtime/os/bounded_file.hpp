// SPDX-License-Identifier: BSD-3-Clause
// Files that others leave for us: hostile input. And files of ours that others must not redirect.
#pragma once

#include "core/error.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace cpprun {

/// The whole of a regular file that belongs to us (or to nobody but root, when we are root): links are not followed,
/// opening never blocks, and more than `bytes_max` is an error. Nothing when there is no such file.
Result<std::optional<std::string>> read_untrusted_file(const std::string& path, std::size_t bytes_max);

/// Replaces `path` by a file with this content, mode 0600 less umask; never written through a link. An empty result
/// means done.
Result<void> write_file(const std::string& path, const std::string& content);

}  // namespace cpprun
