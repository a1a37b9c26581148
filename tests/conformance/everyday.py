# SPDX-License-Identifier: BSD-3-Clause
"""Deliberate differences that show in many scenarios. Each function looks at a pair of observations, takes its own
difference out of both, and says whether it was there. It takes out nothing else: what remains must be equal."""
import re

OMP_LINE = re.compile(r"OMP_NUM_THREADS")
REPORT = re.compile(r"---- cpprun (report|evidence): |where     : |job       : |ranks? [0-9, -]+ *: |  \| |(root cause|alike     |usually   |memory    |/dev/shm  |core      |stderr    |"
                    r"error file|all of it |others    |          |before    |logs      |restarts  |verdict   ): ")
EMPTY_FOLDER = re.compile(r"^d\S+ tmp/torchelastic_")

def launcher_traceback(theirs, ours):
    """torchrun shows Python frames before the last line of an exception; cpprun has none."""
    extra = theirs["stderr"].count("<TRACEBACK>") - ours["stderr"].count("<TRACEBACK>")
    for _ in range(max(extra, 0)):
        position = len(theirs["stderr"]) - 1 - theirs["stderr"][::-1].index("<TRACEBACK>")
        del theirs["stderr"][position]
    return extra > 0


def usage_text(theirs, ours):
    """torchrun prints its usage before a usage error; cpprun prints the error alone."""
    if "<USAGE>" in theirs["stderr"] and "<USAGE>" not in ours["stderr"]:
        theirs["stderr"].remove("<USAGE>")
        return True
    return False


def omp_one_line(theirs, ours):
    """torchrun's OMP_NUM_THREADS banner has four lines; cpprun's notice is one."""
    lines = theirs["stderr"]
    banner = next((i for i, line in enumerate(lines) if "Setting OMP_NUM_THREADS environment variable" in line), None)
    notice = [i for i, line in enumerate(ours["stderr"]) if OMP_LINE.search(line)]
    if banner is None or len(notice) != 1 or lines[banner] in ours["stderr"]:
        return False
    del lines[banner]
    for frame in ("W| ", "W| " + "*" * 41, "W| " + "*" * 41):
        lines.remove(frame)
    del ours["stderr"][notice[0]]
    return True


def master_address(theirs, ours):
    """On one node torchrun names the host in MASTER_ADDR; cpprun, whose store listens on loopback only, 127.0.0.1."""
    shown = False
    for name in theirs["workers"].keys() & ours["workers"].keys():
        their_env, our_env = (side["workers"][name].get("env", {}) for side in (theirs, ours))
        if their_env.get("MASTER_ADDR") == "<FQDN>" and our_env.get("MASTER_ADDR") == "127.0.0.1":
            del their_env["MASTER_ADDR"], our_env["MASTER_ADDR"]
            shown = True
    return shown


def temporary_folder(theirs, ours):
    """torchrun leaves an empty folder tree in the temporary folder; cpprun removes it."""
    mine = [line for line in ours["files"] if " tmp/torchelastic_" in line]
    left = [line for line in theirs["files"] if " tmp/torchelastic_" in line]
    if mine or not left or not all(EMPTY_FOLDER.match(line) for line in left):
        return False
    theirs["files"] = [line for line in theirs["files"] if line not in left]
    return True


def workers_parent(theirs, ours):
    """Where cgroups cannot be used, a guard process stands between cpprun and each worker."""
    shown = False
    for name in theirs["workers"].keys() & ours["workers"].keys():
        their_proc, our_proc = (side["workers"][name].get("proc", {}) for side in (theirs, ours))
        if ours["workers"][name].get("guarded") and their_proc.get("child_of_launcher"):
            our_proc["child_of_launcher"] = True
            shown = True
    return shown


def framework_in_the_launcher(theirs, ours):
    """torchrun imports PyTorch, which leaves a cache folder, a variable and remarks of its own."""
    shown = False
    for name in theirs["workers"].keys() & ours["workers"].keys():
        if "TORCHINDUCTOR_CACHE_DIR" not in ours["workers"][name].get("env", {}):
            shown |= theirs["workers"][name].get("env", {}).pop("TORCHINDUCTOR_CACHE_DIR", None) is not None
    for kind, pattern in (("files", re.compile(r"^d\S+ tmp/torchinductor_\w+$")),
                          ("stderr", re.compile(r"^libgomp: Invalid value for environment variable OMP_NUM_THREADS"))):
        extra = [line for line in theirs[kind] if pattern.match(line) and line not in ours[kind]]
        for line in extra:
            position = theirs[kind].index(line)
            # libgomp begins its remark with an empty line.
            del theirs[kind][position - (kind == "stderr" and position > 0 and not theirs[kind][position - 1]):position + 1]
        shown |= bool(extra)
    return shown


def signal_sender(theirs, ours):
    """cpprun says who sent a signal, where the kernel tells."""
    sender = re.compile(r" \(sent by pid <PID> \([^()]*\)\)$")
    shown = [line for line in ours["stderr"] if sender.search(line)]
    ours["stderr"] = [sender.sub("", line) for line in ours["stderr"]]
    return bool(shown)


def own_error_file_mode(theirs, ours):
    """Nobody but its owner can read the error file that cpprun leaves for its own parent."""
    private = [line for line in ours["files"] if line.startswith("-rw------- cwd/own.json = ")]
    shown = bool(private) and any(line.startswith("-rw-r--r-- cwd/own.json = ") for line in theirs["files"])
    if shown:
        ours["files"] = sorted(line.replace("-rw-------", "-rw-r--r--", 1) if line in private else line
                               for line in ours["files"])
    return shown


def arguments_refused(theirs, ours):
    """cpprun guesses why all workers ended with 2 right after their start."""
    lines = ours["stderr"]
    hint = [line for line in lines if line.startswith("hint: exit code 2 right after the start")]
    for line in hint:
        lines.remove(line)
    return len(hint) == 1


def failure_report(theirs, ours):
    """cpprun says after the table what happened, and leaves the same, and an index of the run, as JSON in
    the log folder."""
    ours["files"] = [line for line in ours["files"] if not re.search(r"/(failure|run)\.json\b", line)]
    rest = [line for line in ours["stderr"] if not REPORT.match(line)]
    shown = any(line.startswith("---- cpprun report: ") for line in ours["stderr"])
    ours["stderr"] = rest
    return shown


EVERYDAY = {
    "failure-report": failure_report,
    "arguments-refused": arguments_refused,
    "own-error-file-mode": own_error_file_mode,
    "no-framework-in-launcher": framework_in_the_launcher,
    "signal-sender": signal_sender,
    "launcher-traceback": launcher_traceback,
    "usage-text": usage_text,
    "omp-one-line": omp_one_line,
    "master-address": master_address,
    "temporary-folder": temporary_folder,
    "workers-parent": workers_parent,
}


def explain(theirs, ours):
    """Ids of the everyday differences that this pair shows; both observations are changed in place."""
    return {name for name, take_out in EVERYDAY.items() if take_out(theirs, ours)}
