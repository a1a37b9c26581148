// SPDX-License-Identifier: BSD-3-Clause
// The real disk, for the checks of the command line.
#pragma once

#include "core/file_lookup.hpp"

#include <optional>
#include <string>

namespace cpprun {

class DiskLookup final : public FileLookup {
  public:
    FileStatus look(const std::string& path) const override;
};

/// The first executable file called `name` in the folders of `path` (the value of PATH; an empty folder is the current
/// one). A name with a slash is not searched for. Nothing when there is none.
std::optional<std::string> find_on_path(const std::string& name, const std::string& path, const FileLookup& files);

}  // namespace cpprun
