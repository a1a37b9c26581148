# SPDX-License-Identifier: BSD-3-Clause
"""Two small questions that scripts/lib.sh asks around pip; standard library only.

    satisfied REQUIREMENT|FILE...   exit 0 when each `name==version` is installed here
    size REPORT LIMIT_MB            says how much pip's --report is going to download; exit 1 above the limit
"""

import json
import os
import re
import sys
import urllib.error
import urllib.request
from importlib import metadata
from urllib.parse import unquote, urlparse

ANSWER_TIMEOUT_S = 8


def requirements(arguments):
    for argument in arguments:
        if "==" in argument:
            yield argument
        elif os.path.exists(argument):
            with open(argument, encoding="utf-8") as lines:
                yield from (line.split("#")[0].strip() for line in lines if "==" in line.split("#")[0])


def is_installed(requirement):
    name, wanted = (part.strip() for part in re.split("==", requirement, maxsplit=1))
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    # "2.13.0+cpu" is a build of 2.13.0, as in PEP 440.
    return installed == wanted or installed.split("+")[0] == wanted


def satisfied(arguments):
    return all(is_installed(requirement) for requirement in requirements(arguments))


def bytes_of(url):
    """Size of what url names: (bytes, comes over the network); bytes are None where nobody says."""
    parts = urlparse(url)
    if parts.scheme == "file":
        return os.path.getsize(unquote(parts.path)), False
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=ANSWER_TIMEOUT_S) as answer:
            length = answer.headers.get("Content-Length")
            return (int(length) if length else None), True
    except (OSError, ValueError):
        return None, True


def megabytes(count):
    return f"{count / 1e6:.0f} MB"


def say_size(report_path, limit_mb):
    with open(report_path, encoding="utf-8") as report:
        items = json.load(report)["install"]
    network = local = unknown = 0
    largest = (0, "")
    for item in items:
        size, is_download = bytes_of(item["download_info"]["url"])
        if size is None:
            unknown += 1
        elif is_download:
            network += size
        else:
            local += size
        largest = max(largest, (size or 0, item["metadata"]["name"] + " " + item["metadata"]["version"]))
    print(f"   {len(items)} Python packages: {megabytes(network)} to download"
          + (f", {megabytes(local)} from this machine's disk" if local else "")
          + (f", {unknown} of unknown size" if unknown else "")
          + (f"; the largest is {largest[1]}, {megabytes(largest[0])}" if largest[0] else ""), flush=True)
    if network > limit_mb * 1e6:
        print(f"   that is more than CPPRUN_DOWNLOAD_LIMIT_MB={limit_mb}: not downloaded. Builds of PyTorch without "
              "CUDA are smaller: set CPPRUN_TORCH_INDEX to the index of CPU builds that PyTorch's installation page "
              "names, or raise the limit", file=sys.stderr)
        return False
    return True


def main(command, *arguments):
    answer = {
        "satisfied": lambda: satisfied(arguments),
        "size": lambda: say_size(arguments[0], int(arguments[1])),
    }[command]()
    return 0 if answer else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
