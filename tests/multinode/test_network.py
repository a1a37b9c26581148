# SPDX-License-Identifier: BSD-3-Clause
"""The network itself: hosts know each other, links can be spoilt and mended, and nothing stays behind."""
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from harness import network as networks
from harness import processes

ECHO = """
import socket, threading
sock = socket.create_server(("::", 7000), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
def serve(peer):
    while data := peer.recv(65536):
        peer.sendall(data)
while True:
    threading.Thread(target=serve, args=(sock.accept()[0],), daemon=True).start()
"""


def start_echo(host):
    server = host.start("python3", "-c", ECHO)
    server.wait_for_line("ready")
    return server


def answers(connection, seconds=0.5):
    connection.settimeout(seconds)
    try:
        connection.sendall(b"x")
        return connection.recv(1) == b"x"
    except TimeoutError:
        return False


def test_hosts_have_names_and_reach_each_other(network):
    one, two = network.add_hosts("alpha", "node10")
    assert two.run("hostname").strip() == "node10"
    start_echo(two)
    for address in (two.address, two.address6):
        assert answers(one.connect(address, 7000)), address
    ask = "import socket; print(socket.getfqdn(), socket.gethostbyname('node10'), socket.getaddrinfo('node10-6', 1)[0][4][0])"
    for host in (one, two):
        assert host.run(sys.executable, "-c", ask).split() == [host.fqdn, two.address, two.address6]


def test_a_cut_link_is_silent_and_can_be_mended(network):
    one, two, three = network.add_hosts("a", "b", "c")
    start_echo(two)
    from_one, from_three = one.connect(two.address, 7000), three.connect(two.address6, 7000)
    two.cut(one)
    assert not answers(from_one) and answers(from_three)
    two.cut()
    assert not answers(from_three)
    two.mend()
    for connection in (from_one, from_three):  # TCP repeats what was lost
        connection.settimeout(10)
        assert connection.recv(1) == b"x"
    one.unplug()
    assert "NO-CARRIER" in one.run("ip", "link", "show", "eth0")
    assert not answers(from_one)
    one.plug_in()
    assert answers(from_one, 10)


def test_a_lossy_link_loses_some(network):
    one, two = network.add_hosts("a", "b")
    receiver = two.start("python3", "-c", (
        "import socket\nsock = socket.socket(type=socket.SOCK_DGRAM)\nsock.bind(('', 7000))\nprint('ready', flush=True)\n"
        "count = 0\nwhile sock.recv(9) != b'end': count += 1\nprint('received', count, flush=True)"))
    receiver.wait_for_line("ready")
    one.lose(50)
    with one.network():
        sender = socket.socket(type=socket.SOCK_DGRAM)
    for _ in range(400):
        try:
            sender.sendto(b"x", (two.address, 7000))
        except PermissionError:  # how a sender hears of its own filter
            pass
    one.mend()
    sender.sendto(b"end", (two.address, 7000))
    assert 100 < int(receiver.wait_for_line(r"received (\d+)")[1]) < 300


def test_a_slow_link_takes_its_time(network):
    one, two = network.add_hosts("a", "b")
    start_echo(two)
    connection = one.connect(two.address, 7000)
    try:
        one.slow_down("1mbit")
    except networks.NotSupported as reason:
        pytest.skip(str(reason))
    size, began = 100_000, time.monotonic()
    threading.Thread(target=connection.sendall, args=(b"x" * size,)).start()
    while size:
        size -= len(connection.recv(65536))
    assert time.monotonic() - began > 0.5


def test_frozen_and_dead_hosts(network):
    one, two = network.add_hosts("a", "b")
    server = start_echo(two)
    connection = one.connect(two.address, 7000)
    two.freeze()
    assert not answers(connection)
    two.thaw()
    assert connection.recv(1) == b"x"
    two.lose_power()
    assert server.wait(5) == -9 and two.pids() == []
    assert not answers(connection)  # no reset, no end: silence


def test_all_that_a_process_started_is_killed_with_it(network):
    host = network.add_host()
    process = host.start("sh", "-c", "setsid sleep 1000 & setsid sh -c 'sleep 1000 & wait' & echo ready; wait")
    process.wait_for_line("ready")
    processes.wait_until(lambda: len(host.pids()) == 4, 5, "four processes")
    process.kill()
    processes.wait_until(lambda: not host.pids(), 5, "their end")


def test_what_is_waited_for_is_bounded(network):
    process = network.add_host().start("sh", "-c", "echo one; echo two >&2; sleep 1000")
    assert process.wait_for_line("tw(.)")[1] == "o"
    with pytest.raises(TimeoutError, match="a line like 'three'.*\n*"):
        process.wait_for_line("three", 0.2)
    with pytest.raises(TimeoutError, match="still running"):
        process.wait(0.2)
    process.kill()
    with pytest.raises(AssertionError, match="ended without"):
        process.wait_for_line("three")


def test_look_ups_can_be_slow(network):
    one, two = network.add_hosts("a", "b")
    ask = "import socket\ntry: socket.getaddrinfo('nobody.example', 1)\nexcept OSError as e: print(e)"

    def seconds():
        began = time.monotonic()
        assert "name resolution" in one.run(sys.executable, "-c", ask)
        return time.monotonic() - began
    assert seconds() < 1
    one.use_name_server(two.address)
    two.cut()
    assert seconds() > 1.5


LEAVE = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from harness.network import Network
network = Network({root!r})
host = network.add_host()
process = host.start("sh", "-c", "setsid sleep 1234 & echo ready; wait")
process.wait_for_line("ready")
print(network.switch.holder.pid, host.holder.pid, process.pid, *host.pids(), flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["network.close()", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_nothing_stays_behind(_networks_work, tmp_path, end):
    interfaces = os.listdir("/sys/class/net")
    text = LEAVE.format(tests=os.path.dirname(os.path.dirname(__file__)), root=str(tmp_path), end=end)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) >= 4, done
    if "SIGKILL" in end:  # what a host's programs started lives on when nobody is left to end it
        orphan = [pid for pid in pids if os.path.exists(f"/proc/{pid}") and
                  b"1234" in open(f"/proc/{pid}/cmdline", "rb").read()]
        pids = [pid for pid in pids if pid not in orphan]
        for pid in orphan:
            os.kill(pid, 9)
    processes.wait_until(lambda: all(processes.stat_fields(pid) is None or processes.stat_fields(pid)[0] == b"Z"
                                     for pid in pids), 5, f"the end of {pids}")
    assert os.listdir("/sys/class/net") == interfaces
