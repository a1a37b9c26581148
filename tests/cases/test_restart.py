# SPDX-License-Identifier: BSD-3-Clause
"""Restarts of real PyTorch jobs in every single-node mode, and what a thousand restarts leave in the agent."""
import os
import pathlib
import time

import pytest
from harness import processes
from harness.ports import free_port

GLOO = """
import os, sys, time
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
if rank == 0 and attempt == 1 and len(sys.argv) > 1:
    time.sleep(float(sys.argv[1]))
import torch.distributed as dist
import torch, datetime
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
value = torch.ones(1)
dist.all_reduce(value)
assert value.item() == 2
if attempt == 0 and rank == 1:
    os._exit(9)
dist.barrier()
sys.stdout.write(f"attempt {attempt} rank {rank} done{chr(10)}")
sys.stdout.flush()
dist.destroy_process_group()
"""


MODES = {
    "plain": lambda: [],
    "standalone": lambda: ["--standalone"],
    "static": lambda: [f"--master-port={free_port()}"],
    "c10d": lambda: ["--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}"],
    "rank0-store": lambda: ["--worker-store=rank0"],
}


@pytest.mark.parametrize("mode", MODES)
def test_a_gloo_job_comes_through_its_restart_every_time(place, mode, long_or):
    place.write("gloo.py", GLOO)
    for _ in range(long_or(100, 5 if mode != "rank0-store" else 2)):
        _restart_once(place, MODES[mode](), "gloo.py")


@pytest.mark.parametrize("mode", ["plain", "static"])
def test_a_gloo_job_whose_rank_0_is_slow_to_restart_comes_through(place, mode, long_or):
    place.write("gloo.py", GLOO)
    for _ in range(long_or(100, 1)):
        _restart_once(place, MODES[mode](), "gloo.py", "2")


def _restart_once(place, options, *command):
    result = place.run(*options, "--max-restarts=1", "--nproc-per-node=2", *command, seconds=180)
    assert result.code == 0, result
    # Rank 0 of the first attempt may come to its end before it is stopped.
    done = [line for line in result.lines if line.startswith("attempt 1")]
    assert done == ["attempt 1 rank 0 done", "attempt 1 rank 1 done"], result


KEYS = """
import os, datetime
from torch.distributed import TCPStore
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 1,
                 is_master=os.environ["TORCHELASTIC_USE_AGENT_STORE"] != "True",
                 timeout=datetime.timedelta(seconds=20))
seen = store.check(["mine"])
print(os.environ["TORCHELASTIC_RESTART_COUNT"], seen, flush=True)
store.set("mine", "1")
os._exit(0 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "2" else 4)
"""


@pytest.mark.parametrize("mode", MODES)
def test_the_store_is_empty_at_each_attempt(place, mode):
    place.write("keys.py", KEYS)
    result = place.run(*MODES[mode](), "--max-restarts=2", "keys.py", seconds=120)
    assert result.code == 0 and result.stdout.splitlines() == ["0 False", "1 False", "2 False"], result


def _state(pid):
    """Descriptors by number, threads, and proportional memory in KiB, without the pages of files."""
    descriptors = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    threads = len(os.listdir(f"/proc/{pid}/task"))
    smaps = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    memory = next(int(line.split()[1]) for line in smaps.splitlines() if line.startswith("Pss_Anon:"))
    return len(descriptors), threads, memory


def test_restarts_leave_the_agent_as_it_was(place, long_or):
    """Two workers; rank 1 ends the attempt as soon as both have signed. The agent is looked at when an early and when
    the last attempt is up."""
    restarts = long_or(1000, 50)
    place.write("w.sh", "#!/bin/sh\nn=$TORCHELASTIC_RESTART_COUNT\necho > up.$n.$RANK\n"
                f"if [ $n = 3 ] || [ $n = {restarts} ]; then\n  while [ ! -e go.$n ]; do sleep 0.02; done\nfi\n"
                f"[ $n = {restarts} ] && exit 0\n[ $RANK = 1 ] && exit 3\nexec sleep 30\n")
    process = place.start(f"--max-restarts={restarts}", "--nproc-per-node=2", "-t", "1", "--log-dir", "L", "--no-python",
                          "./w.sh", stdout=open(place.root / "out", "wb"), stderr=open(place.root / "err", "wb"))
    try:
        early = _state_at(place, process, 3)
        late = _state_at(place, process, restarts)
    finally:
        if process.poll() is None and not (place.cwd / f"go.{restarts}").exists():
            process.kill()
    assert process.wait(60) == 0, (place.root / "err").read_text()[-2000:]
    assert late[:2] == early[:2], (early, late)
    assert late[2] <= early[2] + 1024, f"memory grew from {early[2]} to {late[2]} KiB"
    assert list(place.tmp.iterdir()) == []
    assert len(list((place.cwd / "L").glob("*/attempt_*"))) == restarts + 1
    assert len((place.root / "err").read_text().split("failed (exitcode: 3)")) == restarts + 1


def _state_at(place, process, attempt):
    for rank in (0, 1):
        processes.wait_until(lambda: (place.cwd / f"up.{attempt}.{rank}").exists() or process.poll() is not None,
                             600, f"attempt {attempt}")
    time.sleep(0.3)
    state = _state(process.pid)
    (place.cwd / f"go.{attempt}").touch()
    return state


def test_temporary_folders_of_many_launches_do_not_pile_up(place, long_or):
    for _ in range(long_or(200, 20)):
        assert place.run("--max-restarts=1", "--no-python", "sh", "-c",
                         "exit $((1 - TORCHELASTIC_RESTART_COUNT))").code == 0
    assert list(place.tmp.iterdir()) == []
