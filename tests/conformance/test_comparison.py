# SPDX-License-Identifier: BSD-3-Clause
"""The suite's own rules: what it must complain about, and what normalisation must not hide."""
import copy

import normalise
import pytest
from compare import faults
from scenario import Differs, Lines, scenario

SAME = {"exit": 0, "stdout": ["hi"], "stderr": [], "orphans": 0, "files": [], "signals": {},
        "workers": {"0.0": {"argv": ["a"], "sys_argv": ["a"], "sys_path_0": "", "env": {"RANK": "0"},
                            "proc": {"umask": "0022"}}}}


def _changed(change):
    other = copy.deepcopy(SAME)
    change(other)
    return other


CHANGES = {
    "exit": lambda o: o.update(exit=2), "stdout": lambda o: o["stdout"].append("more"),
    "stderr": lambda o: o["stderr"].append("W| x"), "orphans": lambda o: o.update(orphans=1),
    "files": lambda o: o["files"].append("-rw-r--r-- cwd/x"), "signals": lambda o: o["signals"].update({"0.0": ["SIGTERM"]}),
    "workers": lambda o: o["workers"].update({"0.1": copy.deepcopy(o["workers"]["0.0"])}),
    "argv": lambda o: o["workers"]["0.0"]["argv"].append("b"),
    "env:RANK": lambda o: o["workers"]["0.0"]["env"].update(RANK="1"),
    "env:NEW": lambda o: o["workers"]["0.0"]["env"].update(NEW="1"),
    "proc:umask": lambda o: o["workers"]["0.0"]["proc"].update(umask="0077"),
}


def test_equal_observations_have_no_fault():
    assert faults(scenario("x"), SAME, copy.deepcopy(SAME)) == []


@pytest.mark.parametrize("kind", CHANGES)
def test_an_undocumented_difference_of_any_kind_is_a_fault(kind):
    report = faults(scenario("x"), SAME, _changed(CHANGES[kind]))
    assert len(report) == 1 and report[0].startswith(f"not documented: {kind}:"), report


@pytest.mark.parametrize("kind", CHANGES)
def test_a_documented_difference_that_is_gone_is_a_fault(kind):
    documented = scenario("x", differs=(Differs("some-id", {kind: "."}),))
    report = faults(documented, SAME, copy.deepcopy(SAME))
    assert report == [f"the documented difference 'some-id' no longer exists in {kind}"]


def test_a_documented_difference_must_be_the_documented_one():
    documented = scenario("x", differs=(Differs("some-id", {"exit": 2}),))
    assert faults(documented, SAME, _changed(lambda o: o.update(exit=2))) == []
    assert "promises exit = 2" in faults(documented, SAME, _changed(lambda o: o.update(exit=3)))[0]


@pytest.mark.parametrize("theirs,ours,good", [
    (["a", "x1"], ["a", "y"], True), (["a", "x1"], ["b", "y"], False), (["a"], ["a", "y"], False),
    (["a", "x1"], ["a"], False), (["x1", "a", "x2"], ["y", "a"], True)])
def test_lines_of_one_side_leave_the_others_to_be_equal(theirs, ours, good):
    documented = scenario("x", differs=(Differs("some-id", {"stderr": Lines(theirs=(r"x\d",), ours=("y",))}),))
    report = faults(documented, _changed(lambda o: o.update(stderr=theirs)), _changed(lambda o: o.update(stderr=ours)))
    assert (report == []) == good, report


def test_an_everyday_difference_that_is_gone_is_a_fault():
    assert "does not show" in faults(scenario("x", shows=("usage-text",)), SAME, copy.deepcopy(SAME))[0]


def test_an_everyday_difference_hides_nothing_else():
    theirs = _changed(lambda o: o["stderr"].extend(["<TRACEBACK>", "ValueError: a"]))
    ours = _changed(lambda o: o["stderr"].extend(["ValueError: b"]))
    assert len(faults(scenario("x"), theirs, ours)) == 1


def _lines(text):
    return normalise.stderr_lines(text, {"root": "/tmp/root", "ports": {"@P@": "5001", "@Q@": "5002", "@BUSY@": "5003"},
                                         "pid": 77})


def test_a_chain_of_exceptions_becomes_its_last_line():
    frames = 'Traceback (most recent call last):\n  File "x", line 1, in f\n'
    chain = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert _lines(f"before\n{frames}KeyError: 1\n{chain}{frames}ValueError: 2\nafter\n") == [
        "before", "<TRACEBACK>", "ValueError: 2", "after"]


def test_separate_exceptions_stay_two():
    frames = 'Traceback (most recent call last):\n  File "x", line 1, in f\n'
    assert _lines(f"{frames}KeyError: 1\n{frames}ValueError: 2\n") == [
        "<TRACEBACK>", "KeyError: 1", "<TRACEBACK>", "ValueError: 2"]


def test_log_prefixes_keep_their_level():
    assert _lines("E1130 21:03:10.907000 77 torch/x.py:10] failed (pid: 12)\n") == ["E| failed (pid: <PID>)"]


def test_exit_codes_and_ranks_are_not_hidden():
    assert _lines("failed (exitcode: 3) local_rank: 0 (pid: 5001)\n  exitcode  : -15 (pid: 9)  (SIGTERM)\n") == [
        "failed (exitcode: 3) local_rank: 0 (pid: <P>)", "  exitcode  : -15 (pid: <PID>)  (SIGTERM)"]
