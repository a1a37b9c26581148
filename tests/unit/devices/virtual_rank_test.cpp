// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/virtual_rank.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

using Strings = std::vector<std::string>;

Strings entries(const Environment& environment, int nproc) {
    return virtual_device_list(environment, nproc).value().entries;
}

TEST(VirtualRank, B17EachRankGetsItsEntryVerbatim) {
    EXPECT_EQ(entries({{"CUDA_VISIBLE_DEVICES", "3,GPU-ab,MIG-cd"}}, 3), (Strings{"3", "GPU-ab", "MIG-cd"}));
    EXPECT_EQ(entries({{"CUDA_VISIBLE_DEVICES", " 3, 5 ,7"}}, 2), (Strings{"3", "5"}));
}

TEST(VirtualRank, B17MoreWorkersThanEntriesIsAnErrorBeforeTheStart) {
    const auto result = virtual_device_list({{"CUDA_VISIBLE_DEVICES", "3"}}, 2);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::usage);
    EXPECT_EQ(result.error().message, "local_rank 1 exceeds available GPUs in CUDA_VISIBLE_DEVICES=3");
    EXPECT_FALSE(virtual_device_list({{"CUDA_VISIBLE_DEVICES", "3,GPU-ab,MIG-cd"}}, 4));
}

TEST(VirtualRank, WithoutAListEachRankGetsItsOwnNumber) {
    EXPECT_EQ(entries({}, 3), (Strings{"0", "1", "2"}));
}

TEST(VirtualRank, AnEmptyListHasOneEmptyEntry) {
    EXPECT_EQ(entries({{"CUDA_VISIBLE_DEVICES", ""}}, 1), Strings{""});
    const auto two = virtual_device_list({{"CUDA_VISIBLE_DEVICES", ""}}, 2);
    ASSERT_FALSE(two);
    EXPECT_EQ(two.error().message, "local_rank 1 exceeds available GPUs in CUDA_VISIBLE_DEVICES=");
}

TEST(VirtualRank, AHipListComesFirstAndSetsBothVariables) {
    const auto result =
        virtual_device_list({{"HIP_VISIBLE_DEVICES", "4,5"}, {"CUDA_VISIBLE_DEVICES", "0,1,2"}}, 2).value();
    EXPECT_EQ(result.entries, (Strings{"4", "5"}));
    EXPECT_EQ(result.variables, (Strings{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}));
    const auto error = virtual_device_list({{"HIP_VISIBLE_DEVICES", "4"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}, 2);
    ASSERT_FALSE(error);
    EXPECT_EQ(error.error().message, "local_rank 1 exceeds available GPUs in HIP_VISIBLE_DEVICES=4");
}

TEST(VirtualRank, AnEmptyHipListGivesWayToCudas) {
    const auto result = virtual_device_list({{"HIP_VISIBLE_DEVICES", ""}, {"CUDA_VISIBLE_DEVICES", "7,8"}}, 2).value();
    EXPECT_EQ(result.entries, (Strings{"7", "8"}));
    EXPECT_EQ(result.variables, Strings{"CUDA_VISIBLE_DEVICES"});
}

}  // namespace
}  // namespace cpprun
