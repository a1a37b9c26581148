# SPDX-License-Identifier: BSD-3-Clause
"""Agents, hosts and links that fail under a c10d job. In `kinds` the first agent hosts the store."""
import base64
import pickle
import re
import signal
import time

import pytest
from harness import launchers, processes
from jobs import kinds, run_together, wait_until_ended

FAST = "keep_alive_interval=1,keep_alive_max_attempt=4"


def start(job, network, kinds, *options, **fields):
    hosts = network.add_hosts(*(f"node{number}" for number in range(1, len(kinds) + 1)))
    agents = [job.c10d(kind, host, *options, **fields) for kind, host in zip(kinds, hosts)]
    return hosts, agents, job.wait_for_workers(*hosts)


def alone_again(job, host, seconds):
    (worker,) = job.wait_for_workers(host, start=1, seconds=seconds)
    assert (worker.rank, worker.world) == (0, 1)
    return worker


@pytest.mark.parametrize("failing", [0, 1], ids=["the_host", "the_other"])
@kinds("cc", "ct", "tc")
def test_a_final_failure_ends_all_nodes_and_is_named(network, job, kinds, failing):
    if kinds[1 - failing] == "torchrun":
        pytest.skip("torchrun cannot be told")
    hosts, agents, workers = start(job, network, kinds)
    workers[failing].finish(37)
    wait_until_ended(workers, 5)
    assert job.wait(15) == [1, 1], agents
    if kinds[failing] == "cpprun":
        told = agents[1 - failing].stderr
        assert hosts[failing].name in told and "37" in told, agents
    if list(kinds) == ["cpprun", "cpprun"]:
        begin = f"verdict   : rank {workers[failing].rank} on {hosts[failing].name}"
        for last in (agent.stderr.splitlines()[-1] for agent in agents):
            assert last.startswith(begin) and last.endswith(" failed first, with exit code 37"), agents


def test_B80_with_a_killed_agent_the_others_go_on(network, job):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], nodes="1:2")
    began = time.monotonic()
    agents[1].kill()
    alone_again(job, hosts[0], 10)
    assert time.monotonic() - began < 1 + 2 + 3  # until it might come back, the last call, and what else there is
    job.finish()
    assert agents[0].wait() == 0


def test_how_long_a_lost_agent_may_take_to_come_back_is_an_option(network, job):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], "--lost-after=5", nodes="1:2")
    began = time.monotonic()
    agents[1].kill()
    alone_again(job, hosts[0], 20)
    assert time.monotonic() - began > 5
    job.finish()
    assert agents[0].wait() == 0


def test_how_long_a_node_may_be_silent_is_an_option(network, job):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], "--silent-after=3", nodes="1:2")
    began = time.monotonic()
    hosts[1].cut()
    alone_again(job, hosts[0], 3 + 2 + 4)
    assert time.monotonic() - began > 3
    assert not workers[1].running
    job.finish()
    assert agents[0].wait() == 0


def test_the_workers_of_a_killed_agent_do_not_outlive_it(network, job):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], nodes="1:2")
    agents[1].send(9)
    wait_until_ended(workers[1:], 2)
    alone_again(job, hosts[0], 10)
    job.finish()
    assert agents[0].wait() == 0


@pytest.mark.parametrize("end", ["power", "freeze", "cut", "unplug"])
def test_B81_a_node_that_falls_silent_is_done_without(network, job, end):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], nodes="1:2")
    {"power": hosts[1].lose_power, "freeze": hosts[1].freeze, "cut": hosts[1].cut, "unplug": hosts[1].unplug}[end]()
    alone_again(job, hosts[0], 10 + 2 + 4)  # until silence counts as death, the last call, and what else there is
    if end in ("cut", "unplug"):  # never two worlds at once
        assert not workers[1].running
        assert agents[1].wait(30) != 0
        assert "node1" in agents[1].stderr or hosts[0].address in agents[1].stderr, agents[1]
    job.finish()
    assert agents[0].wait() == 0


def test_workers_of_a_frozen_agent_are_stopped_before_others_go_on(network, job):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], nodes="1:2")
    agents[1].send(19)
    alone_again(job, hosts[0], 25)
    assert not workers[1].running
    agents[1].send(18)
    job.finish()
    agents[1].wait(20)
    assert agents[0].wait() == 0


def test_a_short_pause_of_a_link_does_no_harm(network, job):
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], nodes="1:2")
    hosts[1].cut()
    time.sleep(3)
    hosts[1].mend()
    time.sleep(12)
    assert all(worker.running for worker in workers) and len(job.workers()) == 2
    job.finish()
    assert job.wait() == [0, 0], agents


@kinds("cc", "tc")
def test_B82_a_dead_host_of_the_store_ends_the_others(network, job, kinds):
    hosts, agents, workers = start(job, network, kinds)
    agents[0].kill()
    wait_until_ended(workers, 5)
    assert agents[1].wait(15) == 1
    assert "node1" in agents[1].stderr or hosts[0].address in agents[1].stderr, agents[1]


@pytest.mark.parametrize("dying", [0, 1])
def test_B82_with_a_store_on_a_host_of_its_own_any_agent_may_die(network, job, dying):
    head, *hosts = network.add_hosts("head", "node1", "node2")
    store = head.start(launchers.cpprun_binary(), "--store-only", f"--rdzv-endpoint={head.address}:29400")
    store.wait_for_line("serving a store on port 29400")
    agents = [job.c10d("cpprun", host, nodes="1:2", head=head) for host in hosts]
    workers = job.wait_for_workers(*hosts)
    run_together(workers)
    agents[dying].kill()
    alone_again(job, hosts[1 - dying], 40)
    job.finish()
    assert agents[1 - dying].wait() == 0, agents
    store.send(signal.SIGTERM)
    assert store.wait() == 0, store


@pytest.mark.parametrize("what", ["agent", "host", "cut"])
@kinds("cc", "tc")
def test_a_silent_host_of_the_store_does_not_hang_the_others(network, job, kinds, what):
    hosts, agents, workers = start(job, network, kinds)
    {"agent": lambda: agents[0].send(19), "host": hosts[0].freeze, "cut": hosts[0].cut}[what]()
    wait_until_ended(workers[1:], 30)
    assert agents[1].wait(15) == 1
    assert "node1" in agents[1].stderr or hosts[0].address in agents[1].stderr, agents[1]


@kinds("cc", "ct", "tc")
def test_a_node_that_ended_well_waits_seconds_for_a_dead_one(network, job, kinds):
    done = kinds.index("cpprun")
    if kinds[1 - done] == "torchrun" and done == 1:
        pytest.skip("that is the death of the store's host")
    hosts, agents, workers = start(job, network, kinds, conf=FAST)
    workers[done].finish()
    with job.store() as store:
        key = "torch.rendezvous.job1.0/torchelastic/agent/terminal_state/num_members"
        processes.wait_until(lambda: store.has(key), 10, "the exit barrier")
    agents[1 - done].kill()
    agents[done].wait(20)
    assert hosts[1 - done].name in agents[done].stderr, agents[done]


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_B95_who_has_ended_leaves_after_the_exit_barriers_time_and_the_others_go_on(network, job, backend):
    hosts = network.add_hosts("node1", "node2")
    for rank, host in enumerate(hosts):
        options = ["--exit-barrier-timeout=2"]
        job.static("cpprun", host, rank, *options) if backend == "static" else job.c10d("cpprun", host, *options)
    workers = job.wait_for_workers(*hosts)
    workers[1].finish()
    assert job.agents[1].wait(10) == 0
    assert "have not ended within 2 s" in job.agents[1].stderr
    time.sleep(3)
    assert workers[0].running
    job.finish()
    assert job.agents[0].wait(20) == 0, job.agents


@pytest.mark.parametrize("timeout", ["0", "2", "inf"])
@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_B95_who_serves_a_store_stays_until_all_have_ended(network, job, backend, timeout):
    hosts = network.add_hosts("node1", "node2")
    for rank, host in enumerate(hosts):
        options = [f"--exit-barrier-timeout={timeout}"]
        job.static("cpprun", host, rank, *options) if backend == "static" else job.c10d("cpprun", host, *options)
    workers = job.wait_for_workers(*hosts)
    workers[0].finish()
    time.sleep(5)
    assert [agent.code for agent in job.agents] == [None, None] and workers[1].running, job.agents
    job.finish()
    assert job.wait(20) == [0, 0], job.agents


@kinds("cc", "ct", "tc")
def test_a_node_that_ended_well_hears_signals(network, job, kinds):
    done = kinds.index("cpprun")
    hosts, agents, workers = start(job, network, kinds)
    workers[done].finish()
    with job.store() as store:
        key = "torch.rendezvous.job1.0/torchelastic/agent/terminal_state/num_members"
        processes.wait_until(lambda: store.has(key), 10, "the exit barrier")
    agents[done].send(15)
    agents[done].wait(3)


def test_a_pruned_node_comes_back_and_says_so(network, job):
    """Somebody takes it out of the shared state, as torchrun does with a node whose heartbeat it holds to be old."""
    hosts, agents, workers = start(job, network, ["cpprun", "cpprun"], nodes="1:2", conf=FAST)
    with job.store() as store:
        state = job.state(store)
        (pruned,) = [node for node in state.participants if "node2" in node.addr]
        del state.participants[pruned], state.last_heartbeats[pruned]
        store.set("torch.rendezvous.job1", base64.b64encode(pickle.dumps(state)))
        processes.wait_until(lambda: len(job.state(store).participants) == 2, 30, lambda: f"two members; {agents}")
    agents[1].wait_for_line("no longer|removed|pruned|back", 10)
    job.finish()
    assert job.wait() == [0, 0], agents


@pytest.mark.parametrize("static", [True, False], ids=["static", "c10d"])
def test_B39_a_limit_for_the_whole_job_counts_the_failures_of_all_nodes(network, job, static):
    """One restart: the first node's failure takes it, the second node's ends the job."""
    hosts = network.add_hosts("node1", "node2")
    options = ["--max-restarts=9", "--max-job-restarts=1"]
    agents = [job.static("cpprun", host, rank, *options) if static else job.c10d("cpprun", host, *options)
              for rank, host in enumerate(hosts)]
    workers = job.wait_for_workers(*hosts)
    workers[0].finish(3)
    workers = job.wait_for_workers(*hosts, start=1, seconds=20)
    workers[1].finish(37)
    assert job.wait(30) == [1, 1], agents
    assert "no restart: the job has had its 1 restarts of --max-job-restarts" in agents[1].stderr, agents
    assert "37" in agents[0].stderr, agents


def test_B39_ranks_of_several_nodes_that_fail_together_are_one_restart(network, job):
    hosts = network.add_hosts("node1", "node2")
    agents = [job.c10d("cpprun", host, "--max-restarts=9", "--max-job-restarts=2") for host in hosts]
    for start in (0, 1):
        workers = job.wait_for_workers(*hosts, start=start, seconds=20)
        for worker in workers:
            worker.finish(3)
    job.wait_for_workers(*hosts, start=2, seconds=20)
    job.finish()
    assert job.wait(30) == [0, 0], agents


def test_B39_a_limit_for_changes_of_the_nodes_ends_the_job(network, job):
    """One node is killed and replaced three times; two changes are allowed."""
    hosts = network.add_hosts("node1", "node2")
    options = ["--max-membership-changes=2", "--max-restarts=0"]
    first = job.c10d("cpprun", hosts[0], *options)
    for start in range(3):
        other = job.c10d("cpprun", hosts[1], *options)
        job.wait_for_workers(*hosts, start=start, seconds=30)
        other.kill()
    last = job.c10d("cpprun", hosts[1], *options)
    assert [first.wait(30), last.wait(30)] == [1, 1], job.agents
    said = r"the nodes of the run have changed 3 times \(came: node2\S*; gone: node2\S*\), and " \
           r"--max-membership-changes=2 allows no more"
    for agent in (first, last):
        assert re.search(said, agent.stderr), agent
    assert len(job.workers()) == 6 and not job.running(), job.workers()


def test_B39_a_node_that_comes_and_goes_is_held_back_with_a_word(network, job):
    hosts = network.add_hosts("node1", "node2")
    first = job.c10d("cpprun", hosts[0], nodes="1:2", conf="last_call_timeout=1")
    job.wait_for_workers(hosts[0])
    for start in range(3):
        other = job.c10d("cpprun", hosts[1], nodes="1:2", conf="last_call_timeout=1")
        job.wait_for_workers(hosts[1], start=start, seconds=60)
        if start < 2:
            other.kill()
    first.wait_for_line(r"node2\S* has to wait for up to \d+ s to be let in: nodes that came or went have ended \d rounds")
    job.finish()
    assert first.wait(60) == 0 and other.wait(60) == 0, job.agents


def test_B21_all_agents_end_soon_after_a_final_failure_whatever_state_the_others_are_in(network, job):
    """The failure is on node 2, while node 3 is frozen and node 1 hosts the store."""
    hosts, agents, workers = start(job, network, ["cpprun"] * 3, "--shutdown-timeout=2", nodes="3")
    agents[2].send(19)
    workers[1].finish(5)
    assert [agents[0].wait(30), agents[1].wait(30)] == [1, 1], agents
    agents[2].send(18)
    assert agents[2].wait(30) != 0, agents
    wait_until_ended(workers, 10)
