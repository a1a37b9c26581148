# SPDX-License-Identifier: BSD-3-Clause
"""Finds every difference between two observations, and holds them against the ones that a scenario names."""
import copy
import difflib
import re

import everyday
from scenario import Lines


def _parts(observation):
    """An observation as kind -> value, so that each kind can be compared by itself."""
    parts = {kind: observation[kind] for kind in ("exit", "stdout", "stderr", "orphans", "files", "signals")}
    parts["workers"] = sorted(observation["workers"])
    for name, worker in observation["workers"].items():
        for kind in ("argv", "sys_argv", "sys_path_0"):
            parts.setdefault(kind, {})[name] = worker.get(kind)
        for group in ("env", "proc"):
            for key, value in worker.get(group, {}).items():
                parts.setdefault(f"{group}:{key}", {})[name] = value
    return parts


def differences(theirs, ours):
    """kind -> (torchrun's value, cpprun's value), for each kind that is not equal. Kinds of workers that only one
    side has are left out: `workers` says it already."""
    theirs, ours = copy.deepcopy(theirs), copy.deepcopy(ours)
    common = theirs["workers"].keys() & ours["workers"].keys()
    left, right = _parts(theirs), _parts(ours)
    found = {}
    for kind in left.keys() | right.keys():
        a, b = left.get(kind), right.get(kind)
        if kind.startswith(("env:", "proc:", "argv", "sys_")):
            a, b = ({name: (side or {}).get(name) for name in sorted(common)} for side in (a, b))
        if a != b:
            found[kind] = (a, b)
    return found


def as_text(value):
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def show(kind, theirs, ours):
    if isinstance(theirs, list) and isinstance(ours, list):
        return "\n".join([f"{kind}:", *difflib.unified_diff(theirs, ours, "torchrun", "cpprun", lineterm="", n=1)])
    return f"{kind}:\n  torchrun: {theirs}\n  cpprun:   {ours}"


def _as_documented(expected, theirs, ours):
    if isinstance(expected, int):
        return ours == expected
    if isinstance(expected, Lines):
        return _without(expected.theirs, theirs) == _without(expected.ours, ours) is not None
    return re.search(expected, as_text(ours), re.MULTILINE) is not None


def _without(patterns, lines):
    """The lines that match no pattern; None when a pattern matches no line."""
    if not all(any(re.fullmatch(pattern, line) for line in lines) for pattern in patterns):
        return None
    return [line for line in lines if not any(re.fullmatch(pattern, line) for pattern in patterns)]


def faults(scenario, theirs, ours):
    """Everything that speaks against conformance, as text: differences that nobody documented, documented ones that
    are gone, and documented ones where cpprun does not show what the scenario says."""
    theirs, ours = copy.deepcopy(theirs), copy.deepcopy(ours)
    shown = everyday.explain(theirs, ours)
    found = differences(theirs, ours)
    report = []
    for named in scenario.shows:
        if named not in shown:
            report.append(f"the documented difference '{named}' does not show any more")
    for documented in scenario.differs:
        for kind, expected in documented.ours.items():
            if kind not in found:
                report.append(f"the documented difference '{documented.id}' no longer exists in {kind}")
                continue
            their_value, our_value = found.pop(kind)
            if not _as_documented(expected, their_value, our_value):
                report.append(f"'{documented.id}' promises {kind} = {expected!r}\n" + show(kind, their_value, our_value))
    for kind, (their_value, our_value) in sorted(found.items()):
        report.append("not documented: " + show(kind, their_value, our_value))
    return report
