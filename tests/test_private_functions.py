"""Private functions and options of torch that libraries use: shapes, loops, switches of compilers."""

import importlib
import inspect

import pytest

import rushlight as torch
from rushlight import optim
from rushlight.distributed import checkpoint
from rushlight.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner, _load_state_dict
from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy, _or_policy
from rushlight.distributed.tensor import Shard


def test_shapes():
    assert torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
    scalar = torch.onnx.operators.shape_as_tensor(torch.ones(()))
    assert scalar.shape == (0,) and scalar.dtype is torch.int64
    assert torch.legacy_contiguous_format is torch.contiguous_format
    strides, offsets = torch._nested_compute_contiguous_strides_offsets(torch.tensor([[2, 3, 4], [4, 5, 1]]))
    assert strides.tolist() == [[12, 4, 1], [5, 1, 1]] and offsets.tolist() == [0, 24]


def test_functions_of_the_engine():
    assert torch._segment_reduce is torch.segment_reduce
    sums = torch._segment_reduce(torch.arange(6.0), "sum", lengths=torch.tensor([2, 4]))
    assert sums.tolist() == [1, 14]
    x = torch.tensor([3, 1, 3, 2])
    assert [one.tolist() for one in torch._unique(x)] == [[1, 2, 3], []]
    assert [one.tolist() for one in torch._unique(x, return_inverse=True)] == [[1, 2, 3], [2, 0, 2, 1]]
    assert type(torch._aminmax(x)) is tuple and torch._aminmax(torch.ones(2, 3), 1, True)[0].shape == (2, 1)
    assert torch._cast_Long(torch.tensor([1.7])).tolist() == [1] and torch._cast_Float(x).dtype is torch.float32
    with pytest.raises(TypeError, match=r"_cast_Long\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        torch._cast_Long(1)
    minus = -torch.inf
    assert torch._safe_softmax(torch.tensor([[0.0, minus], [minus, minus]]), -1).tolist() == [[1, 0], [0, 0]]
    assert torch._euclidean_dist(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])).item() == 5
    assert torch._stack([x, x], 1).shape == (4, 2) and torch._dim_arange(x, 0).tolist() == [0, 1, 2, 3]
    assert torch._adaptive_avg_pool2d(torch.ones(1, 4, 4), 2).shape == (1, 2, 2)
    assert torch._adaptive_avg_pool3d(torch.ones(1, 4, 4, 4), [1, 2, 1]).shape == (1, 1, 2, 1)
    logits = torch.tensor([0.5, 1.0])
    assert torch.equal(torch._softmax(logits, 0, False), logits.softmax(0))
    assert torch.equal(torch._log_softmax(logits, 0, False), logits.log_softmax(0))
    assert torch.equal(torch._logcumsumexp(logits, 0), logits.logcumsumexp(0))


def test_norms_of_weights():
    v = torch.arange(1.0, 7).view(2, 3).requires_grad_()
    for dim, g in ((0, torch.tensor([[1.0], [2.0]])), (1, torch.tensor([[1.0, 2.0, 3.0]])), (-1, torch.tensor(2.0))):
        weight = torch._weight_norm(v, g, dim)
        rest = [d for d in range(2) if d != dim]
        torch.testing.assert_close(torch.linalg.vector_norm(weight, dim=rest, keepdim=g.dim() > 0), g)
        torch.testing.assert_close(weight / v, weight / v.detach().abs())
        (gradient,) = torch.autograd.grad(weight.sum(), v)
        torch.testing.assert_close((gradient * v).sum(), torch.tensor(0.0), atol=1e-5, rtol=0)
    weight, norm = torch._weight_norm_interface(torch.tensor([[3.0, 4.0]]), torch.tensor([[10.0]]))
    assert weight.tolist() == [[6, 8]] and norm.item() == 5


def test_samples_of_a_dirichlet_distribution():
    concentration = torch.tensor([[1.0, 2.0, 3.0], [0.1, 0.1, 0.1]], requires_grad=True)
    torch.manual_seed(0)
    sample = torch._sample_dirichlet(concentration)
    assert not sample.requires_grad
    torch.testing.assert_close(
        sample, torch.tensor([[0.5282, 0.2411, 0.2307], [0.0804, 0.9153, 0.0043]]), atol=5e-5, rtol=0
    )
    torch.manual_seed(0)
    assert torch.equal(torch.distributions.Dirichlet(concentration).rsample(), sample)
    assert torch.equal(torch._sample_dirichlet(concentration, torch.Generator().manual_seed(0)), sample)
    with pytest.raises(NotImplementedError, match="\"dirichlet\" not implemented for 'Long'"):
        torch._sample_dirichlet(torch.tensor([1, 2]))


@pytest.mark.parametrize(
    ("scale", "steps", "found_inf", "expected"),
    [(4.0, 0, 0.0, (4, 1)), (4.0, 2, 0.0, (8, 0)), (4.0, 2, 1.0, (2, 0)), (3e38, 2, 0.0, (3e38, 0))],
)
def test_the_scale_of_a_loss(scale, steps, found_inf, expected):
    scale, steps = torch.tensor([scale], dtype=torch.float32), torch.tensor([steps], dtype=torch.int32)
    assert torch._amp_update_scale_(scale, steps, torch.tensor([found_inf]), 2.0, 0.5, 3) is scale
    assert scale.item() == torch.tensor(expected[0], dtype=torch.float32).item() and steps.item() == expected[1]


def test_refused_scales_of_a_loss():
    one, steps = torch.ones(1), torch.zeros(1, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="current_scale must be a 1-element tensor"):
        torch._amp_update_scale_(torch.ones(2), steps, one, 2.0, 0.5, 3)
    with pytest.raises(RuntimeError, match="growth_tracker must be an int tensor"):
        torch._amp_update_scale_(one, one, one, 2.0, 0.5, 3)


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
    assert not hasattr(importlib.import_module("rushlight._unsupported_classes"), "_Feature")


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
