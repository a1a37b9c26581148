# SPDX-License-Identifier: BSD-3-Clause
"""What every test of several nodes has: a network, and jobs on it."""
import pathlib
import sys

import pytest
from harness import network as networks

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from jobs import Job  # noqa: E402


@pytest.fixture(scope="session")
def _networks_work():
    if reason := networks.why_not():
        pytest.skip(reason)


@pytest.fixture
def network(_networks_work, tmp_path):
    """A switch without hosts; all is gone after the test."""
    made = networks.Network(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def job(network, tmp_path):
    """A job of workers that wait to be told how to end."""
    return Job(network, tmp_path / "job")
