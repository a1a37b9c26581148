# SPDX-License-Identifier: BSD-3-Clause
"""Static jobs of two nodes that do not go as planned. "ct": cpprun is node 0, torchrun node 1."""
import re

import pytest
from harness import processes
from jobs import kinds, run_together, wait_until_ended


def start(job, network, kinds, *options, **fields):
    hosts = network.add_hosts(*(f"node{number}" for number in range(1, len(kinds) + 1)))
    agents = [job.static(kind, host, rank, *options, **fields) for rank, (kind, host) in enumerate(zip(kinds, hosts))]
    return hosts, agents, job.wait_for_workers(*hosts)


@kinds("cc")
def test_B16_a_failed_worker_restarts_the_workers_of_all_nodes(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds, "--max-restarts=3")
    for failing in (0, 1):
        with job.store(port=29500) as store:
            store.set("of the former attempt", b"1")
            workers[failing].finish(3)
            workers = job.wait_for_workers(*hosts, start=failing + 1, seconds=10)
        run_together(workers)
        assert {worker.env["TORCHELASTIC_RESTART_COUNT"] for worker in workers} == {str(failing + 1)}
        with job.store(port=29500) as store:
            assert not store.has("of the former attempt")
    job.finish()
    assert job.wait() == [0, 0], agents


@kinds("cc")
def test_a_free_restart_is_free_on_all_nodes(network, job, kinds):
    """Node 1 asks for two of them; then node 0 fails, and still has its one restart."""
    hosts, agents, workers = start(job, network, kinds, "--max-restarts=1", "--free-restart-on=exit:84")
    for number, (failing, code) in enumerate([(1, 84), (1, 84), (0, 3)], 1):
        workers[failing].finish(code)
        workers = job.wait_for_workers(*hosts, start=number, seconds=20)
        run_together(workers)
    workers[1].finish(3)
    assert job.wait() == [1, 1], agents
    assert "no restart: no restarts are left" in agents[1].stderr, agents


@kinds("cc")
def test_a_worker_that_forbids_a_restart_ends_all_nodes(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds, "--max-restarts=3", "--no-restart-on=exit:83")
    workers[1].finish(83)
    assert job.wait() == [1, 1], agents
    assert "exit:83 of local rank 0 is in --no-restart-on" in agents[1].stderr, agents


@kinds("tt", "ct", "tc")
def test_with_torchrun_in_the_job_a_failed_worker_restarts_on_its_node_alone(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds, "--max-restarts=3")
    with job.store(port=29500) as store:
        store.set("kept", b"1")
        for failing in (0, 1):
            workers[failing].finish(3)
            (workers[failing],) = job.wait_for_workers(hosts[failing], start=1, seconds=10)
            assert [(worker.rank, worker.world, worker.running) for worker in workers] == [(0, 2, True), (1, 2, True)]
        assert store.get("kept") == b"1"
    for kind, agent in zip(kinds, agents):
        if kind == "cpprun":
            said = [line for line in agent.stderr.splitlines() if "torchrun agent" in line]
            assert len(said) == 1, agent
    job.finish()
    assert job.wait() == [0, 0], agents


@kinds("tt", "cc", "ct", "tc")
def test_a_node_that_replaces_a_dead_one_takes_its_rank(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds, "--max-restarts=3")
    agents[1].kill()
    job.agents.remove(agents[1])
    third = network.add_host("node3")
    job.static(kinds[1], third, 1, "--max-restarts=3")
    (worker,) = job.wait_for_workers(third)
    assert (worker.rank, worker.world) == (1, 2)
    job.finish()
    assert job.wait() == [0, 0], job.agents


@pytest.mark.parametrize("end", ["power", "cut", "unplug"])
def test_B81_a_static_node_that_falls_silent_is_lost(network, job, end):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], "--silent-after=3")
    {"power": hosts[1].lose_power, "cut": hosts[1].cut, "unplug": hosts[1].unplug}[end]()
    assert agents[0].wait(20) == 1, agents[0]  # not after the kernel's two minutes
    assert "Lost node 1 (node2" in agents[0].stderr, agents[0]
    assert not workers[0].running
    if end != "power":
        assert agents[1].wait(30) == 1 and "node 0 is lost" in agents[1].stderr, agents[1]
        assert not workers[1].running


def test_a_node_that_replaces_a_silent_one_takes_its_rank(network, job):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], "--silent-after=3", "--max-restarts=1")
    hosts[1].lose_power()
    job.agents.remove(agents[1])
    third = network.add_host("node3")
    wait_until_ended(workers[:1], 20)
    job.static("cpprun", third, 1, "--silent-after=3", "--max-restarts=1")
    (worker,) = job.wait_for_workers(third)
    assert (worker.rank, worker.world) == (1, 2)
    job.finish()
    assert job.wait() == [0, 0], job.agents


def test_B85_two_living_nodes_of_one_rank_are_refused(network, job):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"])
    third = network.add_host("node3")
    late = job.static("cpprun", third, 1)
    assert late.wait(20) == 1
    assert "node2" in late.stderr and "node3" in late.stderr and "rank 1" in late.stderr, late
    assert all(worker.running for worker in workers) and not [w for w in job.workers() if w.host == "node3"]
    job.finish()
    assert [agent.wait() for agent in agents] == [0, 0]


def test_B85_nodes_that_want_jobs_of_different_sizes_are_refused(network, job):
    one, two = network.add_hosts("node1", "node2")
    job.static("cpprun", one, 0, "--rdzv-conf=timeout=10", nodes=2)
    late = job.static("cpprun", two, 1, "--rdzv-conf=timeout=10", nodes=3)
    assert late.wait(20) == 1 and job.agents[0].wait(20) == 1
    for word in ("--nnodes", "node1", "node2", "2", "3"):
        assert word in late.stderr, late
    assert job.workers() == []


def test_B85_nodes_of_different_runs_are_refused(network, job):
    one, two = network.add_hosts("node1", "node2")
    job.static("cpprun", one, 0, "--rdzv-conf=timeout=10", "--rdzv-id=first")
    late = job.static("cpprun", two, 1, "--rdzv-conf=timeout=10", "--rdzv-id=second")
    assert late.wait(20) == 1 and job.agents[0].wait(20) == 1
    for word in ("first", "second", "node1", "node2"):
        assert word in late.stderr, late


@kinds("cc")
def test_a_dead_host_is_not_a_success(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds)
    agents[0].kill()
    workers[1].finish()
    assert agents[1].wait(20) not in (0, None)
    assert "node1" in agents[1].stderr or hosts[0].address in agents[1].stderr, agents[1]


@kinds("tc")
def test_a_torchrun_host_that_goes_during_the_exit_barrier_is_a_warning(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds)
    with job.store(port=29500) as store:
        workers[1].finish()
        processes.wait_until(lambda: store.has("none/torchelastic/agent/terminal_state/num_members"), 10, "the exit barrier")
        agents[0].kill()
    assert agents[1].wait(15) == 0
    assert len(re.findall("^W.*exit barrier", agents[1].stderr, re.MULTILINE)) == 1, agents[1]


@pytest.mark.parametrize("failing", [0, 1], ids=["node_0", "node_1"])
@kinds("cc")
def test_a_final_failure_ends_all_nodes_and_is_named_on_all(network, job, kinds, failing):
    hosts, agents, workers = start(job, network, kinds)
    workers[failing].finish(37)
    wait_until_ended(workers, 5)
    assert job.wait(15) == [1, 1], agents
    told = agents[1 - failing].stderr
    assert hosts[failing].name in told and "37" in told, agents
    if list(kinds) == ["cpprun", "cpprun"]:
        begin = f"verdict   : rank {workers[failing].rank} on {hosts[failing].name}"
        for last in (agent.stderr.splitlines()[-1] for agent in agents):
            assert last.startswith(begin) and last.endswith(" failed first, with exit code 37"), agents


@kinds("cc", "tc")
def test_the_exit_barrier_hears_signals(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds)
    with job.store(port=29500) as store:
        workers[1].finish()
        processes.wait_until(lambda: store.has("none/torchelastic/agent/terminal_state/num_members"), 10, "the exit barrier")
    agents[1].send(15)
    agents[1].wait(3)
