# SPDX-License-Identifier: BSD-3-Clause
"""The shared state of a c10d job against the real torch: what one side writes, the other reads as the same state."""
import base64
import datetime
import json
import pickle
import random
import subprocess
import time

import pytest
import torch.distributed.elastic.rendezvous.dynamic_rendezvous as rendezvous
from harness import launchers

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
FIXTURES = launchers.REPOSITORY / "tests/fixtures/rendezvous/states.json"


class Tool:
    """The program that reads and writes states with cpprun's code."""

    def __init__(self):
        path = launchers.cpprun_binary().parents[1] / "tests/unit/rendezvous/rendezvous_state_tool"
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(10) == 0


@pytest.fixture(scope="module")
def tool():
    made = Tool()
    yield made
    made.close()


def ticks(moment):
    if moment is None:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


def key(node):
    return [node.addr, node.pid, node.local_id]


def by_bytes(entry):
    return [entry[0].encode("utf-8"), *entry[1:]]


def plain(state):
    """A state of torch's as the tool shows it."""
    return {
        "round": state.round, "complete": state.complete, "deadline": ticks(state.deadline), "closed": state.closed,
        "participants": sorted(([*key(node), rank] for node, rank in state.participants.items()), key=by_bytes),
        "wait_list": sorted(map(key, state.wait_list), key=by_bytes),
        "redundancy_list": sorted(map(key, state.redundancy_list), key=by_bytes),
        "last_heartbeats": sorted(([*key(node), ticks(beat)] for node, beat in state.last_heartbeats.items()),
                                  key=by_bytes),
    }


def stored(state, protocol=pickle.DEFAULT_PROTOCOL):
    return base64.b64encode(pickle.dumps(state, protocol)).decode()


def loaded(text):
    state = pickle.loads(base64.b64decode(text))
    assert type(state) is rendezvous._RendezvousState
    return state


class Maker:
    """Random states, as torch's own classes."""

    def __init__(self, seed, aware=True):
        self.random, self.aware = random.Random(seed), aware

    def moment(self):
        moment = EPOCH + datetime.timedelta(microseconds=self.random.randrange(-10**15, 4 * 10**15))
        return moment if self.aware else moment.replace(tzinfo=None)

    def node(self):
        host = self.random.choice(["", "a", "nürnberg", "node.example", "::1", "n" * self.random.randrange(600)])
        pid = self.random.choice([1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**40, -1])
        return rendezvous._NodeDesc(host, pid, self.random.randrange(3))

    def state(self, nodes):
        state = rendezvous._RendezvousState()
        state.round = self.random.choice([0, 1, 300, 70_000, 2**33])
        state.complete, state.closed = self.random.random() < 0.5, self.random.random() < 0.5
        state.deadline = self.random.choice([None, self.moment()])
        for _ in range(nodes):
            node = self.node()
            place = self.random.randrange(3)
            if place == 0:
                state.participants[node] = self.random.randrange(5000)
            else:
                (state.wait_list if place == 1 else state.redundancy_list).add(node)
            # Sometimes another object for the same node, as after a merge of two agents' views.
            state.last_heartbeats[rendezvous._NodeDesc(*key(node)) if self.random.random() < 0.3 else node] = self.moment()
        return state


@pytest.mark.parametrize("aware,dialect", [(True, "aware"), (False, "redundancy")])
@pytest.mark.parametrize("protocol", [4, 5])
def test_what_torch_writes_is_read(tool, aware, dialect, protocol):
    maker = Maker(protocol, aware)
    for count in [*range(1, 12)] * 10 + [300, 1000, 1001, 2000]:
        state = maker.state(count)
        answer = tool.ask(decode=stored(state, protocol))
        assert answer == {"state": plain(state), "dialect": dialect, "certain": True, "mixed": "", "unknown": []}


@pytest.mark.parametrize("dialect", ["fqdn", "addr", "redundancy", "aware"])
def test_what_cpprun_writes_is_read_by_torch(tool, dialect):
    maker = Maker(7)
    for count in [*range(12)] * 10 + [300, 4096]:
        wanted = maker.state(count)
        state = loaded(tool.ask(encode=plain(wanted), dialect=dialect)["stored"])
        if not hasattr(state, "redundancy_list"):  # as torch before 2.3 had it
            assert dialect in ("fqdn", "addr") and not wanted.redundancy_list
            state.redundancy_list = set()
        assert plain(state) == plain(wanted)
        times = [*state.last_heartbeats.values(), *([state.deadline] if state.deadline else [])]
        assert all((moment.tzinfo is UTC) == (dialect == "aware") for moment in times)
        # Python's nodes are found by torch's own, by hash and by equality.
        assert state.participants == wanted.participants and state.wait_list == wanted.wait_list
        for node in wanted.last_heartbeats:
            assert node in state.last_heartbeats
        assert sorted(state.participants) == sorted(wanted.participants)
        # And torch writes it on.
        assert tool.ask(decode=stored(state))["state"] == plain(wanted)


def test_torch_can_go_on_with_a_state_that_cpprun_has_begun(tool):
    empty = plain(rendezvous._RendezvousState())
    state = loaded(tool.ask(encode=empty, dialect="aware")["stored"])
    node = rendezvous._NodeDesc("n", 1, 0)
    state.participants[node] = 0
    state.last_heartbeats[node] = datetime.datetime.now(UTC)
    state.wait_list.discard(node)
    answer = tool.ask(decode=stored(state))
    assert (answer["state"], answer["dialect"]) == (plain(state), "aware")


def test_attributes_of_a_later_torch_survive(tool):
    state = Maker(3).state(4)
    node = next(iter(state.last_heartbeats))
    extra = {
        "epoch": 2**70, "ratio": -0.5, "tags": ["a", ("b", b"\x00\xff"), {1: None, "x": {True, False}}], "big": -(2**63),
        "leader": node, "started": datetime.datetime.now(UTC), "span": datetime.timedelta(1, 2, 3), "long": "ä" * 400,
        "empty": [(), [], {}, set(), "", b""], "kind": datetime.datetime, "bytes": b"x" * 1000,
    }
    for name, value in extra.items():
        setattr(state, name, value)
    first = stored(state)
    answer = tool.ask(decode=first)
    assert answer["unknown"] == list(extra) and answer["state"] == plain(state)
    again = loaded(tool.ask(encode=answer["state"], dialect="aware", unknown_of=first)["stored"])
    assert {name: getattr(again, name) for name in extra} == extra
    assert plain(again) == plain(state)


def test_recorded_states_are_what_torch_reads(tool):
    for vector in json.loads(FIXTURES.read_text()):
        if vector["dialect"] != "fqdn":
            assert plain(loaded(vector["stored"])) == vector["state"], vector["name"]
        assert tool.ask(decode=vector["stored"])["state"] == vector["state"], vector["name"]


def test_foreign_values_are_refused_with_words(tool):
    class Harmful:
        def __reduce__(self):
            return print, ("executed",)

    state = rendezvous._RendezvousState()
    state.extra = Harmful()
    assert "'builtins.print' has no place in a rendezvous state" in tool.ask(decode=stored(state))["error"]
    state.extra = frozenset()
    assert "opcode 0x91" in tool.ask(decode=stored(state))["error"]
    for value in ([1], "text", {"round": 0}, datetime.datetime.now()):
        assert "in the place of a state" in tool.ask(decode=stored(value))["error"]


def test_four_thousand_nodes_take_little_room_and_time(tool):
    state = rendezvous._RendezvousState()
    for number in range(4096):
        node = rendezvous._NodeDesc(f"node{number:04}.rack17.cluster.example.com", 100_000 + number, 0)
        state.participants[node], state.last_heartbeats[node] = number, datetime.datetime.now(UTC)
    state.complete = True
    by_torch = stored(state)
    began = time.monotonic()
    answer = tool.ask(decode=by_torch)
    by_cpprun = tool.ask(encode=answer["state"], dialect="aware")["stored"]
    assert time.monotonic() - began < 5  # with all the JSON; against growth with the square
    assert len(by_cpprun) <= len(by_torch)
    assert plain(loaded(by_cpprun)) == plain(state)
