// SPDX-License-Identifier: BSD-3-Clause
#include "core/text/python_number.hpp"

#include "cli/duration.hpp"
#include "cli/python_repr.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace cpprun {
namespace {

TEST(PythonInt, ReadsWhatPythonReads) {
    EXPECT_EQ(parse_python_int("0"), 0);
    EXPECT_EQ(parse_python_int(" 2 "), 2);
    EXPECT_EQ(parse_python_int("\t\n3\r\f\v"), 3);
    EXPECT_EQ(parse_python_int("+3"), 3);
    EXPECT_EQ(parse_python_int("-1"), -1);
    EXPECT_EQ(parse_python_int("-0"), 0);
    EXPECT_EQ(parse_python_int("1_0"), 10);
    EXPECT_EQ(parse_python_int("1_000_000"), 1000000);
    EXPECT_EQ(parse_python_int("007"), 7);
}

TEST(PythonInt, RefusesWhatPythonRefuses) {
    for (const char* text : {"", " ", "x", "3.0", "0x2", "1e3", "1__0", "_1", "1_", "+_1", "+ 1", "--1", "1 2", "true",
                             "-", "+", "1,", "\xef\xbc\x91"})
        EXPECT_FALSE(parse_python_int(text)) << text;
    EXPECT_FALSE(parse_python_int(std::string_view("1\0", 2)));
}

TEST(PythonInt, StopsAtTheEndsOfItsRange) {
    using Limits = std::numeric_limits<std::int64_t>;
    EXPECT_EQ(parse_python_int("9223372036854775807"), Limits::max());
    EXPECT_EQ(parse_python_int("9223372036854775808"), Limits::max());
    EXPECT_EQ(parse_python_int("9223372036854775799"), Limits::max() - 8);
    EXPECT_EQ(parse_python_int("-9223372036854775808"), Limits::min());
    EXPECT_EQ(parse_python_int("-9223372036854775809"), Limits::min());
    EXPECT_EQ(parse_python_int(std::string(5000, '9')), Limits::max());
    EXPECT_EQ(parse_python_int("-" + std::string(5000, '9')), Limits::min());
}

TEST(PythonFloat, ReadsWhatPythonReads) {
    EXPECT_EQ(parse_python_float("0.1"), 0.1);
    EXPECT_EQ(parse_python_float(" 1e-2 "), 0.01);
    EXPECT_EQ(parse_python_float("1_0.5"), 10.5);
    EXPECT_EQ(parse_python_float("1e+1_0"), 1e10);
    EXPECT_EQ(parse_python_float(".5"), 0.5);
    EXPECT_EQ(parse_python_float("5."), 5.0);
    EXPECT_EQ(parse_python_float("-3"), -3.0);
    EXPECT_EQ(parse_python_float("inf"), std::numeric_limits<double>::infinity());
    EXPECT_EQ(parse_python_float("-Infinity"), -std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(parse_python_float("NaN").value_or(0)));
    EXPECT_EQ(parse_python_float("1e999"), std::numeric_limits<double>::infinity());
    EXPECT_EQ(parse_python_float("1e-999"), 0.0);
    EXPECT_EQ(parse_python_float("0." + std::string(500, '0') + "1"), 0.0);
    EXPECT_EQ(parse_python_float("1" + std::string(500, '0')), std::numeric_limits<double>::infinity());
}

TEST(PythonFloat, RefusesWhatPythonRefuses) {
    for (const char* text : {"", ".", "e1", "1e", "1e+", "x", "0x1p3", "1__0", "1_.5", "1._5", "_1", "1 2", "in", "+-1",
                             "nan(1)", "1e5x", "1e_5"})
        EXPECT_FALSE(parse_python_float(text)) << text;
}

TEST(PythonRepr, ShowsAValueOnOneLine) {
    EXPECT_EQ(python_repr("x"), "'x'");
    EXPECT_EQ(python_repr(""), "''");
    EXPECT_EQ(python_repr("it's"), "\"it's\"");
    EXPECT_EQ(python_repr("'\""), "'\\'\"'");
    EXPECT_EQ(python_repr("a\nb\t\r\x1b\x7f\\"), "'a\\nb\\t\\r\\x1b\\x7f\\\\'");
    EXPECT_EQ(python_repr("\xc3\xa9"), "'\xc3\xa9'");
    EXPECT_EQ(python_repr("\xff\xc3"), "'\\udcff\\udcc3'");
    EXPECT_EQ(python_repr("\xc2\x9b"), "'\\x9b'");
    EXPECT_EQ(python_repr("\xed\xa0\x80"), "'\\udced\\udca0\\udc80'");
}

TEST(Duration, TakesSecondsAndMilliseconds) {
    using std::chrono::milliseconds;
    EXPECT_EQ(parse_duration("30ms"), milliseconds(30));
    EXPECT_EQ(parse_duration("0.5s"), milliseconds(500));
    EXPECT_EQ(parse_duration("2"), milliseconds(2000));
    EXPECT_EQ(parse_duration("0"), milliseconds(0));
    EXPECT_EQ(parse_duration("1h"), std::nullopt);
    EXPECT_EQ(parse_duration("3600s"), milliseconds(3600000));
    for (const char* text : {"", "ms", "s", "-1", "-1ms", "nan", "inf", "3601", "1m", "x", "1 ms2"})
        EXPECT_EQ(parse_duration(text), std::nullopt) << text;
}

}  // namespace
}  // namespace cpprun
