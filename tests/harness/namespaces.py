# SPDX-License-Identifier: BSD-3-Clause
"""Networks that a test puts together itself, with or without an address family, cabled or not. For whole hosts on a
switch see network.py, whose places these are."""
import os
import subprocess

import pytest
from harness import network


class Network:
    """A network namespace with a loopback device and nothing else, and a mount namespace beside it."""

    def __init__(self, folder, ipv6=True):
        self._folder = folder
        self._place = network.Place()
        self.pid = self._place.holder.pid
        if not ipv6:
            self.shell("echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; "
                       "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
        self.shell("ip link set lo up")

    def close(self):
        self._place.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def wrapper(self, folder=None):
        """What to put before a command to run it in here; another mount namespace forgets the working folder."""
        return [*self._place.enter, f"--wd={folder or os.getcwd()}", "--"]

    def run(self, *command, seconds=60, **options):
        return subprocess.run([*self.wrapper(), *map(str, command)], capture_output=True, text=True, timeout=seconds,
                              **options)

    def shell(self, line):
        return self._place.run("sh", "-ec", line)

    def replace(self, path, text):
        """Another /etc/hosts or /etc/resolv.conf, in here only."""
        file = self._folder / f"{self.pid}.{path.replace('/', '_')}"
        file.write_text(text)
        self.shell(f"mount --bind {file} {path}")

    def connect(self, other, own_addresses, other_addresses):
        """A cable between two networks; addresses with their prefix length."""
        own, far = f"c{self.pid}", f"c{other.pid}"
        self.shell(f"ip link add {own} type veth peer name {far} netns {other.pid}")
        for end, device, addresses in ((self, own, own_addresses), (other, far, other_addresses)):
            for address in addresses:
                end.shell(f"ip addr add {address} dev {device}" + (" nodad" if ":" in address else ""))
            end.shell(f"ip link set {device} up")


def require():
    """Skips the test where namespaces cannot be made, and says why."""
    if reason := network.why_not():
        pytest.skip(reason)
