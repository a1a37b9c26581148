# SPDX-License-Identifier: BSD-3-Clause
"""User cases of the group process lifecycle, and what becomes of all that workers start (docs/processes.md)."""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import uuid

import pytest
from harness import containment, processes

GONE_SECONDS = 20  # it takes milliseconds; a bound against hanging


@pytest.fixture(params=containment.TIERS)
def tier(request, place):
    """Launches of `place` run in this tier."""
    return _in_tier(request, place)


@pytest.fixture(params=containment.THAT_FIND_ALL)
def thorough_tier(request, place):
    """The tiers that find those who have detached themselves."""
    return _in_tier(request, place)


def _in_tier(request, place):
    place.env["CPPRUN_CONTAINMENT"] = request.param
    place.wrapper = containment.tier_wrapper(request.param, place.root, request)
    place.cookie = uuid.uuid4().hex
    place.env[containment.COOKIE] = place.cookie
    request.addfinalizer(lambda: containment.end_survivors(place.cookie))
    return request.param


def _run(place, *args, **options):
    return place.run(*args, wrapper=place.wrapper, **options)


def _start(place, *args, **options):
    process = place.start(*args, wrapper=place.wrapper, stdout=subprocess.DEVNULL,
                          stderr=options.pop("stderr", subprocess.DEVNULL), **options)
    return process


def _nobody_left(place, *but):
    try:
        processes.wait_until(lambda: not set(containment.survivors(place.cookie)) - set(but), GONE_SECONDS, "their end")
    except TimeoutError:
        pytest.fail("left behind: " + subprocess.run(["ps", "-o", "pid,ppid,stat,args", "-p", ",".join(
            map(str, containment.survivors(place.cookie)))], capture_output=True, text=True).stdout)


def _stubborn(place, then):
    place.write("stubborn.sh", containment.STUBBORN + then)
    return "./stubborn.sh"


def _file(place, name, seconds=30):
    path = place.cwd / name
    return processes.wait_until(lambda: path.exists() and path.read_text(), seconds, name)


def _command(pid):
    """A process's name; empty for one that has gone meanwhile."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _guards(launcher):
    return [pid for pid in processes.children(launcher) if _command(pid) == "worker-guard"]


# --- user cases ---

def test_B30_one_failed_rank_ends_the_job_at_once(place, tier):
    """The others sit in a collective, which is a sleep here."""
    result = _run(place, "--nproc-per-node=4", "--no-python", "sh", "-c", "[ $RANK = 2 ] && exit 1; exec sleep 600",
                  seconds=30)
    assert result.code == 1 and "local_rank: 2" in result.stderr, result
    _nobody_left(place)


def _start_stubborn(place, workers):
    """A launcher whose workers run, each with all kinds of stubborn descendants."""
    process = _start(place, f"--nproc-per-node={workers}", "--no-python",
                     _stubborn(place, "echo up > up$RANK; sleep 1000\n"))
    for rank in range(workers):
        _file(place, f"up{rank}")
    return process


def test_B32_nothing_outlives_a_killed_launcher(place, thorough_tier):
    process = _start_stubborn(place, 3)
    process.kill()
    process.wait()
    _nobody_left(place)


def test_B32_nothing_outlives_the_shell_that_started_the_launcher_and_was_killed_with_it(place, thorough_tier):
    """As `kill -9 -PGID` and a closing container do it."""
    process = _start_stubborn(place, 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _nobody_left(place)


def test_B32_killing_by_the_scripts_name_leaves_those_who_tidy_up(place, thorough_tier):
    process = _start_stubborn(place, 2)
    named = [pid for pid in containment.survivors(place.cookie) if re.search("stubborn|cpprun", _command_line(pid))]
    assert process.pid in named and not set(named) & set(_guards(process.pid))
    for pid in named:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the guards were quicker
    process.wait()
    _nobody_left(place)


@pytest.mark.parametrize("which", [0, 1])
def test_a_killed_guard_leaves_nobody_behind(place, thorough_tier, which):
    """In the guard tier its worker dies, which is a failure; otherwise nobody notices."""
    process = _start(place, "--nproc-per-node=2", "--shutdown-timeout=1", "--no-python",
                     _stubborn(place, "echo up > up$RANK; sleep 1000\n"))
    for rank in range(2):
        _file(place, f"up{rank}")
    guards = _guards(process.pid)
    os.kill(guards[which], signal.SIGKILL)
    if thorough_tier == "guard":
        assert process.wait(30) == 1
    else:
        processes.wait_until(lambda: len(_guards(process.pid)) == 2 and guards[which] not in _guards(process.pid), 30,
                             "another guard")
        process.kill()
        process.wait()
    _nobody_left(place)


def test_launcher_and_either_guard_may_be_killed_together(place, request):
    """In the cgroup tier alone."""
    place.env["CPPRUN_CONTAINMENT"] = "cgroup"
    for which in (0, 1):
        place.wrapper = containment.tier_wrapper("cgroup", place.root / str(which), request)
        place.cookie = place.env[containment.COOKIE] = uuid.uuid4().hex
        process = _start(place, "--no-python", _stubborn(place, f"echo up > up{which}; sleep 1000\n"))
        _file(place, f"up{which}")
        for pid in (_guards(process.pid)[which], process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        _nobody_left(place)


def test_a_launch_ends_what_was_left_when_a_launcher_died_with_all_its_guards(place, request):
    place.env["CPPRUN_CONTAINMENT"] = "cgroup"
    subtree = containment.Subtree(place.root)
    request.addfinalizer(subtree.close)
    place.wrapper = subtree.wrapper
    place.cookie = place.env[containment.COOKIE] = uuid.uuid4().hex
    process = _start(place, "--no-python", _stubborn(place, "echo up > up; sleep 1000\n"))
    _file(place, "up")
    os.kill(process.pid, signal.SIGSTOP)
    for pid in _guards(process.pid):
        os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait()
    abandoned = subtree.trees()
    assert len(abandoned) == 1
    assert _run(place, "--no-python", "true").code == 0
    _nobody_left(place)
    processes.wait_until(lambda: not subtree.trees(), 30, "an empty cgroup")


def test_B33_workers_die_with_the_launcher_and_with_no_thread_of_it(place, tier):
    """Restarts, logs and the store start and end threads all the while."""
    place.write("w.sh", "#!/bin/sh\necho $RANK\n[ $TORCHELASTIC_RESTART_COUNT = 3 ] || exit 7\nsleep 1\n")
    result = _run(place, "--nproc-per-node=3", "--max-restarts=3", "--tee=3", "--log-dir=L", "--no-python", "./w.sh")
    assert result.code == 0 and "exitcode: -9" not in result.stderr, result
    _nobody_left(place)


def test_B33_a_launcher_killed_at_any_moment_of_its_start_leaves_nobody(place, thorough_tier, long_or):
    chance = random.Random(33)
    program = _stubborn(place, "sleep 1000\n")
    for _ in range(long_or(200, 12)):
        process = _start(place, "--nproc-per-node=2", "--no-python", program)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        process.wait()
        _nobody_left(place)


def test_B34_what_a_failed_worker_had_started_is_gone_before_the_next_attempt(place, thorough_tier):
    place.write("census.py", f"""
import os, sys
sys.path.insert(0, {str(pathlib.Path(__file__).parents[1])!r})
from harness import containment
os.environ["X"] = "1"
mine = [pid for pid in containment.survivors({place.cookie!r})]
stubborn = [pid for pid in mine if b"sleep" in open(f"/proc/{{pid}}/cmdline", "rb").read()]
open("left", "a").write(f"{{len(stubborn)}}\\n")
""")
    program = _stubborn(place, f"[ $RANK = 0 ] || exec sleep 1000\n{sys.executable} census.py\nexit 1\n")
    # The census of the first attempt sees what its own worker has just started; rank 1 is there in both.
    place.write("w.sh", f"#!/bin/sh\n[ $RANK = 0 ] && {sys.executable} census.py\nexec {program}\n", executable=True)
    result = _run(place, "--nproc-per-node=1", "--max-restarts=1", "--shutdown-timeout=5", "--no-python", "./w.sh")
    assert result.code == 1, result
    before_first, after_first, before_second, after_second = map(int, (place.cwd / "left").read_text().split())
    assert before_first == 0 and after_first > 3 and after_second > 3
    assert before_second == 0, "beside the second attempt"
    _nobody_left(place)


def test_B35_a_worker_that_cannot_be_killed_is_named_and_not_waited_for(place, tier):
    """A tracer that never looks keeps the killed worker from its parent."""
    process = _start(place, "--nproc-per-node=1", "--max-restarts=3", "--shutdown-timeout=1", "--no-python", "sh", "-c",
                     "echo $$$$ > pid; exec sleep 1000", stderr=subprocess.PIPE)
    worker = int(_file(place, "pid"))
    tracer = subprocess.Popen([sys.executable, "-c", f"""
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
if libc.ptrace(0x4206, {worker}, 0, 0) != 0: sys.exit(str(ctypes.get_errno()))  # PTRACE_SEIZE
print("seized", flush=True)
time.sleep(1000)"""], stdout=subprocess.PIPE, text=True)
    try:
        if tracer.stdout.readline() != "seized\n":
            pytest.skip("no process may be traced here")
        process.terminate()
        _, err = process.communicate(timeout=60)
    finally:
        tracer.kill()
        tracer.wait()
    assert process.returncode == 1
    assert f"Process {worker} did not exit after SIGKILL" in err.decode(), err
    assert re.search(rf"Process {worker} \(sleep\) cannot be killed: it is in state Z", err.decode()), err
    _nobody_left(place)


@pytest.mark.parametrize("text, ends_well", [("exit(0)", True), ("exit(3)", False), ("pass", True),
                                             ("import os; os._exit(0)", True), ("raise ValueError", False)])
def test_B37_the_exit_status_alone_decides_with_run_path(place, text, ends_well):
    script = place.write("s.py", text + "\n")
    assert (place.run("--run-path", script).code == 0) == ends_well


def test_B41_as_a_containers_first_process_it_reaps_strangers_and_forwards(place, tier):
    if tier == "cgroup":
        pytest.skip("a process that is placed by a wrapper is not the first one")
    if subprocess.run(["unshare", "-rpf", "--mount-proc", "true"], capture_output=True).returncode != 0:
        pytest.skip("no pid namespace may be made here")
    place.write("w.sh", """#!/bin/sh
trap 'echo told > told; exit 0' TERM
i=0; while [ $i -lt 100 ]; do (sh -c 'sleep 0.01' &); i=$((i+1)); done
echo up > up
while :; do sleep 0.05; done
""")
    place.wrapper = ["unshare", "-rpf", "--mount-proc"]
    process = _start(place, "--nproc-per-node=1", "--no-python", "./w.sh")
    _file(place, "up")
    first = processes.wait_until(lambda: processes.children(process.pid), 30, "the first process")[0]

    def zombies():
        below = processes.descendants(first)
        return [pid for pid, _ in below if (processes.stat_fields(pid) or [b"X"])[0] == b"Z"]

    processes.wait_until(lambda: not zombies(), 30, lambda: f"the end of zombies {zombies()}")
    os.kill(first, signal.SIGTERM)
    assert process.wait(30) == 1
    assert (place.cwd / "told").exists()


# --- stopping ---

def test_a_wrapper_that_ends_first_does_not_cut_its_childs_work_short(place, tier):
    """The wrapper dies of the signal; its child saves."""
    place.write("save.sh", "#!/bin/sh\ntrap 'sleep 1; echo done > saved; exit 0' TERM\necho up > up\n"
                           "while :; do sleep 0.05; done\n")
    place.write("wrapper.sh", "#!/bin/sh\n./save.sh\necho never\n")
    process = _start(place, "--no-python", "./wrapper.sh")
    _file(place, "up")
    process.terminate()
    assert process.wait(60) == 1
    assert (place.cwd / "saved").read_text() == "done\n"
    _nobody_left(place)


def test_the_signal_reaches_the_rank_alone_on_request(place, tier):
    """A worker that tells its child itself, as one with data loaders does, and saves meanwhile."""
    place.write("w.sh", """#!/bin/sh
sh -c 'trap "echo told >> child; exit" TERM; echo up > child_up; while :; do sleep 0.02; done' &
child=$!
trap 'sleep 0.5; cp child before 2> /dev/null; kill $child; wait; echo done > saved; exit 0' TERM
while ! [ -s child_up ]; do sleep 0.01; done
echo up > up
while :; do sleep 0.02; done
""")
    process = _start(place, "--stop-signal-to=rank", "--no-python", "./w.sh")
    _file(place, "up")
    process.terminate()
    assert process.wait(60) == 1
    assert (place.cwd / "saved").exists()
    assert (place.cwd / "child").read_text() == "told\n" and not (place.cwd / "before").exists()


def test_those_whom_the_signal_did_not_reach_get_it_when_the_worker_has_ended(place, thorough_tier):
    place.write("w.sh", """#!/bin/sh
setsid sh -c 'trap "echo told > told; exit" TERM; echo up > up; while :; do sleep 0.02; done' &
while ! [ -s up ]; do sleep 0.01; done
exec sleep 1000
""")
    process = _start(place, "--no-python", "./w.sh")
    _file(place, "up")
    process.terminate()
    assert process.wait(60) == 1
    assert (place.cwd / "told").exists()


def test_a_worker_with_a_thousand_children_is_stopped_within_its_time(place, tier):
    place.write("many.py", """
import os, signal, time
for i in range(1000):
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("up", "w").write("up")
time.sleep(1000)
""")
    process = _start(place, "--shutdown-timeout=2", "many.py", stderr=subprocess.PIPE)
    _file(place, "up")
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b"cannot be killed" not in err, err
    _nobody_left(place)


# --- what a worker leaves ---

def test_after_exit_code_0_what_is_left_runs_on_and_is_named(place, thorough_tier):
    program = _stubborn(place, "exit 0\n")
    result = _run(place, "--no-python", program, env={"LOGLEVEL": "INFO"})
    assert result.code == 0, result
    left = containment.survivors(place.cookie)
    assert len(left) >= 5
    assert re.search(r"local rank 0 has ended and left processes behind, which may run on: \d+ \(", result.stderr)
    for pid in left:
        assert "cpprun" not in pathlib.Path(f"/proc/{pid}/cgroup").read_text()


def test_it_does_not_on_request(place, thorough_tier):
    assert _run(place, "--kill-descendants=always", "--no-python", _stubborn(place, "exit 0\n")).code == 0
    _nobody_left(place)


def test_what_a_failed_worker_leaves_runs_on_on_request(place, thorough_tier):
    result = _run(place, "--kill-descendants=never", "--max-restarts=1", "--no-python", _stubborn(place, "exit 3\n"))
    assert result.code == 1, result
    assert len(containment.survivors(place.cookie)) >= 10


def test_what_one_worker_left_dies_with_a_run_that_fails_later(place, thorough_tier):
    program = _stubborn(place, "[ $RANK = 0 ] && exit 0; sleep 1; exit 1\n")
    assert _run(place, "--nproc-per-node=2", "--shutdown-timeout=1", "--no-python", program).code == 1
    _nobody_left(place)


def test_bystanders_of_the_same_name_and_group_are_left_alone(place, thorough_tier):
    """A child that the launcher's shell had before, and a process of the same user."""
    stranger = subprocess.Popen(["sleep", "1000"])
    shell = ["sh", "-c", "sleep 1000 & echo $! > sibling; exec \"$@\"", "sh"]
    try:
        place.wrapper = [*place.wrapper, *shell]
        assert _run(place, "--no-python", _stubborn(place, "exit 1\n")).code == 1
        assert stranger.poll() is None
        sibling = int((place.cwd / "sibling").read_text())
        assert containment.survivors(place.cookie) == [sibling]
    finally:
        stranger.kill()
        stranger.wait()


# --- what a worker can see ---

def test_a_workers_parent_is_the_launcher_or_its_guard(place, tier):
    place.write("w.sh", "#!/bin/sh\ncat /proc/$PPID/comm > parent\necho $PPID > ppid\ncat /proc/self/cgroup > cgroup\n"
                        "echo up > up\nsleep 1000\n")
    process = _start(place, "--no-python", "./w.sh")
    _file(place, "up")
    ppid = int((place.cwd / "ppid").read_text())
    launcher = process.pid
    mine = pathlib.Path(f"/proc/{launcher}/cgroup").read_text()
    theirs = (place.cwd / "cgroup").read_text()
    if tier == "guard":
        assert (place.cwd / "parent").read_text() == "worker-guard\n" and ppid in processes.children(launcher)
    else:
        assert ppid == launcher
    if tier == "cgroup":
        own = re.search(r"^0::(.*)$", mine, re.M)[1]
        assert re.search(rf"^0::{re.escape(own.rstrip('/'))}/cpprun-{launcher}-0/worker-0$", theirs, re.M)
    else:
        assert theirs == mine
    process.terminate()
    process.wait(30)


def test_the_tier_is_named_and_a_better_one_that_is_not_to_be_had_too(place):
    """In a view of the machine where the cgroups are read-only, as in most containers."""
    view = "for m in $(awk '/ - cgroup2 /{print $5}' /proc/self/mountinfo); do mount -t tmpfs none $m; done; exec \"$@\""
    if subprocess.run(["unshare", "-rm", "sh", "-c", view, "sh", "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace may be made here")
    result = place.run("--no-python", "true", env={"LOGLEVEL": "INFO", "CPPRUN_CONTAINMENT": None},
                       wrapper=["unshare", "-rm", "sh", "-c", view, "sh"])
    assert result.code == 0, result
    assert "Workers are contained by guard: a guard process for each worker" in result.stderr, result
    assert "no containment by cgroup: " in result.stderr
    refused = place.run("--containment=cgroup", "--no-python", "true",
                        wrapper=["unshare", "-rm", "sh", "-c", view, "sh"])
    assert refused.code == 1 and refused.stderr.count("\n") <= 2, refused
    assert "--containment=cgroup: " in refused.stderr and "best tier" in refused.stderr
