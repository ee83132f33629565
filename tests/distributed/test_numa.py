"""Processes on CPUs near their GPUs, on machines that are files."""

import os
import uuid
from types import SimpleNamespace

import pytest

from rushlight.distributed import run
from rushlight.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes
from rushlight.numa import binding
from rushlight.numa.binding import AffinityMode, NumaOptions


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Two sockets of two nodes with six CPUs each: three cores with two CPUs, of which the first two share a cache. Five GPUs, three
    of them at node 1."""

    def write(path, text):
        path = tmp_path / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    for node in range(4):
        write(f"system/node/node{node}/cpulist", f"{3 * node}-{3 * node + 2},{3 * node + 12}-{3 * node + 14}")
        for core in range(3 * node, 3 * node + 3):
            last = core == 3 * node + 2
            shared = f"{core},{core + 12}" if last else f"{3 * node}-{3 * node + 1},{3 * node + 12}-{3 * node + 13}"
            for cpu in (core, core + 12):
                write(f"system/cpu/cpu{cpu}/topology/physical_package_id", node // 2)
                write(f"system/cpu/cpu{cpu}/topology/core_cpus_list", f"{core},{core + 12}")
                for level, text in ((1, f"{core},{core + 12}"), (3, shared)):
                    write(f"system/cpu/cpu{cpu}/cache/index{level}/level", level)
                    write(f"system/cpu/cpu{cpu}/cache/index{level}/shared_cpu_list", text)
    identities = [uuid.UUID(int=number + 1) for number in range(5)]
    for gpu, node in enumerate((1, 3, 1, 1, -1)):
        write(f"gpus/0000:0{gpu}:00.0/information", f"Model: \t GPU\nGPU UUID: \t GPU-{identities[gpu]}")
        write(f"devices/0000:0{gpu}:00.0/numa_node", node)
    for name, folder in (("_SYSTEM", "system"), ("_DEVICES", "devices"), ("_GPUS", "gpus")):
        monkeypatch.setattr(binding, name, tmp_path / folder)
    card = SimpleNamespace(
        device_count=lambda: 5, get_device_properties=lambda gpu: SimpleNamespace(uuid=identities[gpu].bytes)
    )
    monkeypatch.setattr(binding, "cuda", card)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(24)))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("node", {0: "3 4 5 15 16 17", 1: "9 10 11 21 22 23", 4: "0 1 2 12 13 14"}),
        ("socket", {0: "0 1 2 3 4 5 12 13 14 15 16 17", 1: "6 7 8 9 10 11 18 19 20 21 22 23"}),
        ("exclusive", {0: "3 15", 1: "9 10 11 21 22 23", 2: "4 16", 3: "5 17"}),
        ("core-complex", {0: "3 4 15 16", 1: "9 10 21 22", 2: "5 17", 3: "3 4 15 16"}),
    ],
)
def test_cpus(machine, mode, expected):
    options = NumaOptions(AffinityMode(mode))
    found = {gpu: " ".join(map(str, sorted(binding.cpus_for(options, gpu)))) for gpu in expected}
    assert found == expected


def test_cpus_that_a_process_may_use(machine, monkeypatch):
    """Control groups and masks leave out CPUs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4, 15, 9})
    assert binding.cpus_for(NumaOptions(AffinityMode.NODE), 0) == {3, 4, 15}
    with pytest.raises(RuntimeError, match="the node of GPU 0 has 2 cores for 3 GPUs"):
        binding.cpus_for(NumaOptions(AffinityMode.EXCLUSIVE), 0)
    with pytest.raises(RuntimeError, match="may use no CPU near GPU 4"):
        binding.cpus_for(NumaOptions(AffinityMode.NODE), 4)
    with pytest.warns(UserWarning, match="the process of GPU 4 is not bound to CPUs: this process may use no CPU"):
        assert binding.cpus_for(NumaOptions(AffinityMode.NODE, True), 4) is None


def _own():
    return os.sched_getaffinity(0)


def test_processes(monkeypatch, tmp_path):
    """Each process is bound before its program begins."""
    allowed = sorted(os.sched_getaffinity(0))
    chosen = {rank: {allowed[rank % len(allowed)]} for rank in range(2)}
    monkeypatch.setattr(binding, "_of_node", chosen.__getitem__)
    ranks, options = {0: (), 1: ()}, NumaOptions(AffinityMode.NODE)
    started = start_processes(
        "own", _own, ranks, {0: {}, 1: {}}, DefaultLogsSpecs(), start_method="fork", numa_options=options
    )
    assert started.wait().return_values == chosen
    command = f"grep Cpus_allowed_list /proc/self/status > {tmp_path}/$RANK"
    arguments, envs = dict.fromkeys(ranks, ("-c", command)), {0: {"RANK": "0"}, 1: {"RANK": "1"}}
    started = start_processes("own", "sh", arguments, envs, DefaultLogsSpecs(), numa_options=options)
    assert not started.wait().is_failed()
    found = {rank: {int((tmp_path / str(rank)).read_text().split()[1])} for rank in ranks}
    assert found == chosen


def test_option():
    config, *_ = run.config_from_args(run.parse_args(["--numa-binding", "exclusive", "train.py"]))
    assert config.numa_options == NumaOptions(AffinityMode.EXCLUSIVE)
