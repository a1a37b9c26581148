# SPDX-License-Identifier: BSD-3-Clause
"""Networks of a test's own. They, their devices and what is mounted in them go with the process that holds them, and
that goes with the test, however it ends."""
import os
import subprocess

import pytest

SKIPPED = "needs network namespaces, which only root can make here"


class Network:
    """A network namespace with a loopback device and nothing else, and a mount namespace beside it."""

    def __init__(self, folder, ipv6=True):
        self._folder = folder
        # cat ends with our end of its input.
        self._holder = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", "echo ready; exec cat"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self._holder.stdout.readline() != "ready\n":
            self.close()
            pytest.skip(SKIPPED)
        self.pid = self._holder.pid
        if not ipv6:
            self.shell("echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; "
                       "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
        self.shell("ip link set lo up")

    def close(self):
        for stream in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            stream.close()
        self._holder.wait(20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def wrapper(self, folder=None):
        """What to put before a command to run it in here; another mount namespace forgets the working folder."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", f"--mount=/proc/{self.pid}/ns/mnt",
                f"--wd={folder or os.getcwd()}", "--"]

    def run(self, *command, seconds=60, **options):
        return subprocess.run([*self.wrapper(), *map(str, command)], capture_output=True, text=True, timeout=seconds,
                              **options)

    def shell(self, line):
        result = self.run("sh", "-ec", line)
        assert result.returncode == 0, f"{line}: {result.stderr}"
        return result.stdout

    def replace(self, path, text):
        """Another /etc/hosts or /etc/resolv.conf, in here only."""
        file = self._folder / f"{self.pid}.{path.replace('/', '_')}"
        file.write_text(text)
        self.shell(f"mount --bind {file} {path}")

    def connect(self, other, own_addresses, other_addresses):
        """A cable between two networks; addresses with their prefix length."""
        own, far = f"c{self.pid}", f"c{other.pid}"
        self.shell(f"ip link add {own} type veth peer name {far} netns {other.pid}")
        for network, device, addresses in ((self, own, own_addresses), (other, far, other_addresses)):
            for address in addresses:
                network.shell(f"ip addr add {address} dev {device}" + (" nodad" if ":" in address else ""))
            network.shell(f"ip link set {device} up")


def require():
    """Skips the test where namespaces cannot be made."""
    if os.geteuid() != 0:
        pytest.skip(SKIPPED)
