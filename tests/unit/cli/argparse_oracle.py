# SPDX-License-Identifier: BSD-3-Clause
"""Compares the grammar with Python's own argparse on random command lines.

usage: argparse_oracle.py FILTER [COUNT [SEED]], where FILTER is the program argparse_words. Ends with 77 (skipped) on a
Python whose argparse is not the one of 3.11, which the contract describes.
"""
import argparse
import json
import random
import re
import subprocess
import sys

FRAGMENTS = (
    "--nproc_p --red --r --r=16 --log --lo --log- --no- --max- --m --h --he -mr3 -mt -mh -tr3 -r=3 -r3 -mr=3 -m= -mx -h3 "
    "--standalone=1 --role= --role=-x -- -- - -1 -1.5 -.5 -5x x s.py --bogus --bogus=1 -q --=x -= 123 --nnodes=2 = -mm "
    "-mmt -hm -hr --- --stand --te=3 -rt -tm"
).split() + ["a b", "-a b", "", "-r ", "-m -r", "--role x", "--ro le=x", "--foo bar"]
VALUES = ["1", "x", "", "-1", "--", "a b", "3", "0:1", "-x"]


class Refused(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(message)


def make_parser(table, uses):
    """torchrun's parser, whose actions note their use."""

    class Note(argparse.Action):
        def __call__(self, parser, namespace, values, option_string=None):
            uses.append([self.option_strings[self.long], values or ""])

    parser = Parser(add_help=False)
    for row in table:
        action = parser.add_argument(*row["names"], action=Note, nargs=0 if row["flag"] else None)
        action.long = next(i for i, name in enumerate(row["names"]) if name.startswith("--"))
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def random_line(names):
    def word():
        kind = random.random()
        return random.choice(names if kind < 0.4 else FRAGMENTS if kind < 0.75 else VALUES)

    return [word() for _ in range(random.randint(0, 7))]


def expected(parser, uses, line):
    uses.clear()
    try:
        namespace, unknown = parser.parse_known_args(line)
    except Refused as refused:
        return {"error": str(refused), "uses": list(uses)}
    return {
        "uses": list(uses),
        "problem": None,
        "unrecognized": unknown,
        "script": namespace.training_script,
        "args": namespace.training_script_args,
    }


def relaxed(table, error, ours):
    """Whether an ambiguity is one of those that cpprun resolves: one option's two spellings, or behind SCRIPT."""
    word, candidates = re.match(r"ambiguous option: (.*) could match (.*)$", error, re.S).groups()
    owners = {next(i for i, row in enumerate(table) if name in row["names"]) for name in candidates.split(", ")}
    return len(owners) == 1 or word in ours.get("args", [])


def agrees(table, wanted, ours):
    error = wanted.get("error")
    if error is None:
        return ours == wanted
    if error.startswith("ambiguous"):
        return ours.get("ambiguous") == error or relaxed(table, error, ours)
    if "ambiguous" in ours or ours["uses"] != wanted["uses"]:
        return False
    if error.startswith("the following"):
        return ours["script"] is None and ours["problem"] is None
    return ours["problem"] == error


def main():
    if sys.version_info[:2] != (3, 11):
        print("argparse of Python 3.11 is needed")
        return 77
    words = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    table = json.loads(subprocess.run([words, "--table"], check=True, capture_output=True).stdout)
    uses = []
    parser = make_parser(table, uses)
    names = [name for row in table for name in row["names"]]
    lines = [random_line(names) for _ in range(count)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    answers = subprocess.run([words], check=True, capture_output=True, text=True, input=text).stdout.splitlines()
    assert len(answers) == len(lines)
    wrong = 0
    for line, answer in zip(lines, answers):
        wanted, ours = expected(parser, uses, line), json.loads(answer)
        if not agrees(table, wanted, ours):
            wrong += 1
            if wrong <= 10:
                print("line    ", line, "\nargparse", wanted, "\nours    ", ours)
    print(count, "lines,", wrong, "differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
