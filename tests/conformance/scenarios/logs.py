# SPDX-License-Identifier: BSD-3-Clause
"""Contract sections 5 and 8: redirects, tee, filters, events, timers."""
from scenario import Differs, no_python, scenario

SAY = ("--nproc-per-node", "2", "--log-dir", "L", "--no-python", "sh", "-c",
       "echo out $RANK; echo err $RANK >&2")
BOTH = ("stdout", "stderr")


def say(name, *options, **fields):
    """Two workers that write one line to each stream."""
    return scenario(name, *options, *SAY, unordered=BOTH, **fields)


SCENARIOS = [
    say("nothing_redirected_leaves_no_log_files"),
    say("redirect_of_stdout", "-r", "1"),
    say("redirect_of_stderr", "-r", "2"),
    say("redirect_of_both", "-r", "3"),
    say("tee_of_stdout", "-t", "1"),
    say("tee_of_stderr", "-t", "2"),
    say("tee_of_both", "-t", "3"),
    say("redirects_by_rank", "-r", "0:1,1:2"),
    say("tee_by_rank", "-t", "0:1,1:2"),
    say("tee_decides_about_the_console", "-r", "3", "-t", "0:1"),
    say("redirect_and_tee_of_different_streams", "-r", "1", "-t", "2"),
    say("ranks_beyond_nproc_are_fine", "-t", "0:1,1:2,2:3,5:3"),
    scenario("tee_splits_odd_output_into_the_same_lines", "-t", "1", "--log-dir", "L", "odd_output.py",
             differs=(Differs("tee-keeps-bytes", {"stdout": r"\[default0\]:bad\\xff\\xfeend"}),)),
    # "n": a bare number could be the launcher's pid, which is normalised away.
    scenario("tee_loses_nothing_of_many_lines", "-t", "1", "--log-dir", "L", "--no-python", "seq", "-f", "n%g", "1", "1500"),
    scenario("tee_survives_a_closed_console", "-t", "1", "--nproc-per-node", "2", "--log-dir", "L", "--no-python", "sh",
             "-c", "seq 1 30000; echo done $RANK", stdout="closed",
             differs=(Differs("own-words-for-failures", {"stderr": "(?i)error in log tailor|broken pipe|closed"}),)),
    scenario("tee_goes_on_after_a_restart", "-t", "1", "--max-restarts", "1", "--no-python", "sh", "-c",
             "echo att $TORCHELASTIC_RESTART_COUNT; exit $((1 - TORCHELASTIC_RESTART_COUNT))"),
    scenario("tee_to_a_temporary_folder", "-t", "3", "--no-python", "echo", "hi"),
    say("the_prefix_template_is_taken_from_the_environment", "-t", "3", "--role", "tr",
        env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${role_name}|${rank}|${local_rank}|$$|$rank2|$> "}),
    scenario("the_hostname_macro_came_later", "-t", "3", "--no-python", "echo", "hi",
             env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "E${rank}${hostname}:"},
             differs=(Differs("newest-options", {"stdout": r"^E0[\w.-]+:hi"}),)),
    say("filtered_ranks_are_not_on_the_console", "-t", "3", "--local-ranks-filter", "1"),
    say("filtered_ranks_without_tee_go_nowhere", "--local-ranks-filter", "1"),
    say("a_filter_may_have_blanks_and_unknown_ranks", "--local-ranks-filter", " 1 , 7", "-r", "1"),
    say("duplicate_filters_keep_matching_lines", "-t", "3", "--duplicate-stdout-filters", "0,zzz",
        "--duplicate-stderr-filters", "nothing"),
    say("duplicate_filters_without_tee_keep_nothing", "--duplicate-stdout-filters", "out"),
    say("an_empty_duplicate_filter_keeps_all", "-t", "1", "--duplicate-stdout-filters", ""),
    scenario("dev_null_as_log_folder_turns_all_off", "--log-dir", "/dev/null", "-t", "3", "-r", "3",
             "--local-ranks-filter", "0", "--nproc-per-node", "2", "--no-python", "sh", "-c",
             "echo out $RANK; echo err $RANK >&2", unordered=BOTH),
    scenario("a_log_folder_that_is_a_file_is_an_error", "--log-dir", "w.sh", "w.py",
             differs=(Differs("wrong-value", {"exit": 2, "stderr": "--log.dir.*w.sh"}),)),
    scenario("a_run_id_with_a_slash", "--rdzv-id", "a/b", "--master-port", "@P@", "--log-dir", "L", "w.py",
             differs=(Differs("run-id-in-file-names", {"exit": 0, "stderr": "^$", "stdout": "argv", "workers": "0.0",
                                                       "files": "L/a_b_<RANDOM>/attempt_0/0$"}),)),
    scenario("events_of_a_success_go_to_stderr", "--event-log-handler", "console", *SAY[:-1], "true", unordered=BOTH),
    scenario("events_of_a_failure_go_to_stderr", "--event-log-handler", "console", "--nproc-per-node", "2",
             "signal_log.py", "die|exit 3", unordered=BOTH),
    no_python("the_stop_lines_show_at_level_error", "sh", "-c", "exit 3", env={"LOGLEVEL": "ERROR"}),
    no_python("a_named_event_handler_of_torch_is_silent", "true", env={"PET_EVENT_LOG_HANDLER": "dynamic_rendezvous"}),
]
