# SPDX-License-Identifier: BSD-3-Clause
"""A pseudo-terminal as the console of a launch."""
import fcntl
import os
import pty
import re
import struct
import termios
import time


class Screen:
    """A terminal that a launcher writes to: its `writer`. Waits for `seconds_max` at most, then fails the test."""

    def __init__(self, seconds_max, rows=24, columns=100):
        self.seconds_max = seconds_max
        self.reader, self.writer = pty.openpty()
        self.resize(rows, columns)
        os.set_blocking(self.reader, False)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.writer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        try:
            self.text += os.read(self.reader, 65536).decode()
            return True
        except BlockingIOError:
            return False

    def wait_for(self, pattern):
        deadline = time.monotonic() + self.seconds_max
        while not (found := re.search(pattern, self.text, re.DOTALL)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.text!r}"
            if not self.read():
                time.sleep(0.02)
        return found

    def wait_for_end(self, process):
        deadline = time.monotonic() + self.seconds_max
        while process.poll() is None:
            assert time.monotonic() < deadline, f"hangs: {self.text!r}"
            if not self.read():
                time.sleep(0.02)
        while self.read():
            pass
        return self.text.replace("\r\n", "\n")

    def close(self):
        os.close(self.reader)
        os.close(self.writer)
