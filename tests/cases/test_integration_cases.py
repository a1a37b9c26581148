# SPDX-License-Identifier: BSD-3-Clause
"""User cases of integration and performance: B19, B20, B24, B102."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from harness import launchers
from harness.ports import free_port

TELL = "#!/bin/sh\necho \"$0\"\n"


def _fake_python(place, folder, environment_kind=None):
    """A `python` that prints its own path, in a folder that looks like a virtual environment where wanted."""
    for name in ("python", "python3"):
        path = place.write(f"{folder}/bin/{name}", TELL)
    if environment_kind == "venv":
        place.write(f"{folder}/pyvenv.cfg", "home = /usr/bin\n")
    elif environment_kind == "conda":
        (place.cwd / folder / "conda-meta").mkdir()
    return path.parent


def _chosen(place, result):
    assert result.code == 0, result
    return pathlib.Path(result.stdout.strip()).parent.parent.name


@pytest.fixture
def pythons(place):
    """Three fake interpreters: of a virtual environment, of a conda one, and of a plain folder."""
    place.write("s.py", "")
    return {"venv": _fake_python(place, "venv", "venv"), "conda": _fake_python(place, "conda", "conda"),
            "plain": _fake_python(place, "plain")}


@pytest.mark.parametrize("path,virtual_env,conda_prefix,chosen", [
    (["plain"], None, None, "plain"),
    (["plain"], "venv", None, "venv"),
    (["plain"], None, "conda", "conda"),
    (["plain"], "venv", "conda", "venv"),
    (["venv"], None, "conda", "venv"),
    (["conda"], "venv", None, "conda"),
    (["plain", "venv"], None, None, "plain"),
    ([], "venv", None, "venv"),
    ([], None, "conda", "conda"),
])
def test_B19_the_interpreter_is_the_one_of_the_users_environment(place, pythons, path, virtual_env, conda_prefix, chosen):
    env = {"PATH": ":".join([*(str(pythons[name]) for name in path), "/bin/none"]),
           "VIRTUAL_ENV": str(place.cwd / virtual_env) if virtual_env else None,
           "CONDA_PREFIX": str(place.cwd / conda_prefix) if conda_prefix else None}
    assert _chosen(place, place.run("s.py", env=env)) == chosen


def test_B19_python_exec_beats_all(place, pythons):
    env = {"PATH": str(pythons["venv"]), "VIRTUAL_ENV": str(place.cwd / "venv"),
           "PYTHON_EXEC": str(pythons["plain"] / "python")}
    assert _chosen(place, place.run("s.py", env=env)) == "plain"


def test_B19_the_interpreter_beside_the_called_link_comes_first(place, pythons):
    link = pythons["venv"] / "torchrun"
    link.symlink_to(place.binary)
    env = {"PATH": str(pythons["conda"])}
    assert _chosen(place, place.run("s.py", env=env, binary=str(link))) == "venv"


def test_B19_a_disagreement_is_one_warning_and_the_choice_is_shown_at_info(place, pythons):
    env = {"PATH": str(pythons["conda"]), "VIRTUAL_ENV": str(place.cwd / "venv")}
    result = place.run("s.py", env=env)
    assert len(result.stderr.splitlines()) == 1, result
    assert str(pythons["conda"]) in result.stderr and str(place.cwd / "venv") in result.stderr, result
    assert str(pythons["plain"]) in place.run("s.py", env={"PATH": str(pythons["plain"]), "LOGLEVEL": "INFO"}).stderr


def test_B19_no_interpreter_is_an_error_before_the_launch(place):
    place.write("s.py", "")
    result = place.run("s.py", env={"PATH": "/bin/none"})
    assert result.code == 127 and "python" in result.stderr, result


def test_B19_an_interpreter_that_is_not_executable_is_an_error(place):
    place.write("s.py", "")
    place.write("py", "text\n")
    assert place.run("s.py", env={"PYTHON_EXEC": "./py"}).code == 126


def test_B20_it_runs_by_its_path_with_an_empty_environment(place):
    result = subprocess.run([place.binary, "--no-python", "/bin/true"], env={}, cwd=place.cwd, timeout=30)
    assert result.returncode == 0


def test_B20_a_copy_elsewhere_works(place):
    copy = shutil.copy(place.binary, place.root / "elsewhere")
    result = subprocess.run([copy, "--no-python", "/bin/true"], env={}, cwd=place.cwd, timeout=30)
    assert result.returncode == 0


def test_B20_a_link_named_torchrun_is_a_torchrun(place):
    link = place.root / "torchrun"
    link.symlink_to(place.binary)
    text = place.run("--help").stdout
    as_torchrun = place.run("--help", binary=str(link))
    assert as_torchrun.code == 0 and as_torchrun.stdout.startswith("usage: torchrun"), as_torchrun
    assert re.sub(r"\s+", "", as_torchrun.stdout) == re.sub(r"\s+", "", text.replace("cpprun", "torchrun")) or \
        set(re.findall(r"--[\w-]+", text)) == set(re.findall(r"--[\w-]+", as_torchrun.stdout))
    command = ["--nproc-per-node=2", "--no-python", "sh", "-c", "echo $RANK; exit 3"]
    plain, linked = place.run(*command), place.run(*command, binary=str(link))
    assert (plain.code, plain.lines) == (linked.code, linked.lines) == (1, ["0", "1"])


def test_B24_all_settings_come_from_the_environment(place):
    script = place.script()
    result = place.run(script, env={"PET_NNODES": "1", "PET_NODE_RANK": "0", "PET_NPROC_PER_NODE": "2",
                                    "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(free_port())})
    assert result.code == 0, result
    records = place.records()
    assert sorted(records) == ["0.0", "0.1"]
    assert {record["env"]["TORCHELASTIC_RUN_ID"] for record in records.values()} == {"none"}


def test_B24_a_missing_script_lists_the_variables_that_were_picked_up(place):
    result = place.run(env={"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "10.0.0.1"})
    assert result.code == 2, result
    for name in ("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR"):
        assert name in result.stderr, result


def test_B102_the_launcher_opens_nothing_of_python_torch_or_a_gpu_library(place):
    trace = place.root / "trace"
    result = place.run("--nproc-per-node=2", "--no-python", "true",
                       wrapper=("strace", "-f", "-qq", "-e", "trace=openat,open,execve", "-o", trace))
    assert result.code == 0, result
    opened = trace.read_text()
    assert "cpprun" in opened
    for name in ("libtorch", "libcuda", "libnvidia", "site-packages", "python"):
        lines = [line for line in opened.splitlines() if name in line and "execve" not in line and "ENOENT" not in line]
        assert not lines, lines


def test_B102_help_does_not_start_the_interpreter(place):
    place.write("bin/python3", "#!/bin/sh\ntouch started\nsleep 5\n")
    result = place.run("--help", env={"PATH": f"{place.cwd}/bin:{os.defpath}"})
    assert result.code == 0 and not (place.cwd / "started").exists()


def test_B102_the_installed_binary_needs_only_libc():
    binary = launchers.REPOSITORY / "build/release/src/cpprun"
    assert binary.exists(), "build it first: cmake --preset release && cmake --build --preset release --target cpprun"
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", binary], check=True, text=True,
                                                            capture_output=True).stdout)
    assert needed, "no dynamic section"
    assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, needed
