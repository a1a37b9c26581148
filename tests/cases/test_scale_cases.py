# SPDX-License-Identifier: BSD-3-Clause
"""What many nodes cost: counted, not timed."""
import pathlib
import re
import subprocess

from harness import launchers


def requests_of_each(nodes):
    """Of each of so many agents that form a round, and after a failure another one."""
    swarm = pathlib.Path(launchers.cpprun_binary()).parents[1] / "bench" / "rendezvous" / "rendezvous_swarm"
    done = subprocess.run([swarm, str(nodes), "restart"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    return max(map(int, re.findall(r"store: (\d+) requests", done.stdout))) / nodes


def test_B98_what_an_agent_asks_of_the_store_does_not_grow_with_their_number():
    few, many = requests_of_each(25), requests_of_each(400)
    assert 0 < many < few + 3, (few, many)
