# SPDX-License-Identifier: BSD-3-Clause
"""Each scenario under torchrun and under cpprun. See README.md for how to add one."""
import json
import re

import compatibility
import everyday
import normalise
import pytest
import recorded
import scenarios
from compare import faults
from harness import launchers
from observe import observe


def _of_torchrun(scenario):
    if recorded.use_record(scenario.name):
        return recorded.read(scenario.name)
    observation = json.loads(json.dumps(normalise.observation(observe(scenario, "torchrun"), scenario)))
    if recorded.mode() == "write":
        recorded.write(scenario.name, observation)
    return observation


@pytest.mark.parametrize("scenario", scenarios.ALL, ids=lambda scenario: scenario.name)
def test_scenario(scenario):
    theirs = _of_torchrun(scenario)
    ours = json.loads(json.dumps(normalise.observation(observe(scenario, "cpprun"), scenario)))
    report = faults(scenario, theirs, ours)
    assert not report, f"torchrun {' '.join(scenario.args)}\n" + "\n".join(report)


def test_scenarios_are_many_and_have_names_of_their_own():
    names = [scenario.name for scenario in scenarios.ALL]
    assert len(names) >= 60
    assert len(set(names)) == len(names)


def test_every_difference_that_a_scenario_names_is_in_the_table():
    named = {documented.id for scenario in scenarios.ALL for documented in scenario.differs}
    named |= {name for scenario in scenarios.ALL for name in scenario.shows} | set(everyday.EVERYDAY)
    assert sorted(named - {row.id for row in compatibility.table()}) == []


def test_every_difference_of_the_table_is_shown_by_a_scenario_or_by_a_test_it_names():
    shown = {documented.id for scenario in scenarios.ALL for documented in scenario.differs}
    shown |= {name for scenario in scenarios.ALL for name in scenario.shows}
    for row in compatibility.table():
        proofs = row.proofs()
        assert row.id in shown or proofs, f"nothing shows '{row.id}'"
        for kind, name in proofs:
            assert _test_exists(kind, name), f"'{row.id}' names {kind}:{name}, which does not exist"


def _test_exists(kind, name):
    """`case:NAME` is a function in tests/cases, `nodes:NAME` one in tests/multinode, `unit:SUITE.NAME` a GoogleTest
    below tests/."""
    tests = launchers.REPOSITORY / "tests"
    folders = {"case": "cases", "nodes": "multinode"}
    if kind in folders:
        return any(re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE)
                   for path in (tests / folders[kind]).glob("*.py"))
    suite, _, test = name.partition(".")
    pattern = rf"\bTEST(_F|_P)?\(\s*{suite},\s*{test}\s*\)"
    return any(re.search(pattern, path.read_text()) for path in tests.rglob("*.cpp"))
