# SPDX-License-Identifier: BSD-3-Clause
"""User cases of networking in networks of their own: B89, B92, B93."""
import subprocess
import sys
import time

import pytest
from harness import launchers, namespaces

STORE = launchers.cpprun_binary().parents[1] / "tests/integration/store/store_host_program"

# What init_process_group asks of a store, and no more: the backends have network troubles of their own.
MEET = r"""
import os
from datetime import timedelta
import torch.distributed as dist
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"]), False,
                      timedelta(seconds=30))
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store.set(f"here/{rank}", "yes")
store.wait([f"here/{other}" for other in range(world)])
"""

TALK = r"""
import sys
import torch.distributed as dist
from datetime import timedelta
store = dist.TCPStore(sys.argv[1], int(sys.argv[2]), None, False, timedelta(seconds=30))
store.set("k", "v")
print(store.get("k").decode(), store.add("n", 1))
"""


@pytest.fixture
def network(tmp_path):
    """Makes networks, and closes them with the test."""
    namespaces.require()
    made = []

    def make(**options):
        made.append(namespaces.Network(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Store:
    """Our store in a network; ends with the test."""

    def __init__(self, network, *arguments):
        self.process = subprocess.Popen([*network.wrapper(), STORE, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.port = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.complaints = self.process.communicate(timeout=20)[1]


def visit(network, address, port, milliseconds=5000):
    """A visit of our client: its exit code, what it said, how long it took."""
    began = time.monotonic()
    result = network.run(STORE, "connect", address, port, milliseconds)
    return result.returncode, result.stdout.strip(), time.monotonic() - began


def talk(network, address, port):
    """A visit of torch's client."""
    result = network.run(launchers.python_with_torch(), "-c", TALK, address, port)
    return result.stdout.strip() or result.stderr


@pytest.mark.parametrize("launch", [
    ["--standalone"],
    ["--rdzv-backend=static", "--master-addr=localhost", "--master-port=29511"],
    ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29512"],
], ids=["standalone", "static", "c10d"])
def test_B93_without_ipv6_jobs_run_and_nobody_says_a_word(place, network, launch):
    alone = network(ipv6=False)
    place.write("meet.py", MEET)
    # torch's client says that it found no name for its peer; that is about the name service, which is missing here.
    result = place.run(*launch, "--nproc-per-node=2", "meet.py", wrapper=alone.wrapper(place.cwd),
                       env={"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"})
    assert (result.code, result.stdout, result.stderr) == (0, "", ""), result


@pytest.mark.parametrize("scope", ["loopback", "all"])
def test_B93_without_ipv6_the_store_listens_quietly_on_ipv4(network, scope):
    alone = network(ipv6=False)
    with Store(alone, scope) as store:
        assert visit(alone, "127.0.0.1", store.port)[:2] == (0, "1")
        assert talk(alone, "localhost", store.port) == "v 2"
    assert store.complaints == ""


@pytest.mark.parametrize("scope", ["loopback", "all"])
def test_B93_without_ipv4_the_store_listens_quietly_on_ipv6(network, scope):
    alone = network()
    alone.shell("ip addr del 127.0.0.1/8 dev lo")
    with Store(alone, scope) as store:
        assert visit(alone, "::1", store.port)[:2] == (0, "1")
        assert talk(alone, "::1", store.port) == "v 2"
    assert store.complaints == ""


def test_B93_a_name_with_nothing_but_an_unusable_family_fails_at_once(network):
    alone = network(ipv6=False)
    alone.replace("/etc/hosts", "::1 localhost\n")
    code, said, seconds = visit(alone, "localhost", 29513, 60_000)
    assert code == 1
    assert said.startswith("no store at localhost:29513: [::1]:29513: Cannot assign requested address (1 try, "), said
    assert seconds < 2


def test_B93_a_name_with_two_families_is_reached_by_the_one_that_works(network):
    alone = network(ipv6=False)
    alone.replace("/etc/hosts", "::1 both\n127.0.0.1 both\n")
    with Store(alone, "loopback") as store:
        code, said, seconds = visit(alone, "both", store.port)
        assert (code, said) == (0, "1")
    assert seconds < 2


def test_B89_a_silent_resolver_does_not_outlast_the_time_to_connect(network):
    alone = network()
    alone.replace("/etc/resolv.conf", "nameserver 127.0.0.7\n")
    silent = subprocess.Popen([*alone.wrapper(), sys.executable, "-c", "import socket, sys\n"
                               "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('127.0.0.7', 53))\n"
                               "print('ready', flush=True)\nsys.stdin.read()"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    silent.stdout.readline()
    code, said, seconds = visit(alone, "node0.cluster", 29514, 1500)
    silent.communicate(timeout=20)
    assert code == 1
    assert "the name 'node0.cluster' cannot be resolved: no answer from the resolver in 15" in said, said
    assert 1.4 < seconds < 3


def test_B92_a_foreign_peer_is_refused_with_one_line_and_others_are_served(network):
    ours, theirs = network(), network()
    ours.connect(theirs, ["10.77.0.1/24", "10.78.0.1/24", "fd77::1/64"], ["10.77.0.2/24", "10.78.0.2/24", "fd77::2/64"])
    foreign = "import socket, sys\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10, (sys.argv[3], 0))\n" \
              "s.settimeout(10)\ntry: print(s.recv(1))\nexcept ConnectionError: print(b'')"
    with Store(ours, "all", "0", "0", "10.77.0.0/24", "fd99::/64") as store:
        assert talk(theirs, "10.77.0.1", store.port) == "v 1"
        for source in ("10.78.0.2", "10.78.0.2", "fd77::2"):
            target = source.replace("2", "1") if ":" in source else "10.78.0.1"
            refused = theirs.run(sys.executable, "-c", foreign, target, store.port, source)
            assert refused.stdout == "b''\n", refused.stderr
        assert visit(theirs, "fd77::1", store.port, 500)[0] == 1
        # This machine itself, by an address that is in no list.
        assert visit(ours, "10.78.0.1", store.port)[:2] == (0, "2")
        assert visit(ours, "127.0.0.1", store.port)[:2] == (0, "3")
    lines = store.complaints.splitlines()
    assert len(lines) == 2, lines
    assert lines[0].startswith("store: refused 10.78.0.2:") and lines[0].endswith(": not an allowed address")
    assert lines[1].startswith("store: refused [fd77::2]:")


def test_B92_a_bind_address_that_is_not_this_machines_is_an_error_with_the_options_name(place):
    result = place.run("--no-python", "--store-bind=192.0.2.1", "true")
    assert result.code == 1
    assert "argument --store-bind/--store_bind: cannot listen on 192.0.2.1: Cannot assign requested address" in result.stderr


def test_B92_what_the_store_says_of_a_stranger_is_one_line_of_the_launch(place):
    place.write("knock.py", "import os, socket\n"
                "s = socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])))\n"
                "s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')\nassert not s.recv(1)\n")
    result = place.run("--nproc-per-node=1", "knock.py")
    assert result.code == 0
    [line] = [line for line in result.stderr.splitlines() if "store: dropped" in line]
    assert line.split("] ", 1)[1].startswith("store: dropped 127.0.0.1:"), line
