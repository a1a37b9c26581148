# SPDX-License-Identifier: BSD-3-Clause
"""Workers' output for people: prefixes, colours, ranks, folded lines, progress bars, terminals."""
import json
import os
import pty
import re
import signal
import subprocess
import time

import pytest
from harness import processes
from harness.ports import free_port
from harness.screen import Screen

SECONDS_MAX = 60


@pytest.fixture
def screen():
    made = Screen(SECONDS_MAX)
    yield made
    made.close()


def _shell(script):
    return ("--no-python", "sh", "-c", script.replace("$", "$$"))


def _log(place, name):
    return sorted((place.cwd / "logs").glob(f"*/attempt_*/*/{name}"))


# --- prefixes ---

def test_B63_the_prefix_names_host_ranks_stream_attempt_and_time_on_each_node_and_after_a_restart(place):
    port = free_port()
    script = ('for n in 1 2; do echo "I am $RANK $LOCAL_RANK $TORCHELASTIC_RESTART_COUNT"; done; '
              'test $RANK.$TORCHELASTIC_RESTART_COUNT != 3.0 || exit 3; test $TORCHELASTIC_RESTART_COUNT = 1 || sleep 60')
    options = ["--nnodes=2", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}", "--max-restarts=1",
               "--omp-threads=1", "-t1", "--log-prefix=${date} ${time}|${hostname}|${rank}|${local_rank}|${stream}|${attempt}|"]
    outputs = [open(place.root / f"out{node}", "w+b") for node in (0, 1)]
    agents = [place.start(*options, f"--node-rank={node}", *_shell(script), stdout=outputs[node], stderr=outputs[node])
              for node in (0, 1)]
    assert [agent.wait(SECONDS_MAX) for agent in agents] == [0, 0], [(place.root / f"out{n}").read_text() for n in (0, 1)]
    seen = set()
    for node in (0, 1):
        lines = [line for line in (place.root / f"out{node}").read_text().splitlines() if "I am" in line]
        for line in lines:
            moment, host, rank, local, stream, attempt, text = line.split("|")
            assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", moment), line
            assert (host, stream) == (os.uname().nodename, "stdout"), line
            assert text == f"I am {rank} {local} {attempt}", line
            seen.add((int(rank), int(attempt)))
    assert {(rank, 1) for rank in range(4)} | {(3, 0)} <= seen
    for output in outputs:
        output.close()


@pytest.mark.parametrize("preset, shown", [
    ("none", "hello"), ("rank", "[0] hello"), ("host", "[HOST 0] hello"), ("time", "TIME [0] hello"),
    ("full", "DATE TIME [HOST rank 0 local 0 stdout] hello")])
def test_a_preset_says_who_writes(place, preset, shown):
    result = place.run("-t1", f"--log-prefix={preset}", *_shell("echo hello"))
    line = re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "TIME", re.sub(r"\d{4}-\d\d-\d\d", "DATE", result.stdout))
    assert line == shown.replace("HOST", os.uname().nodename) + "\n", result


def test_a_prefix_on_the_command_line_beats_a_variable(place):
    env = {"CPPRUN_LOG_PREFIX": "rank"}
    assert place.run("-t1", *_shell("echo x"), env=env).stdout == "[0] x\n"
    assert place.run("-t1", "--log-line-prefix-template=T:", *_shell("echo x"), env=env).stdout == "T:x\n"
    both = place.run("--log-prefix=rank", "--log-line-prefix-template=T:", *_shell("echo x"))
    assert both.code == 2 and "--log-line-prefix-template is given too" in both.stderr, both
    wrong = place.run("--log-prefix=ranks", *_shell("echo x"))
    assert wrong.code == 2 and "'ranks'" in wrong.stderr and "none, rank, host, time, full" in wrong.stderr, wrong


COLOR = "\x1b["


def _on_terminal(place, screen, *options, env=None):
    process = place.start("-t3", "--log-dir=logs", "--nproc-per-node=2", "--omp-threads=1", *options, *_shell("echo out; echo err >&2"),
                          stdout=screen.writer, stderr=screen.writer, env={"TERM": "xterm"} | (env or {}))
    return screen.wait_for_end(process)


def test_each_rank_has_its_colour_on_a_terminal_and_no_log_file_has_one(place, screen):
    text = _on_terminal(place, screen, "--duplicate-stdout-filters=out")
    for rank in (0, 1):
        for word in ("out", "err"):
            assert re.search(rf"\x1b\[\d\dm\[default{rank}\]:\x1b\[0m{word}\n", text), text
    assert len(set(re.findall(r"\x1b\[(\d\d)m\[default", text))) == 2, text
    files = _log(place, "*.log") + sorted((place.cwd / "logs").glob("*/attempt_0/filtered_stdout.log"))
    assert len(files) == 5
    assert not any(COLOR in file.read_text() for file in files)


@pytest.mark.parametrize("options, env", [((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"}), (("--color=never",), {})])
def test_colours_can_be_unwanted(place, screen, options, env):
    text = _on_terminal(place, screen, *options, env=env)
    assert "[default0]:out\n" in text and COLOR not in text, text


def test_a_pipe_gets_colours_only_when_asked(place):
    assert place.run("-t1", *_shell("echo x"), env={"TERM": "xterm"}).stdout == "[default0]:x\n"
    assert place.run("-t1", "--color=always", *_shell("echo x"), env={"NO_COLOR": "1"}).stdout == "\x1b[36m[default0]:\x1b[0mx\n"


# --- which ranks ---

def test_B64_ranks_are_chosen_by_their_global_number_on_all_nodes(place):
    port = free_port()
    outputs = [open(place.root / f"out{node}", "w+b") for node in (0, 1)]
    options = ["--nnodes=2", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}", "--omp-threads=1",
               "-t1", "--log-dir=logs", "--ranks-filter=0, 3-9", "--log-prefix=rank"]
    agents = [place.start(*options, f"--node-rank={node}", *_shell("echo here; echo direct >&2"), stdout=outputs[node], stderr=outputs[node])
              for node in (0, 1)]
    assert [agent.wait(SECONDS_MAX) for agent in agents] == [0, 0]
    for node, rank in ((0, 0), (1, 3)):
        lines = sorted(line for line in (place.root / f"out{node}").read_text().splitlines() if "here" in line or "direct" in line)
        assert lines == [f"[{rank}] here", "direct"]
    assert [file.read_text() for file in _log(place, "stdout.log")] == ["here\n"] * 4
    for output in outputs:
        output.close()


def test_both_filters_together_show_what_both_name(place):
    result = place.run("--nproc-per-node=4", "--omp-threads=1", "--ranks-filter=1-2", "--local-ranks-filter=0,2", *_shell("echo $RANK"))
    assert result.stdout == "2\n", result
    result = place.run("--nproc-per-node=3", "--omp-threads=1", "--log-dir=/dev/null", "--ranks-filter=1", *_shell("echo $RANK"))
    assert result.stdout == "1\n", result


@pytest.mark.parametrize("value", ["x", "1-", "-1", "3-1", "1,", "99999999999999999999"])
def test_a_wrong_filter_of_ranks_is_refused(place, value):
    result = place.run(f"--ranks-filter={value}", *_shell("echo x"))
    assert result.code == 2 and "--ranks-filter" in result.stderr and f"'{value}'" in result.stderr, result


def test_B58_a_rank_that_reads_the_launchers_stdin_is_shown_though_a_filter_leaves_it_out(place):
    reader, writer = os.pipe()
    answers, answer = os.pipe()
    process = place.start("--nproc-per-node=2", "--omp-threads=1", "--stdin=1", "--local-ranks-filter=0", "--ranks-filter=0",
                          *_shell('test $RANK = 0 && exit; printf "(Pdb) "; read word; echo "got $word"'), stdin=answers, stdout=writer)
    os.close(writer)
    os.close(answers)
    assert os.read(reader, 100) == b"(Pdb) "
    os.write(answer, b"next\n")
    assert os.read(reader, 100) == b"got next\n"
    assert process.wait(SECONDS_MAX) == 0
    os.close(answer)
    os.close(reader)


def test_B58_a_rank_that_asks_where_nobody_sees_it_is_told_of_once(place):
    keyboard, terminal = pty.openpty()
    process = place.start("--nproc-per-node=2", "--omp-threads=1", "--local-ranks-filter=0",
                          *_shell('test $RANK = 0 && { while ! test -e done; do sleep 0.1; done; exit; }; '
                                  'printf "(Pdb) "; read word; read word'), stdin=terminal)
    os.close(terminal)
    try:
        line = process.stderr.readline().decode()
        assert "local rank 1 waits for input from the terminal" in line and "--stdin=RANK" in line, line
        os.write(keyboard, b"next\n")
        time.sleep(3)  # it asks once more, and is looked at once more
        os.write(keyboard, b"next\n")
        (place.cwd / "done").touch()
        assert process.wait(SECONDS_MAX) == 0
        assert process.stderr.read() == b""
    finally:
        process.kill()
        os.close(keyboard)


# --- folding ---

def test_equal_lines_of_all_ranks_are_shown_once(place):
    result = place.run("--nproc-per-node=8", "--omp-threads=1", "-t3", "--log-dir=logs", "--fold-lines=50s", "--log-prefix=rank",
                       *_shell("echo loading; echo mine $RANK; echo loaded; echo warning >&2; sleep 0.2; echo done"))
    lines = result.stdout.splitlines()
    for word in ("loading", "loaded", "done"):
        folded, = (line for line in lines if word in line)
        assert re.fullmatch(rf"\[[0-7]\] {word} \[x8 ranks: 0-7\]", folded), result
    assert sorted(line for line in lines if "mine" in line) == [f"[{rank}] mine {rank}" for rank in range(8)]
    assert re.fullmatch(r"\[[0-7]\] warning \[x8 ranks: 0-7\]\n", result.stderr), result
    assert len(_log(place, "stdout.log")) == 8
    for file in _log(place, "stdout.log"):
        assert re.fullmatch("loading\nmine [0-7]\nloaded\ndone\n", file.read_text())


def test_a_line_of_one_rank_alone_is_shown_after_the_window_though_the_others_are_silent(place):
    process = place.start("--nproc-per-node=2", "--omp-threads=1", "-t1", "--fold-lines=0.1", *_shell("test $RANK = 1 || echo alone; sleep 600"))
    assert process.stdout.readline() == b"[default0]:alone\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS_MAX)


def test_a_prompt_is_shown_behind_what_its_rank_wrote_before(place):
    process = place.start("--nproc-per-node=2", "--omp-threads=1", "-t1", "--fold-lines=50s", "--log-prefix=rank",
                          *_shell("test $RANK = 1 || { echo before; printf 'prompt> '; }; sleep 600"))
    expected = b"[0] before\n[0] prompt> "
    assert process.stdout.read(len(expected)) == expected
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS_MAX)


def test_folding_without_lines_is_said(place):
    result = place.run("--fold-lines=1", *_shell("echo x"))
    assert result.code == 0 and "--fold-lines folds the lines of --tee" in result.stderr, result
    wrong = place.run("--fold-lines=1h", *_shell("echo x"))
    assert wrong.code == 2 and "at most one minute" in wrong.stderr, wrong


# --- progress bars ---

BAR = """import sys, time
for i in range(1001):
    sys.stdout.write(f"\\r{i / 10}%")
    sys.stdout.flush()
    time.sleep(0.002)
sys.stdout.write("\\n")
"""


def test_B62_a_pipe_gets_some_states_of_a_bar_and_the_last_and_the_file_all(place):
    place.write("bar.py", BAR)
    result = place.run("-t1", "--log-dir=logs", "bar.py")
    lines = result.stdout.splitlines()
    assert lines[-1] == "[default0]:100.0%" and all(re.fullmatch(r"\[default0\]:[\d.]+%", line) for line in lines), result
    assert len(lines) <= 13 + result.seconds, result
    file, = _log(place, "stdout.log")
    assert file.read_bytes() == b"".join(b"\r%.1f%%" % (i / 10) for i in range(1001)) + b"\n"


def test_B62_each_state_is_a_line_when_asked_for(place):
    place.write("bar.py", BAR)
    result = place.run("-t1", "--progress-bars=all", "bar.py")
    assert result.stdout.splitlines()[1:] == [f"[default0]:{i / 10}%" for i in range(1001)], result


def test_B62_a_terminal_gets_the_newest_state_over_the_former(place, screen):
    process = place.start("-t1", "--color=never", *_shell(r'printf "\r10%%"; while ! test -e go1; do sleep 0.02; done; '
                          r'printf "\r20%%"; while ! test -e go2; do sleep 0.02; done; printf "\r30%%\nnext\n"'),
                          stdout=screen.writer, env={"TERM": "xterm"})
    screen.wait_for(r"\[default0\]:10%")
    (place.cwd / "go1").touch()
    screen.wait_for(r"\[default0\]:20%")
    (place.cwd / "go2").touch()
    text = screen.wait_for_end(process)
    assert text == "[default0]:10%\r\x1b[K[default0]:20%\r\x1b[K[default0]:30%\n[default0]:next\n"


def test_a_prompt_on_a_terminal_is_shown_with_its_answer_behind_it(place, screen):
    process = place.start("-t1", "--color=never", *_shell("printf 'name? '; while ! test -e go; do sleep 0.02; done; echo Ada"),
                          stdout=screen.writer, env={"TERM": "xterm"})
    screen.wait_for(r"\[default0\]:name\? ")
    (place.cwd / "go").touch()
    assert screen.wait_for_end(process) == "[default0]:name? Ada\n"


def test_bars_of_two_ranks_do_not_write_over_each_other(place, screen):
    script = r'for i in 1 2 3 4 5 6 7 8 9; do printf "\rrank $RANK $i/9"; sleep 0.05; done; printf "\n"'
    process = place.start("-t1", "--color=never", "--nproc-per-node=2", "--omp-threads=1", *_shell(script),
                          stdout=screen.writer, env={"TERM": "xterm"})
    text = screen.wait_for_end(process)
    for rank in (0, 1):
        assert re.search(rf"(^|\n|\x1b\[K)\[default{rank}\]:rank {rank} 9/9\n", text), text
    # What is written over a state belongs to the same rank.
    for line in text.split("\n"):
        states = line.split("\r\x1b[K")
        ranks = {re.match(r"\[default(\d)\]:rank \1 \d/9$", state) for state in states if state}
        assert None not in ranks and len({rank.group(1) for rank in ranks}) <= 1, text


def test_what_the_launcher_says_begins_its_own_line(place, screen):
    process = place.start("-t1", "--color=never", "--nproc-per-node=2", "--omp-threads=1",
                          *_shell(r'test $RANK = 1 || { printf "\r10%%"; sleep 600; }; while ! test -e go; do sleep 0.02; done; exit 3'),
                          stdout=screen.writer, stderr=screen.writer, env={"TERM": "xterm"})
    screen.wait_for(r"\[default0\]:10%")
    (place.cwd / "go").touch()
    text = screen.wait_for_end(process)
    assert re.search(r"\[default0\]:10%\n[WE]\d{4} ", text), text


# --- a terminal for stderr ---

def test_with_pty_stderr_is_a_terminal_whose_bytes_pass_unchanged(place):
    result = place.run("--capture=pty", *_shell(r'test -t 2 || exit 5; printf "bar\rbar\n\377\n" >&2; test ! -t 1'))
    assert result.code == 0 and result.stderr.encode(errors="surrogateescape") == b"bar\rbar\n\xff\n", result


def test_with_pty_a_failed_workers_last_words_are_in_the_report(place):
    for _ in range(10):
        result = place.run("--capture=pty", "--nproc-per-node=2", "--omp-threads=1", *_shell("echo last words of $RANK >&2; exit 4"))
        report = result.stderr[result.stderr.index("---- cpprun report: "):]
        assert "  | last words of " in report, result
        first = min(line for line, text in enumerate(result.stderr.splitlines()) if "failed (exitcode: 4)" in text)
        assert any("last words" in text for text in result.stderr.splitlines()[:first]), result


SIZES = """import fcntl, os, signal, struct, sys, termios
def size():
    return "%d %d" % struct.unpack("HHHH", fcntl.ioctl(2, termios.TIOCGWINSZ, b"\\0" * 8))[:2]
signal.signal(signal.SIGWINCH, lambda *_: (os.write(1, (size() + "\\n").encode()), os._exit(0)))
os.write(1, (size() + "\\n").encode())
while True:
    signal.pause()
"""


def test_with_pipe_nothing_is_lost_where_a_shell_opens_stderr_anew(place):
    script = "; ".join(f"echo a{i} >&2; echo b{i} > /dev/stderr" for i in range(20)) + "; seq 100 > /dev/stderr; exit 4"
    result = place.run("--capture=pipe", *_shell(script))
    expected = [f"{letter}{i}" for i in range(20) for letter in "ab"] + [str(i) for i in range(1, 101)]
    assert result.code == 1 and result.stderr.splitlines()[:len(expected)] == expected, result
    assert "  | 100" in result.stderr, result


def test_with_pty_the_size_is_that_of_the_launchers_terminal_and_changes_with_it(place, screen):
    screen.resize(33, 77)
    place.write("sizes.py", SIZES)
    process = place.start("--capture=pty", "sizes.py", stderr=screen.writer)
    assert process.stdout.readline() == b"33 77\n"
    screen.resize(44, 88)
    # The terminal is not the controlling one of this test's launcher, so that the kernel tells nobody.
    process.send_signal(signal.SIGWINCH)
    assert process.stdout.readline() == b"44 88\n"
    assert process.wait(SECONDS_MAX) == 0


def test_with_pty_a_reader_that_takes_nothing_blocks_no_worker(place):
    process = place.start("--capture=pty", *_shell("head -c 3000000 /dev/zero >&2; touch done; sleep 600"))
    processes.wait_until((place.cwd / "done").exists, SECONDS_MAX, "three megabytes that nobody reads")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=SECONDS_MAX)
    assert err.count(b"\0") == 3_000_000


def test_with_pty_a_process_that_outlives_the_launcher_gets_an_error_and_no_signal(place):
    # Out of the worker's tree, with an output of its own but for stderr.
    place.write("survivor.sh", "trap 'touch hup' HUP; touch here; while test ! -e go; do sleep 0.02; done\n"
                "echo word >&2 || touch refused; touch done\n")
    process = place.start("--capture=pty", "--containment=group", *_shell("setsid sh survivor.sh </dev/null >/dev/null & touch started; wait"),
                          stdout=subprocess.DEVNULL)
    processes.wait_until((place.cwd / "here").exists, SECONDS_MAX, "the process")
    process.kill()
    process.communicate(timeout=SECONDS_MAX)
    (place.cwd / "go").touch()
    processes.wait_until((place.cwd / "done").exists, SECONDS_MAX, "its end")
    assert (place.cwd / "refused").exists() and not (place.cwd / "hup").exists()


# --- other cases of the group ---

def test_B61_a_line_is_on_the_console_and_in_the_file_while_its_writer_waits(place):
    process = place.start("-t1", "--log-dir=logs", "--nproc-per-node=2", "--omp-threads=1",
                          *_shell("n=0; while test $n -lt 20; do echo $RANK line $n; while ! test -e seen.$RANK.$n; do sleep 0.005; done; n=$((n+1)); done"))
    # The worker goes on only when its line has come, so that a lump at the end would hang here.
    for _ in range(40):
        rank, _, number = process.stdout.readline().decode().removeprefix("[default").split(":")[1].split()
        log, = (place.cwd / "logs").glob(f"*/attempt_0/{rank}/stdout.log")
        assert log.read_text().endswith(f"{rank} line {number}\n")
        (place.cwd / f"seen.{rank}.{number}").touch()
    assert process.wait(SECONDS_MAX) == 0


def test_B61_python_does_not_keep_its_lines_to_itself(place):
    place.write("w.py", "import time\nprint('a line')\ntime.sleep(600)\n")
    process = place.start("-t1", "w.py")
    assert process.stdout.readline() == b"[default0]:a line\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS_MAX)


def test_B67_at_info_the_parameters_are_shown_and_at_the_default_level_not(place):
    command = ("--standalone", "--nproc-per-node=2", "--omp-threads=1", *_shell("true"))
    result = place.run(*command, env={"LOGLEVEL": "INFO"})
    run_id, = re.findall(r"--rdzv-id=([0-9a-f-]{36})\b", result.stderr)[:1]
    assert re.search(rf"run_id\s*: {run_id}", result.stderr), result
    assert int(re.search(r"master_port=([0-9]+)", result.stderr).group(1)) > 0, result
    assert "global_world_sizes=[2, 2]" in result.stderr and "restart_count=0" in result.stderr, result
    assert place.run(*command).stderr == ""


def test_B56_a_scheduler_finds_the_root_cause_in_the_file_that_it_named(place):
    place.write("own.py", "import json, os, sys\nif os.environ['RANK'] == '1':\n"
                "    json.dump({'message': {'message': 'ValueError: mine', 'extraInfo': {'timestamp': '1'}}}, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
                "    sys.exit(1)\nimport time\ntime.sleep(60)\n")
    result = place.run("--nproc-per-node=2", "--omp-threads=1", "-r3", "--log-dir=logs", "own.py",
                       env={"TORCHELASTIC_ERROR_FILE": str(place.cwd / "launcher.json")})
    assert result.code == 1, result
    assert json.loads((place.cwd / "launcher.json").read_text())["message"]["message"] == "ValueError: mine"
    tree = sorted(str(path.relative_to(place.cwd / "logs")).split("/", 1)[1] for path in (place.cwd / "logs").rglob("*") if path.is_file())
    assert tree == ["attempt_0/0/stderr.log", "attempt_0/0/stdout.log", "attempt_0/1/error.json", "attempt_0/1/stderr.log",
                    "attempt_0/1/stdout.log", "failure.json", "run.json"]
