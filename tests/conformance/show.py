# SPDX-License-Identifier: BSD-3-Clause
"""python tests/conformance/show.py [--torchrun|--cpprun] NAME...: what a launcher showed in a scenario, in the form
that is compared. Without a choice: both, and what the comparison says."""
import json
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]

import normalise  # noqa: E402
import scenarios  # noqa: E402
from compare import faults  # noqa: E402
from observe import observe  # noqa: E402


def main(words):
    chosen = [word[2:] for word in words if word.startswith("--")] or ["torchrun", "cpprun"]
    names = [word for word in words if not word.startswith("--")]
    for scenario in scenarios.ALL:
        if scenario.name not in names and "all" not in names:
            continue
        seen = {}
        print(f"=== {scenario.name}: torchrun {' '.join(map(ascii, scenario.args))}")
        for launcher in chosen:
            seen[launcher] = json.loads(json.dumps(normalise.observation(observe(scenario, launcher), scenario)))
            print(f"--- {launcher}")
            for kind, value in seen[launcher].items():
                print(f"{kind}: {json.dumps(value, indent=1) if value and kind != 'exit' else value}")
        if len(seen) == 2:
            print("--- comparison", *faults(scenario, seen["torchrun"], seen["cpprun"]), sep="\n")


main(sys.argv[1:])
