# SPDX-License-Identifier: BSD-3-Clause
"""Rules for restarts beyond --max-restarts, as a user sees them: how often the worker ran, and the line that says why."""
import re

import pytest

VERDICT = re.compile(r"\[default\] (Worker group FAILED.*)")


def run(place, *options, code="exit $CODE", **env):
    place.write("w.sh", f"#!/bin/sh\necho run >> runs\nn=$TORCHELASTIC_RESTART_COUNT\n{code}\n")
    result = place.run(*options, "--no-python", "./w.sh", env=env)
    return result, len((place.cwd / "runs").read_text().split()), VERDICT.findall(result.stderr)


@pytest.mark.parametrize("ending,code", [("exit:83", "exit 83"), ("signal:SEGV", "ulimit -c 0; kill -SEGV $$"),
                                         ("signal:11", "ulimit -c 0; kill -SEGV $$")])
def test_a_worker_can_say_that_it_should_not_be_restarted(place, ending, code):
    result, runs, verdicts = run(place, "--max-restarts=3", "--no-restart-on=exit:2", f"--no-restart-on={ending}",
                                 code=code)
    named = ending.replace("11", "SEGV")
    assert (result.code, runs) == (1, 1), result
    assert verdicts == [f"Worker group FAILED; no restart: {named} of local rank 0 is in --no-restart-on"]


def test_a_worker_can_be_restarted_for_free(place):
    result, runs, verdicts = run(place, "--max-restarts=1", "--free-restart-on=exit:84",
                                 code="[ $n -lt 4 ] && exit 84; exit 5")
    assert (result.code, runs) == (1, 6), result
    assert len([line for line in verdicts if line.endswith("for free: exit:84 is in --free-restart-on")]) == 4
    assert verdicts[-1] == "Worker group FAILED; no restart: no restarts are left"


def test_a_worker_that_fails_early_is_not_restarted(place):
    result, runs, verdicts = run(place, "--max-restarts=3", "--min-uptime=60", CODE="5")
    assert (result.code, runs) == (1, 1), result
    assert re.search(r"no restart: local rank 0 lived \d+\.\d s, less than --min-uptime=60", verdicts[0])


def test_restarts_within_a_window_are_bounded(place):
    result, runs, verdicts = run(place, "--max-restarts=9", "--restart-window=2/3600", CODE="5")
    assert (result.code, runs) == (1, 3), result
    assert verdicts[-1].endswith("no restart: there were 2 restarts within --restart-window=2/3600")


def test_healthy_time_gives_the_restarts_back(place):
    """Without that the second attempt would be the last. On a slow machine a third may be healthy as well."""
    result, runs, verdicts = run(place, "--max-restarts=1", "--restart-budget-renewed-after=1",
                                 code="[ $n = 1 ] && sleep 1.1; exit 5")
    assert result.code == 1 and runs >= 3, result


def test_a_restart_can_wait(place):
    result, runs, verdicts = run(place, "--max-restarts=3", "--restart-backoff=50ms:100ms", CODE="5")
    assert (result.code, runs) == (1, 4), result
    assert [line.partition("Worker group")[2] for line in verdicts[:3]] == [
        " FAILED. 3/3 attempts left; will restart worker group in 0.05 s",
        " FAILED. 2/3 attempts left; will restart worker group in 0.1 s",
        " FAILED. 1/3 attempts left; will restart worker group in 0.1 s"]


def test_B38_without_rules_nothing_more_is_said(place):
    result, runs, verdicts = run(place, "--max-restarts=1", CODE="5")
    assert (result.code, runs, verdicts) == (1, 2, []), result
