# SPDX-License-Identifier: BSD-3-Clause
"""c10d jobs whose nodes fail in between, come and go. In `kinds` the first agent hosts the store."""
import signal
import time

import pytest
from harness import processes
from jobs import kinds, run_together

FAST = "keep_alive_interval=1,keep_alive_max_attempt=4"


def start(job, network, kinds, *options, names=("node1", "node2", "node3"), **fields):
    hosts = network.add_hosts(*names[:len(kinds)])
    agents = [job.c10d(kind, host, *options, **fields) for kind, host in zip(kinds, hosts)]
    return hosts, agents, job.wait_for_workers(*hosts)


def add_member(job, network, kind, name, *options, place="redundancy_list", **fields):
    """A late agent; waits until the shared state has it."""
    host = network.add_host(name)
    agent = job.c10d(kind, host, *options, **fields)
    with job.store() as store:
        processes.wait_until(lambda: any(name in node.addr for node in getattr(job.state(store), place)), 30,
                             lambda: f"{name} in {place}; {agent!r}")
    return host, agent


@pytest.mark.parametrize("failing", [0, 1], ids=["the_host", "the_other"])
@kinds("tt", "ct", "tc", "cc")
def test_B16_a_failed_worker_restarts_all_with_one_count(network, job, kinds, failing):
    hosts, agents, workers = start(job, network, kinds, "--max-restarts=2")
    workers[failing].finish(3)
    again = job.wait_for_workers(*hosts, start=1, seconds=20)
    run_together(again)
    assert len({worker.env["CPPRUN_ROUND"] for worker, kind in zip(again, kinds) if kind == "cpprun"}) <= 1
    job.finish()
    assert job.wait() == [0, 0], agents


@kinds("cc", "ct", "tc")
def test_every_attempt_meets_an_empty_store(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds, "--max-restarts=2")
    workers[0].finish(3)
    again = job.wait_for_workers(*hosts, start=1, seconds=20)
    assert again[0].env["TORCHELASTIC_USE_AGENT_STORE"] == "True"
    with job.store_of(again[0]) as store:
        store.set("of attempt 1", b"1")
    again[1].finish(3)
    third = job.wait_for_workers(*hosts, start=2, seconds=20)
    run_together(third)
    if kinds[0] == "cpprun":  # which is rank 0, whose agent has the store
        with job.store_of(third[0]) as store:
            assert not store.has("of attempt 1")
    job.finish()
    assert job.wait() == [0, 0], agents


@pytest.mark.parametrize("kinds,newcomer", [
    pytest.param([{"c": "cpprun", "t": "torchrun"}[letter] for letter in row], newcomer, id=f"{row}-{newcomer}")
    for row in ("cc", "ct", "tc") for newcomer in ("node1", "node9")])
def test_scale_up(network, job, kinds, newcomer):
    hosts, agents, workers = start(job, network, kinds[:1], names=("node5",), nodes="1:2")
    late = network.add_host(newcomer)
    job.c10d(kinds[1], late, nodes="1:2")
    again = job.wait_for_workers(hosts[0], late, start=[1, 0], seconds=30)
    run_together(again)
    assert again[0].env["TORCHELASTIC_RESTART_COUNT"] == "0"
    job.finish()
    assert job.wait() == [0, 0], job.agents


@pytest.mark.parametrize("end", ["killed", "stopped", "lost"])
@kinds("ccc", "ctc", "cct", "tcc")
def test_a_node_is_replaced(network, job, kinds, end):
    hosts, agents, workers = start(job, network, kinds[:2], conf=FAST)
    if end == "killed":
        agents[1].kill()
    elif end == "stopped":
        agents[1].send(15)
        agents[1].wait(15)
    else:
        hosts[1].lose_power()
    job.agents.remove(agents[1])
    late = network.add_host("node3")
    job.c10d(kinds[2], late, conf=FAST)
    again = job.wait_for_workers(hosts[0], late, start=[1, 0], seconds=60)
    run_together(again)
    assert not [worker for worker in workers if worker.running]
    job.finish()
    assert job.wait() == [0, 0], job.agents


def test_B80_a_stopped_node_leaves_at_once_and_does_not_end_the_run(network, job):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], nodes="1:2")
    agents[1].send(15)
    agents[1].wait(10)
    (alone,) = job.wait_for_workers(hosts[0], start=1, seconds=10)
    assert (alone.rank, alone.world) == (0, 1)
    job.finish()
    assert agents[0].wait() == 0


@kinds("ccc", "ctc")
def test_B84_a_spare_ends_well_with_the_job(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds[:2])
    spare, agent = add_member(job, network, kinds[2], "node3")
    job.finish()
    assert job.wait() == [0, 0, 0], job.agents
    assert [worker.host for worker in job.workers()] == ["node1", "node2"]


@kinds("ccc", "ctc", "cct", "tcc")
def test_B84_a_spare_takes_the_place_of_a_dead_node(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds[:2], conf=FAST)
    spare, _ = add_member(job, network, kinds[2], "node3", conf=FAST)
    agents[1].kill()
    job.agents.remove(agents[1])
    run_together(job.wait_for_workers(hosts[0], spare, start=[1, 0], seconds=60))
    job.finish()
    assert job.wait() == [0, 0], job.agents


@kinds("ccc", "ctc", "cct")
def test_B84_with_a_spare_one_failure_makes_one_round(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds[:2], "--max-restarts=3")
    add_member(job, network, kinds[2], "node3", "--max-restarts=3")
    workers[1].finish(3)
    with job.store() as store:
        def settled():
            state = job.state(store)
            return state.round == 1 and state.complete and len(job.running()) == 2
        processes.wait_until(settled, 20, lambda: f"round 1; {job.agents}")
        time.sleep(4)  # torchrun makes a round each 1.1 s
        assert settled(), (job.state(store).round, job.workers())
    members = {worker.host for worker in job.running()}
    run_together(job.running())
    job.finish()
    job.wait()
    for kind, agent in zip(kinds, job.agents):
        # A spare that is torchrun's cannot help ending with 1.
        assert agent.code == 0 or (kind == "torchrun" and agent.host.name not in members), job.agents


@kinds("cccc", "tctt")
def test_a_node_that_cannot_join_does_not_end_the_run(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    job.c10d(kinds[0], hosts[0], nodes="3")
    with job.store() as store:
        failing = job.c10d(kinds[1], hosts[1], nodes="3", conf="join_timeout=3")
        processes.wait_until(lambda: (state := job.state(store)) and len(state.participants) == 2, 20,
                             lambda: f"two members; {job.agents}")
    assert failing.wait(30) == 1
    job.agents.remove(failing)
    others = network.add_hosts("node3", "node4")
    for kind, host in zip(kinds[2:], others):
        job.c10d(kind, host, nodes="3")
    run_together(job.wait_for_workers(hosts[0], *others))
    job.finish()
    assert job.wait() == [0, 0, 0], job.agents


@kinds("tc", "cc")
def test_heartbeats_go_on_in_the_exit_barrier(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds, conf=FAST)
    workers[1].finish()
    with job.store() as store:
        processes.wait_until(lambda: store.has("torch.rendezvous.job1.0/torchelastic/agent/terminal_state/num_members"),
                             10, "the exit barrier")

        def heartbeat():
            return next((beat for node, beat in job.state(store).last_heartbeats.items() if "node2" in node.addr), None)
        seen = {heartbeat()}
        processes.wait_until(lambda: seen.add(heartbeat()) or len(seen) > 5 or None in seen, 20, "heartbeats")
        assert None not in seen
        assert len(job.state(store).participants) == 2
    job.finish()
    assert job.wait() == [0, 0], agents


def test_a_finished_run_says_so_to_who_comes_late(network, job, tmp_path):
    """The store lives on with another run's host, which is torchrun's, as it cannot refuse us."""
    host, other_host = network.add_hosts("node1", "node2")
    other = type(job)(network, tmp_path / "other")
    keeper = other.c10d("torchrun", host, nodes="1:2", run_id="other", conf="last_call_timeout=1")
    other.wait_for_workers(host)
    for _ in range(2):
        job.c10d("cpprun", other_host, nodes="1:2", conf="last_call_timeout=1")
        if len(job.agents) == 1:
            job.wait_for_workers(other_host)
            job.finish()
            job.wait()
    assert job.agents[1].wait(20) == 1
    assert "closed" in job.agents[1].stderr.lower() or "finished" in job.agents[1].stderr, job.agents[1]
    other.finish()
    assert keeper.wait() == 0


@pytest.mark.parametrize("static", [True, False], ids=["static", "c10d"])
def test_a_suspended_node_is_not_lost(network, job, static):
    """Its agent stays awake. It is suspended for longer than a silent node would be waited for."""
    hosts = network.add_hosts("node1", "node2")
    if static:
        agents = [job.static("cpprun", host, rank) for rank, host in enumerate(hosts)]
    else:
        agents = [job.c10d("cpprun", host, "--silent-after=3") for host in hosts]
    workers = job.wait_for_workers(*hosts)
    agents[1].send(signal.SIGTSTP)
    agents[1].wait_for_line("the workers stand still until SIGCONT")
    # A shell that is stopped within a vfork shows D.
    processes.wait_until(lambda: processes.stat_fields(workers[1].pid)[0] in (b"T", b"D"), 30, "the suspended worker")
    time.sleep(6)
    assert [worker.running for worker in workers] == [True, True], agents
    agents[1].send(signal.SIGCONT)
    processes.wait_until(lambda: processes.stat_fields(workers[1].pid)[0] != b"T", 30, "the worker")
    job.finish()
    assert job.wait() == [0, 0], agents
    assert len(job.workers()) == 2
