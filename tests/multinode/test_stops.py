# SPDX-License-Identifier: BSD-3-Clause
"""Agents that are frozen or killed at random moments around a final failure: CPPRUN_LONG=1 for the full count,
CPPRUN_SEED for one round."""
import os
import random
import signal
import time

from jobs import Job, wait_until_ended

ROUNDS = 100 if os.environ.get("CPPRUN_LONG") == "1" else 4
OPTIONS = ["--shutdown-timeout=2"]


def one_round(network, folder, seed):
    """A worker fails; before or after that one or two of the other agents stand still or are killed."""
    chance = random.Random(f"stops {seed}")
    job = Job(network, folder)
    static = chance.random() < 0.4
    agents = [job.static("cpprun", host, rank, *OPTIONS, nodes=3) if static else
              job.c10d("cpprun", host, *OPTIONS, nodes="3", conf="join_timeout=8", run_id=f"stops{seed}")
              for rank, host in enumerate(network.hosts)]
    workers = job.wait_for_workers(*network.hosts)
    victims = chance.sample(range(3), 3)
    failing = victims.pop()
    disturbed = {victim: chance.choice([signal.SIGSTOP, signal.SIGKILL]) for victim in victims[:chance.choice([1, 1, 2])]}
    acts = [(chance.uniform(0, 1), lambda: workers[failing].finish(5))]
    acts += [(chance.uniform(0, 1), lambda victim=victim, number=number: agents[victim].send(number))
             for victim, number in disturbed.items()]
    began = time.monotonic()
    for at, act in sorted(acts, key=lambda pair: pair[0]):
        time.sleep(max(0.0, began + at - time.monotonic()))
        act()
    described = (f"seed {seed}, {'static' if static else 'c10d'}: node {failing + 1} fails, "
                 f"{ {victim + 1: number.name for victim, number in disturbed.items()} }")
    for index, agent in enumerate(agents):
        if disturbed.get(index) != signal.SIGSTOP:
            assert agent.wait(60) != 0, f"{described}: {agents}"
    for index, number in disturbed.items():
        if number == signal.SIGSTOP:
            agents[index].send(signal.SIGCONT)
            assert agents[index].wait(60) != 0, f"{described}: {agents}"
    wait_until_ended(job.workers(), 30)


def test_B21_no_agent_lives_long_after_a_failure_whoever_is_frozen_or_killed(network, tmp_path):
    """No agent that can run lives 60 s after the failure; one that was frozen ends when it goes on; no worker is left."""
    network.add_hosts("node1", "node2", "node3")
    given = os.environ.get("CPPRUN_SEED")
    for seed in [int(given)] if given else range(ROUNDS):
        one_round(network, tmp_path / f"round{seed}", seed)
