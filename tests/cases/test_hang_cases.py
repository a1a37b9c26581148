# SPDX-License-Identifier: BSD-3-Clause
"""Workers that do not move: what is found out about them, and what follows."""
import json
import os
import shutil
import signal
import time

import pytest
from harness import processes

# Rank 2 is somewhere else than the others. Each says that it is there by a file, and waits at one line, for a pipe to be
# opened.
PLACES = """import faulthandler, os, pathlib, signal, time
if "CPPRUN_STACK_SIGNAL" in os.environ:
    faulthandler.register(getattr(signal, os.environ["CPPRUN_STACK_SIGNAL"]))
def wait():
    pathlib.Path("here." + os.environ["RANK"]).touch()
    open("go").close()
def all_together():
    wait()
def alone():
    wait()
alone() if os.environ["RANK"] == "2" else all_together()
"""
# Beats until told to stop; with a number as argument the last rank stops beating by itself.
BEATS = """import os, pathlib, socket, time
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
def heartbeat():
    try:
        sock.sendto(b"", os.environ["CPPRUN_HEARTBEAT_SOCKET"])
    except OSError:
        pass
"""


def _events(place, name):
    path = place.cwd / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["event"] == name]


def _wait_for(place, *names):
    processes.wait_until(lambda: all((place.cwd / name).exists() for name in names), 60, f"{names}")


def _evidence(process, place, count=1):
    """Asks the launcher, and waits until it has answered so often."""
    process.send_signal(signal.SIGUSR2)
    return processes.wait_until(lambda: _events(place, "evidence")[count - 1:], 30, "evidence")[0]


def _evidence_of_waiting(process, place):
    """Asks until all wait: a worker that has just said that it is there may still be on its way."""
    for count in range(1, 50):
        evidence = _evidence(process, place, count)
        if all(group["stack"] and group["stack"][0]["function"] == "wait" for group in evidence["groups"]):
            break
    return evidence


def _start(place, *args, **options):
    os.mkfifo(place.cwd / "go")
    return place.start(*args, **options)


def _end(process, place):
    go = os.open(place.cwd / "go", os.O_RDWR | os.O_CREAT)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        os.close(go)
    return process.returncode, err.decode(errors="replace")


def test_sigusr2_shows_where_all_ranks_are_and_the_run_goes_on(place):
    place.write("places.py", PLACES)
    process = _start(place, "--events=events.jsonl", "--stack-signal=USR1", "--nproc-per-node=4", "--omp-threads=1", "places.py")
    _wait_for(place, *(f"here.{rank}" for rank in range(4)))
    evidence = _evidence_of_waiting(process, place)
    code, err = _end(process, place)
    assert code == 0, err
    groups = {tuple(group["ranks"]): [frame["function"] for frame in group["stack"]] for group in evidence["groups"]}
    assert groups == {(0, 1, 3): ["wait", "all_together", "<module>"], (2,): ["wait", "alone", "<module>"]}, err
    assert evidence["reason"].startswith(f"SIGUSR2 (sent by pid {os.getpid()} ")
    assert "\nrank 2    : " in err and "  | alone (places.py:10)" in err, err


@pytest.mark.parametrize("wrapper", ["python3 places.py; exit $?", "trap : USR2; python3 places.py & wait; wait",
                                     "sh -c 'python3 places.py; true' | cat; true"], ids=["plain", "trap", "nested"])
def test_below_a_wrapper_the_process_at_work_is_looked_at(place, wrapper):
    place.write("places.py", PLACES)
    place.write("wrapper.sh", f"#!/bin/sh\n{wrapper}\n")
    process = _start(place, "--events=events.jsonl", "--stack-signal=USR1", "--nproc-per-node=2", "--omp-threads=1",
                     "--no-python", "./wrapper.sh")
    _wait_for(place, "here.0", "here.1")
    (group,) = _evidence_of_waiting(process, place)["groups"]
    assert [call["function"] for call in group["stack"]] == ["wait", "all_together", "<module>"], group
    assert _end(process, place)[0] == 0


def test_the_headline_names_calls_of_torch_and_who_stands_out(place):
    """The places that stacks of training have names for."""
    for module, function in (("torch/distributed/distributed_c10d", "all_reduce"), ("torch/utils/data/dataloader", "_next_data")):
        place.write(f"lib/{module}.py", f"def {function}(wait):\n    wait()\n")
    for folder in ("torch", "torch/distributed", "torch/utils", "torch/utils/data"):
        place.write(f"lib/{folder}/__init__.py", "")
    place.write("train.py", PLACES.rpartition("alone() if")[0] + "import sys\nsys.path.insert(0, 'lib')\n"
                "from torch.distributed.distributed_c10d import all_reduce\nfrom torch.utils.data.dataloader import _next_data\n"
                "(_next_data if os.environ['RANK'] == '2' else all_reduce)(wait)\n")
    process = _start(place, "--events=events.jsonl", "--stack-signal=USR1", "--nproc-per-node=7", "--omp-threads=1", "train.py")
    _wait_for(place, *(f"here.{rank}" for rank in range(7)))
    evidence = _evidence_of_waiting(process, place)
    _, err = _end(process, place)
    assert evidence["where"] == "6 ranks in all_reduce, rank 2 in DataLoader" and evidence["odd_ranks"] == [2], err
    assert "where     : 6 ranks in all_reduce, rank 2 in DataLoader\n" in err


def test_no_worker_without_a_handler_is_sent_the_signal(place):
    process = place.start("--events=events.jsonl", "--stack-signal=USR1", "--nproc-per-node=2", "--no-python", "sh", "-c",
                          "touch here.$${RANK}; while test ! -e go; do sleep 0.05; done")
    _wait_for(place, "here.0", "here.1")
    evidence = _evidence(process, place)
    code, err = _end(process, place)
    assert code == 0, err
    assert [group["note"] for group in evidence["groups"]][0] == "it has no handler for SIGUSR1", evidence
    assert all(group["state"] and not group["stack"] for group in evidence["groups"])


def test_without_an_option_no_signal_is_sent_and_the_kernels_word_is_shown(place):
    place.write("places.py", "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: open('told', 'w'))\n" + PLACES)
    process = _start(place, "--events=events.jsonl", "--nproc-per-node=2", "--omp-threads=1", "places.py")
    _wait_for(place, "here.0", "here.1")
    evidence = _evidence(process, place)
    code, err = _end(process, place)
    assert code == 0 and not (place.cwd / "told").exists(), err
    assert sum(len(group["ranks"]) for group in evidence["groups"]) == 2


def test_sigusr2_has_the_meaning_that_the_user_gives_it(place):
    process = place.start("--events=events.jsonl", "--forward-signals=USR2", "--no-python", "sh", "-c",
                          "trap 'touch told' USR2; touch here; while test ! -e told; do sleep 0.05; done; exit 0")
    _wait_for(place, "here")
    process.send_signal(signal.SIGUSR2)
    process.communicate(timeout=60)
    assert process.returncode == 0 and not _events(place, "evidence")


def test_before_workers_are_killed_what_they_were_doing_is_kept(place):
    place.write("deaf.py", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PLACES)
    process = _start(place, "--events=events.jsonl", "--stack-signal=USR1", "--nproc-per-node=3", "--omp-threads=1",
                          "--shutdown-timeout=1", "deaf.py")
    _wait_for(place, *(f"here.{rank}" for rank in range(3)))
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    evidence, = _events(place, "evidence")
    err = err.decode()
    assert evidence["reason"] == "ranks 0-2 are still there 1 s after SIGTERM", err
    assert {tuple(group["ranks"]) for group in evidence["groups"]} == {(0, 1), (2,)}, err
    assert err.index("---- cpprun evidence: ") < err.index("Unable to shutdown process"), err


def test_a_run_that_a_signal_ended_has_a_report_when_workers_had_to_be_killed(place):
    place.write("deaf.py", "import os, signal\nif os.environ['RANK'] != '0':\n"
                "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PLACES)
    process = _start(place, "--stack-signal=USR1", "--nproc-per-node=2", "--omp-threads=1", "--shutdown-timeout=1",
                     "--log-dir=logs", "deaf.py")
    _wait_for(place, "here.0", "here.1")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    err = err.decode()
    verdict = err.splitlines()[-1]
    assert verdict.startswith("verdict   : the run was ended by SIGTERM; rank 1 on "), err
    assert " had to be stopped with SIGKILL (9); rank 1 in wait (deaf.py:" in verdict, err
    path, = (place.cwd / "logs").glob("*/failure.json")
    failure = json.loads(path.read_text())
    assert failure["verdict"] == verdict.removeprefix("verdict   : ") and len(failure["failures"]) == 2


def test_a_run_that_a_signal_ended_after_a_failure_names_the_failure(place):
    process = place.start("--nproc-per-node=2", "--omp-threads=1", "--shutdown-timeout=60", "--events=events.jsonl",
                          "--no-python", "sh", "-c", "trap : TERM; touch here.$RANK; if test $RANK = 1; then "
                          "until test -e here.0; do sleep 0.05; done; exit 7; fi; until test -e go; do sleep 0.05; done")
    processes.wait_until(lambda: _events(place, "workers_signaled"), 30, "the stop of rank 0")
    process.send_signal(signal.SIGTERM)
    processes.wait_until(lambda: _events(place, "signal_received"), 30, "the signal")
    code, err = _end(process, place)
    verdict = err.splitlines()[-1]
    assert code == 1 and verdict.startswith("verdict   : rank 1 on "), err
    assert verdict.endswith(" failed first, with exit code 7; then the run was ended by SIGTERM"), err


def test_a_run_that_a_signal_ended_in_time_has_no_report(place):
    process = place.start("--log-dir=logs", "--no-python", "sh", "-c", "touch here; exec sleep 60")
    _wait_for(place, "here")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert b"cpprun report" not in err and not list((place.cwd / "logs").glob("*/failure.json"))


def test_a_second_interrupt_does_not_wait_for_evidence(place):
    place.write("deaf.py", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + PLACES)
    process = _start(place, "--events=events.jsonl", "deaf.py")
    _wait_for(place, "here.0")
    process.send_signal(signal.SIGINT)
    processes.wait_until(lambda: _events(place, "signal_received"), 30, "the first signal")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert b"cpprun evidence" not in err and process.returncode == 1


def test_what_did_not_end_stands_in_the_report_of_a_failure(place):
    place.write("deaf.py", "import os, signal, sys, time\nif os.environ['RANK'] == '1':\n    while not os.path.exists('here.0'):\n"
                "        time.sleep(0.01)\n    sys.exit(3)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PLACES)
    os.mkfifo(place.cwd / "go")
    result = place.run("--stack-signal=USR1", "--nproc-per-node=2", "--omp-threads=1", "--shutdown-timeout=1", "--log-dir=logs",
                       "deaf.py")
    path, = (place.cwd / "logs").glob("*/failure.json")
    failure = json.loads(path.read_text())
    assert failure["root_cause"]["rank"] == 1
    assert failure["evidence"][0]["groups"][0]["stack"][1]["function"] == "all_together", result
    assert any(line.startswith("where     : rank 0 in wait (deaf.py:") for line in result.stderr.splitlines()), result


@pytest.mark.parametrize("action", ["report", "fail"])
def test_B42_a_worker_that_hangs_is_noticed_its_stack_kept_and_then_acted_upon(place, action):
    """The case's own test: both beat, rank 1 stops, and the report names it."""
    place.write("hang.py", PLACES.partition("def wait")[0] + BEATS + """def train():
    while not os.path.exists("end"):
        heartbeat()
        time.sleep(0.02)
def stuck():
    pathlib.Path("here.1").touch()
    open("go").close()
    pathlib.Path("end").touch()
heartbeat()
stuck() if os.environ["RANK"] == "1" else train()
""")
    process = _start(place, "--events=events.jsonl", "--stack-signal=USR1", "--nproc-per-node=2", "--omp-threads=1",
                     "--hang-after=2", f"--hang-action={action}", "--log-dir=logs", "hang.py")
    _wait_for(place, "here.1")
    evidence = processes.wait_until(lambda: _events(place, "evidence"), 60, "evidence")[0]
    silent = _events(place, "workers_silent")[0]
    assert silent["ranks"] == [1] and evidence["reason"].startswith("rank 1 is silent for 2.0 s")
    functions = {tuple(group["ranks"]): [frame["function"] for frame in group["stack"]] for group in evidence["groups"]}
    assert functions[1,][-2:] == ["stuck", "<module>"] and "train" in functions[0,], functions
    if action == "report":
        code, err = _end(process, place)
        assert code == 0 and "the run goes on, --hang-action=fail would end the worker group" in err, err
        return
    out, err = process.communicate(timeout=60)
    err = err.decode()
    assert process.returncode == 1, err
    verdict = err.splitlines()[-1]
    assert verdict.startswith("verdict   : rank 1 on ") and " hung: silent for 2.0 s, without output or heartbeat; " in verdict, err
    assert "others    : rank 0: stopped by the launcher, SIGTERM (15)" in err, err
    path, = (place.cwd / "logs").glob("*/failure.json")
    failure = json.loads(path.read_text())
    assert (failure["root_cause"]["rank"], failure["root_cause"]["silent_seconds"]) == (1, 2.0)


def test_B42_a_hang_that_counts_as_a_failure_spends_a_restart(place):
    result = place.run("--hang-after=1", "--hang-action=fail", "--max-restarts=1", "--events=events.jsonl", "--exit-code=worker",
                       "--no-python", "sh", "-c", "trap 'exit 0' TERM; test $${TORCHELASTIC_RESTART_COUNT} = 1 && exit 0; "
                       "while :; do sleep 0.05; done")
    assert result.code == 0, result
    assert len(_events(place, "workers_started")) == 2 and len(_events(place, "workers_silent")) == 1
    result = place.run("--hang-after=1", "--hang-action=fail", "--exit-code=worker", "--no-python", "sh", "-c",
                       "trap 'exit 0' TERM; while :; do sleep 0.05; done")
    assert result.code == 1 and " hung: silent for 1.0 s" in result.stderr.splitlines()[-1], result


def test_output_of_one_rank_is_a_sign_of_life_of_all_that_send_no_heartbeat(place):
    process = place.start("--hang-after=1500ms", "--hang-action=fail", "--nproc-per-node=2", "-r3", "--log-dir=logs",
                          "--events=events.jsonl", "--no-python", "sh", "-c",
                          "while test ! -e go; do test $RANK = 1 || echo step; sleep 0.1; done; test -e quiet || exit 0;"
                          "while :; do sleep 1; done")
    time.sleep(3)
    assert process.poll() is None and not _events(place, "workers_silent")
    (place.cwd / "quiet").touch()
    (place.cwd / "go").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b"ranks 0-1 are silent for 1.5 s" in err, err


def test_only_with_hang_after_workers_are_told_of_a_socket(place):
    tell = ("--no-python", "sh", "-c", 'echo "<$CPPRUN_HEARTBEAT_SOCKET><$CPPRUN_STACK_SIGNAL>"')
    assert place.run(*tell).stdout == "<><>\n"
    result = place.run("--hang-after=60", "--stack-signal=10", *tell)
    path, name = result.stdout.strip()[1:-1].split("><")
    assert "/cpprun-" in path and name == "SIGUSR1", result
    assert not os.path.exists(os.path.dirname(path)), "the sockets are left behind"


def test_floods_and_odd_datagrams_are_heartbeats_and_no_more(place):
    place.write("flood.py", BEATS + """import threading
path = os.environ["CPPRUN_HEARTBEAT_SOCKET"]
assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
end = time.monotonic() + 2
for text in (b"", b"x" * 65000, bytes(range(256))):
    sock.sendto(text, path)
    time.sleep(0.1)
while time.monotonic() < end:
    heartbeat()
""")
    result = place.run("--hang-after=1", "--hang-action=fail", "flood.py")
    assert (result.code, result.stderr) == (0, ""), result


def test_a_suspended_job_does_not_hang(place):
    process = place.start("--hang-after=1", "--hang-action=fail", "--events=events.jsonl", "--no-python", "sh", "-c",
                          "touch here; while test ! -e go; do echo step >&2; sleep 0.05; done")
    _wait_for(place, "here")
    process.send_signal(signal.SIGTSTP)
    time.sleep(2.5)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    code, err = _end(process, place)
    assert code == 0 and not _events(place, "workers_silent"), err


FAKE_PY_SPY = """#!/bin/sh
echo "$*" >> "$0.calls"
{extra}
cat << END
Process $3: python3 train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 77 (idle): "Helper"
    poll (selectors.py:416)
Thread $3 (idle): "MainThread"
    _next_data (torch/utils/data/dataloader.py:1400)
    train (train.py:12)
END
"""


def test_py_spy_is_asked_when_the_user_says_so(place):
    tool = place.write("bin/py-spy", FAKE_PY_SPY.format(extra=""), True)
    process = place.start("--events=events.jsonl", "--stack-tool=py-spy", "--nproc-per-node=6", "--no-python", "sh", "-c",
                          "touch here.$${RANK}; while test ! -e go; do sleep 0.05; done",
                          env={"PATH": f"{tool.parent}:/usr/bin:/bin"})
    _wait_for(place, *(f"here.{rank}" for rank in range(6)))
    evidence = _evidence(process, place)
    code, err = _end(process, place)
    assert code == 0 and evidence["where"] == "6 ranks in DataLoader", err
    assert len((place.cwd / "bin/py-spy.calls").read_text().splitlines()) == 6


def test_a_tool_that_does_not_come_back_is_not_waited_for(place):
    tool = place.write("bin/py-spy", FAKE_PY_SPY.format(extra="exec sleep 300"), True)
    process = place.start("--events=events.jsonl", "--stack-tool=py-spy", "--no-python", "sh", "-c",
                          "touch here; while test ! -e go; do sleep 0.05; done", env={"PATH": f"{tool.parent}:/usr/bin:/bin"})
    _wait_for(place, "here")
    evidence = _evidence(process, place)
    code, err = _end(process, place)
    assert code == 0 and evidence["groups"][0]["note"] == "no stack came within 10 s", err


def test_a_tool_that_is_not_there_is_said(place):
    process = place.start("--events=events.jsonl", "--stack-tool=py-spy", "--no-python", "sh", "-c",
                          "touch here; while test ! -e go; do sleep 0.05; done", env={"PATH": "/nowhere:/bin"})
    _wait_for(place, "here")
    evidence = _evidence(process, place)
    _end(process, place)
    assert evidence["groups"][0]["note"] == "the tool of --stack-tool is not there"


@pytest.mark.skipif(not shutil.which("gdb"), reason="there is no gdb here")
def test_gdb_is_asked_without_init_files_when_the_user_says_so(place):
    for name in (".gdbinit", ".config/gdb/gdbinit"):
        place.write(name, "shell touch init-file-was-read\n")
    process = place.start("--events=events.jsonl", "--stack-tool=gdb", "--no-python", "sh", "-c",
                          "touch here; while test ! -e go; do sleep 0.05; done", env={"HOME": str(place.cwd)})
    _wait_for(place, "here")
    evidence = _evidence(process, place)
    code, err = _end(process, place)
    assert code == 0 and not (place.cwd / "init-file-was-read").exists(), err
    note = evidence["groups"][0].get("note")
    if note:
        pytest.skip(f"gdb may not look at processes here: {note}")
    assert evidence["groups"][0]["stack"], evidence


@pytest.mark.parametrize("option, message", [
    ("--hang-after=soon", "a time such as 500ms, 90 or 90s"),
    ("--hang-action=shout", "report"),
    ("--stack-signal=TERM", "is how a run is ended"),
    ("--stack-signal=BOGUS", "is no signal"),
    ("--stack-tool=dbx", "py-spy"),
])
def test_wrong_values_are_one_line_before_anything_starts(place, option, message):
    result = place.run(option, "--no-python", "touch", "started")
    assert result.code == 2 and message in result.stderr and option.partition("=")[0] in result.stderr, result
    assert not (place.cwd / "started").exists()
