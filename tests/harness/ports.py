# SPDX-License-Identifier: BSD-3-Clause
"""Ports of this machine."""
import socket


def free_port():
    """One that nobody on 127.0.0.1 has just now; whoever binds it next may be somebody else."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
