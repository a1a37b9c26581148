# SPDX-License-Identifier: BSD-3-Clause
"""Contract section 4: exit codes, restarts, signals."""
import signal

from scenario import Differs, Lines, no_python, scenario

TWO = ("--nproc-per-node", "2", "--no-python")
# Two workers, rank 0 a little ahead. torchrun looks only once a second, cpprun waits long enough: both see both.
TOGETHER = ("--monitor-interval", "1", *TWO, "sh", "-c", 'sleep "0.$RANK"; eval "$1"', "sh")
SETTLED = {"CPPRUN_SETTLE_TIME": "5s"}


def send(*numbers, workers=2, group=False, pause=0.5):
    """When the workers are up: sends the signals one after the other."""
    def act(running):
        running.wait_for_workers(workers)
        for index, number in enumerate(numbers):
            if index:
                running.pause(pause)
            (running.signal_group if group else running.signal)(number)
    return act


def hang_up(running):
    """A hangup; and only if nobody has told the workers after a while, SIGTERM as the end of the story."""
    running.wait_for_workers(2)
    running.signal(signal.SIGHUP)
    if not running.signals_arrive(1, seconds=3):
        running.signal(signal.SIGTERM)


RESTARTING = ("sh", "-c", 'echo "try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS"; '
              '[ "$TORCHELASTIC_RESTART_COUNT" = 2 ] || exit 5')

EXITS = [
    no_python("success_is_silent", "sh", "-c", "exit 0", shows=("temporary-folder",)),
    *(no_python(f"a_worker_that_exits_{code}_is_reported", "sh", "-c", f"exit {code}")
      for code in (1, 77, 126, 127, 255)),
    no_python("a_worker_that_exits_2_is_reported", "sh", "-c", "exit 2", shows=("arguments-refused", "failure-report")),
    no_python("a_worker_that_exits_3_is_reported", "sh", "-c", "exit 3", shows=("launcher-traceback",)),
    no_python("an_exit_code_wraps_at_256", "python3", "-c", "import os; os._exit(256)"),
    *(no_python(f"a_worker_killed_by_{name}_is_reported", "python3", "-c", f"import os; os.kill(os.getpid(), {number})",
                wrapper=("sh", "-c", 'ulimit -c 0; exec "$@"', "sh"))
      for name, number in (("sigsegv", 11), ("sigabrt", 6), ("sigkill", 9), ("sigterm", 15), ("sighup", 1),
                           ("signal_34", 34), ("signal_40", 40), ("signal_64", 64))),
    scenario("two_workers_that_fail_are_both_reported", *TOGETHER, "exit 3", env=SETTLED),
    scenario("a_script_that_raises_is_reported_by_its_name", "boom.py", files={"boom.py": "import no_such_module\n"}),
    scenario("one_of_three_fails", "--nproc-per-node", "3", "--no-python", "sh", "-c",
             'case $RANK in 1) exit 5;; *) trap "" TERM; sleep 0.5; exit 0;; esac'),
    scenario("an_early_success_is_no_reason_for_anything", *TWO, "sh", "-c",
             "[ $$RANK = 1 ] && exit 0; sleep 1; echo late"),
    scenario("a_sibling_that_exits_0_on_the_stop_signal_is_not_listed", "--nproc-per-node", "2", "signal_log.py",
             "log|exit 3"),
    scenario("a_sibling_that_dies_of_the_stop_signal_is_listed", "--nproc-per-node", "2", "signal_log.py", "die|exit 3"),
    scenario("a_sibling_that_exits_7_on_the_stop_signal_is_listed", *TWO, "sh", "-c",
             '[ $RANK = 1 ] && { sleep 1; exit 3; }; trap "exit 7" TERM; sleep 20 & wait'),
    no_python("a_background_process_outlives_its_successful_worker", "sh", "-c",
              "./e & while [ ! -e \"$PROBE_DIR/0.0.json\" ]; do sleep 0.05; done; exit 0", env={"PROBE_DO": "sleep"}),
    scenario("a_role_names_no_failure", "--role", "tr", *TOGETHER, "exit 4", env=SETTLED),
    scenario("python_exec_is_the_title_of_the_table", "-m", "python3", "-c", "import sys; sys.exit(3)",
             env={"PYTHON_EXEC": "env"}, files={}),
]

RESTARTS = [
    scenario("restarts_are_counted_and_end_well", "--max-restarts", "2", "--no-python", *RESTARTING),
    scenario("restarts_in_static_mode", "--max-restarts", "2", "--master-port", "@P@", "--no-python", *RESTARTING),
    scenario("restarts_in_standalone_mode", "--max-restarts", "2", "--standalone", "--no-python", *RESTARTING),
    scenario("restarts_in_c10d_mode", "--max-restarts", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
             "localhost:@P@", "--no-python", *RESTARTING),
    scenario("each_attempt_has_its_environment_and_logs", "--max-restarts", "2", "-r", "3", "--log-dir", "L",
             "--nproc-per-node", "2", "w.py", env={"PROBE_DO": "first 5"}),
    scenario("restarts_run_out", "--max-restarts", "1", *TOGETHER, "exit 6", env=SETTLED),
    scenario("one_failing_worker_restarts_all", "--max-restarts", "1", "--nproc-per-node", "2", "signal_log.py",
             "die|exit 3"),
    scenario("info_tells_of_restarts", "--max-restarts", "1", "--no-python", "sh", "-c", "exit 2",
             env={"LOGLEVEL": "INFO"},
             differs=(Differs("info-lines", {"stderr": "1/1 attempts left; will restart worker group"}),)),
]

SIGTERM_ONCE = r"\{'0.0': \['SIGTERM'\], '0.1': \['SIGTERM'\]\}"
STOPPED = {"signals": SIGTERM_ONCE, "stderr": "Sending process <PID> closing signal SIGTERM"}

SIGNALS = [
    *(scenario(f"{name.lower()}_is_forwarded", "--nproc-per-node", "2", "signal_log.py", "log",
               act=send(getattr(signal, name)), shows=("signal-sender",))
      for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")),
    scenario("ctrl_c_reaches_each_worker_once", "--nproc-per-node", "2", "signal_log.py", "log",
             act=send(signal.SIGINT, group=True)),
    scenario("a_hangup_under_nohup", "--nproc-per-node", "2", "signal_log.py", "log", wrapper=("nohup",),
             act=hang_up,
             differs=(Differs("ignored-hangup-stays-ignored", {"signals": "SIGTERM", "stderr": "Received 15 death"}),)),
    scenario("a_worker_that_ignores_the_signal_is_killed", "--shutdown-timeout", "1", "--nproc-per-node", "2",
             "signal_log.py", "ignore", act=send(signal.SIGTERM)),
    scenario("the_shutdown_timeout_has_a_variable", "--nproc-per-node", "2", "signal_log.py", "ignore",
             env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1"}, act=send(signal.SIGTERM)),
    scenario("a_second_signal_starts_a_second_round", "--shutdown-timeout", "2", "--nproc-per-node", "2",
             "signal_log.py", "ignore", act=send(signal.SIGTERM, signal.SIGINT),
             differs=(Differs("second-signal", {"signals": SIGTERM_ONCE, "stderr": "Received SIGINT again"}),)),
    scenario("a_second_sigterm_starts_a_second_round", "--shutdown-timeout", "2", "--nproc-per-node", "2",
             "signal_log.py", "ignore", act=send(signal.SIGTERM, signal.SIGTERM),
             differs=(Differs("second-signal", {"signals": SIGTERM_ONCE,
                                                "stderr": "SIGTERM again: the workers are being stopped already"}),)),
    scenario("a_third_signal", "--shutdown-timeout", "5", "--nproc-per-node", "2", "signal_log.py", "ignore",
             act=send(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
             differs=(Differs("no-orphans", {"orphans": 0}),
                      Differs("second-signal", {"signals": SIGTERM_ONCE, "stderr": "Received SIGINT again"}))),
    scenario("the_launchers_own_sigkill", "--nproc-per-node", "2", "signal_log.py", "ignore", act=send(signal.SIGKILL),
             differs=(Differs("no-orphans", {"orphans": 0}),)),
    scenario("a_signal_that_nobody_handles", "--nproc-per-node", "2", "signal_log.py", "log",
             act=send(signal.SIGUSR1), differs=(Differs("no-orphans", {"orphans": 0, **STOPPED}),)),
    scenario("a_chosen_signal_is_forwarded_and_ends_the_run", "--signals-to-handle", "SIGUSR1", "--nproc-per-node", "2",
             "signal_log.py", "log", act=send(signal.SIGUSR1)),
    scenario("a_signal_left_out_of_the_list", "--signals-to-handle", "SIGUSR1", "--nproc-per-node", "2",
             "signal_log.py", "log", act=send(signal.SIGTERM),
             differs=(Differs("no-orphans", {"orphans": 0, **STOPPED}),)),
    scenario("an_unknown_signal_name_is_a_warning", "--signals-to-handle", "SIGBOGUS", "w.py",
             differs=(Differs("launcher-traceback", {"stderr": Lines(theirs=(r"W\| <TRACEBACK>",
                                                                             r"W\| AttributeError: .*"))}),)),
    scenario("a_signal_that_cannot_be_handled", "--signals-to-handle", "SIGKILL", "w.py",
             differs=(Differs("uncatchable-signals", {"exit": 0, "stdout": "argv", "workers": "0.0",
                                                      "stderr": "Failed to register signal handler for SIGKILL"}),)),
    scenario("a_worker_killed_by_sigterm_is_an_ordinary_failure", "--max-restarts", "0", "--no-python", "sh", "-c",
             "kill -TERM $$$$"),
]

SCENARIOS = [*EXITS, *RESTARTS, *SIGNALS]
