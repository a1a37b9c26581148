# SPDX-License-Identifier: BSD-3-Clause
"""torch's file-based timers under the launcher (contract 8.2), with torch's own client: without the faults that they have
under torchrun, where an expired timer kills the agent, and a client that keeps the pipe open stops all timers."""
import os
import subprocess

import pytest

TIMERS = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}
# Rank 0's step hangs in the first attempt only; the others wait for it as in a collective.
HANGS = """
import os, signal, sys, time
from torch.distributed.elastic import timer

rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"], getattr(signal, sys.argv[1])))
with timer.expires(after=60):
    pass
open(f"{attempt}.{rank}.pid", "w").write(str(os.getpid()))
if attempt == "0":
    if rank == "0":
        with timer.expires(after=0.5, scope="a step"):
            time.sleep(100)
    time.sleep(100)
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_an_expired_timer_ends_its_worker_and_not_the_launcher(place, name):
    place.write("hangs.py", HANGS)
    result = place.run("--nproc-per-node=2", "--omp-threads=1", "--max-restarts=1", "hangs.py", name, env=TIMERS)
    assert result.code == 0, result
    hung = (place.cwd / "0.0.pid").read_text()
    assert f"file timer 'a step' of process {hung} expired: sending {name}" in result.stderr, result
    assert result.stderr.count("file timer") == 1, result
    assert (place.cwd / "1.0.pid").exists() and (place.cwd / "1.1.pid").exists(), result


def test_a_client_that_keeps_the_pipe_open_stops_nobodys_timer(place):
    place.write("hangs.py", HANGS)
    place.write("w.sh", "#!/bin/sh\n[ $RANK = 0 ] && exec python3 hangs.py SIGKILL\n"
                        "exec 3> $TORCHELASTIC_TIMER_FILE\n[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 100\n")
    result = place.run("--nproc-per-node=2", "--omp-threads=1", "--max-restarts=1", "--no-python", "./w.sh", env=TIMERS)
    assert result.code == 0 and "file timer 'a step'" in result.stderr, result


def test_a_timer_of_a_workers_child_ends_the_child_and_one_of_a_stranger_nobody(place):
    """Requests as torch's client writes them, with pids that are given in place of its own."""
    place.write("asks.py", """
import os, subprocess, sys, time
from torch.distributed.elastic.timer import FileTimerClient
from torch.distributed.elastic.timer.file_based_local_timer import FileTimerRequest

client = FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"])
def set_timer(pid, scope):
    client._send_request(FileTimerRequest(pid, scope, time.time() + 0.2, 9))
for pid in sys.argv[1:]:
    set_timer(int(pid), "stranger")
set_timer(os.getppid(), "parent")
child = subprocess.Popen(["sleep", "100"])
set_timer(child.pid, "child")
sys.exit(0 if child.wait() == -9 else 1)
""")
    stranger = subprocess.Popen(["sleep", "100"], start_new_session=True)
    try:
        result = place.run("asks.py", stranger.pid, os.getpid(), env=TIMERS)
        assert result.code == 0, result
        assert stranger.poll() is None
        for pid in (stranger.pid, os.getpid()):
            assert f"a file timer names process {pid}, which no worker of ours has started" in result.stderr, result
        assert "file timer 'child'" in result.stderr and "file timer 'parent'" not in result.stderr, result
    finally:
        stranger.kill()
        stranger.wait()


def test_a_timer_that_outlives_a_good_worker_harms_nobody(place):
    place.write("w.py", "import os, time\nfrom torch.distributed.elastic.timer import FileTimerClient\n"
                        "if os.environ['RANK'] == '0':\n"
                        "    FileTimerClient(os.environ['TORCHELASTIC_TIMER_FILE']).acquire('left', time.time() + 5)\n"
                        "    open('left', 'w').close()\n    os._exit(0)\n"
                        "while not os.path.exists('left'): time.sleep(0.1)\ntime.sleep(6)\n")
    result = place.run("--nproc-per-node=2", "--omp-threads=1", "w.py", env=TIMERS)
    assert result.code == 0 and "file timer" not in result.stderr, result
    assert not list(place.tmp.glob("watchdog_timer_*"))
