// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/disk_lookup.hpp"

#include "support/temp_dir.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

namespace cpprun {
namespace {

using test::TempDir;

TEST(DiskLookup, KnowsScriptsProgramsAndFolders) {
    const TempDir dir;
    const std::string script = dir.write("s.py", "print()");
    std::filesystem::create_directory(dir / "app");
    dir.write("app/__main__.py", "");
    const DiskLookup disk;
    EXPECT_TRUE(disk.look(script).regular);
    EXPECT_FALSE(disk.look(script).executable);
    EXPECT_FALSE(disk.look(script).native_program);
    EXPECT_TRUE(disk.look("/proc/self/exe").native_program);
    EXPECT_TRUE(disk.look(dir / "app").contains_main_py);
    EXPECT_FALSE(disk.look(dir.path().string()).contains_main_py);
    EXPECT_FALSE(disk.look(dir / "nothing").exists);
    EXPECT_FALSE(disk.look("").exists);
}

TEST(FindOnPath, TakesTheFirstExecutableAndAnEmptyFolderIsTheCurrentOne) {
    const TempDir dir;
    std::filesystem::create_directories(dir / "a");
    std::filesystem::create_directories(dir / "b");
    dir.write("a/tool", "not executable");
    ASSERT_EQ(::chmod(dir.write("b/tool", "#!/bin/sh\n").c_str(), 0755), 0);
    const DiskLookup disk;
    EXPECT_EQ(find_on_path("tool", (dir / "a") + ":" + (dir / "b"), disk), dir / "b/tool");
    EXPECT_FALSE(find_on_path("tool", dir / "a", disk));
    EXPECT_FALSE(find_on_path("b/tool", dir.path().string(), disk));
    const auto old = std::filesystem::current_path();
    std::filesystem::current_path(dir / "b");
    EXPECT_EQ(find_on_path("tool", "", disk), "tool");
    std::filesystem::current_path(old);
}

}  // namespace
}  // namespace cpprun
