# SPDX-License-Identifier: BSD-3-Clause
"""Keeps the direction of dependencies, and the release binary small and self-contained. Standard library only.

    python3 architecture_test.py SOURCE_DIR COMPILE_COMMANDS [RELEASE_BINARY]

The rules are the tables below. A rule that a fact of the code breaks is printed with the line; exit status 1.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

SIZE_LIMIT_BYTES = 5_000_000
# What a dynamic binary may need: libc in all its parts, and the loader.
LIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}

# Which layers of ours a file of a layer may include. A layer is the longest of these paths that holds the file.
LAYERS = {
    "include/cpprun": {"include/cpprun"},
    "src/core/store": {"src/core/store", "include/cpprun"},
    "src/core": {"src/core", "src/core/store", "include/cpprun"},
    "src/cli": {"src/cli", "src/core", "include/cpprun"},
    "src/runtime/store": {"src/runtime/store", "src/core/store", "include/cpprun"},
    "src/runtime": {"src/runtime", "src/runtime/store", "src/core", "src/core/store", "include/cpprun"},
    "src/api": {"src/api", "src/core/store", "src/runtime/store", "include/cpprun"},
    "src/launch": {"src/launch", "src/cli", "src/runtime", "src/runtime/store", "src/core", "src/core/store",
                   "include/cpprun"},
    "src": {"src/launch", "src/cli", "src/core", "src/runtime", "include/cpprun"},
}
# The vocabulary that even the store may use: it has no decisions in it.
SHARED_HEADERS = {"src/core/error.hpp"}

# Headers that bring effects (<csignal> has the names of signals too, so its calls are looked for instead): system calls, clocks of the system, threads, files, sockets, logging.
EFFECTS = re.compile(
    r"^(sys/|net/|netinet/|arpa/|linux/|unistd\.h|fcntl\.h|poll\.h|pwd\.h|grp\.h|netdb\.h|dlfcn\.h|sched\.h|spawn\.h|"
    r"pthread\.h|dirent\.h|signal\.h|time\.h|ctime|cstdio|stdio\.h|iostream|fstream|filesystem|thread|mutex|"
    r"shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token|"
    r"boost/(asio|process|filesystem|interprocess|thread|beast|log)|spdlog/(?!fmt/))")
PURE_LAYERS = ("src/core", "src/core/store", "src/cli")
# Names that reach the surroundings without a header that says so.
EFFECT_CALLS = re.compile(
    r"\bstd::random_device\b|\b(std::getenv|::?getenv|setenv|secure_getenv|std::system|std::time|std::raise|std::signal|::kill|::raise|sigaction|(?:steady|system|high_resolution)_clock::now|"
    r"spdlog::(?:trace|debug|info|warn|error|critical|log))\s*\(")
THIRD_PARTY = re.compile(r"^(boost|nlohmann|fmt|spdlog|CLI|gtest|gmock|openssl)/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def layer_of(path):
    holding = [layer for layer in LAYERS if path.startswith(layer + "/")]
    return max(holding, key=len, default=None)


def our_files(source):
    for top in ("src", "include"):
        for folder, _, names in os.walk(os.path.join(source, top)):
            for name in sorted(names):
                if name.endswith((".cpp", ".hpp", ".h", ".c", ".cc")):
                    yield os.path.relpath(os.path.join(folder, name), source)


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group().count("\n"), text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


def find_ours(source, includer, name):
    """The repository's file that an include names, or None for a header from elsewhere."""
    for base in (os.path.dirname(includer), "src", "include"):
        path = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(source, path)):
            return path
    return None


def check_include(source, path, layer, name):
    target = find_ours(source, path, name)
    if target is not None:
        allowed = layer_of(target) in LAYERS[layer] or target in SHARED_HEADERS
        return None if allowed else f"{layer} must not depend on {layer_of(target)}"
    if layer in PURE_LAYERS and EFFECTS.match(name):
        return f"{layer} is pure: no effects, no logging"
    if layer == "src/core" and name.startswith("CLI/"):
        return "the command line library belongs to src/cli"
    if layer == "include/cpprun" and (THIRD_PARTY.match(name) or "/" in name or name.endswith(".h")):
        return "public headers need nothing but the standard library"
    return None


def broken_rules(source):
    for path in our_files(source):
        layer = layer_of(path)
        with open(os.path.join(source, path), encoding="utf-8") as file:
            lines = without_comments(file.read()).splitlines()
        for number, line in enumerate(lines, 1):
            if found := INCLUDE.match(line):
                if reason := check_include(source, path, layer, found.group(2)):
                    yield f"{path}:{number}: includes {found.group(2)}: {reason}"
            elif layer in PURE_LAYERS and (call := EFFECT_CALLS.search(line)):
                yield f"{path}:{number}: calls {call.group(1)}: {layer} is pure"


def compiled_sources(source, compile_commands):
    """What the targets list, also by files that include several sources (CPPRUN_UNITY)."""
    with open(compile_commands, encoding="utf-8") as file:
        units = [os.path.join(entry["directory"], entry["file"]) for entry in json.load(file)]
    for unit in units:
        yield os.path.relpath(unit, source)
        if os.path.basename(unit).startswith("unity_"):
            with open(unit, encoding="utf-8") as file:
                for path in re.findall(r'^#include "(/.*)"', file.read(), re.MULTILINE):
                    yield os.path.relpath(path, source)


def unlisted_sources(source, compile_commands):
    compiled = set(compiled_sources(source, compile_commands))
    for path in our_files(source):
        if path.endswith(".cpp") and path not in compiled:
            yield f"{path}: no target lists it"
    headers_text = {}
    for path in our_files(source):
        with open(os.path.join(source, path), encoding="utf-8") as file:
            headers_text[path] = file.read()
    included = {find_ours(source, path, found.group(2))
                for path, text in headers_text.items() for found in map(INCLUDE.match, text.splitlines()) if found}
    for path in headers_text:
        if path.startswith("src/") and path.endswith(".hpp") and path not in included:
            yield f"{path}: nothing in src/ includes it"


def needed_libraries(binary):
    listing = subprocess.run(["ldd", binary], capture_output=True, text=True, timeout=60, check=False).stdout
    names = (line.split()[0] for line in listing.splitlines() if line.strip())
    return {name for name in names if not name.startswith(("linux-vdso", "/lib", "statically", "not"))}


def stripped_size(binary):
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "cpprun")
        subprocess.run(["strip", "-o", stripped, binary], check=True, timeout=60)
        return os.path.getsize(stripped)


def binary_faults(binary):
    if foreign := needed_libraries(binary) - LIBC:
        yield f"{binary}: needs more than libc at run time: {', '.join(sorted(foreign))}"
    if (size := stripped_size(binary)) >= SIZE_LIMIT_BYTES:
        yield f"{binary}: {size} bytes stripped; less than {SIZE_LIMIT_BYTES} is the limit"
    else:
        print(f"{binary}: {size} bytes stripped, needs {', '.join(sorted(needed_libraries(binary))) or 'nothing'}")


def self_check():
    """The rules must be able to fail: a small tree that breaks each of them."""
    breaches = {
        "src/core/a.cpp": "#include <unistd.h>\n",
        "src/core/b.cpp": '#include "runtime/x.hpp"\n',
        "src/core/c.cpp": "auto t = std::chrono::steady_clock::now();\n",
        "src/core/k.cpp": "#include <random>\nstd::random_device device;\n",
        "src/core/d.cpp": "#include <boost/asio/io_context.hpp>\n",
        "src/core/store/e.cpp": '#include "core/agent.hpp"\n',
        "src/cli/f.cpp": '#include "runtime/x.hpp"\n',
        "src/runtime/g.cpp": '#include "launch/y.hpp"\n',
        "include/cpprun/h.hpp": "#include <nlohmann/json.hpp>\n",
    }
    fine = {
        "src/runtime/x.hpp": "#include <unistd.h>\n", "src/core/agent.hpp": "// #include <unistd.h>\n",
        "src/launch/y.hpp": '#include "runtime/x.hpp"\n#include "core/agent.hpp"\n#include <spdlog/spdlog.h>\n',
        "src/core/error.hpp": "#include <boost/outcome/try.hpp>\n",
        "src/core/l.cpp": "#include <random>\nstd::mt19937_64 from_a_seed(1);\n",
        "src/core/store/z.cpp": '#include "core/error.hpp"\n#include <string>\n',
    }
    with tempfile.TemporaryDirectory() as tree:
        for path, text in {**breaches, **fine}.items():
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            with open(os.path.join(tree, path), "w", encoding="utf-8") as file:
                file.write(text)
        found = {line.split(":")[0] for line in broken_rules(tree)}
    if found != set(breaches):
        yield f"the rules themselves: missed {set(breaches) - found}, invented {found - set(breaches)}"


def main(source, compile_commands, binary=None):
    source = os.path.realpath(source)
    faults = [*self_check(), *broken_rules(source), *unlisted_sources(source, compile_commands)]
    if binary and os.path.exists(binary):
        faults += binary_faults(binary)
    elif binary:
        print(f"{binary} is not built: its size and libraries are not checked (cmake --preset release)")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
