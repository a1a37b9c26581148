# SPDX-License-Identifier: BSD-3-Clause
"""Contract section 6: error files, the failure table, the launcher's own error file."""
import signal

from scenario import Differs, scenario

OWN = {"TORCHELASTIC_ERROR_FILE": "own.json"}


def broken(name, text):
    """An error file that torchrun cannot read: it gives up without a table."""
    return scenario(name, "leave_error.py", text, "7",
                    differs=(Differs("broken-error-file", {"stderr": "leave_error.py FAILED"}),))


SCENARIOS = [
    scenario("a_recorded_exception_is_shown_and_copied", "--log-dir", "L", "recorded.py", "boom", env=OWN,
             shows=("own-error-file-mode",)),
    scenario("a_recorded_exception_without_a_file_of_our_own", "recorded.py", "boom"),
    scenario("the_recorded_one_of_three_is_the_root_cause", "--nproc-per-node", "3", "--log-dir", "L", "recorded.py",
             "boom", "1", env=OWN, only_promised=True),
    scenario("a_recorded_exit_code_leaves_no_file", "recorded.py", "4", env=OWN),
    scenario("a_recorded_exit_0_is_success", "recorded.py", "0", env=OWN),
    scenario("a_recorded_interrupt_leaves_no_file", "recorded.py", "interrupt", env=OWN),
    scenario("an_error_file_and_a_signal_are_both_shown", "leave_error.py",
             '{"message": {"message": "mm", "extraInfo": {"py_callstack": "stack\\nof two\\n", "timestamp": "1600000000"}}}',
             "-11", env=OWN, wrapper=("sh", "-c", 'ulimit -c 0; exec "$@"', "sh")),
    scenario("a_plain_message_is_shown_and_copied_unchanged", "leave_error.py",
             '{"message":"plain text","timestamp":"10"}', "7", env=OWN),
    scenario("a_plain_message_without_a_time_dates_from_the_epoch", "leave_error.py", '{"message":"plain text"}', "7"),
    scenario("an_empty_message_counts_as_none", "leave_error.py", '{"message":"","timestamp":"10"}', "7"),
    scenario("a_message_of_many_lines_is_printed_as_it_is", "leave_error.py",
             '{"message":"one\\ntwo $$x\\n  three","timestamp":10}', "7"),
    scenario("extra_keys_are_kept_in_the_copy", "leave_error.py",
             '{"message":{"message":"mm","extraInfo":{"timestamp":"1600000000"}},"more":1}', "7", env=OWN),
    scenario("a_message_without_text_is_not_available", "leave_error.py",
             '{"message":{"extraInfo":{"timestamp":"1600000000"}}}', "7", env=OWN),
    scenario("an_error_file_of_a_successful_worker_is_ignored", "leave_error.py",
             '{"message":"plain text","timestamp":"10"}', "0", env=OWN),
    scenario("a_siblings_older_error_is_the_root_cause", "--nproc-per-node", "2", "both.py", env=OWN,
             # Rank 1 ends when rank 0 has ended.
             files={"both.py": "import os, signal, sys, time\nrank = int(os.environ['RANK'])\n"
                    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\npath = os.environ['PROBE_DIR'] + '/rank0'\n"
                    "if rank == 0:\n    open(path + '.new', 'w').write(str(os.getpid()))\n"
                    "    os.rename(path + '.new', path)\n"
                    "def waits():\n"
                    "    try:\n        return open(f'/proc/{open(path).read()}/stat').read().rsplit(')')[1].split()[0] not in 'ZX'\n"
                    "    except OSError:\n        return not os.path.exists(path)\n"
                    "open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write("
                    "'{\"message\": \"of rank %d\", \"timestamp\": %d}' % (rank, 200 - rank))\nwhile rank and waits(): time.sleep(0.001)\nsys.exit(5)\n"}),
    broken("an_error_file_with_half_a_json", '{"mess'),
    broken("an_empty_error_file", ""),
    broken("an_error_file_with_a_list", "[1,2]"),
    broken("an_error_file_without_message", '{"foo":1}'),
    broken("an_error_file_with_a_number_as_message", '{"message":5}'),
    scenario("a_signal_is_written_to_the_launchers_error_file", "signal_log.py", "log", env=OWN,
             act=lambda running: (running.wait_for_workers(1), running.signal(signal.SIGTERM)),
             differs=(Differs("own-error-file", {"files": "SignalException: Process <LAUNCHER> got signal: 15"}),)),
    scenario("a_failing_start_is_written_to_the_launchers_error_file", "--no-python", "nosuchcmd", env=OWN,
             differs=(Differs("program-checked-early", {"exit": 127, "stderr": "nosuchcmd", "files": "own.json|^$"}),)),
    scenario("a_failure_without_error_file_leaves_ours_alone", "leave_error.py", "-", "7", env=OWN),
    scenario("an_old_error_file_of_ours_is_replaced", "leave_error.py", '{"message":"new","timestamp":"10"}', "7",
             env=OWN, files={"own.json": "old"}, only_promised=True),
    scenario("run_path_reports_its_function", "--run-path", "--nproc-per-node", "2", "ran.py", env=OWN,
             files={"ran.py": "import os, time\nif os.environ['RANK'] == '1':\n    raise ValueError('boom')\n"
                    "time.sleep(60)\n"}, only_promised=True,
             differs=(Differs("run-path", {"stderr": r"of fn: run_script_path \(start_method: spawn\)(.|\n)*"
                                           r"^run_script_path FAILED$(.|\n)*exitcode  : -15(.|\n)*exitcode  : 1 ",
                                           "files": r'own.json = .*ValueError: boom.*"errorCode": 1'}),)),
]
