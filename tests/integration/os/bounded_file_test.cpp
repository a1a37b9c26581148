// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/bounded_file.hpp"

#include "support/temp_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

namespace cpprun {
namespace {

using test::TempDir;
using testing::HasSubstr;

TEST(UntrustedFile, IsReadWhole) {
    const TempDir dir;
    const std::string content(100000, 'x');
    EXPECT_EQ(read_untrusted_file(dir.write("f", content), 100000).value(), content);
}

TEST(UntrustedFile, ThatIsNotThereIsNoError) {
    const TempDir dir;
    EXPECT_FALSE(read_untrusted_file(dir / "nothing", 10).value().has_value());
    EXPECT_FALSE(read_untrusted_file(dir.write("f", "x") + "/below", 10).value().has_value());
}

TEST(UntrustedFile, ThatIsTooLongIsRefused) {
    const TempDir dir;
    EXPECT_THAT(read_untrusted_file(dir.write("f", "12345678901"), 10).error().message, HasSubstr("longer than 10"));
}

TEST(UntrustedFile, LinksAreNotFollowed) {
    const TempDir dir;
    ASSERT_EQ(::symlink("/etc/passwd", (dir / "link").c_str()), 0);
    EXPECT_THAT(read_untrusted_file(dir / "link", 1 << 20).error().message, HasSubstr("symbolic link"));
}

TEST(UntrustedFile, AFifoWithoutAWriterDoesNotBlock) {
    const TempDir dir;
    ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
    EXPECT_THAT(read_untrusted_file(dir / "fifo", 10).error().message, HasSubstr("no regular file"));
    EXPECT_THAT(read_untrusted_file("/dev/zero", 10).error().message, HasSubstr("no regular file"));
    EXPECT_THAT(read_untrusted_file(dir.path().string(), 10).error().message, HasSubstr("no regular file"));
}

TEST(UntrustedFile, OfAnotherUserIsRefused) {
    if (::geteuid() != 0) {
        EXPECT_THAT(read_untrusted_file("/etc/passwd", 1 << 20).error().message, HasSubstr("belongs to user 0"));
        return;
    }
    const TempDir dir;
    const std::string path = dir.write("f", "x");
    ASSERT_EQ(::chown(path.c_str(), 12345, static_cast<gid_t>(-1)), 0);
    EXPECT_THAT(read_untrusted_file(path, 10).error().message, HasSubstr("belongs to user 12345"));
}

TEST(WriteFile, ReplacesWhatWasThereAndNeverWritesThroughALink) {
    const TempDir dir;
    const std::string victim = dir.write("victim", "keep");
    ASSERT_EQ(::symlink(victim.c_str(), (dir / "out").c_str()), 0);
    ASSERT_TRUE(write_file(dir / "out", "new"));
    EXPECT_EQ(read_untrusted_file(dir / "out", 10).value(), "new");
    EXPECT_EQ(read_untrusted_file(victim, 10).value(), "keep");
}

TEST(WriteFile, SaysWhereItCouldNot) {
    EXPECT_THAT(write_file("/nonexistent/folder/file", "x").error().message, HasSubstr("/nonexistent/folder/file"));
}

}  // namespace
}  // namespace cpprun
