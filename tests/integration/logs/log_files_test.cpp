// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/logs/log_files.hpp"

#include "integration/logs/tail_rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sys/resource.h>

namespace cpprun {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;
using testing::UnorderedElementsAre;

/// Paths of all that lies below `directory`, relative to it; directories end in a slash.
std::vector<std::string> tree(const std::string& directory) {
    std::vector<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
        paths.push_back(fs::relative(entry.path(), directory).string() + (entry.is_directory() ? "/" : ""));
    }
    return paths;
}

class LogFiles : public testing::Test {
  protected:
    RunLogs create(const LogConfig& config, const std::string& run_id = "none") {
        return RunLogs::create(config, run_id, environment).value();
    }
    LogConfig in_log_dir(Std redirects = Std::none, Std tee = Std::none) const {
        LogConfig config;
        config.base_dir = scratch / "logs";
        config.redirects.for_all = redirects;
        config.tee.for_all = tee;
        return config;
    }

    ScratchDirectory scratch;
    Environment environment{{"TMPDIR", scratch.path()}};
};

TEST_F(LogFiles, TheLogDirectoryIsMadeWithItsParentsAndHoldsARandomOneForTheRun) {
    LogConfig config;
    config.base_dir = scratch / "a/b/c";
    const RunLogs logs = create(config, "job7");
    EXPECT_THAT(logs.directory(), testing::MatchesRegex(scratch / "a/b/c/job7_[a-z0-9_]{8}"));
    struct stat status {};
    ASSERT_EQ(::stat(logs.directory().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0700U);
    EXPECT_TRUE(logs.directory_was_asked_for());
}

TEST_F(LogFiles, TwoAgentsWithOneRunIdShareALogDirectoryWithoutSharingFiles) {
    const RunLogs one = create(in_log_dir());
    const RunLogs other = create(in_log_dir());
    EXPECT_NE(one.directory(), other.directory());
}

TEST_F(LogFiles, WithoutALogDirectoryATemporaryOneIsMadeAndRemovedAtTheEnd) {
    RunLogs logs = create({}, "id");
    EXPECT_THAT(logs.directory(), testing::MatchesRegex(scratch / "torchelastic_[a-z0-9_]{8}/id_[a-z0-9_]{8}"));
    EXPECT_FALSE(logs.directory_was_asked_for());
    const AttemptLogs attempt = logs.begin_attempt(0, 0, 2).value();
    EXPECT_EQ(attempt.workers[1].error_file, logs.directory() + "/attempt_0/1/error.json");
    ASSERT_TRUE(attempt.wait_for_directory(1));
    EXPECT_TRUE(fs::is_directory(logs.directory() + "/attempt_0/1"));
    logs.finish();
    EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST_F(LogFiles, ATemporaryDirectoryThatHoldsAFileStaysWhole) {
    RunLogs logs = create({});
    const AttemptLogs attempt = logs.begin_attempt(0, 0, 2).value();
    ASSERT_TRUE(attempt.wait_for_directory(1));
    std::ofstream(attempt.workers[0].error_file) << "{}";
    logs.finish();
    EXPECT_TRUE(fs::exists(attempt.workers[0].error_file));
    EXPECT_TRUE(fs::exists(attempt.directory + "/1"));
}

TEST_F(LogFiles, ALogDirectoryThatWasAskedForStaysThoughEmpty) {
    RunLogs logs = create(in_log_dir());
    logs.begin_attempt(0, 0, 1).value();
    logs.finish();
    EXPECT_TRUE(fs::is_directory(logs.directory() + "/attempt_0/0"));
}

TEST_F(LogFiles, ATemporaryDirectoryThatCannotBeUsedIsPassedOver) {
    environment = {{"TMPDIR", scratch / "absent"}, {"TMP", scratch.path()}};
    RunLogs logs = create({});
    EXPECT_THAT(logs.directory(), testing::StartsWith(scratch.path()));
}

TEST_F(LogFiles, ALogDirectoryThatIsAFileIsAUsageError) {
    LogConfig config;
    config.base_dir = "/etc/passwd";
    const auto logs = RunLogs::create(config, "none", environment);
    ASSERT_FALSE(logs.has_value());
    EXPECT_EQ(logs.error().kind, ErrorKind::usage);
    EXPECT_EQ(logs.error().message, "--log-dir=/etc/passwd: log_dir: /etc/passwd is a file");
}

TEST_F(LogFiles, ALogDirectoryBelowAFileIsAUsageErrorThatNamesIt) {
    LogConfig config;
    config.base_dir = "/etc/passwd/below";
    const auto logs = RunLogs::create(config, "none", environment);
    ASSERT_FALSE(logs.has_value());
    EXPECT_EQ(logs.error().kind, ErrorKind::usage);
    EXPECT_THAT(logs.error().message, testing::HasSubstr("/etc/passwd/below: Not a directory"));
}

TEST_F(LogFiles, ARunIdWithSlashesStaysInTheLogDirectory) {
    const RunLogs logs = create(in_log_dir(), "../../a/b");
    EXPECT_EQ(fs::path(logs.directory()).parent_path(), scratch / "logs");
}

struct StreamCase {
    const char* redirects;
    const char* tee;
    std::vector<std::string> files;
    std::vector<std::string> shown;
};

class LogFilesOfStreams : public LogFiles, public testing::WithParamInterface<StreamCase> {};

TEST_P(LogFilesOfStreams, AreThereForTheUnionOfRedirectsAndTee) {
    const auto spec = [](const char* text) {
        StdSpec result;
        const std::string_view view(text);
        if (view.size() == 1) result.for_all = static_cast<Std>(view[0] - '0');
        for (std::size_t at = 0; view.size() > 1 && at < view.size(); at += 4) {
            result.by_rank[view[at] - '0'] = static_cast<Std>(view[at + 2] - '0');
        }
        return result;
    };
    LogConfig config = in_log_dir();
    config.redirects = spec(GetParam().redirects);
    config.tee = spec(GetParam().tee);
    RunLogs logs = create(config);
    const AttemptLogs attempt = logs.begin_attempt(0, 0, 2).value();
    ASSERT_TRUE(attempt.wait_for_directory(1));
    std::vector<std::string> expected{"0/", "1/"};
    expected.insert(expected.end(), GetParam().files.begin(), GetParam().files.end());
    EXPECT_THAT(tree(attempt.directory), testing::UnorderedElementsAreArray(expected));
    std::vector<std::string> shown;
    for (const WorkerLogs& worker : attempt.workers) {
        if (worker.out.shown) shown.push_back(std::to_string(worker.local_rank) + "/stdout.log");
        if (worker.err.shown) shown.push_back(std::to_string(worker.local_rank) + "/stderr.log");
        EXPECT_EQ(static_cast<bool>(worker.out.file), worker.out.target == WorkerStream::Target::file);
        EXPECT_EQ(static_cast<bool>(worker.err.file), worker.err.target == WorkerStream::Target::file);
    }
    EXPECT_EQ(shown, GetParam().shown);
}

INSTANTIATE_TEST_SUITE_P(
    ObservedCases, LogFilesOfStreams,
    testing::Values(StreamCase{"0", "0", {}, {}}, StreamCase{"1", "0", {"0/stdout.log", "1/stdout.log"}, {}},
                    StreamCase{"2", "0", {"0/stderr.log", "1/stderr.log"}, {}},
                    StreamCase{"3", "0", {"0/stdout.log", "1/stdout.log", "0/stderr.log", "1/stderr.log"}, {}},
                    StreamCase{"0", "1", {"0/stdout.log", "1/stdout.log"}, {"0/stdout.log", "1/stdout.log"}},
                    StreamCase{"0", "2", {"0/stderr.log", "1/stderr.log"}, {"0/stderr.log", "1/stderr.log"}},
                    StreamCase{"0:1,1:2", "0", {"0/stdout.log", "1/stderr.log"}, {}},
                    StreamCase{"0", "0:1,1:2", {"0/stdout.log", "1/stderr.log"}, {"0/stdout.log", "1/stderr.log"}},
                    StreamCase{
                        "3", "0:1", {"0/stdout.log", "1/stdout.log", "0/stderr.log", "1/stderr.log"}, {"0/stdout.log"}},
                    StreamCase{"1",
                               "2",
                               {"0/stdout.log", "1/stdout.log", "0/stderr.log", "1/stderr.log"},
                               {"0/stderr.log", "1/stderr.log"}}));

TEST_F(LogFiles, RanksOutsideTheFilterAreNotShownAndTheirOtherStreamsGoNowhere) {
    LogConfig config = in_log_dir(Std::none, Std::out);
    config.local_ranks_filter = {1, 7};
    RunLogs logs = create(config);
    const AttemptLogs attempt = logs.begin_attempt(0, 0, 2).value();
    EXPECT_EQ(attempt.workers[0].out.target, WorkerStream::Target::file);
    EXPECT_FALSE(attempt.workers[0].out.shown);
    EXPECT_EQ(attempt.workers[0].err.target, WorkerStream::Target::null);
    EXPECT_TRUE(attempt.workers[1].out.shown);
    EXPECT_EQ(attempt.workers[1].err.target, WorkerStream::Target::inherit);
}

TEST_F(LogFiles, B64GlobalRanksAreChosenAnewInEachRound) {
    LogConfig config = in_log_dir(Std::none, Std::out);
    config.ranks_filter = {{0, 0}, {5, 6}};
    RunLogs logs = create(config);
    const auto shown = [&](int round, std::int64_t first_rank) {
        std::vector<bool> ranks;
        const AttemptLogs attempt = logs.begin_attempt(round, round, 3, first_rank).value();
        for (const WorkerLogs& worker : attempt.workers) {
            EXPECT_EQ(worker.err.target == WorkerStream::Target::inherit, worker.out.shown);
            ranks.push_back(worker.out.shown);
        }
        return ranks;
    };
    EXPECT_EQ(shown(0, 0), (std::vector<bool>{true, false, false}));
    EXPECT_EQ(shown(1, 4), (std::vector<bool>{false, true, true}));
}

TEST_F(LogFiles, TheRankThatReadsStdinIsShownWhateverTheFiltersSay) {
    LogConfig config = in_log_dir(Std::none);
    config.ranks_filter = {{0, 0}};
    config.local_ranks_filter = {0};
    config.reading_rank = 4;
    const AttemptLogs attempt = create(config).begin_attempt(0, 0, 3, 3).value();
    EXPECT_EQ(attempt.workers[0].out.target, WorkerStream::Target::null);
    EXPECT_EQ(attempt.workers[1].out.target, WorkerStream::Target::inherit);
    EXPECT_EQ(attempt.workers[2].out.target, WorkerStream::Target::null);
}

TEST_F(LogFiles, NoAttemptTouchesTheFilesOfAnEarlierOne) {
    RunLogs logs = create(in_log_dir(Std::out));
    const AttemptLogs first = logs.begin_attempt(0, 0, 1).value();
    std::ofstream(first.workers[0].error_file) << "first";
    const AttemptLogs after_a_change = logs.begin_attempt(0, 2, 1).value();
    const AttemptLogs after_a_failure = logs.begin_attempt(1, 3, 1).value();
    EXPECT_EQ(first.directory, logs.directory() + "/attempt_0");
    EXPECT_EQ(after_a_change.directory, logs.directory() + "/attempt_0.2");
    EXPECT_EQ(after_a_failure.directory, logs.directory() + "/attempt_1");
    EXPECT_FALSE(fs::exists(after_a_change.workers[0].error_file));
    EXPECT_EQ(contents(first.workers[0].error_file), "first");
}

TEST_F(LogFiles, FilesForWorkersAreClosedOnExecAndAppendedTo) {
    RunLogs logs = create(in_log_dir(Std::out));
    const AttemptLogs attempt = logs.begin_attempt(0, 0, 1).value();
    const int fd = attempt.workers[0].out.file.get();
    EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(::fcntl(fd, F_GETFL) & O_APPEND, O_APPEND);
}

TEST_F(LogFiles, FilteredFilesAreThereWithEachFilterThoughNothingIsTeed) {
    LogConfig config = in_log_dir();
    config.duplicate_stdout_filters = {"alpha"};
    RunLogs logs = create(config);
    const AttemptLogs attempt = logs.begin_attempt(0, 0, 1).value();
    EXPECT_THAT(tree(attempt.directory), UnorderedElementsAre("0/", "filtered_stdout.log"));
}

TEST_F(LogFiles, ADirectoryThatCannotBeMadeIsSaidForItsRankAndThoseBehindIt) {
    RunLogs logs = create(in_log_dir());
    fs::create_directory(logs.directory() + "/attempt_0");
    const WorkerDirectories directories(
        {logs.directory() + "/attempt_0/0", logs.directory() + "/absent/1", logs.directory() + "/attempt_0/2"});
    EXPECT_EQ(directories.wait_for(0), 0);
    EXPECT_EQ(directories.wait_for(1), ENOENT);
    EXPECT_EQ(directories.wait_for(2), ENOENT);
}

TEST_F(LogFiles, DevNullMakesNothingAndSwitchesEverythingOff) {
    LogConfig config;
    config.disabled = true;
    config.redirects.for_all = Std::all;
    config.tee.for_all = Std::all;
    config.local_ranks_filter = {0};
    RunLogs logs = create(config);
    const AttemptLogs attempt = logs.begin_attempt(0, 0, 2).value();
    for (const WorkerLogs& worker : attempt.workers) {
        EXPECT_EQ(worker.error_file, "");
        EXPECT_EQ(worker.out.target, WorkerStream::Target::inherit);
        EXPECT_EQ(worker.err.target, WorkerStream::Target::inherit);
    }
    logs.finish();
    EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST_F(LogFiles, DevNullWithADuplicateFilterIsAUsageError) {
    LogConfig config;
    config.disabled = true;
    config.duplicate_stderr_filters = {"x"};
    const auto logs = RunLogs::create(config, "none", environment);
    ASSERT_FALSE(logs.has_value());
    EXPECT_EQ(logs.error().kind, ErrorKind::usage);
}

TEST_F(LogFiles, TooFewFileDescriptorsAreSaidBeforeAnyWorkerStarts) {
    RunLogs logs = create(in_log_dir(Std::all));
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit few{.rlim_cur = 20, .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto attempt = logs.begin_attempt(0, 0, 24);
    ::setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_FALSE(attempt.has_value());
    EXPECT_EQ(attempt.error().kind, ErrorKind::failed);
    EXPECT_THAT(attempt.error().message, testing::HasSubstr("Too many open files"));
}

TEST_F(LogFiles, ARelativeLogDirectoryStaysRelative) {
    const fs::path before = fs::current_path();
    fs::current_path(scratch.path());
    LogConfig config;
    config.base_dir = "L";
    RunLogs logs = create(config, "none");
    const AttemptLogs attempt = logs.begin_attempt(0, 0, 1).value();
    fs::current_path(before);
    EXPECT_THAT(attempt.workers[0].error_file, testing::MatchesRegex("L/none_[a-z0-9_]{8}/attempt_0/0/error\\.json"));
}

}  // namespace
}  // namespace cpprun
