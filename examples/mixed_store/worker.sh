#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One worker of the job: rank 0 is Python, the others are native. $1 is the native program.
if [ "$RANK" = 0 ]; then
    exec "${PYTHON:-python3}" "$(dirname "$0")/meet.py"
fi
exec "$1"
