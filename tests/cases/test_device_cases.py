# SPDX-License-Identifier: BSD-3-Clause
"""User cases of devices and processors: B26 to B29, on machines made of files (CPPRUN_PROBE_ROOT)."""
import os
import pathlib

import pytest

COUNT = ("--no-python", "sh", "-c", "echo $WORLD_SIZE")


class Machine:
    """A folder with proc, sys and dev in it, as the probes would find them."""

    def __init__(self, root):
        self.root = root
        for part in ("proc", "sys", "dev"):
            (root / part).mkdir(parents=True)
        self.env = {"CPPRUN_PROBE_ROOT": str(root)}

    def write(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return self

    def nvidia_gpu(self, minor, pci, uuid):
        self.write("proc/driver/nvidia/version", "NVRM version: 550\n")
        self.write(f"proc/driver/nvidia/gpus/{pci}/information",
                   f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\nBus Location: \t {pci}\nDevice Minor: \t {minor}\n")
        self.write("dev/nvidiactl")
        return self.write(f"dev/nvidia{minor}")

    def gpus(self, count):
        for i in range(count):
            self.nvidia_gpu(i, f"0000:{i + 16:02x}:00.0", f"GPU-{i}{i}{i}{i}")
        return self

    def cut_in_two(self, minor):
        """Two MIG slices of a GPU, as the driver's access files show them."""
        for slice_ in ("gi1/ci0", "gi2/ci0"):
            self.write(f"proc/driver/nvidia/capabilities/gpu{minor}/mig/{slice_}/access", "x\n")
        return self

    def quota(self, text):
        return self.write("proc/self/cgroup", "0::/\n").write("sys/fs/cgroup/cpu.max", text + "\n")


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "machine")


def _workers(place, machine, *options, **env):
    result = place.run(*options, *COUNT, env=machine.env | env)
    assert result.code == 0, result
    world = {line for line in result.lines}
    assert world == {str(len(result.lines))}, result
    return len(result.lines)


def test_B26_cpu_counts_the_affinity_mask(place, machine):
    first = min(os.sched_getaffinity(0))
    result = place.run("--nproc-per-node=cpu", *COUNT, wrapper=("taskset", "-c", str(first)), env=machine.env)
    assert (result.code, result.stdout) == (0, "1\n"), result


@pytest.mark.parametrize("quota,cpus", [("100000 100000", 1), ("150000 100000", 2), ("50000 100000", 1), ("max 100000", 9)])
def test_B26_cpu_and_auto_count_the_quota_rounded_up(place, machine, quota, cpus):
    machine.quota(quota)
    here = len(os.sched_getaffinity(0))
    for word in ("cpu", "auto"):
        assert _workers(place, machine, f"--nproc-per-node={word}") == min(cpus, here)


def test_B26_a_quota_of_the_first_cgroups_counts(place, machine):
    machine.write("proc/self/cgroup", "4:cpu,cpuacct:/job\n")
    machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n")
    machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
    assert _workers(place, machine, "--nproc-per-node=cpu") == 1


@pytest.mark.parametrize("visible,count", [(None, 4), ("0,1", 2), ("0,9,1", 1), ("3", 1), ("2,2", 1)])
@pytest.mark.parametrize("word", ["gpu", "auto"])
def test_B26_gpu_and_auto_count_as_cuda_does(place, machine, visible, count, word):
    machine.gpus(4)
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert _workers(place, machine, f"--nproc-per-node={word}", **env) == count


@pytest.mark.parametrize("devices,visible", [(0, None), (4, ""), (4, "-1")])
def test_B26_no_gpu_is_an_error_that_says_what_was_looked_at(place, machine, devices, visible):
    machine.gpus(devices)
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    result = place.run("--nproc-per-node=gpu", *COUNT, env=machine.env | env)
    assert result.code == 2, result
    for word in ("Cuda is not available.", "CUDA_VISIBLE_DEVICES", "nvidia"):
        assert word in result.stderr, result


def test_B26_auto_without_devices_says_that_it_counts_cpus(place, machine):
    machine.quota("100000 100000")
    result = place.run("--nproc-per-node=auto", *COUNT, env=machine.env | {"LOGLEVEL": "INFO"})
    assert "auto -> 1 (cpu" in result.stderr, result


def test_B26_amd_devices_are_counted_by_the_kernels_topology(place, machine):
    machine.write("dev/kfd")
    for node, gpu in ((0, 0), (1, 111), (2, 222)):
        base = f"sys/class/kfd/kfd/topology/nodes/{node}"
        machine.write(f"{base}/gpu_id", f"{gpu}\n")
        machine.write(f"{base}/properties", f"simd_count {64 if gpu else 0}\ndrm_render_minor {127 + node if gpu else -1}\n")
        if gpu:
            machine.write(f"dev/dri/renderD{127 + node}")
    assert _workers(place, machine, "--nproc-per-node=gpu") == 2
    assert _workers(place, machine, "--nproc-per-node=gpu", HIP_VISIBLE_DEVICES="1") == 1


@pytest.mark.parametrize("visible,count", [("GPU-0000,GPU-1111", 2), ("GPU-11", 1), ("GPU-other,GPU-0000", None),
                                           ("GPU-1111,GPU-1111", 1), ("MIG-GPU-0000/1/0,MIG-GPU-0000/2/0", 1)])
def test_B27_uuids_and_slices_are_counted_without_a_crash(place, machine, visible, count):
    machine.gpus(2)
    if "MIG" in visible:
        machine.cut_in_two(0)
    if count is None:
        result = place.run("--nproc-per-node=gpu", *COUNT, env=machine.env | {"CUDA_VISIBLE_DEVICES": visible})
        assert result.code == 2 and visible in result.stderr, result
    else:
        assert _workers(place, machine, "--nproc-per-node=gpu", CUDA_VISIBLE_DEVICES=visible) == count


@pytest.mark.parametrize("env", [{}, {"CUDA_VISIBLE_DEVICES": "GPU-0000,GPU-1111"}, {"CUDA_VISIBLE_DEVICES": "0,1"}])
def test_B27_beside_a_slice_cuda_shows_no_other_device(place, machine, env):
    machine.gpus(2).cut_in_two(0)
    result = place.run("--nproc-per-node=gpu", *COUNT, env=machine.env | env)
    assert (result.code, result.stdout) == (0, "1\n"), result
    assert "--virtual-local-rank" in result.stderr, result


def test_B27_each_worker_gets_a_slice_of_its_own_on_request(place, machine):
    machine.gpus(1).cut_in_two(0)
    slices = "MIG-GPU-0000/1/0,MIG-GPU-0000/2/0"
    result = place.run("--nproc-per-node=gpu", "--virtual-local-rank", "--no-python", "sh", "-c",
                       "echo $CUDA_VISIBLE_DEVICES", env=machine.env | {"CUDA_VISIBLE_DEVICES": slices})
    assert result.code == 0 and result.lines == slices.split(","), result


@pytest.mark.parametrize("devices,nproc,visible,warnings", [(2, 4, None, 1), (2, 2, None, 0), (0, 4, None, 0),
                                                            (4, 2, "3", 1), (4, 2, "", 0)])
def test_B28_more_workers_than_devices_is_one_warning_with_both_numbers(place, machine, devices, nproc, visible, warnings):
    machine.gpus(devices)
    env = machine.env | {"OMP_NUM_THREADS": "1"} | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    result = place.run(f"--nproc-per-node={nproc}", *COUNT, env=env)
    assert result.code == 0 and len(result.lines) == nproc, result
    lines = result.stderr.splitlines()
    assert len(lines) == warnings, result
    if warnings:
        assert f"{nproc} workers" in lines[0] and "NVIDIA device" in lines[0], result
        assert visible is None or "CUDA_VISIBLE_DEVICES=3" in lines[0]


MASK = ("--no-python", "sh", "-c", "echo $RANK $(taskset -cp $$$$ | sed 's/.*: //')")


def _two_nodes(machine, devices=()):
    """Two NUMA nodes of one real CPU each, as far as this process has two."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.fail("needs two CPUs: a machine with one cannot show a binding")
    for node, cpu in enumerate(cpus):
        machine.write(f"sys/devices/system/node/node{node}/cpulist", f"{cpu}\n")
        base = f"sys/devices/system/cpu/cpu{cpu}"
        machine.write(f"{base}/topology/physical_package_id", f"{node}\n")
        machine.write(f"{base}/topology/thread_siblings_list", f"{cpu}\n")
        for name, text in (("level", "3"), ("type", "Unified"), ("shared_cpu_list", str(cpu))):
            machine.write(f"{base}/cache/index3/{name}", text + "\n")
    for index, node in enumerate(devices):
        pci = f"0000:{index + 16:02x}:00.0"
        machine.nvidia_gpu(index, pci, f"GPU-{index}")
        machine.write(f"sys/bus/pci/devices/{pci}/numa_node", f"{node}\n")
    return cpus


@pytest.mark.parametrize("binding", ["node", "socket", "exclusive", "core-complex"])
@pytest.mark.parametrize("devices,nodes", [((1, 0), (1, 0)), ((), (0, 1)), ((1, -1), (1, 0))])
def test_B29_each_worker_runs_beside_its_device_or_gets_a_share(place, machine, binding, devices, nodes):
    cpus = _two_nodes(machine, devices)
    result = place.run(f"--numa-binding={binding}", "--nproc-per-node=2", *MASK, env=machine.env)
    assert result.code == 0, result
    assert result.lines == [f"{rank} {cpus[node]}" for rank, node in enumerate(nodes)]


def test_B29_exclusive_shares_on_this_very_machine_do_not_overlap(place):
    result = place.run("--numa-binding=exclusive", "--nproc-per-node=2", *MASK)
    cores = len(os.sched_getaffinity(0)) // _threads_per_core()
    if cores < 2:
        assert result.code != 0 or result.stderr, result
        return
    assert result.code == 0, result
    masks = [_cpus(line.split()[1]) for line in result.lines]
    assert masks[0] and masks[1] and not masks[0] & masks[1], masks


def test_B29_the_parents_mask_is_a_limit(place, machine):
    cpus = _two_nodes(machine)
    result = place.run("--numa-binding=node", "--nproc-per-node=2", *MASK, env=machine.env,
                       wrapper=("taskset", "-c", str(cpus[1])))
    assert result.code == 0, result
    assert result.lines == [f"0 {cpus[1]}", f"1 {cpus[1]}"]


def _cpus(text):
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def _threads_per_core():
    cpu = min(os.sched_getaffinity(0))
    path = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return len(_cpus(path.read_text().strip()) & os.sched_getaffinity(0)) if path.exists() else 1
