# SPDX-License-Identifier: BSD-3-Clause
"""Two nodes find each other, work, and end: with each launcher in each role. The pairs of torchrun alone are the
baseline: they hold this kit to the truth."""
import pytest
from jobs import run_together

PAIRS = [("torchrun", "torchrun")]


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_static(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    for rank, (kind, host) in enumerate(zip(kinds, hosts)):
        job.static(kind, host, rank, "--nproc-per-node=2")
    workers = [*job.wait_for_workers(*hosts), *job.wait_for_workers(*hosts, local_rank=1)]
    run_together(workers)
    assert workers[0].master == (hosts[0].address, "29500")
    with job.store(port=29500) as store:
        assert {"none/torchelastic/role_info/0", "none/torchelastic/assigned_ranks/1"} <= set(store.keys())
    job.finish()
    assert job.wait() == [0, 0], job.agents


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_c10d(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    for kind, host in zip(kinds, hosts):
        job.c10d(kind, host)
    workers = job.wait_for_workers(*hosts)
    run_together(workers)
    with job.store() as store:
        state = job.state(store)
        assert (state.round, state.complete, state.closed) == (0, True, False)
        assert sorted(state.participants.values()) == [0, 1]
    job.finish()
    assert job.wait() == [0, 0], job.agents
