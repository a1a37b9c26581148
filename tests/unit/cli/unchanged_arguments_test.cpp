// SPDX-License-Identifier: BSD-3-Clause
// Random argument vectors go through the whole command line and arrive unchanged, but for the `--` directly behind
// SCRIPT. CPPRUN_ARGUMENT_VECTORS says how many (a million is the full proof), CPPRUN_SEED which.
#include "unit/cli/fake_machine.hpp"

#include <cstdlib>
#include <random>

namespace cpprun::test {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class RandomWords {
  public:
    explicit RandomWords(std::uint64_t seed) : engine_(seed) {}

    std::size_t below(std::size_t bound) { return static_cast<std::size_t>(engine_() % bound); }

    /// Option names and their beginnings, dashes, macros, and bytes of every value but 0.
    std::string word() {
        const std::vector<std::string>& known = special_words();
        switch (below(4)) {
            case 0:
                return known[below(known.size())];
            case 1:
                return std::string(flag_table()[below(option_count)].dashed);
            case 2:
                return known[below(known.size())] + bytes(below(6));
            default:
                return bytes(below(12));
        }
    }

    std::vector<std::string> words() {
        std::vector<std::string> list(below(8));
        for (std::string& entry : list) entry = word();
        return list;
    }

  private:
    static const std::vector<std::string>& special_words() {
        static const std::vector<std::string> words{
            "",   "-",  "--", "-h", "--r",  "--r=16", "-mr3",      "=", "$$", "$",     "${x}", "a b", "\n", "--log",
            "-1", "@f", "'",  "\"", "--n=", "\\",     "--version", "*", "{}", "[a,b]", "%%",   "-t",  "-r", "--help"};
        return words;
    }

    std::string bytes(std::size_t count) {
        std::string text;
        for (; count > 0; --count) text += static_cast<char>(1 + below(255));
        return text;
    }

    std::mt19937_64 engine_;
};

TEST(Arguments, RandomOnesArriveUnchanged) {
    const std::uint64_t count = number_from("CPPRUN_ARGUMENT_VECTORS", 20000);
    RandomWords random(number_from("CPPRUN_SEED", 1));
    FakeMachine machine;
    const std::vector<std::vector<std::string>> fronts{
        {"w.py"}, {"--", "w.py"}, {"-m", "mod"}, {"--role", "x", "-mr3", "mod"}, {"--nproc-per-node=1", "w.py"}};
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t front = random.below(fronts.size());
        const std::vector<std::string> args = random.words();
        std::vector<std::string> line = fronts[front];
        line.insert(line.end(), args.begin(), args.end());
        const bool dropped = front != 1 && !args.empty() && args.front() == "--";
        const auto parsed = machine.parse(line);
        ASSERT_TRUE(parsed) << parsed.error().message;
        const std::vector<std::string>& arrived = std::get<LaunchRequest>(parsed.value()).config.program.args;
        const std::vector<std::string> wanted(args.begin() + (dropped ? 1 : 0), args.end());
        ASSERT_EQ(arrived, wanted) << "vector " << i;
    }
}

// Whatever stands on the line, an answer comes, and an error is one line.
TEST(Arguments, RandomLinesAreAnsweredInOneLine) {
    const std::uint64_t count = number_from("CPPRUN_ARGUMENT_VECTORS", 20000);
    RandomWords random(number_from("CPPRUN_SEED", 2));
    FakeMachine machine;
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::vector<std::string> line = random.words();
        const auto parsed = machine.parse(line);
        if (parsed) continue;
        ASSERT_FALSE(parsed.error().message.empty());
        ASSERT_EQ(parsed.error().message.find('\n'), std::string::npos) << parsed.error().message;
    }
}

}  // namespace
}  // namespace cpprun::test
