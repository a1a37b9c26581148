# SPDX-License-Identifier: BSD-3-Clause
"""User cases of the worker environment on one node: B10 to B14, B16, B17, B18."""
import json
import os
import re
import socket

import pytest
from conftest import one_line
from harness.ports import free_port

ENV = ("--no-python", "env")


def _variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@pytest.mark.parametrize("name,value,variable,expected", [
    ("PET_NPROC_PER_NODE", "2", "WORLD_SIZE", "2"), ("PET_ROLE", "tr", "ROLE_NAME", "tr"),
    ("PET_MAX_RESTARTS", "3", "TORCHELASTIC_MAX_RESTARTS", "3"),
    ("PET_SIGNALS_TO_HANDLE", "SIGTERM", "TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM")])
def test_B10_options_come_from_the_environment_and_the_command_line_wins(place, name, value, variable, expected):
    assert _variables(place.run(*ENV, env={name: value}).stdout)[variable] == expected
    option = "--" + name[4:].lower().replace("_", "-")
    other = {"2": "1", "tr": "other", "3": "5", "SIGTERM": "SIGINT"}[value]
    assert _variables(place.run(option, other, *ENV, env={name: value}).stdout)[variable] == other


@pytest.mark.parametrize("name", ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MAX_RESTARTS",
                                  "PET_MASTER_PORT", "PET_STANDALONE"])
@pytest.mark.parametrize("value", ["$(PET_X)", "${PET_X}"])
def test_B10_a_value_that_was_never_expanded_is_refused_by_its_variables_name(place, name, value):
    result = place.run("--no-python", "true", env={name: value})
    assert result.code == 2 and name in result.stderr and value in result.stderr, result


def test_B10_a_switch_is_off_at_zero(place):
    result = place.run("--master-port", str(free_port()), *ENV, env={"PET_STANDALONE": "0"})
    assert _variables(result.stdout)["TORCHELASTIC_RUN_ID"] == "none", result


def test_B10_help_lists_the_variables(place):
    text = place.run("--help").stdout
    for name in ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_RDZV_ENDPOINT", "PET_LOG_DIR"):
        assert name in text


def test_B11_ranks_of_the_platform_are_replaced(place):
    script = place.script()
    result = place.run("--standalone", "--nproc-per-node", "2", script,
                       env={"RANK": "7", "WORLD_SIZE": "99", "LOCAL_RANK": "5", "MASTER_PORT": "1",
                            "MASTER_ADDR": "10.9.9.9", "GROUP_RANK": "4"})
    assert result.code == 0, result
    records = place.records()
    assert sorted(records) == ["0.0", "0.1"]
    for rank in (0, 1):
        env = records[f"0.{rank}"]["env"]
        assert (env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"]) == (str(rank), "2", str(rank))
        assert env["MASTER_PORT"] != "1" and env["MASTER_ADDR"] != "10.9.9.9" and env["GROUP_RANK"] == "0"


def test_B12_a_launch_inside_a_worker_is_independent(place):
    inner = [place.binary, "--standalone", "--nproc-per-node", "2", "--no-python", "sh", "-c",
             "echo $$$$RANK/$$$$WORLD_SIZE $$$$MASTER_PORT $$$$TORCHELASTIC_RUN_ID $$$$TORCHELASTIC_ERROR_FILE"]
    result = place.run("--standalone", "--nproc-per-node", "2", "--no-python", *inner)
    assert result.code == 0, result
    words = [line.split() for line in result.lines]
    assert [word[0] for word in words] == ["0/2", "0/2", "1/2", "1/2"]
    for column in (1, 2):
        assert len({word[column] for word in words}) == 2, words
    assert len({word[3] for word in words}) == 4, words


def test_B12_a_failure_inside_leaves_the_outer_error_file_readable(place):
    place.write("fail.py", "import os, sys\nopen(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write("
                "'{\"message\": {\"message\": \"inner\", \"extraInfo\": {\"timestamp\": \"1600000000\"}}}')\nsys.exit(3)\n")
    own = place.cwd / "own.json"
    result = place.run("--no-python", place.binary, "fail.py", env={"TORCHELASTIC_ERROR_FILE": str(own)})
    assert result.code == 1, result
    assert json.loads(own.read_text())["message"]["message"] == "inner"


def test_B12_a_variable_of_the_outer_launch_that_decides_is_named(place):
    result = place.run("--no-python", place.binary, "--no-python", "true", env={"PET_NPROC_PER_NODE": "2"})
    assert result.code == 0 and "PET_NPROC_PER_NODE" in result.stderr, result


@pytest.mark.parametrize("value,nproc,expected", [(None, 1, None), (None, 2, "1"), ("6", 2, "6"), ("", 2, "")])
def test_B13_omp_threads_are_set_only_when_nobody_did(place, value, nproc, expected):
    result = place.run("--nproc-per-node", nproc, place.script(), env={"OMP_NUM_THREADS": value})
    assert result.code == 0, result
    assert {record["env"].get("OMP_NUM_THREADS") for record in place.records().values()} == {expected}
    assert len(result.stderr.splitlines()) == (1 if expected == "1" else 0), result


def test_B13_omp_threads_can_follow_the_processors(place):
    cpus = len(os.sched_getaffinity(0))
    result = place.run("--omp-threads=auto", "--nproc-per-node", "2", place.script())
    assert result.code == 0, result
    assert {record["env"]["OMP_NUM_THREADS"] for record in place.records().values()} == {str(max(1, cpus // 2))}


def test_B13_the_notice_can_be_silenced(place):
    assert place.run("--nproc-per-node", "2", "--no-python", "true", env={"LOGLEVEL": "ERROR"}).stderr == ""


TORCHELASTIC = {
    "LOCAL_RANK": "0", "RANK": "0", "GROUP_RANK": "0", "ROLE_RANK": "0", "ROLE_NAME": "default",
    "LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "1", "ROLE_WORLD_SIZE": "1",
    "MASTER_ADDR": ".+", "MASTER_PORT": r"\d+", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_RUN_ID": ".+", "TORCHELASTIC_USE_AGENT_STORE": "True|False", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "TORCHELASTIC_ERROR_FILE": "/.+", "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT"}


def test_B14_frameworks_find_the_whole_torchelastic_set_and_slurms_own(place):
    slurm = {"SLURM_PROCID": "4", "SLURM_NTASKS": "8", "SLURM_JOB_NAME": "x"}
    assert place.run(place.script(), env=slurm).code == 0
    env = place.records()["0.0"]["env"]
    for name, pattern in TORCHELASTIC.items():
        assert re.fullmatch(pattern, env[name]), name
    assert {name: env[name] for name in slurm} == slurm


def test_B16_the_restart_count_is_the_attempts_number_on_one_node(place):
    result = place.run("--max-restarts=2", "--nproc-per-node=2", place.script(), env={"PROBE_DO": "first 3"})
    assert result.code == 1, result
    records = place.records()
    assert sorted(records) == [f"{attempt}.{rank}" for attempt in range(3) for rank in range(2)]
    for name, record in records.items():
        assert record["env"]["TORCHELASTIC_MAX_RESTARTS"] == "2"
        assert f"/attempt_{name[0]}/" in record["env"]["TORCHELASTIC_ERROR_FILE"]


@pytest.mark.parametrize("devices,seen", [("3,GPU-ab,MIG-cd", ["3", "GPU-ab", "MIG-cd"]), (None, ["0", "1", "2"]),
                                          (" 3, 5 ,7", ["3", "5", "7"])])
def test_B17_each_worker_sees_one_device_as_its_first(place, devices, seen):
    result = place.run("--virtual-local-rank", "--nproc-per-node", "3", "--no-python", "sh", "-c",
                       "echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES", env={"CUDA_VISIBLE_DEVICES": devices})
    assert result.code == 0, result
    assert result.lines == [f"{rank} 0 {device}" for rank, device in enumerate(seen)]


def test_B17_more_workers_than_entries_is_an_error_before_the_start(place):
    result = place.run("--virtual-local-rank", "--nproc-per-node", "4", "--no-python", "touch", "started",
                       env={"CUDA_VISIBLE_DEVICES": "3,GPU-ab,MIG-cd"})
    assert result.code == 2 and "CUDA_VISIBLE_DEVICES" in result.stderr, result
    assert not (place.cwd / "started").exists()


def test_B17_hip_visible_devices_come_first(place):
    result = place.run("--virtual-local-rank", "--nproc-per-node", "2", "--no-python", "sh", "-c",
                       "echo $HIP_VISIBLE_DEVICES $CUDA_VISIBLE_DEVICES",
                       env={"CUDA_VISIBLE_DEVICES": "8,9", "HIP_VISIBLE_DEVICES": "4,5"})
    assert result.code == 0 and result.lines == ["4 4", "5 5"], result


STORE = ("import os, sys, datetime\nfrom torch.distributed import TCPStore\nrank = int(os.environ['RANK'])\n"
         "served = os.environ['TORCHELASTIC_USE_AGENT_STORE'] == 'True'\n"
         "store = TCPStore(os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']), 2, is_master=not served and "
         "rank == 0, timeout=datetime.timedelta(seconds=30))\n"
         "store.set(f'k{rank}', f'v{rank}')\nstore.wait([f'k{1 - rank}'])\n"
         "assert store.get(f'k{1 - rank}') == f'v{1 - rank}'.encode()\nstore.add('n', 1)\n"
         "while store.add('n', 0) < 2: pass\n"
         "sys.stdout.write(os.environ['TORCHELASTIC_USE_AGENT_STORE'] + chr(10))\n"
         "store.add('gone', 1)\n"
         "while rank == 0 and store.add('gone', 0) < 2: pass\n")


@pytest.mark.parametrize("options,env,flag", [
    ([], {}, None), (["--standalone"], {}, None), (["--worker-store=rank0"], {}, "False"),
    ([], {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}, "False")])
def test_B18_the_exported_address_is_served_as_the_flag_says(place, options, env, flag):
    place.write("store.py", STORE)
    result = place.run(*options, "--nproc-per-node=2", "store.py", env=env)
    assert result.code == 0, result
    assert len(result.lines) == 2 and len(set(result.lines)) == 1
    assert flag is None or result.lines[0] == flag


def test_B18_an_unserved_port_is_free_for_rank_0(place):
    place.write("bind.py", "import os, socket\nsock = socket.socket()\n"
                "sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                "sock.bind(('', int(os.environ['MASTER_PORT'])))\nsock.listen()\nprint('listens')\n")
    result = place.run("--worker-store=rank0", "bind.py")
    assert result.code == 0 and result.stdout == "listens\n", result
    assert result.stderr == "" or one_line(result.stderr)
