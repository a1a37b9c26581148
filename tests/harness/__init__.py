# SPDX-License-Identifier: BSD-3-Clause
"""What the Python suites share: where the launchers are, fresh places to run in, and a careful look at processes."""
