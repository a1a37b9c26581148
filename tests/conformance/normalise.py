# SPDX-License-Identifier: BSD-3-Clause
"""Takes out of an observation what differs from run to run: pids, times, ports, random names, the launcher's frames."""
import hashlib
import os
import re
import resource
import socket

_OWN_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)
PREFIX = re.compile(r"^([DIWE])\d{4} \d\d:\d\d:\d\d\.\d+ +(?:\d+|<LAUNCHER>) [^\]\s]*\] ?")
CPP_PREFIX = re.compile(r"^\[([DIWE])\d{4} \d\d:\d\d:\d\d\.\d+ +[^\]]*\] ?")
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
HOST_NAMES = "|".join(map(re.escape, sorted({socket.getfqdn(), socket.gethostname()})))
CHAIN = ("During handling of the above exception, another exception occurred:",
         "The above exception was the direct cause of the following exception:")
PROMISED = re.compile(
    r"closing signal|failed \(exitcode|death signal|SignalException|ChildFailedError|Unable to shutdown|"
    r"no error file defined|skipping error code|new message format|^=+$|^-+$|FAILED$|^Failures:|^Root Cause|^\[\d+\]:|"
    r"^  (time  |host  |rank  |exitcode  |error_file|traceback )|NO_OTHER_FAILURES|is only used for static")


def _text_rules(seen):
    root = re.escape(seen["root"])
    rules = [(re.escape(str(seen["ports"][mark])) + r"(?!\d)", name)
             for mark, name in (("@P@", "<P>"), ("@Q@", "<Q>"), ("@BUSY@", "<BUSY>")) if mark in seen["ports"]]
    return rules + [
        (root, "<ROOT>"),
        (r"(?<![\w.])(/[\w.+-]+)*/bin/python3?(\.\d+)?(?![\w./-])", "<PYTHON>"),
        (r'(entry_point\\*": \\*")python3?(\.\d+)?(?=\\*")', r"\1<PYTHON>"),  # torchrun's first line may name either
        (r"(?<![\w.])(/[\w.+-]+)*/(lib/python3\.\d+/site-packages|lib/python3\.\d+)/", "<LIB>/"),
        (rf"\b{UUID}_[a-z0-9_]{{8}}(?![a-z0-9_])", "<UUID>_<RANDOM>"),
        (UUID, "<UUID>"),
        (r"torchelastic_[a-z0-9_]{8}(?![a-z0-9_])", "torchelastic_<RANDOM>"),
        (r"/([\w.-]+)_[a-z0-9_]{8}(/attempt_|$)", r"/\1_<RANDOM>\2"),
        (r"watchdog_timer_<UUID>", "watchdog_timer_<RANDOM>"),
        (r"(?<!\d)\d{30,}(?!\d)", "<RANDOM ID>"),
        (rf"\b{seen['pid']}\b", "<LAUNCHER>"),
        (r"(?i)(process |pid: |pid=|PID )\d+\b", r"\1<PID>"),
        (rf"(host      : )({HOST_NAMES})$", r"\1<HOST>"),
        (rf'("hostname": ")({HOST_NAMES})"', r'\1<HOST>"'),
        (r"(time      : )(?!1970)\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", r"\1<TIME>"),
        (r'("?timestamp"?: "?)[1-9]\d{9}\b', r"\1<EPOCH>"),
        (r"(master_port=)\d+$", r"\1<FREE PORT>"),
        (r"(Elapsed: )[\d.e-]+", r"\1<SECONDS>"),
        (r'("worker_id": ")\d+"', r'\1<PID>"'),
        (r'(worker_pid\\": \[)\d+', r"\1<PID>"),
        (r'("total_run_time": )\d+', r"\1<S>"),
        (r'("duration_ms": )[\d.]+', r"\1<MS>"),
        (r"pytorch-errorfile-\w{8}", "pytorch-errorfile-<RANDOM>"),
        (r"line \d+, in wrapper", "line <N>, in wrapper"),
    ]


def text(value, seen):
    for pattern, replacement in _text_rules(seen):
        value = re.sub(pattern, replacement, value, flags=re.MULTILINE)
    return value


def _without_frames(lines):
    """Each traceback as one mark and its last line; of a chain only the last one."""
    kept, index = [], 0
    while index < len(lines):
        mark = lines[index][:3] if re.match(r"[DIWE]\| ", lines[index]) else ""
        if not lines[index].removeprefix(mark).startswith("Traceback (most recent call last):"):
            kept.append(lines[index])
            index += 1
            continue
        _drop_chained(kept, mark)
        kept.append(mark + "<TRACEBACK>")
        index += 1
        while index < len(lines) and lines[index].removeprefix(mark).startswith(" "):
            index += 1
    return kept


def _drop_chained(kept, mark):
    """Removes the end of `kept` when that is an earlier exception of the same chain."""
    tail = [line.removeprefix(mark) for line in kept[-3:]]
    if len(tail) == 3 and tail[1].startswith(CHAIN):
        while kept.pop() != mark + "<TRACEBACK>":
            pass


def _without_usage(lines):
    """argparse's usage block as one mark."""
    kept, inside = [], False
    for line in lines:
        if line.startswith("usage: "):
            kept.append("<USAGE>")
            inside = True
        elif not (inside and line.startswith(" ")):
            inside = False
            kept.append(line)
    return kept


def _rules(raw):
    """A table's rules as marks, if they have the width they must have: that of the longest line, at most 60."""
    lines = raw.split("\n")
    ends = [index for index, line in enumerate(lines) if re.fullmatch("={10,}", line)]
    for first, last in zip(ends[::2], ends[1::2]):
        inside = [line for line in lines[first + 1:last] if not re.fullmatch("-{10,}", line)]
        width = min(60, max(len(line) for line in inside))
        for index in range(first, last + 1):
            if lines[index] in ("=" * width, "-" * width):
                lines[index] = lines[index][0] * 10
    return "\n".join(lines)


def stderr_lines(value, seen):
    lines = []
    for line in text(_rules(value), seen).split("\n"):
        line = PREFIX.sub(r"\1| ", line)
        lines.append(CPP_PREFIX.sub(r"\1| ", line))
    if lines and not lines[-1]:
        lines.pop()
    return _without_frames(_without_usage(lines))


def _value(name, value, seen):
    value = text(value, seen)
    if name == "MASTER_PORT" and value.isdigit():
        return "<FREE PORT>"
    if name == "MASTER_ADDR" and value == socket.getfqdn():
        return "<FQDN>"
    return value


def _worker(record, seen):
    if "env" not in record:
        return {}
    changed = {name: _value(name, value, seen) for name, value in record["env"].items()
               if seen["launcher_env"].get(name) != value}
    for name in seen["launcher_env"].keys() - record["env"].keys():
        changed[name] = "<removed>"
    for shell_made in ("_", "PWD", "OLDPWD", "SHLVL", "LC_CTYPE", "__PYVENV_LAUNCHER__"):
        changed.pop(shell_made, None)
    proc = {name: text(value, seen) if isinstance(value, str) else value for name, value in record["proc"].items()}
    proc["nice"] -= os.getpriority(os.PRIO_PROCESS, 0)
    for name, own in (("affinity", sorted(os.sched_getaffinity(0))), ("nofile", list(_OWN_LIMIT))):
        if proc[name] == own:
            proc[name] = "<as the suite's own>"
    proc["child_of_launcher"] = record["ppid"] == seen["pid"]
    guarded = {"guarded": True} if record.get("parent") == ["worker-guard", seen["pid"]] else {}
    return guarded | {"argv": [text(word, seen) for word in record["argv"]],
                      "sys_argv": [text(word, seen) for word in record["sys_argv"]],
                      "sys_path_0": text(record["sys_path_0"], seen), "env": changed, "proc": proc}


def _in_rank_order(file):
    """The lines of a log that all ranks share have no fixed order."""
    path, mode, body = file
    return (path, mode, "".join(sorted(body.splitlines(True)))) if "/filtered_" in path else file


def _contents(body, seen):
    """A file's text; of a long one length and digest, as it is data and no message."""
    if len(body) > 5000:
        return f"{len(body)} characters, SHA-256 {hashlib.sha256(body.encode()).hexdigest()}"
    return repr(text(body, seen))


def observation(seen, scenario):
    """The comparable form: plain lists, dicts and text."""
    stdout = text(seen["stdout"], seen).split("\n")
    stderr = stderr_lines(seen["stderr"], seen)
    if len(seen["workers"]) > 1 or "stdout" in scenario.unordered:
        stdout = sorted(line for line in stdout if line)
    if scenario.only_promised:
        stderr = [line for line in stderr if PROMISED.search(line.rpartition("| ")[2])]
    if "stderr" in scenario.unordered:
        stderr = sorted(stderr)
    files = sorted(f"{mode} {text('/' + path, seen)[1:]}" + ("" if body is None else f" = {_contents(body, seen)}")
                   for path, mode, body in map(_in_rank_order, seen["files"]))
    return {"exit": seen["exit"], "stdout": stdout, "stderr": stderr, "orphans": seen["orphans"],
            "workers": {name: _worker(record, seen) for name, record in seen["workers"].items()},
            "signals": seen["signals"], "files": files}
