# SPDX-License-Identifier: BSD-3-Clause
"""Many rounds leave nothing behind: CPPRUN_LONG=1 for the full count."""
import os

import pytest
from harness import processes

ROUNDS = 200 if os.environ.get("CPPRUN_LONG") == "1" else 24
WARM_UP = 8  # what is kept for a few rounds is there by then


def footprint(pid):
    """Descriptors, threads and private memory in KB of one process."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        sizes = [line.split() for line in rollup if line.startswith("Private_")]
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": len(os.listdir(f"/proc/{pid}/task")),
            "memory": sum(int(words[1]) for words in sizes)}


def settled(agents, expected):
    """Connections that were closed a moment ago may still be counted."""
    def find():
        now = [footprint(agent.pid) for agent in agents]
        same = all(a["descriptors"] <= b["descriptors"] and a["threads"] <= b["threads"] for a, b in zip(now, expected))
        return now if same else None
    return processes.wait_until(find, 10, lambda: f"{expected}, have {[footprint(agent.pid) for agent in agents]}")


@pytest.mark.parametrize("way", ["c10d", "static"])
def test_rounds_leave_nothing_behind(network, job, way):
    hosts = network.add_hosts("node1", "node2")
    options = [f"--max-restarts={ROUNDS + 1}", "--monitor-interval=0.01"]
    if way == "c10d":
        agents = [job.c10d("cpprun", host, *options) for host in hosts]
    else:
        agents = [job.static("cpprun", host, rank, *options) for rank, host in enumerate(hosts)]
    workers = job.wait_for_workers(*hosts)
    port = 29400 if way == "c10d" else 29500

    def keys():
        # A static job's store closes bystanders' connections before each attempt. Of news the newest 512 are kept.
        with job.store(port=port) as store:
            return [key for key in store.keys() if "/news/" not in key]

    for number in range(1, ROUNDS + 1):
        workers[number % 2].finish(3)
        workers = job.wait_for_workers(*hosts, start=number, seconds=30)
        if number == WARM_UP:
            first, keys_then = [footprint(agent.pid) for agent in agents], keys()
    last = settled(agents, first)
    keys_now = keys()
    # What is written in between, such as a sign of life, may be there once and not the other time.
    assert len(keys_now) <= len(keys_then) + 3, sorted(set(keys_now) - set(keys_then))
    for before, after in zip(first, last):
        assert after["memory"] <= before["memory"] + 500, (first, last)
    job.finish()
    assert job.wait() == [0, 0], agents
