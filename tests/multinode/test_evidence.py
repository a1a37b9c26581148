# SPDX-License-Identifier: BSD-3-Clause
"""What the nodes of a job know of each other's failures: who was first, what a lost one said, who is where."""
import json
import pathlib
import time

import pytest
from harness import launchers, processes

# On rank 3 the place is another one.
PLACES = """import faulthandler, os, signal, time
faulthandler.register(getattr(signal, os.environ["CPPRUN_STACK_SIGNAL"]))
open(os.environ["JOB"] + "/here." + os.environ["RANK"], "w").close()
def together():
    time.sleep(300)
def alone():
    time.sleep(300)
alone() if os.environ["RANK"] == "3" else together()
"""
# Ranks 0 and 2 are local rank 0 of their nodes, and fail: 2 some 30 ms after the process of 0 has ended. The others stay
# for a while, so that both nodes have failures of their own.
FAILING = """#!/bin/sh
echo $$ > $JOB/pid.$RANK
case $RANK in
    0) until test -s $JOB/pid.1 -a -s $JOB/pid.2 -a -s $JOB/pid.3; do sleep 0.02; done
       echo "ValueError: the first" >&2; exit 37 ;;
    2) until test -s $JOB/pid.0; do sleep 0.02; done
       read -r pid < $JOB/pid.0
       while grep -q '^State:.[^ZX]' /proc/$pid/status 2> /dev/null; do sleep 0.005; done
       sleep 0.03
       echo "ValueError: the second" >&2; exit 38 ;;
esac
trap 'sleep 1; exit 1' TERM
while :; do sleep 0.05; done
"""
TALKING = """#!/bin/sh
echo "step 1 of rank $RANK" >&2
printf '\\033[2Jlast words of rank %s\\n' $RANK >&2
: > $JOB/said.$RANK
until test -e $JOB/go; do sleep 0.05; done
"""


def _two(job, network, backend, *options, script, env=({}, {}), nodes="2"):
    """Two agents, the first of which hosts the store, with workers of their own."""
    hosts = network.add_hosts("node1", "node2")
    job.script.write_text(script)
    agents = []
    for rank, host in enumerate(hosts):
        if backend == "static":
            agents.append(job.static("cpprun", host, rank, *options, env=env[rank]))
        else:
            agents.append(job.c10d("cpprun", host, *options, "--node-rank", str(rank), nodes=nodes, env=env[rank]))
    return hosts, agents


def _wait_for(job, *names):
    processes.wait_until(lambda: all((job.folder / name).exists() for name in names), 60, lambda: f"{names}; {job.agents}")


def _events(path, name):
    if not path.exists():
        return []
    return [event for event in map(json.loads, path.read_text().splitlines()) if event["event"] == name]


@pytest.mark.parametrize("backend", ["static", "c10d"])
@pytest.mark.parametrize("asked", [0, 1])
def test_a_question_to_one_node_is_answered_by_all_and_the_odd_rank_is_named(network, job, backend, asked, tmp_path):
    python = launchers.python_with_torch()
    files = [tmp_path / "events.0", tmp_path / "events.1"]
    script = f"#!{python}\n{PLACES}"
    hosts, agents = _two(job, network, backend, "--nproc-per-node=2", "--stack-signal=USR1", "--omp-threads=1", script=script,
                         env=[{"CPPRUN_EVENTS": file} for file in files])
    _wait_for(job, *(f"here.{rank}" for rank in range(4)))
    for count in range(1, 20):  # a worker that has said that it is there may still be on its way
        agents[asked].send(12)
        answers = [processes.wait_until(lambda: _events(file, "evidence_of_all")[count - 1:], 30,
                                        lambda: f"evidence; {agents}")[0] for file in files]
        if all(len(answer["places"]) == 2 for answer in answers):
            break
    for known in answers:
        assert known["odd_ranks"] == [3] and {tuple(place["ranks"]) for place in known["places"]} == {(0, 1, 2), (3,)}, agents
    agents[0].send(15)
    job.wait()
    assert all("; rank 3 stands out" in agent.stderr for agent in agents), agents
    assert f"asked for by {hosts[asked].name}" in agents[1 - asked].stderr, agents


@pytest.mark.parametrize("clocks", [(0, 0), (0, 3600), (3600, 0), (0, -3600)], ids=["right", "second_ahead", "first_ahead", "second_behind"])
@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_B55_of_two_nodes_that_fail_shortly_after_each_other_all_name_the_first_whatever_their_clocks(network, job, backend, clocks):
    preload = pathlib.Path(launchers.cpprun_binary()).parents[1] / "tests/fake_clock/libcpprun_fake_clock.so"
    if any(clocks) and not preload.exists():
        pytest.skip("the fake clock is not built")
    env = [{"LD_PRELOAD": preload, "CPPRUN_FAKE_CLOCK_STEP": str(step)} if step else {} for step in clocks]
    hosts, agents = _two(job, network, backend, "--nproc-per-node=2", "--omp-threads=1", script=FAILING, env=env)
    assert job.wait() == [1, 1], agents
    for agent in agents:
        verdict = agent.stderr.splitlines()[-1]
        assert verdict.startswith(f"verdict   : rank 0 on {hosts[0].name}") and "failed first" in verdict, agents
        assert "with exit code 37" in verdict, agents
    assert f"; rank 2 on {hosts[1].name} followed" in agents[1].stderr.splitlines()[-1], agents
    assert any(line.startswith("job       : rank 0 on ") and line.endswith(", the first") for line in agents[0].stderr.splitlines()), agents


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_the_last_words_of_a_killed_node_are_known_to_the_other(network, job, backend, tmp_path):
    events = tmp_path / "events"
    hosts, agents = _two(job, network, backend, "--nproc-per-node=2", "--omp-threads=1", "--max-restarts=1", script=TALKING,
                         env=[{"CPPRUN_EVENTS": events}, {}], nodes="1:2")
    _wait_for(job, *(f"said.{rank}" for rank in range(4)))
    time.sleep(2)  # what is written is told once a second
    agents[1].kill()
    found = processes.wait_until(lambda: _events(events, "last_words"), 30, lambda: f"last words; {agents}")[0]
    assert hosts[1].name in found["node"] and [one["rank"] for one in found["ranks"]] == [2, 3], agents
    (job.folder / "go").touch()
    agents[0].send(15)
    agents[0].wait(30)
    lines = agents[0].stderr.splitlines()
    assert any(line.startswith("---- cpprun: last words of node2") and line.endswith(", which is lost") for line in lines), agents
    assert "  | [rank 3] [2Jlast words of rank 3" in lines, agents


def test_last_words_stay_at_home_when_the_user_says_so(network, job, tmp_path):
    hosts, agents = _two(job, network, "static", "--nproc-per-node=2", "--omp-threads=1", "--max-restarts=1",
                         "--share-last-words=off", script=TALKING)
    _wait_for(job, *(f"said.{rank}" for rank in range(4)))
    time.sleep(2)
    agents[1].kill()
    processes.wait_until(lambda: "Lost node 1" in agents[0].stderr, 30, lambda: f"the loss; {agents}")
    agents[0].send(15)
    agents[0].wait(30)
    assert "last words" not in agents[0].stderr.replace("[2Jlast words of rank", ""), agents
