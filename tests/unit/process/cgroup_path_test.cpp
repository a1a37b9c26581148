// SPDX-License-Identifier: BSD-3-Clause
#include "core/process/cgroup_path.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto unified = "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(CgroupPath, IsThePathBelowTheMount) {
    EXPECT_THAT(cgroup_directories("0::/user.slice/session-3.scope\n", unified),
                ElementsAre("/sys/fs/cgroup/user.slice/session-3.scope"));
    EXPECT_THAT(cgroup_directories("0::/\n", unified), ElementsAre("/sys/fs/cgroup"));
}

TEST(CgroupPath, IsTheLineOfVersionTwoBesideThoseOfVersionOne) {
    EXPECT_THAT(cgroup_directories("8:pids:/x\n1:name=systemd:/y\n0::/z\n",
                                   "1 0 0:1 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
                                   "2 0 0:2 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"),
                ElementsAre("/sys/fs/cgroup/unified/z"));
    EXPECT_THAT(cgroup_directories("8:pids:/x\n", unified), IsEmpty());
}

TEST(CgroupPath, OfAContainerIsRelativeToWhatItsMountShows) {
    constexpr auto mount = "9 1 0:22 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    EXPECT_THAT(cgroup_directories("0::/docker/abc/job\n", mount), ElementsAre("/sys/fs/cgroup/job"));
    EXPECT_THAT(cgroup_directories("0::/docker/abc\n", mount), ElementsAre("/sys/fs/cgroup"));
    EXPECT_THAT(cgroup_directories("0::/docker/abcdef\n", mount), IsEmpty());
    EXPECT_THAT(cgroup_directories("0::/\n", mount), IsEmpty());
}

TEST(CgroupPath, ThatLeavesWhatIsVisibleIsNone) {
    EXPECT_THAT(cgroup_directories("0::/../other\n", unified), IsEmpty());
    EXPECT_THAT(cgroup_directories("0::/..\n", unified), IsEmpty());
}

TEST(CgroupPath, EveryMountThatShowsItCountsAndOddNamesAreRead) {
    EXPECT_THAT(
        cgroup_directories("0::/a b\n", std::string(unified) + "30 1 0:22 / /tmp/my\\040tree rw - cgroup2 none rw\n"
                                                               "31 1 0:22 /a\\040b /mnt rw - cgroup2 none rw\n"),
        ElementsAre("/sys/fs/cgroup/a b", "/tmp/my tree/a b", "/mnt"));
}

TEST(CgroupPath, BrokenTextsAreNoPath) {
    EXPECT_THAT(cgroup_directories("", ""), IsEmpty());
    EXPECT_THAT(cgroup_directories("0::", unified), IsEmpty());
    EXPECT_THAT(cgroup_directories("0::/a", " - cgroup2 \n25 1 - cgroup2 x\n"), IsEmpty());
}

}  // namespace
}  // namespace cpprun
