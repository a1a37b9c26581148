// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/log_layout.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

TEST(LogLayout, UsualRunIdsStayAsTheyAre) {
    for (const char* id : {"none", "057b6224-87e6-45e9-9550-01ed5c420d32", "job_7.3", "12345", "a b", "Läufe:1=x"}) {
        EXPECT_EQ(run_directory_stem(id), id);
    }
}

TEST(LogLayout, ARunIdCannotLeaveTheLogDirectory) {
    EXPECT_EQ(run_directory_stem("../../etc"), "_._.._etc");
    EXPECT_EQ(run_directory_stem(".."), "_.");
    EXPECT_EQ(run_directory_stem("/abs"), "_abs");
    EXPECT_EQ(run_directory_stem(std::string_view("a\0b\nc\x7f", 6)), "a_b_c_");
}

TEST(LogLayout, ALongRunIdIsCutButNotInsideACharacter) {
    const std::string long_id(run_id_name_bytes_max - 1, 'x');
    EXPECT_EQ(run_directory_stem(long_id + "y"), long_id + "y");
    EXPECT_EQ(run_directory_stem(long_id + "yz"), long_id + "y");
    EXPECT_EQ(run_directory_stem(long_id + "é"), long_id);
    EXPECT_EQ(run_directory_stem(std::string(300, '\x80')).size(), run_id_name_bytes_max);
}

TEST(LogLayout, ALaterStartWithTheSameCountHasADirectoryOfItsOwn) {
    EXPECT_EQ(attempt_directory_name(0, 0, true), "attempt_0");
    EXPECT_EQ(attempt_directory_name(0, 4, false), "attempt_0.4");
    EXPECT_EQ(attempt_directory_name(2, 7, true), "attempt_2");
}

TEST(LogLayout, NamesAreTorchruns) {
    EXPECT_EQ(stream_log_path("L/x/attempt_0", 3, Std::out), "L/x/attempt_0/3/stdout.log");
    EXPECT_EQ(stream_log_path("L/x/attempt_0", 3, Std::err), "L/x/attempt_0/3/stderr.log");
    EXPECT_EQ(error_file_path("L/x/attempt_0", 12), "L/x/attempt_0/12/error.json");
    EXPECT_EQ(filtered_log_path("L/x/attempt_0", Std::out), "L/x/attempt_0/filtered_stdout.log");
    EXPECT_EQ(filtered_log_path("L/x/attempt_0", Std::err), "L/x/attempt_0/filtered_stderr.log");
}

TEST(LogLayout, PathsJoinWithOneSlash) {
    EXPECT_EQ(join_path("L", "x"), "L/x");
    EXPECT_EQ(join_path("L/", "x"), "L/x");
    EXPECT_EQ(join_path("/", "x"), "/x");
    EXPECT_EQ(join_path("", "x"), "x");
}

}  // namespace
}  // namespace cpprun
