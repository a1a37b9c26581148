# SPDX-License-Identifier: BSD-3-Clause
"""Several hosts on one machine: each has its own network, host name, /etc/hosts and /etc/resolv.conf, and a cable to a
switch. Needs root, and ip, tc, nft, unshare, nsenter.

A host is a process that sleeps in namespaces of its own, and so is the switch. Nothing has a name that outlives them:
no file below /run or /etc, no interface in the machine's own network. When those processes end, and they do so with the
test's process however that ends, the kernel takes everything away."""
import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

from harness import launchers, processes

TOOLS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "unshare": "util-linux", "nsenter": "util-linux"}
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
COMMAND_SECONDS = 20
_libc = ctypes.CDLL(None, use_errno=True)


def why_not():
    """Why no network can be made here, in words; None if one can."""
    if os.geteuid() != 0:
        return "networks of several hosts need root"
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool, path=_tool_path())})
    if missing:
        return f"networks of several hosts need the packages {', '.join(missing)}"
    trial = subprocess.run(["unshare", "--net", "--uts", "--mount", "true"], capture_output=True, text=True,
                           timeout=COMMAND_SECONDS, env={"PATH": _tool_path()})
    return f"this machine allows no namespaces: {trial.stderr.strip()}" if trial.returncode else None


def _tool_path():
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"


def _die_with_us():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _command(argv, text=None):
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=COMMAND_SECONDS,
                          env={"PATH": _tool_path(), "LANG": "C.UTF-8"})
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}\n{text or ''}")
    return done.stdout


class NotSupported(RuntimeError):
    """The kernel lacks what a test asks of a link."""


class Place:
    """A process that holds namespaces."""

    def __init__(self, binds=()):
        script = "".join(f'mount --bind "{source}" "{target}" && ' for source, target in binds)
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c", f"{script} echo ready && exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=_die_with_us,
            env={"PATH": _tool_path()})
        self.enter = ["nsenter", "--target", str(self.holder.pid), "--net", "--uts", "--mount"]
        if self.holder.stdout.readline() != b"ready\n":
            raise RuntimeError(f"no namespaces: exit {self.holder.wait(COMMAND_SECONDS)}")
        self.network_id = os.stat(f"/proc/{self.holder.pid}/ns/net").st_ino

    def run(self, *argv, text=None):
        """A short command inside; its output. An exception with its words when it fails."""
        return _command([*self.enter, *map(str, argv)], text)

    @contextlib.contextmanager
    def network(self):
        """Inside, sockets of this thread are made in this network; they stay in it afterwards."""
        with open("/proc/thread-self/ns/net") as ours, open(f"/proc/{self.holder.pid}/ns/net") as theirs:
            _setns(theirs)
            try:
                yield
            finally:
                _setns(ours)

    def pids(self):
        """All processes here but the holder."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if pid != self.holder.pid and self._is_here(pid)]

    def _is_here(self, pid):
        try:
            return os.stat(f"/proc/{pid}/ns/net").st_ino == self.network_id
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False

    def signal_all(self, number):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self):
        # What a killed process was about to start may come a moment later.
        deadline = time.monotonic() + COMMAND_SECONDS
        while self.pids() and time.monotonic() < deadline:
            self.signal_all(signal.SIGKILL)
            time.sleep(0.01)
        left = self.pids()
        self.holder.kill()
        self.holder.wait(COMMAND_SECONDS)
        self.holder.stdout.close()
        if left:
            raise RuntimeError(f"processes of a host that do not die: {left}")


def _setns(namespace):
    if _libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Host(Place):
    """One machine. `name` is its host name, `fqdn` what its address resolves to."""

    def __init__(self, network, name, number):
        self.files = network.root / f"host-{name}"
        self.files.mkdir()
        for file, text in (("hosts", ""), ("resolv.conf", "")):
            (self.files / file).write_text(text)
        super().__init__([(self.files / "hosts", "/etc/hosts"),
                          (self.files / "resolv.conf", pathlib.Path("/etc/resolv.conf").resolve())])
        self._network, self.name, self.fqdn, self.number = network, name, f"{name}.example", number
        self.address, self.address6 = f"10.77.0.{number}", f"fd77::{number}"
        self._port = f"p{number}"
        self._cut_from, self._cut_off, self._loss = set(), False, 0
        self.run("hostname", name)
        network.switch.run("ip", "-batch", "-", text=(
            f"link add {self._port} type veth peer name eth0 netns {self.holder.pid}\n"
            f"link set {self._port} master br0 up\n"))
        self.run("ip", "-batch", "-", text=(
            "link set lo up\n"
            f"addr add {self.address}/24 dev eth0\n"
            f"addr add {self.address6}/64 dev eth0 nodad\n"
            "link set eth0 up\n"))

    def start(self, *argv, env=None, cwd=None):
        """Starts a program as a user of this host does. None as a value takes a variable away."""
        return Process(self, argv, env or {}, cwd)

    def connect(self, address, port, seconds=5):
        """A socket of this host that is connected."""
        with self.network():
            return socket.create_connection((address, port), seconds)

    # The link. Changes hold until mend() or plug_in().

    def cut(self, *others):
        """Nothing comes or goes any more, from or to `others` or anybody: silently, as when a switch hangs."""
        self._cut_from |= set(others)
        self._cut_off |= not others
        self._filter()

    def lose(self, percent):
        """This part of what comes and of what goes is lost."""
        self._loss = percent
        self._filter()

    def mend(self):
        self._cut_from, self._cut_off, self._loss = set(), False, 0
        self._filter()

    def unplug(self):
        """The cable is out, and the host sees it."""
        self._network.switch.run("ip", "link", "set", self._port, "down")

    def plug_in(self):
        self._network.switch.run("ip", "link", "set", self._port, "up")

    def slow_down(self, rate):
        """In both directions, such as "256kbit". NotSupported where the kernel has no tbf."""
        shape = ["root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"]
        try:
            self._network.switch.run("tc", "qdisc", "replace", "dev", self._port, *shape)
            self.run("tc", "qdisc", "replace", "dev", "eth0", *shape)
        except RuntimeError as error:
            if "qdisc kind is unknown" in str(error):
                raise NotSupported("this kernel has no tbf") from error
            raise

    def _filter(self):
        rules = []
        for hook, way in (("input", "saddr"), ("output", "daddr")):
            match = [f"ip {way} {other.address} drop; ip6 {way} {other.address6} drop;" for other in self._cut_from]
            if self._cut_off:
                match.append("drop;")
            if self._loss:
                match.append(f"numgen random mod 1000 < {round(self._loss * 10)} drop;")
            rules.append(f'chain {hook} {{ type filter hook {hook} priority 0; meta {"i" if hook == "input" else "o"}'
                         f'ifname "lo" accept; {" ".join(match)} }}')
        self.run("nft", "-f", "-", text="table inet link\ndelete table inet link\n"
                                        "table inet link {\n" + "\n".join(rules) + "\n}\n")

    # Names.

    def know(self, names):
        """Gives this host an /etc/hosts of these (address, names) pairs."""
        text = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
        # Written over, not replaced: what is bound is the file, not its name.
        (self.files / "hosts").write_text(text + "".join(f"{address} {name}\n" for address, name in names))

    def use_name_server(self, address):
        """A name server; at an address where nobody is, each look-up waits for its time-out."""
        (self.files / "resolv.conf").write_text(f"nameserver {address}\noptions timeout:2 attempts:1\n")

    # All of its processes.

    def freeze(self):
        self.signal_all(signal.SIGSTOP)

    def thaw(self):
        self.signal_all(signal.SIGCONT)

    def lose_power(self):
        """Everything is gone at once, and nobody hears of it."""
        self.cut()
        self.signal_all(signal.SIGKILL)

    def __repr__(self):
        return self.name


class Network:
    """A switch and the hosts on it."""

    def __init__(self, root):
        self.root, self.hosts, self.processes = pathlib.Path(root), [], []
        self.switch = Place()
        self.switch.run("ip", "-batch", "-", text=(
            "link set lo up\nlink add br0 type bridge forward_delay 0 mcast_snooping 0\nlink set br0 up\n"))

    def add_host(self, name=None):
        """One more, node1, node2, ... if not named. All know the names of all."""
        number = len(self.hosts) + 1
        self.hosts.append(Host(self, name or f"node{number}", number))
        for host in self.hosts:
            host.know(self.names())
        return self.hosts[-1]

    def add_hosts(self, *names):
        return [self.add_host(name) for name in names]

    def names(self):
        """What stands in each /etc/hosts: a host's name is its IPv4 address; NAME-6 is the other one."""
        return [pair for host in self.hosts for pair in
                ((host.address, f"{host.fqdn} {host.name}"), (host.address6, f"{host.name}-6.example {host.name}-6"))]

    def close(self):
        errors = []
        for place in [*self.hosts, self.switch]:
            try:
                place.close()
            except Exception as error:  # the others must go all the same
                errors.append(error)
        for process in self.processes:
            process.reap()
        if errors:
            raise errors[0]


class Process:
    """A program on a host. What it writes goes to files, so that nobody waits for a reader."""

    def __init__(self, host, argv, env, cwd):
        self.host, self.argv = host, [str(word) for word in argv]
        self.folder = host.files / f"process-{len(host._network.processes)}"
        for folder in (self.folder, self.folder / "tmp", self.folder / "home"):
            folder.mkdir()
        self._paths = {"stdout": self.folder / "stdout", "stderr": self.folder / "stderr"}
        merged = launchers.minimal_environment(self.folder / "home", self.folder / "tmp") | env
        self.began = time.monotonic()
        with open(self._paths["stdout"], "wb") as out, open(self._paths["stderr"], "wb") as err:
            self._process = subprocess.Popen(
                [*host.enter, f"--wd={cwd or self.folder}", *self.argv], stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, start_new_session=True, preexec_fn=_die_with_us,
                env={name: str(value) for name, value in merged.items() if value is not None})
        host._network.processes.append(self)
        self.pid = self._process.pid

    @property
    def code(self):
        """The exit status; None while it runs. A signal's number is negative."""
        return self._process.poll()

    @property
    def stdout(self):
        return self._paths["stdout"].read_text(errors="surrogateescape")

    @property
    def stderr(self):
        return self._paths["stderr"].read_text(errors="surrogateescape")

    def wait(self, seconds=60):
        """The exit status, within `seconds`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"after {seconds} s still running: {self!r}") from None

    def wait_for_line(self, pattern, seconds=30):
        """The match of a regular expression in a line of either stream; the process may go on or end."""
        def find():
            ended = self.code is not None
            found = re.search(pattern, self.stderr) or re.search(pattern, self.stdout)
            if not found and ended:
                raise AssertionError(f"ended without a line like {pattern!r}: {self!r}")
            return found
        return processes.wait_until(find, seconds, lambda: f"a line like {pattern!r} of {self!r}")

    def send(self, number):
        os.kill(self.pid, number)

    def tree(self):
        """(pid, start time) of it and all below it."""
        own = processes.start_time(self.pid)
        return [] if own is None else [(self.pid, own), *processes.descendants(self.pid)]

    def signal_tree(self, number):
        for pid, started in self.tree():
            if processes.is_running(pid, started):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def kill(self):
        """SIGKILL for the program and all that it started; the kernel says goodbye to its peers."""
        self.signal_tree(signal.SIGKILL)
        self._process.wait(COMMAND_SECONDS)

    def reap(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(COMMAND_SECONDS)

    def __repr__(self):
        return (f"{self.host}: {' '.join(self.argv)}\nexit {self.code} after {time.monotonic() - self.began:.1f} s\n"
                f"stdout: {self.stdout[-4000:]}\nstderr: {self.stderr[-8000:]}")
