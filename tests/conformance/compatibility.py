# SPDX-License-Identifier: BSD-3-Clause
"""Reads the table of deliberate differences in docs/compatibility.md."""
import dataclasses
import re

from harness import launchers

DOCUMENT = launchers.REPOSITORY / "docs/compatibility.md"
PROOF = re.compile(r"`(unit|case|nodes):([^`]+)`")


@dataclasses.dataclass(frozen=True)
class Difference:
    id: str
    torchrun: str
    cpprun: str
    reason: str

    def proofs(self):
        """(kind, test) for each test that the row names because no scenario can show the difference."""
        return PROOF.findall(self.reason)


def _cells(line):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def table(document=DOCUMENT):
    """The rows in order. A second row with the same id, or a row with an empty cell, is an error."""
    rows, inside = [], False
    for line in document.read_text().splitlines():
        if line.startswith("| id |"):
            inside = True
        elif inside and not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("| ---"):
            row = Difference(*_cells(line))
            if not all(dataclasses.astuple(row)) or row.id in {known.id for known in rows}:
                raise ValueError(f"{document.name}: an empty cell or a second row for '{row.id}'")
            rows.append(row)
    if not rows:
        raise ValueError(f"{document.name} has no table that begins with `| id |`")
    return rows
