# SPDX-License-Identifier: BSD-3-Clause
"""What a scenario is: one command, its surroundings, and the differences from torchrun that it shows."""
import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Lines:
    """Patterns of whole lines; each must match a line of its side at least once, and every line that differs one."""
    theirs: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Differs:
    """One deliberate difference, by its id in docs/compatibility.md.

    `ours` maps each kind that differs to what cpprun must show there: for `exit` and `orphans` the number, for
    `stdout`, `stderr` and `files` a regular expression (multiline, searched in the normalised text), for `env:NAME`,
    `argv`, `workers` and `proc:NAME` a regular expression searched in the text of the value. Instead of the pattern
    a Lines says which lines of a stream are torchrun's alone and which are cpprun's; all others must be equal."""
    id: str
    ours: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Scenario:
    """Words of `args` and values of `env` may hold @P@ (a free port), @Q@ (another) and @BUSY@ (a port in use)."""
    name: str
    args: tuple[str, ...]
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    files: dict[str, str] = dataclasses.field(default_factory=dict)  # path below the working folder -> text
    wrapper: tuple[str, ...] = ()      # what stands before the launcher: taskset, nohup, sh -c ...
    stdin: bytes = b""
    stdout: str = "file"               # or "closed": a pipe that nobody reads
    act: Callable | None = None        # what happens while the launcher runs; gets a Running
    unordered: tuple[str, ...] = ()    # streams whose lines have no fixed order ("stdout" of several workers is one)
    differs: tuple[Differs, ...] = ()  # differences of this scenario
    shows: tuple[str, ...] = ()        # ids of everyday differences (see everyday.py) that must show here
    only_promised: bool = False        # stderr: compare only the lines that tools look for (contract 4.9 and 6.4)


def scenario(name, *args, **fields):
    """A scenario whose command is `torchrun ARGS`."""
    return Scenario(name=name, args=args, **fields)


def no_python(name, *args, **fields):
    """A scenario whose command is `torchrun --no-python ARGS`."""
    return Scenario(name=name, args=("--no-python", *args), **fields)
