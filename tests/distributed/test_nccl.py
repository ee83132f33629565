"""Groups of GPUs, on cards made of software: each rank is a process with a card of its own (`nccl_cases.py`,
`nccl_parts.py`), forked from one that has imported everything (`nccl_ranks.py`)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from soft_card import FOLDER, environment, needs_soft_card, run

import rushlight as torch
import rushlight.distributed.checkpoint as dcp
from rushlight import distributed as dist


@pytest.fixture(scope="module")
def ranks():
    """What the function of a name returns on each rank; None of a rank that was killed."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("nccl_ranks.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )

    def call(name, size, folder, cases="nccl_cases", **variables):
        folder.mkdir(exist_ok=True)
        variables = {"SOFTCUDA_DEVICES": size, **variables}
        variables = {variable: str(value) for variable, value in variables.items()}
        server.stdin.write(json.dumps([cases, name, size, str(folder), variables]) + "\n")
        server.stdin.flush()
        wrong = json.loads(server.stdout.readline())
        assert not wrong, f"{wrong}\n{(folder / 'output').read_text()}"
        places = [folder / str(rank) for rank in range(size)]
        return [json.loads(place.read_text()) if place.exists() else None for place in places]

    yield call
    server.stdin.close()
    server.wait(timeout=20)


@needs_soft_card
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", ["reductions", "collectives", "messages", "objects", "groups", "data_parallel"])
def test_ranks(name, size, tmp_path, ranks):
    assert ranks(name, size, tmp_path) == [None] * size


@needs_soft_card
@pytest.mark.parametrize(
    "name", ["captured", "aborted", "through_host", "hooks", "scaler", "chosen", "bound", "pipelines", "unchosen"]
)
def test_two_ranks(name, tmp_path, ranks):
    assert ranks(name, 2, tmp_path) == [None] * 2


@needs_soft_card
@pytest.mark.parametrize(
    "name",
    ["rows", "copies_of_rows", "rows_on_host", "flat", "flat_on_host", "mesh", "layers", "flat_states"],
)
def test_tensors_in_parts(name, tmp_path, ranks):
    """`fully_shard`, `FullyShardedDataParallel` and `DTensor` on GPUs."""
    assert ranks(name, 2, tmp_path, "nccl_parts") == [None] * 2


@needs_soft_card
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_streams(seed, tmp_path, ranks):
    """Work that runs late or at other moments gives the same results."""
    assert ranks("streams", 2, tmp_path, SOFTCUDA_SEED=seed) == [None] * 2


@needs_soft_card
def test_options(tmp_path, ranks):
    refused = ["AssertionError", "Expected backend_options argument to be of type ProcessGroupNCCL.Options"]
    assert ranks("options", 2, tmp_path) == [[refused, ["DistBackendError", "NCCL error: invalid argument"]]] * 2


@needs_soft_card
def test_a_checkpoint_of_gpus_is_read_without_one(tmp_path, ranks):
    assert ranks("states", 2, tmp_path, "nccl_parts") == [None] * 2
    (folder,) = (path.parent for path in tmp_path.rglob(".metadata") if path.parent.name == "checkpoint")
    state = {"model": {"0.weight": torch.zeros(7, 5)}}
    dcp.load(state, checkpoint_id=folder)
    assert state["model"]["0.weight"].abs().sum() > 0


@needs_soft_card
def test_refusals(tmp_path, ranks):
    errors = ranks("refusals", 2, tmp_path)
    assert (
        errors[0]
        == errors[1]
        == [
            ["RuntimeError", "No backend type associated with device type cpu"],
            ["RuntimeError", "No backend type associated with device type cpu"],
            ["TypeError", "Input tensor data type is not supported for NCCL process group: Short"],
            ["TypeError", "Input tensor data type is not supported for NCCL process group: Short"],
            ["RuntimeError", "Unsupported Float8 type for NCCL reduction"],
            ["TypeError", "Cannot use ReduceOp.AVG with boolean inputs"],
            ["ValueError", "Cannot use ReduceOp.BAND with NCCL"],
            ["ValueError", "Cannot use ReduceOp.PRODUCT with complex tensors and NCCL"],
            ["RuntimeError", "Backend nccl does not support recvAnysource"],
            ["ValueError", "monitored_barrier is only implemented for GLOO backend."],
            ["ValueError", "ProcessGroupNCCL::broadcast: invalid root rank: 7"],
            ["ValueError", "ProcessGroupNCCL::scatter: invalid root rank: 7"],
            [
                "ValueError",
                "ProcessGroupNCCL::allgather: invalid output tensor list at index 0 (expected length 2, got 3)",
            ],
            ["ValueError", "ProcessGroupNCCL::alltoall: input tensor list size 3 does not match world size 2"],
        ]
    )


@needs_soft_card
@pytest.mark.parametrize("size", [2, 4])
def test_a_killed_rank(size, tmp_path, ranks):
    """The others raise after the timeout, wherever they wait, and can make another group."""
    *others, victim = ranks("killed", size, tmp_path)
    assert victim is None
    for rank, errors in enumerate(others):
        for kind, message in errors:
            assert kind == "DistBackendError"
            assert (
                f"Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE"
                in message
            )
            assert "Timeout(ms)=2000) ran for" in message


@needs_soft_card
def test_a_rank_that_does_not_come(tmp_path, ranks):
    first, second = ranks("absent", 2, tmp_path)
    assert first[0] == "DistBackendError"
    assert first[1].startswith("[Rank 0] not all 2 ranks joined NCCL's communicator in 1500 ms")
    assert second is None


@needs_soft_card
def test_ranks_that_make_different_calls(tmp_path, ranks):
    for kind, message in ranks("different", 2, tmp_path):
        assert (kind, message) == ("DistBackendError", "NCCL error: invalid usage")


@needs_soft_card
def test_two_ranks_on_one_card_are_refused(tmp_path, ranks):
    errors = ranks("crowded", 2, tmp_path, CUDA_VISIBLE_DEVICES="0,0")
    assert ["DistBackendError", "NCCL error: invalid usage"] in errors
    assert {kind for kind, _ in errors} == {"DistBackendError"}


@needs_soft_card
def test_without_nccl(tmp_path):
    for name in ("libcuda.so.1", "libnvrtc.so.13"):
        (tmp_path / name).symlink_to(FOLDER / name)
    program = """
        from rushlight import distributed as dist
        assert not dist.is_nccl_available() and not dist.is_backend_available("nccl")
        try:
            dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        except RuntimeError as error:
            print(error)
    """
    message = run(program, LD_LIBRARY_PATH=tmp_path)
    if "built in" not in message:
        pytest.skip("NCCL is installed")
    assert message.startswith("Distributed package doesn't have NCCL built in")
    assert "pip install nvidia-nccl-cu13" in message


@needs_soft_card
def test_an_old_version():
    program = """
        from rushlight import distributed as dist
        print(dist.is_nccl_available())
        try:
            dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        except RuntimeError as error:
            print(error)
    """
    message = run(program, SOFTCUDA_NCCL_VERSION=21703)
    assert message.startswith("False\nDistributed package doesn't have NCCL built in")
    assert "NCCL 2.17.3 is installed, and rushlight needs 2.18.0 or later" in message


@needs_soft_card
def test_calls_of_one_process():
    program = """
        from rushlight.cuda import nccl
        tensors = [torch.full((4,), float(card + 1), device=f"cuda:{card}") for card in range(2)]
        print(nccl.is_available(tensors), nccl.version())
        nccl.all_reduce(tensors)
        print([tensor.tolist() for tensor in tensors])
        nccl.broadcast(tensors, 1)
        nccl.reduce(tensors, root=1, op=nccl.SUM)
        print(tensors[1].tolist())
        gathered = [torch.zeros(8, device=tensor.device) for tensor in tensors]
        nccl.all_gather(tensors, gathered)
        print(gathered[0].tolist() == gathered[1].tolist() == [3.0] * 4 + [6.0] * 4)
        halves = [torch.zeros(4, device=tensor.device) for tensor in tensors]
        nccl.reduce_scatter(gathered, halves, op=2)
        print([half.tolist() for half in halves])
        try:
            nccl.all_reduce(tensors[0])
        except TypeError as error:
            print(error)
    """
    assert run(program, SOFTCUDA_DEVICES=2).splitlines() == [
        "True (2, 27, 3)",
        "[[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]",
        "[6.0, 6.0, 6.0, 6.0]",
        "True",
        "[[3.0, 3.0, 3.0, 3.0], [6.0, 6.0, 6.0, 6.0]]",
        "Inputs should be a collection of tensors",
    ]


@needs_soft_card
def test_all_backends_by_default():
    program = """
        from rushlight import distributed as dist
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        print(dist.get_backend_config(), dist.is_nccl_available())
        for device in ("cpu", "cuda"):
            tensor = torch.ones(2, device=device)
            dist.all_reduce(tensor)
            print(tensor.tolist())
    """
    assert run(program) == "cpu:gloo,cuda:nccl True\n[1.0, 1.0]\n[1.0, 1.0]\n"


def test_devices_that_do_not_exist():
    options = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    if torch.cuda.device_count() == 0:
        with pytest.raises(ValueError, match="device_id cuda:0 does not match the current compilation's accelerator"):
            dist.init_process_group("gloo", device_id=torch.device("cuda:0"), **options)
    with pytest.raises(ValueError, match="device_id parameter must be an accelerator with an index"):
        dist.init_process_group("gloo", device_id=torch.device("cpu"), **options)
    assert not dist.is_initialized()
