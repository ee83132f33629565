"""Programs that mpiexec and srun start: the backend `mpi` takes the places of processes from their variables."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.distributed import _companion

PROGRAM = """
import os, sys
import rushlight as torch
from rushlight import distributed as dist
if sys.argv[1:]:
    os.environ["RUSHLIGHT_MACHINE"] = os.environ["PMI_RANK"]
for given in {}, {"rank": 0, "world_size": 0}:
    dist.init_process_group("mpi", **given)
    tensor = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(tensor)
    os.write(1, f"{dist.get_rank()} of {dist.get_world_size()}: {tensor.item()} {dist.get_backend()}\\n".encode())
    dist.destroy_process_group()
"""
MPIEXEC = Path(sys.executable).with_name("mpiexec")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.mark.skipif(_companion.library() is None or not MPIEXEC.exists(), reason="needs the package mpich")
@pytest.mark.parametrize("machines", [[], ["machines"]], ids=["one_machine", "two_machines"])
def test_mpiexec(program, machines):
    """Without an address: the launcher passes that of rank 0 on. The group's own use of MPI is not disturbed by it."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("MASTER_", "PMI_"))}
    command = [str(MPIEXEC), "-n", "2", sys.executable, program, *machines]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 of 2: 3.0 mpi"] * 2 + ["1 of 2: 3.0 mpi"] * 2
    assert (
        done.stderr.count("For MPI backend, world_size (0) and rank (0) are ignored since they are assigned by the")
        == 2
    )


@pytest.mark.skipif(_companion.library() is None or not MPIEXEC.exists(), reason="needs the package mpich")
def test_a_program_that_gives_places_and_an_address(tmp_path):
    """As the tutorial's: all processes give rank 0, and the address of this machine at a port that may be taken."""
    path = tmp_path / "program.py"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path.write_text(f"""
import os
import rushlight as torch
from rushlight import distributed as dist
os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "{taken.getsockname()[1]}"
dist.init_process_group("mpi", rank=0, world_size=2)
tensor = torch.ones(1)
dist.all_reduce(tensor)
os.write(1, f"{{dist.get_rank()}}: {{tensor.item()}}\\n".encode())
dist.destroy_process_group()
""")
        given = {name: value for name, value in os.environ.items() if not name.startswith(("MASTER_", "PMI_"))}
        command = [str(MPIEXEC), "-n", "3", sys.executable, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == ["0: 3.0", "1: 3.0", "2: 3.0"]


def test_a_place_given_in_a_batch_script_counts(tmp_path):
    """Slurm's variables are in the script's own environment, and in all processes that it starts."""
    command = "from rushlight import distributed as dist; dist.init_process_group('mpi', rank=0, world_size=1); print(dist.get_world_size())"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    done = subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "SLURM_PROCID": "0", "SLURM_NTASKS": "8"},
    )
    assert done.stdout == "1\n" and done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "names",
    [("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")],
    ids=["mpich", "open_mpi", "slurm"],
)
def test_variables(program, names):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, names[0]: str(rank), names[1]: "2"},
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=60) for rank in ranks]
    assert [out.splitlines() for out, _ in outputs] == [[f"{rank} of 2: 3.0 mpi"] * 2 for rank in range(2)], outputs


def test_without_an_address(program):
    given = {name: value for name, value in os.environ.items() if not name.startswith(("MASTER_", "PMI_"))}
    command = [sys.executable, program]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**given, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    )
    assert (
        done.returncode == 1
        and "environment variable MASTER_ADDR expected, but not set\n  Set MASTER_ADDR" in done.stderr
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=given)
    assert done.returncode == 1 and "environment variable RANK expected, but not set" in done.stderr
