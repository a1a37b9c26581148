# SPDX-License-Identifier: BSD-3-Clause
"""All scenarios, by subject. A scenario's name is a sentence about what both launchers do, or torchrun alone where the
scenario names a difference."""
from scenarios import agent, command_line, environment, errors, logs

ALL = [*command_line.SCENARIOS, *environment.SCENARIOS, *agent.SCENARIOS, *errors.SCENARIOS, *logs.SCENARIOS]
