# SPDX-License-Identifier: BSD-3-Clause
"""User cases of the command line: B01, B03 to B09."""
import os
import re
import subprocess

import pytest
from conftest import one_line
from harness import processes

SHOW = "#!/bin/sh\necho $#\nfor word; do printf '<%s>\\n' \"$word\"; done\n"
SCRIPTS_OWN = ["--r=16", "-h", "--log", "a", "--nnodes", "9", "", "a b", "--", "-m", "--version"]


@pytest.mark.parametrize("before", [[], ["--"]])
def test_B01_words_after_the_program_are_its_own(place, before):
    place.write("show.sh", SHOW)
    result = place.run("--nproc-per-node", "1", "--no-python", *before, "./show.sh", *SCRIPTS_OWN)
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [str(len(SCRIPTS_OWN)), *(f"<{word}>" for word in SCRIPTS_OWN)]


def test_B01_words_after_a_module_are_its_own(place):
    place.write("mod.py", "import sys\nprint(sys.argv[1:])\n")
    result = place.run("-m", "mod", *SCRIPTS_OWN)
    assert result.stdout == f"{SCRIPTS_OWN}\n", result


def test_B01_an_ambiguous_abbreviation_before_the_script_is_a_usage_error(place):
    place.write("show.sh", SHOW)
    result = place.run("--rdzv", "x", "--no-python", "./show.sh")
    assert result.code == 2 and "--rdzv" in result.stderr, result


BAD_VALUES = [
    ("--nproc-per-node", "GPUS=2"), ("--nproc-per-node", "0"), ("--nproc-per-node", "-1"), ("--nproc-per-node", "2.0"),
    ("--nproc-per-node", ""), ("--nproc-per-node", "1e1"), ("--nproc-per-node", "CPU"), ("--nproc-per-node", "9" * 30),
    ("--nnodes", "1:2:3"), ("--nnodes", "2:1"), ("--nnodes", "0"), ("--nnodes", "x"), ("--nnodes", "1:"),
    ("--max-restarts", "-1"), ("--max-restarts", "two"), ("--max-restarts", "9" * 30), ("--monitor-interval", "0"),
    ("--monitor-interval", "x"), ("--shutdown-timeout", "-1"), ("--master-port", "65536"), ("--master-port", "-1"),
    ("--master-port", "x"), ("--node-rank", "x"), ("--rdzv-endpoint", "localhost:99999"), ("--rdzv-conf", "foo"),
    ("--rdzv-conf", "=b"), ("--redirects", "4"), ("--redirects", "0:1,"), ("--tee", "0:9"), ("--tee", "x"),
    ("--local-ranks-filter", "0,,1"), ("--start-method", "thread"), ("--numa-binding", "core"),
    ("--rdzv-backend", "bogus"),
]


@pytest.mark.parametrize("option,value", BAD_VALUES, ids=[f"{o[2:]}={v[:8]}" for o, v in BAD_VALUES])
def test_B03_a_bad_value_is_one_line_before_anything_starts(place, option, value):
    trace = place.root / "trace"
    result = place.run(f"{option}={value}", "--no-python", "touch", "started",
                       wrapper=("strace", "-f", "-qq", "-e", "trace=socket,clone,clone3,fork,vfork", "-o", trace))
    assert result.code == 2, result
    first, *hint = result.stderr.splitlines()
    assert option in first and value in first, result
    assert len(hint) <= 1 and all(line.startswith("hint: ") for line in hint), result
    assert not (place.cwd / "started").exists()
    calls = trace.read_text()
    assert not re.search(r"\b(socket|clone3?|v?fork)\(", calls), calls


LONG_OPTIONS = {
    "nproc-per-node": "2", "rdzv-backend": "c10d", "rdzv-endpoint": "localhost:0", "rdzv-id": "xy",
    "rdzv-conf": "timeout=7", "max-restarts": "1", "monitor-interval": "0.5", "start-method": "spawn",
    "event-log-handler": "null", "log-dir": "L", "local-ranks-filter": "0", "duplicate-stdout-filters": "a",
    "duplicate-stderr-filters": "b", "log-line-prefix-template": "x", "local-addr": "127.0.0.1",
    "signals-to-handle": "SIGTERM", "shutdown-timeout": "9", "redirects": "1", "tee": "1", "role": "tr", "nnodes": "1",
}


@pytest.mark.parametrize("option", LONG_OPTIONS)
def test_B04_hyphens_underscores_and_both_value_styles_mean_the_same(place, option):
    value = LONG_OPTIONS[option]
    command = ["--no-python", "sh", "-c", "env | grep -E '^(TORCHELASTIC_(MAX|SIG)|RANK|ROLE_NAME|WORLD_SIZE)' | sort"]
    underscored = option.replace("-", "_")
    shown = set()
    for words in ([f"--{option}", value], [f"--{option}={value}"], [f"--{underscored}", value],
                  [f"--{underscored}={value}"]):
        result = place.run(*words, *command, env={"LOGLEVEL": "INFO"})
        assert result.code == 0, result
        settings = [line for line in result.stderr.splitlines() if re.search(r"  \w+ +: ", line)]
        settings = [re.sub(r".*?(  \w+ +: )", r"\1", line) for line in settings]
        settings = [re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|torchelastic_\w{8}", "<RANDOM>", line) for line in settings]
        assert any("nproc_per_node" in line for line in settings), result
        shown.add(("\n".join(result.lines), "\n".join(settings)))
    assert len(shown) == 1, shown


def test_B05_nothing_is_appended_to_the_scripts_arguments(place):
    place.write("show.py", "import sys\nprint(sys.argv[1:])\n")
    assert place.run("show.py", "a").stdout == "['a']\n"


def test_B05_the_legacy_argument_comes_on_request(place):
    place.write("show.py", "import sys\nsys.stdout.write(f'{sys.argv[1:]}\\n')\n")
    assert place.run("--nproc-per-node=2", "--pass-local-rank", "show.py", "a").lines == [
        "['--local-rank=0', 'a']", "['--local-rank=1', 'a']"]


def test_B05_a_script_that_refuses_its_arguments_is_named_with_exit_code_2(place):
    place.write("old.py", "import argparse\nparser = argparse.ArgumentParser()\n"
                "parser.add_argument('--local_rank')\nparser.parse_args()\n")
    result = place.run("--settle-time=10s", "--nproc-per-node=2", "--pass-local-rank", "old.py")
    assert result.code == 1, result
    assert len(re.findall(r"exitcode  : 2 ", result.stderr)) == 2, result
    assert "unrecognized arguments: --local-rank=0" in result.stderr, result
    assert "\nhint: exit code 2 right after the start" in result.stderr, result
    assert result.stderr.splitlines()[-1].endswith("exit code 2: the script refused its arguments"), result


def test_B06_a_value_that_became_the_script_is_found_before_the_launch(place):
    result = place.run("--standalone", "false", "train.py")
    assert result.code == 2 and "false" in result.stderr and str(place.cwd) in result.stderr, result


@pytest.mark.parametrize("command,code", [(["--no-python", "./nonexec.sh"], 126), (["--no-python", "nosuch"], 127),
                                          (["--no-python", "./nosuch"], 127), (["nosuch.py"], 2), (["-m", ""], 2)])
def test_B06_what_cannot_be_executed_is_found_before_the_launch(place, command, code):
    place.write("nonexec.sh", "echo hi\n")
    result = place.run(*command)
    assert result.code == code, result
    assert command[-1] in result.stderr and "Traceback" not in result.stderr
    assert list(place.tmp.iterdir()) == []


def test_B07_repeated_rendezvous_settings_are_merged(place):
    result = place.run("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-conf", "timeout=7,join_timeout=9",
                       "--rdzv-conf", "last_call_timeout=3,join_timeout=8", "--no-python", "true",
                       env={"LOGLEVEL": "INFO"})
    assert result.code == 0, result
    shown = re.search(r"rdzv_configs +: (.*)", result.stderr).group(1)
    assert re.search("'timeout': '?7'?[,}]", shown), shown
    assert "'last_call_timeout': '3'" in shown and "'join_timeout': '8'" in shown


def test_B07_an_unknown_rendezvous_key_is_a_warning(place):
    result = place.run("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-conf", "fooo=1", "--no-python",
                       "true")
    assert result.code == 0 and "fooo" in one_line(result.stderr), result


PACKAGE = {"pkg/__init__.py": "", "pkg/sub/__init__.py": "", "pkg/sub/sibling.py": "VALUE = 5\n",
           "pkg/sub/main.py": "import os, sys\ntry:\n    from . import sibling\nexcept ImportError:\n    import sibling\n"
                              "print(sys.path[0], sys.argv, __package__, sibling.VALUE, os.getcwd())\n"}


@pytest.mark.parametrize("words", [["pkg/sub/main.py", "a"], ["-m", "pkg.sub.main", "a"]])
@pytest.mark.parametrize("env", [{}, {"PYTHONSAFEPATH": "1", "PYTHONPATH": "pkg/sub:."}])
def test_B08_import_rules_are_those_of_plain_python(place, words, env):
    for name, text in PACKAGE.items():
        place.write(name, text)
    plain = subprocess.run(["python3", *words], cwd=place.cwd, env=place.env | env, capture_output=True, text=True)
    assert plain.returncode == 0, plain.stderr
    assert place.run(*words, env=env).stdout == plain.stdout


def test_B09_an_ipv6_endpoint_is_exported_without_brackets(place):
    result = place.run("--rdzv-endpoint", "[::1]:0", "--rdzv-backend", "c10d", "--no-python", "sh", "-c",
                       "echo $MASTER_ADDR")
    assert result.code == 0 and result.stdout.strip() in ("::1", "127.0.0.1"), result


def test_B09_a_static_ipv6_endpoint_serves_its_workers(place):
    place.write("ask.py", "import os, socket\nsocket.create_connection((os.environ['MASTER_ADDR'], "
                "int(os.environ['MASTER_PORT'])), 5).close()\nprint(os.environ['MASTER_ADDR'])\n")
    result = place.run("--rdzv-endpoint", f"[::1]:{_free_port_v6()}", "ask.py")
    assert result.code == 0 and result.stdout == "::1\n", result


def _free_port_v6():
    import socket
    with socket.socket(socket.AF_INET6) as sock:
        sock.bind(("::1", 0))
        return sock.getsockname()[1]


def test_B09_a_bracketed_host_without_port_is_understood_by_c10d(place):
    result = place.run("--rdzv-endpoint", "[::1]", "--rdzv-backend", "c10d", "--no-python", "sh", "-c", "echo $RANK")
    assert result.code == 0 and result.stdout == "0\n", result


def test_random_arguments_arrive_unchanged_through_exec(place, long_or):
    """A thousand real execs (100 in short): the words are random bytes, options of ours among them."""
    import random
    seed = int.from_bytes(os.urandom(4), "big")
    chance = random.Random(seed)
    out = place.cwd / "out"
    place.write("dump.sh", "#!/bin/sh\nfor word; do printf '%s\\0' \"$word\"; done > out\n")
    ours = ["--nproc-per-node", "-h", "--", "-m", "--r=3", "$x", "--log-dir=x", "", "-", "-5", "'", '"', "\\", "\n"]
    for _ in range(long_or(1000, 100)):
        words = [chance.choice(ours) if chance.random() < 0.4 else
                 bytes(chance.randrange(1, 256) for _ in range(chance.randrange(12))).decode("utf-8", "surrogateescape")
                 for _ in range(chance.randrange(1, 9))]
        result = place.run("--no-python", "./dump.sh", *(word.replace("$", "$$") for word in words))
        assert result.code == 0, (seed, words, result)
        received = out.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
        assert received == (words[1:] if words[0] == "--" else words), (seed, words)
    assert processes.children(os.getpid()) == []
