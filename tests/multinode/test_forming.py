# SPDX-License-Identifier: BSD-3-Clause
"""Nodes find each other, work, and end: with each launcher in each role. What torchrun does alone is the baseline, and
holds this kit to the truth. Where it stands here with a job of cpprun alone, torchrun does something worse."""
import re

import pytest
from jobs import kinds, run_together


@kinds("tt", "ct", "tc", "cc")
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


@kinds("tt", "ct", "tc", "cc")
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


@kinds("tt", "ct", "tc", "cc")
def test_B77_c10d_where_the_host_comes_last(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    job.c10d(kinds[1], hosts[1])
    network.hosts[1].run("sleep", "1")
    job.c10d(kinds[0], hosts[0])
    run_together(job.wait_for_workers(*hosts))
    job.finish()
    assert job.wait() == [0, 0], job.agents


@kinds("tt", "ct", "tc", "cc")
def test_nodes_of_different_sizes(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    for size, (kind, host) in enumerate(zip(kinds, hosts), 1):
        job.c10d(kind, host, f"--nproc-per-node={size}")
    workers = [*job.wait_for_workers(*hosts), *job.wait_for_workers(hosts[1], local_rank=1)]
    run_together(workers)
    job.finish()
    assert job.wait() == [0, 0], job.agents


@kinds("t", "c")
def test_one_node_of_one_to_two_starts_after_the_last_call(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    job.c10d(kinds[0], hosts[0], nodes="1:2", conf="last_call_timeout=1")
    (worker,) = job.wait_for_workers(hosts[0])
    assert (worker.rank, worker.world) == (0, 1)
    job.finish()
    assert job.wait() == [0], job.agents


@kinds("tt", "ct", "tc", "cc")
def test_by_ipv6(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    # torchrun does not find out by itself: it asks only for the addresses of its name.
    conf = {hosts[0]: "is_host=1" if kinds[0] == "torchrun" else ""}
    for kind, host in zip(kinds, hosts):
        job.c10d(kind, host, f"--rdzv-endpoint=[{hosts[0].address6}]:29400", conf=conf.get(host, ""))
    run_together(job.wait_for_workers(*hosts))
    job.finish()
    assert job.wait() == [0, 0], job.agents


@kinds("tt", "ct", "tc", "cc")
def test_over_a_lossy_link(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    hosts[1].lose(5)
    for kind, host in zip(kinds, hosts):
        job.c10d(kind, host)
    run_together(job.wait_for_workers(*hosts, seconds=90))
    job.finish()
    assert job.wait(90) == [0, 0], job.agents


@pytest.mark.parametrize("given,expected", [
    (None, [0, 1]), ([1, 0], [1, 0]),
    ([0, 0], [0, 1]), ([5, 0], [0, 1])])
def test_ranks_are_those_wished_for_or_follow_the_numbers_in_the_names(network, job, given, expected):
    hosts = network.add_hosts("node2", "node10")
    for number, host in enumerate(hosts):
        job.c10d("cpprun", host, *([f"--node-rank={given[number]}"] if given else []))
    workers = job.wait_for_workers(*hosts)
    assert [worker.rank for worker in workers] == expected
    run_together(workers)
    if expected != given and given:
        assert "node-rank" in "".join(agent.stderr for agent in job.agents)
    job.finish()
    assert job.wait() == [0, 0], job.agents


@pytest.mark.parametrize("order,expected", [("natural", [1, 2, 0]), ("lexicographic", [2, 0, 1]), ("host-first", [0, 2, 1])])
def test_B75_B76_the_order_of_nodes_can_be_chosen(network, job, order, expected):
    hosts = network.add_hosts("node9", "node10", "node2")  # the first one hosts
    for host in hosts:
        job.c10d("cpprun", host, f"--rank-order={order}", "--max-restarts=1", nodes="3")
    workers = job.wait_for_workers(*hosts)
    assert [worker.rank for worker in workers] == expected
    workers[0].finish(3)
    again = job.wait_for_workers(*hosts, start=1, seconds=20)
    assert [worker.rank for worker in again] == expected
    job.finish()
    assert job.wait() == [0, 0, 0], job.agents


def test_B89_the_workers_address_is_none_of_the_loopback_device(network, job):
    hosts = network.add_hosts("node1", "node2")
    for host in hosts:  # as some distributions have it
        others = [pair for pair in network.names() if pair[0] != host.address]
        host.know([("127.0.1.1", f"{host.fqdn} {host.name}"), *others])
    for host in hosts:
        job.c10d("cpprun", host)
    workers = job.wait_for_workers(*hosts)
    run_together(workers)
    assert workers[0].master[0] == hosts[0].address
    job.finish()
    assert job.wait() == [0, 0], job.agents


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_B77_B85_a_lonely_node_says_whom_it_waits_for_and_what_was_missing(network, job, backend):
    host = network.add_host("node1")
    if backend == "static":
        agent = job.static("cpprun", host, 0, "--rdzv-conf=timeout=4")
    else:
        agent = job.c10d("cpprun", host, conf="join_timeout=4")
    agent.wait_for_line("1 of 2|waiting for node rank 1", 15)
    assert agent.wait(30) == 1
    assert re.search("node rank 1|1 of (at least )?2", agent.stderr.partition("error: ")[2]), agent
    waiting = [line for line in agent.stderr.splitlines() if re.search("waiting for node|1 of (at least )?2", line)]
    assert len(waiting) == 2 and not any(" 0 s" in line for line in waiting), agent  # one word, and the error


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_a_waiting_node_hears_signals(network, job, backend):
    host = network.add_host("node1")
    agent = job.static("cpprun", host, 0) if backend == "static" else job.c10d("cpprun", host)
    agent.wait_for_line("1 of 2|waiting for node rank 1", 15)
    agent.send(15)
    assert agent.wait(3) != 0


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_B77_a_name_that_does_not_resolve_is_said_at_once(network, job, backend):
    host = network.add_host("node1")
    if backend == "static":
        agent = job.static("cpprun", host, 1, "--master-addr=nosuch.invalid")
    else:
        agent = job.c10d("cpprun", host, "--rdzv-endpoint=nosuch.invalid:29400")
    agent.wait_for_line("nosuch[.]invalid.*(resolve|address)", 5)
    agent.send(15)
    assert agent.wait(3) != 0


@kinds("cc")
def test_B73_an_alias_of_the_endpoints_host_is_known_as_such(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    for host in hosts:
        host.know([*network.names(), (hosts[0].address, "service.cluster")])
    for host in hosts:
        job.c10d("cpprun", host, "--rdzv-endpoint=service.cluster:29400", env={"LOGLEVEL": "INFO"})
    workers = job.wait_for_workers(*hosts)
    run_together(workers)
    assert workers[0].master[0] != "service.cluster"
    job.finish()
    assert job.wait() == [0, 0], job.agents
    assert f"this node is the host because service.cluster resolves to {hosts[0].address}, which is here" in \
        job.agents[0].stderr, job.agents


@kinds("cc")
def test_B73_an_address_that_nobody_here_has_is_said_and_is_host_overrides_it(network, job, kinds):
    hosts = network.add_hosts("node1", "node2")
    elsewhere = "--rdzv-endpoint=203.0.113.7:29400"
    agent = job.c10d("cpprun", hosts[0], elsewhere)
    agent.wait_for_line("waiting for the store at 203[.]0[.]113[.]7:29400 .*this node is not the host because "
                        "no interface here has the address 203[.]0[.]113[.]7", 20)
    agent.send(15)
    assert agent.wait(20) == 1
    job.agents.clear()
    # As behind a service whose address leads to the host.
    hosts[1].run("ip", "route", "add", "203.0.113.7/32", "via", hosts[0].address)
    hosts[0].run("nft", "-f", "-", text="table ip service {\nchain in { type nat hook prerouting priority dstnat; "
                                        f"ip daddr 203.0.113.7 dnat to {hosts[0].address}; }}\n}}\n")
    job.c10d("cpprun", hosts[0], elsewhere, conf="is_host=1")
    job.c10d("cpprun", hosts[1], elsewhere, conf="is_host=0")
    run_together(job.wait_for_workers(*hosts))
    job.finish()
    assert job.wait() == [0, 0], job.agents


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_B90_addresses_that_were_given_are_not_turned_into_names(network, job, backend):
    hosts = network.add_hosts("node1", "node2")
    for host in hosts:
        host.know([(hosts[0].address, "fake-host"), (hosts[1].address, "fake-peer")])
    for rank, host in enumerate(hosts):
        if backend == "static":
            job.static("cpprun", host, rank, env={"LOGLEVEL": "DEBUG"})
        else:
            job.c10d("cpprun", host, env={"LOGLEVEL": "DEBUG"})
    workers = job.wait_for_workers(*hosts)
    run_together(workers)
    assert workers[0].master[0] in (hosts[0].address, hosts[1].address)
    job.finish()
    assert job.wait() == [0, 0], job.agents
    assert not re.search("fake-(host|peer)", "".join(agent.stderr + agent.stdout for agent in job.agents)), job.agents


def test_B85_nodes_of_one_c10d_run_that_want_other_sizes_are_refused(network, job):
    hosts = network.add_hosts("node1", "node2", "node3")
    first = job.c10d("cpprun", hosts[0], nodes="2")
    with job.store():
        pass
    other = job.c10d("cpprun", hosts[1], nodes="3")
    assert other.wait(30) == 1, other
    assert re.search("node1.*--nnodes=2:2, and this node with 3:3", other.stderr), other
    job.agents.remove(other)
    job.c10d("cpprun", hosts[2], nodes="2")
    run_together(job.wait_for_workers(hosts[0], hosts[2]))
    job.finish()
    assert job.wait() == [0, 0], (first, job.agents)


@pytest.mark.parametrize("nodes", ["1", "1:2"])
def test_B69_two_runs_on_one_endpoint_do_not_harm_each_other(network, job, tmp_path, nodes):
    host = network.add_host("node1")
    other = type(job)(network, tmp_path / "job2")
    first = job.c10d("cpprun", host, nodes=nodes, run_id="one")
    job.wait_for_workers(host)
    second = other.c10d("cpprun", host, nodes=nodes, run_id="two")
    try:
        other.wait_for_workers(host)
    except AssertionError:  # refused: with words that name the other run
        assert second.code == 1 and "one" in second.stderr, second
    job.finish()
    assert first.wait() == 0
    if second.code is None:
        network.hosts[0].run("sleep", "2")
        other.finish()
        assert second.wait() == 0, second


def test_B69_a_torchrun_agent_of_another_run_is_told_of(network, job, tmp_path):
    host = network.add_host("node1")
    other = type(job)(network, tmp_path / "job2")
    first = job.c10d("cpprun", host, nodes="1:2", run_id="one")
    job.wait_for_workers(host)
    second = other.c10d("torchrun", host, nodes="1:2", run_id="two")
    other.wait_for_workers(host)
    first.wait_for_line("the run 'two' uses this run's store", 5)
    other.finish()
    assert second.wait() == 0, second
    job.finish()
    assert first.wait() == 0 and first.stderr.count("'two'") == 1, first


@pytest.mark.parametrize("seconds", [20, -20, 8])
def test_a_clock_that_is_wrong_does_not_split_the_job(network, job, seconds):
    hosts = network.add_hosts("node1", "node2")
    ours = job.c10d("cpprun", hosts[0])
    job.c10d("torchrun", hosts[1], program=job.torchrun_with_clock(seconds))
    workers = job.wait_for_workers(*hosts)
    run_together(workers)
    assert {worker.env["GROUP_WORLD_SIZE"] for worker in workers} == {"2"}
    ours.wait_for_line("clock", 15)
    with job.store() as store:
        before = job.state(store).last_heartbeats
        hosts[0].run("sleep", "7")  # more than one heartbeat of each
        after = job.state(store).last_heartbeats
    assert before.keys() == after.keys() and all(after[node] > before[node] for node in before)
    job.finish()
    assert job.wait() == [0, 0], job.agents
