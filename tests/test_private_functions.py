"""Private functions and options of torch that libraries use: shapes, loops, switches of compilers, states of several ranks."""

import importlib
import inspect

import pytest

import rushlight as torch
from rushlight import optim
from rushlight.distributed import checkpoint
from rushlight.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner, _load_state_dict
from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy, _or_policy
from rushlight.distributed.tensor import Shard
from rushlight.distributed.utils import _sync_module_states


def test_shapes():
    assert torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
    scalar = torch.onnx.operators.shape_as_tensor(torch.ones(()))
    assert scalar.shape == (0,) and scalar.dtype is torch.int64
    assert torch.legacy_contiguous_format is torch.contiguous_format
    strides, offsets = torch._nested_compute_contiguous_strides_offsets(torch.tensor([[2, 3, 4], [4, 5, 1]]))
    assert strides.tolist() == [[12, 4, 1], [5, 1, 1]] and offsets.tolist() == [0, 24]


def test_a_loop_of_functions():
    step = lambda x, rest: (x + 1, {"y": rest["y"] * 2})
    x, rest = torch.while_loop(lambda x, rest: x < 3, step, (torch.tensor(0), {"y": torch.ones(2)}))
    assert x.item() == 3 and rest["y"].tolist() == [8, 8]
    first = (torch.tensor(5),)
    assert torch.while_loop(lambda x: x < 3, lambda x: (x + 1,), first) is first
    with pytest.raises(RuntimeError, match="Expect cond_fn and body_fn to be callable"):
        torch.while_loop(1, 2, (torch.tensor(0),))
    with pytest.raises(RuntimeError, match="Expect carried_inputs to be a tuple"):
        torch.while_loop(lambda x: x < 3, lambda x: x, torch.tensor(0))
    for wrong in (lambda x: x + 1, lambda x: (x + 1, x), lambda x: (x + 0.5,)):
        with pytest.raises(RuntimeError, match="same metadata"):
            torch.while_loop(lambda x: x < 3, wrong, (torch.tensor(0),))


def test_switches_are_kept():
    switches = torch._C
    for swap in (switches._jit_set_profiling_executor, switches._jit_set_profiling_mode):
        assert [swap(False), swap(True), swap(True)] == [True, False, True]
    for change, ask in (
        (switches._jit_override_can_fuse_on_cpu, switches._jit_can_fuse_on_cpu),
        (switches._jit_override_can_fuse_on_gpu, switches._jit_can_fuse_on_gpu),
        (switches._jit_set_texpr_fuser_enabled, switches._jit_texpr_fuser_enabled),
    ):
        before = ask()
        assert change(not before) is None and ask() is not before
        change(before)
    assert switches._jit_set_nvfuser_enabled(True) is None and switches._jit_set_nvfuser_guard_mode(True) is None
    assert torch._inductor.cudagraph_mark_step_begin() is None and torch._dynamo.reset_code_caches() is None


def test_options_of_the_export():
    assert (
        torch.onnx.TrainingMode.EVAL < torch.onnx.TrainingMode.TRAINING and int(torch.onnx.TrainingMode.PRESERVE) == 1
    )
    assert str(torch.onnx.OperatorExportTypes.ONNX) == "OperatorExportTypes.ONNX"
    assert torch.onnx.TensorProtoDataType["BFLOAT16"].value == 16


def test_the_modules_that_refuse_have_no_names_of_python():
    """The statement that makes annotations texts leaves its name where it runs."""
    assert inspect.ismodule(torch.jit.annotations) and torch.jit.annotations.BroadcastingList2
    assert not hasattr(importlib.import_module("rushlight._absent_names"), "_Feature")


def test_questions_about_devices_and_profiles():
    assert torch._C._get_accelerator().type == "cpu" or torch.accelerator.is_available()
    assert torch.autograd.DeviceType.CUDA.value == 1 and torch.autograd._profiler_enabled() is False
    assert torch.cuda._initialized is torch.cuda.is_initialized()
    with torch.profiler.profile():
        assert torch.autograd._profiler_enabled() is True
    with pytest.raises(RuntimeError, match=r"Cannot execute isOnMacOSorNewer\(\) without MPS backend"):
        torch.backends.mps.is_macos_or_newer(13, 0)


def test_functions_without_a_deterministic_form():
    check = torch._prims_common.alert_not_deterministic
    check("roi")
    try:
        torch.use_deterministic_algorithms(True)
        with pytest.raises(RuntimeError, match="roi does not have a deterministic implementation, but you set"):
            check("roi")
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="roi does not have a deterministic implementation"):
            check("roi")
    finally:
        torch.use_deterministic_algorithms(False)


def test_print_options_for_a_block():
    with pytest.raises(KeyError), torch._tensor_str.printoptions(precision=1):
        assert repr(torch.tensor(1 / 3)) == "tensor(0.3)"
        raise KeyError
    assert repr(torch.tensor(1 / 3)) == "tensor(0.3333)"


def test_optimizers_over_lists():
    from rushlight.optim import _multi_tensor

    for name in _multi_tensor.__all__:
        parameter = torch.ones(2, requires_grad=True)
        made = getattr(_multi_tensor, name)([parameter])
        assert made.defaults["foreach"] is True and isinstance(made, getattr(optim, name))
        (parameter * 3).sum().backward()
        made.step()
        assert (parameter != 1).all()
    groups = optim.Optimizer._group_tensors_by_device_and_dtype([[torch.ones(1), torch.ones(1).double()]], True)
    assert [places for _, places in groups.values()] == [[0], [1]]


def test_parts_and_policies():
    assert [Shard(0)._local_shard_size_and_offset(n, 4, rank) for n, rank in ((7, 2), (5, 3), (3, 3))] == [
        (2, 4),
        (0, 5),
        (0, 3),
    ]
    policies = [ModuleWrapPolicy({torch.nn.ReLU}), lambda module, recurse, nonwrapped_numel: nonwrapped_numel > 5]
    wraps = lambda module, size: _or_policy(module, False, size, policies)
    assert wraps(torch.nn.ReLU(), 0) and wraps(torch.nn.GELU(), 9) and not wraps(torch.nn.GELU(), 1)


def test_parts_of_a_checkpoint_are_read_into_an_empty_state(tmp_path):
    saved = {"net": {"weight": torch.ones(2), "bias": torch.zeros(1)}, "step": 3, "list": [torch.ones(1), 2]}
    checkpoint.save(saved, checkpoint_id=tmp_path, no_dist=True)
    for keys, expected in (
        (None, {"net", "step", "list"}),
        ({"net"}, {"net"}),
        ({"net.bias", "step"}, {"net", "step"}),
    ):
        state = {}
        reader = checkpoint.FileSystemReader(tmp_path)
        _load_state_dict(state, storage_reader=reader, planner=_EmptyStateDictLoadPlanner(keys), no_dist=True)
        assert set(state) == expected
    assert state["step"] == 3 and list(state["net"]) == ["bias"]


def test_states_of_a_module_are_those_of_one_rank(tmp_path):
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        module = torch.nn.BatchNorm1d(2)
        _sync_module_states(module, dist.group.WORLD, 1 << 20, 0, {"weight"})
        tensors = [torch.ones(2, requires_grad=True)]
        dist._broadcast_coalesced(dist.group.WORLD, tensors, 1 << 20)
        assert tensors[0].tolist() == [1, 1] and module.weight.tolist() == [1, 1]
    finally:
        dist.destroy_process_group()
