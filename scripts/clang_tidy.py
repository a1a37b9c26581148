# SPDX-License-Identifier: BSD-3-Clause
"""Runs clang-tidy over our own translation units, and remembers which were clean; standard library only.

    clang_tidy.py BUILD_DIR FOLDER...      exit 0 when all units below the folders are clean

A unit that was clean is not looked at again until its preprocessed text, .clang-tidy or clang-tidy itself changes.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys

BOUND_S = 600


def units(build, folders):
    """(source file, compile command without its output) of each unit below one of the folders."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            if any(os.path.abspath(entry["file"]).startswith(folder + os.sep) for folder in folders):
                yield entry["file"], shlex.split(entry["command"]), entry["directory"]


def preprocessed(command, directory):
    """The unit's text as the compiler sees it, or None where it cannot be had."""
    arguments = [word for word in command if word != "-c"]
    if "-o" in arguments:
        at = arguments.index("-o")
        del arguments[at:at + 2]
    if os.path.basename(arguments[0]) == "ccache":
        del arguments[0]
    done = subprocess.run([*arguments, "-E"], cwd=directory, capture_output=True, timeout=BOUND_S, check=False)
    return done.stdout if done.returncode == 0 else None


def faults_of(build, source):
    """What clang-tidy finds; empty when it is content."""
    try:
        done = subprocess.run(["clang-tidy", "-quiet", "-p", build, source], capture_output=True, text=True,
                              timeout=BOUND_S, check=False)
    except subprocess.TimeoutExpired:
        return [f"{source}: error: clang-tidy still ran after {BOUND_S} s"]
    if done.returncode == 0:
        return []
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr).splitlines()
    return [line for line in lines if re.search(r"(error|warning): ", line)] or [f"{source}: {lines[-1:]}"]


def check(build, clean_folder, rules, unit):
    source, command, directory = unit
    text = preprocessed(command, directory)
    mark = text and os.path.join(clean_folder, hashlib.sha256(rules + text).hexdigest())
    if mark and os.path.exists(mark):
        return source, [], True
    faults = faults_of(build, source)
    if mark and not faults:
        with open(mark, "w", encoding="utf-8"):
            pass
    return source, faults, False


def main(build, *folders):
    clean_folder = os.path.join(build, "clang-tidy-clean")
    os.makedirs(clean_folder, exist_ok=True)
    with open(".clang-tidy", "rb") as file:
        rules = file.read() + subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    todo = list(units(build, [os.path.abspath(folder) for folder in folders]))
    if not todo:
        sys.exit(f"{build} has no unit below {', '.join(folders)}")
    found, remembered = set(), 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        for _, faults, was_clean in workers.map(lambda unit: check(build, clean_folder, rules, unit), todo):
            remembered += was_clean
            for fault in faults:
                if fault not in found:
                    print(os.path.relpath(fault) if fault.startswith(os.getcwd()) else fault, flush=True)
            found.update(faults)
    print(f"{len(todo)} units, {remembered} of them clean before and unchanged; {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
