"""Private names of torch that libraries use."""

import sys

import pytest

import rushlight as torch
from rushlight import _utils
from rushlight.nn.modules import module as modules
from rushlight.nn.utils import prune
from rushlight.utils.data._utils import worker

UNNAMED = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


@pytest.mark.parametrize(
    "check, error",
    [
        (torch._check, RuntimeError),
        (torch._check_index, IndexError),
        (torch._check_value, ValueError),
        (torch._check_type, TypeError),
        (torch._check_not_implemented, NotImplementedError),
        (lambda cond, message=None: torch._check_with(OSError, cond, message), OSError),
        (lambda cond, message=None: torch._check_tensor_all(torch.tensor([True, cond]), message), RuntimeError),
    ],
)
def test_checks(check, error):
    assert check(True, lambda: pytest.fail("asked for the message of a condition that holds")) is None
    for arguments, sentence in (((False,), UNNAMED), ((False, lambda: "sentence"), "sentence")):
        with pytest.raises(error) as caught:
            check(*arguments)
        assert type(caught.value) is error and str(caught.value) == sentence
    with pytest.raises(TypeError, match="message must be a callable"):
        check(False, "sentence")


def test_checks_of_other_objects():
    with pytest.raises(
        TypeError, match="cond must be a bool, but got a Tensor. For tensor conditions, use torch._check"
    ):
        torch._check(torch.tensor(True))
    with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
        torch._check(1)
    with pytest.raises(TypeError, match="cond must be a tensor, but got <class 'int'>"):
        torch._check_tensor_all(1)
    with pytest.raises(TypeError, match="cond tensor must have dtype torch.bool, but got torch.int64"):
        torch._check_tensor_all(torch.tensor([1]))
    for size, limit, fits in ((3, None, True), (3, 3, True), (3, 2, False), (-1, None, False)):
        with pytest.warns(FutureWarning, match="_check_is_size will be removed"):
            if fits:
                torch._check_is_size(size, max=limit)
            else:
                with pytest.raises(RuntimeError, match="Expected cond to be True"):
                    torch._check_is_size(size, max=limit)


def test_names_of_the_engine_that_do_nothing():
    assert torch._C._log_api_usage_once("library.Model") is None and torch._C._get_tracing_state() is None
    with pytest.raises(TypeError, match="bad argument type for built-in operation"):
        torch._C._log_api_usage_once(3)
    assert not hasattr(torch._C, "_no_such_name")


@pytest.mark.parametrize("error", [ValueError, KeyError])
def test_exceptions_of_other_threads(error):
    try:
        raise error("bad")
    except error:
        here, given = _utils.ExceptionWrapper(), sys.exc_info()
    for wrapper, where in (
        (here, "in background"),
        (_utils.ExceptionWrapper(given, where="in thread 3"), "in thread 3"),
    ):
        with pytest.raises(error) as caught:
            wrapper.reraise()
        assert str(caught.value).startswith(
            f"Caught {error.__name__} {where}.\nOriginal Traceback (most recent call last)"
        )


def test_sizes_of_elements():
    sizes = {torch.float32: 4, torch.float64: 8, torch.bfloat16: 2, torch.complex128: 16, torch.bool: 1, torch.int16: 2}
    assert {dtype: _utils._element_size(dtype) for dtype in sizes} == sizes
    with pytest.raises(RuntimeError, match="expected torch.dtype, but got <class 'int'>"):
        _utils._element_size(3)


def test_global_hooks_that_are_put_into_the_dictionary():
    seen = []
    linear = torch.nn.Linear(1, 1)
    assert not modules._has_any_global_hook() and modules._global_is_full_backward_hook in (None, True, False)
    modules._global_forward_hooks[-1] = lambda module, args, output: seen.append(type(module))
    try:
        linear(torch.ones(1, 1))
        assert modules._has_any_global_hook()
    finally:
        del modules._global_forward_hooks[-1]
    linear(torch.ones(1, 1))
    assert seen == [torch.nn.Linear]


def test_global_hooks_are_in_the_dictionaries():
    for name in ("forward", "forward_pre", "full_backward", "full_backward_pre"):
        registry = getattr(modules, f"_global_{name.removeprefix('full_')}_hooks")
        with getattr(modules, f"register_module_{name}_hook")(lambda *args: None) as handle:
            assert list(registry) == [handle.id]
        assert not registry


def test_the_information_of_a_worker_can_be_replaced(monkeypatch):
    assert worker._worker_info is None and torch.utils.data.get_worker_info() is None
    info = worker.WorkerInfo(1, 4, 7, [1, 2])
    monkeypatch.setattr(worker, "_worker_info", info)
    assert torch.utils.data.get_worker_info() is info


def test_parts_of_pruning():
    counts = [prune._compute_nparams_toprune(amount, 5) for amount in (3, 0.5, 1.5, -0.5, 1000, True)]
    assert counts == [3, 2, 8, -2, 1000, 1]
    with pytest.raises(ValueError, match="amount=1000 should be smaller than the number of parameters to prune=5"):
        prune._validate_pruning_amount(1000, 5)
    for amount in (-1, 1.5, -0.5):
        prune._validate_pruning_amount(amount, 5)
        with pytest.raises(ValueError, match="should either be a float in the range"):
            prune._validate_pruning_amount_init(amount)
    with pytest.raises(TypeError, match="Invalid type for amount: a. Must be int or float."):
        prune._validate_pruning_amount_init("a")
    tensor = torch.arange(6.0).view(2, 3)
    with pytest.raises(IndexError, match="Invalid index 2 for tensor of size"):
        prune._validate_pruning_dim(tensor, 2)
    with pytest.raises(ValueError, match="Structured pruning can only be applied to multidimensional tensors"):
        prune._validate_structured_pruning(tensor[0])
    assert prune._compute_norm(tensor, float("inf"), -1).tolist() == [3, 4, 5]


def test_facts_about_the_build():
    assert torch.version.rocm is None and torch.version.xpu is None and torch.version.hip is None
    assert torch.__version__ in torch.__config__.show()
    assert f"get_num_threads() : {torch.get_num_threads()}\n" in torch.__config__.parallel_info()


def test_the_text_of_the_elements():
    from rushlight._tensor_str import PRINT_OPTS, _tensor_str

    x = torch.arange(4.0, requires_grad=True).reshape(2, 2)
    assert _tensor_str(x, 0) == "[[0., 1.],\n [2., 3.]]" and _tensor_str(x, 3) == "[[0., 1.],\n    [2., 3.]]"
    assert _tensor_str(torch.tensor(2, dtype=torch.int8), 0) == "2" and _tensor_str(torch.zeros(0, 3), 0) == "[]"
    assert (PRINT_OPTS.threshold, PRINT_OPTS.linewidth) == (1000, 80)


def test_arguments_of_to():
    parse = torch._C._nn._parse_to
    cpu = torch.device("cpu")
    assert parse("cpu", torch.float16, True) == (cpu, torch.float16, True, None)
    assert parse(torch.ones(1, dtype=torch.int8)) == (cpu, torch.int8, False, None)
    assert parse(memory_format=torch.channels_last) == (None, None, False, torch.channels_last)
    assert parse() == (None, None, False, None)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        parse(3, "x")


def test_parameters_are_replaced_in_a_block():
    linear = torch.nn.Linear(1, 1, bias=False)
    before = linear.weight
    with torch.nn.utils.stateless._reparametrize_module(linear, {"weight": torch.full((1, 1), 5.0)}):
        assert linear(torch.ones(1)).item() == 5
    assert linear.weight is before


def test_functions_of_registered_containers():
    from rushlight.utils import _pytree

    tree = {"b": 1, "a": 2}
    assert _pytree._dict_flatten(tree) == ([1, 2], ["b", "a"]) and _pytree._dict_unflatten([1, 2], ["b", "a"]) == tree
    assert _pytree._dict_flatten_with_keys(tree)[0][0] == (_pytree.MappingKey("b"), 1)
    assert _pytree._list_flatten([1]) == ([1], None) and _pytree._tuple_unflatten([1], None) == (1,)


def test_names_for_annotations_and_questions():
    from rushlight._dynamo import _trace_wrapped_higher_order_op, eval_frame
    from rushlight._jit_internal import _copy_to_script_wrapper
    from rushlight.serialization import MAP_LOCATION
    from rushlight.utils.data.dataloader import _collate_fn_t

    linear = torch.nn.Linear(1, 1)
    for kind in (
        torch.SymInt,
        torch.ScriptModule,
        eval_frame.OptimizedModule,
        torch.nn.parallel.DistributedDataParallel,
    ):
        assert not isinstance(linear, kind) and not isinstance(3, kind)
    assert MAP_LOCATION is not None and _collate_fn_t is not None and not eval_frame.is_dynamo_supported()
    assert _copy_to_script_wrapper(len) is len and torch.jit._overload(len) is len
    assert isinstance(torch.ones(1), torch._C._TensorMeta) is False and type(torch.Tensor) is torch._C._TensorMeta
    assert torch.Future is torch.jit.Future and issubclass(torch.jit.TracerWarning, Warning)
    with _trace_wrapped_higher_order_op.TransformGetItemToIndex():
        assert torch.vmap(lambda i: torch.arange(3)[i])(torch.tensor([2, 0])).tolist() == [2, 0]
    assert torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all()) is None


def test_parts_of_the_engine():
    engine = torch._C
    assert engine._nn.gelu is torch.nn.functional.gelu and engine._linalg.linalg_svd is torch.linalg.svd
    assert engine._fft.fft_fft is torch.fft.fft and engine._special.special_erf is torch.special.erf
    assert engine._VariableFunctions.add is torch.add
    assert issubclass(torch.nn.Parameter, engine.TensorBase) and engine._TensorBase is torch.Tensor
    assert not engine._get_deterministic_algorithms()
    with pytest.raises(AttributeError, match="module 'torch._C' has no attribute '_absent'"):
        engine._absent


def test_callbacks_at_the_end_of_a_backward_pass():
    x = torch.ones(1, requires_grad=True)
    called = []
    engine = torch.autograd.Variable._execution_engine
    x.register_hook(lambda grad: engine.queue_callback(lambda: called.append(x.grad is not None)))
    (x * 2).sum().backward()
    assert called == [True]


def test_the_level_of_forward_mode():
    from rushlight.autograd import forward_ad

    assert forward_ad._current_level == -1
    with forward_ad.dual_level():
        assert forward_ad._current_level == 0


def test_an_average_of_the_profiler_without_arguments():
    assert torch.autograd.profiler_util.FunctionEventAvg().count == 0


def test_conditions_that_graphs_record():
    assert torch._assert(True, "told") is None and torch._assert(torch.tensor(True), "told") is None
    for condition in (False, 0, torch.tensor(False)):
        with pytest.raises(AssertionError, match="told"):
            torch._assert(condition, "told")


def test_tensors_of_vmap_by_the_names_of_the_engine():
    from rushlight._C._functorch import (
        _add_batch_dim,
        _remove_batch_dim,
        get_unwrapped,
        is_batchedtensor,
        maybe_current_level,
        maybe_get_bdim,
        maybe_get_level,
    )

    seen = []

    def function(x):
        level = maybe_current_level()
        seen.append((is_batchedtensor(x), maybe_get_level(x) == level, maybe_get_bdim(x)))
        whole = get_unwrapped(x)
        assert whole.shape == (3, 2) and not is_batchedtensor(whole)
        hidden = _add_batch_dim(torch.arange(6.0).reshape(2, 3), -1, level)
        shown = _remove_batch_dim(hidden, level, 3, -1)
        assert hidden.shape == (2,) and shown.shape == (2, 3) and torch._C._are_functorch_transforms_active()
        return x + hidden

    result = torch.vmap(function)(torch.zeros(3, 2))
    assert seen == [(True, True, 0)] and torch.equal(result, torch.arange(6.0).reshape(2, 3).T)
    assert maybe_current_level() is None and not torch._C._are_functorch_transforms_active()


def test_modules_as_functions_of_their_parameters():
    from rushlight._functorch.make_functional import (
        combine_state_for_ensemble,
        make_functional,
        make_functional_with_buffers,
    )

    x = torch.randn(4, 2)
    layer = torch.nn.Linear(2, 3)
    function, params = make_functional(layer)
    assert torch.equal(function(params, x), layer(x)) and not torch.equal(
        function(tuple(p + 1 for p in params), x), layer(x)
    )
    norm = torch.nn.BatchNorm1d(2).eval()
    whole, params, buffers = make_functional_with_buffers(norm)
    assert torch.equal(whole(params, buffers, x), norm(x))
    with pytest.raises(ValueError, match="`model` has buffers"):
        make_functional(norm)
    models = [torch.nn.Linear(2, 3) for _ in range(2)]
    function, params, buffers = combine_state_for_ensemble(models)
    both = torch.vmap(function, in_dims=(0, 0, None))(params, buffers, x)
    assert torch.allclose(both, torch.stack([model(x) for model in models]))


def test_questions_about_storages_and_modes():
    x = torch.ones(4)
    assert torch._C._is_alias_of(x, x[1:]) and not torch._C._is_alias_of(x, x.clone())
    assert isinstance(x.untyped_storage(), torch.StorageBase)
    assert not torch._C._is_torch_function_mode_enabled()
    with torch.overrides.BaseTorchFunctionMode():
        assert torch._C._is_torch_function_mode_enabled()
    assert _utils._get_device_module("cpu") is torch.cpu
    with pytest.raises(
        RuntimeError, match="Device 'foo' does not have a corresponding module registered as 'torch.foo'"
    ):
        _utils._get_device_module("foo")


def test_tensors_of_modules_can_be_swapped():
    from rushlight.nn.utils._named_member_accessor import set_tensor, swap_tensor

    layer = torch.nn.Linear(1, 1)
    before, new = layer.weight, torch.zeros(1, 1)
    assert swap_tensor(layer, "weight", new) is before and layer.weight is new
    set_tensor(layer, "weight", before)
    assert layer.weight is before
    for arguments, error, sentence in (
        ((3, "a", new), TypeError, "3 is not an instance of torch.nn.Module"),
        ((layer, "a.b", new), KeyError, "tensor name can't contain"),
        ((layer, "", new), KeyError, "tensor name can't be empty string"),
        ((layer, "q", new), AttributeError, "Linear has no attribute `q`"),
        ((layer, "weight", 3), TypeError, "3 is not an instance of torch.Tensor"),
        ((layer, "in_features", new), TypeError, "attribute `in_features`: 1 is not an instance of torch.Tensor"),
    ):
        with pytest.raises(error) as caught:
            swap_tensor(*arguments)
        assert caught.value.args[0].startswith(sentence)


def test_names_of_libraries():
    """What reformer-pytorch, kornia, MONAI, brevitas and tracers of torch.fx import."""
    from rushlight.fx.node import Argument, Target
    from rushlight.utils.checkpoint import get_device_states, set_device_states
    from rushlight.utils.data._utils.collate import np_str_obj_array_pattern

    assert torch.torch is torch and "torch" not in dir(torch)
    assert not torch.jit._enabled and not torch.jit._state._enabled.enabled
    assert str in Target.__args__ and {torch.dtype, type(None)} <= set(Argument.__args__)
    states = get_device_states({"a": [torch.ones(1)]}, 3)
    assert states == ([], []) and set_device_states(*states) is None
    assert np_str_obj_array_pattern.search("<U1")


def test_ranges_of_two_calls_are_in_profiles():
    """Libraries open and close ranges with operators. A handle is closed once; without a profiler nothing is kept."""
    ops = torch.ops.profiler
    unseen = ops._record_function_enter_new("before", None)
    with torch.profiler.profile() as profiled:
        first, second = ops._record_function_enter_new("new"), ops._record_function_enter("old", None)
        assert second.dtype is torch.uint8
        ops._record_function_exit(second)
        for _ in range(2):
            ops._record_function_exit._RecordFunction(first)
        ops._record_function_exit(unseen)
    names = [event.name for event in profiled.events()]
    assert names.count("new") == names.count("old") == 1 and "before" not in names
    for handle in (3, torch.ones(1), torch.zeros(8), second):
        with pytest.raises(RuntimeError, match="Expected temporary cpp type wrapper"):
            ops._record_function_exit(handle)
    with pytest.raises(AttributeError):
        ops._record_function


def test_calls_for_gpus_wait_for_one():
    called = []
    queued = len(torch.cuda._queued_calls)
    torch.cuda._lazy_call(lambda: called.append(1))
    found = torch.cuda.is_available()
    assert called == [1] * found and len(torch.cuda._queued_calls) == queued + (not found)


def test_tags_are_numbered_as_torchs():
    assert [int(torch.Tag[name]) for name in ("core", "inplace", "pointwise", "view_copy")] == [0, 6, 16, 19]
    assert str(torch.Tag.core) == "Tag.core" and repr(torch.Tag.core) == "<Tag.core: 0>"


def test_functions_of_vendors_are_refused():
    assert torch.cudnn_is_acceptable(torch.ones(1)) is False
    for name in ("cudnn_convolution", "miopen_rnn", "mkldnn_max_pool2d", "fbgemm_linear_int8_weight"):
        with pytest.raises(
            NotImplementedError, match=f"torch.{name} is not available: the engine has kernels of its own"
        ):
            getattr(torch, name)(torch.ones(1), 2)


def test_wrappers_return_the_tensor_that_they_change():
    from rushlight.utils._python_dispatch import return_and_correct_aliasing

    aten, x, made, out = torch.ops.aten, torch.ones(2), torch.zeros(2), torch.ones(2)
    assert return_and_correct_aliasing(aten.add_.Tensor, (x, 1), {}, made) is x
    assert return_and_correct_aliasing(aten.add.Tensor, (x, 1), {}, made) is made
    assert return_and_correct_aliasing(aten.add.out, (x, 1), {"out": out}, made) is out


@pytest.mark.parametrize(
    "order, expected",
    [
        ((0, 1, 2, 3), torch.contiguous_format),
        ((0, 2, 3, 1), torch.channels_last),
        ((0, 2, 3, 4, 1), torch.channels_last_3d),
        ((1, 0, 2, 3), torch.contiguous_format),
        ((0, 1), torch.contiguous_format),
    ],
)
def test_the_memory_format_of_strides(order, expected):
    from rushlight._prims_common import suggest_memory_format

    sizes = (2, 3, 4, 5, 6)[: len(order)]
    x = torch.empty([sizes[dim] for dim in order]).permute([order.index(dim) for dim in range(len(order))])
    assert x.shape == sizes and suggest_memory_format(x) == expected
    assert suggest_memory_format(x[:0]) == torch.contiguous_format


def test_strides_of_contiguous_tensors():
    from rushlight._prims_common import make_contiguous_strides_for

    for shape in ((2, 3, 4), (), (5,), (2, 0, 3)):
        assert make_contiguous_strides_for(shape) == torch.empty(shape).stride()
    assert make_contiguous_strides_for((2, 3, 4), row_major=False) == torch.empty(2, 4, 3).mT.stride()


def test_products_of_small_integers_are_exact_in_a_wider_dtype():
    from rushlight._higher_order_ops import out_dtype

    x = torch.full((2, 40), -128, dtype=torch.int8)
    product = out_dtype(torch.ops.aten.mm.default, torch.int32, x, x.T)
    assert product.dtype == torch.int32 and product.tolist() == [[40 * 2**14] * 2] * 2
    with pytest.raises(ValueError, match="out_dtype's first argument must be an OpOverload"):
        out_dtype(torch.mm, torch.int32, x, x.T)


def test_collective_calls_are_operators_of_the_registry():
    for name in ("_c10d_functional.all_gather_into_tensor", "c10d_functional.wait_tensor", "c10d.scatter_"):
        namespace, _, operator = name.partition(".")
        assert str(getattr(getattr(torch.ops, namespace), operator).default) == f"{name}.default"
    x = torch.ones(2)
    assert torch.ops._c10d_functional.wait_tensor(x) is x
    with pytest.raises(AttributeError):
        _ = torch.ops._c10d_functional.no_such_call


def test_names_that_optimizers_of_libraries_import():
    from rushlight._ops import OpOverload
    from rushlight.optim.optimizer import ParamsT, StateDict, _get_value, _stack_if_compiling, _to_scalar, _view_as_real

    assert isinstance(torch.ops.aten.add.Tensor, OpOverload)
    assert list[torch.Tensor] not in ParamsT.__args__ and len(ParamsT.__args__) == 3 and StateDict.__origin__ is dict
    assert _get_value(torch.tensor(2)) == 2 and _stack_if_compiling([1]) == [1]
    assert _to_scalar(torch.ones(1)).shape == () and _to_scalar(0.5) == 0.5
    params, states = [torch.ones(2), torch.ones(2, dtype=torch.complex64)], [torch.ones(2), torch.ones(2).cfloat()]
    _view_as_real(params, states)
    assert [one.shape for one in (*params, *states)] == [(2,), (2, 2)] * 2


def test_kinds_of_tensors_that_can_replace_each_other():
    dense, sparse = torch.eye(2), torch.eye(2).to_sparse()
    same = torch._has_compatible_shallow_copy_type
    assert same(dense, dense.double()) and same(sparse, sparse) and not same(dense, sparse)
    assert same(dense.to_sparse_csr(), dense.to_sparse_csc()) and not same(sparse, dense.to_sparse_csr())


def test_the_compiler_and_triton_have_no_effect():
    from rushlight._dynamo.utils import disable_cache_limit
    from rushlight._inductor import config, decomposition
    from rushlight.utils._triton import has_triton

    assert has_triton() is False and config.triton.cudagraphs is False
    assert decomposition.register_decomposition([torch.ops.aten.relu.default])(abs) is abs
    with disable_cache_limit():
        assert torch._dynamo.config.recompile_limit > 8
    assert torch._dynamo.config.recompile_limit == 8


def test_grouped_products_of_8_bit_floats_need_a_gpu():
    F = torch.nn.functional
    x, ones = torch.ones(1, 16, 16).to(torch.float8_e4m3fn), torch.ones(1, 16)
    with pytest.raises(NotImplementedError, match="Could not run 'aten::_scaled_grouped_mm_v2'"):
        F.scaled_grouped_mm(x, x, ones, F.ScalingType.RowWise, ones, F.ScalingType.RowWise)
    for rank in (2, 3):
        a, b, scales = torch.empty(8, 16, device="meta"), torch.empty(2, 16, 32, device="meta"), torch.ones(2, 32)
        a, b = (one.to(torch.float8_e4m3fn) for one in (a if rank == 2 else a.expand(2, 8, 16), b))
        rows = torch.ones(8) if rank == 2 else torch.ones(2, 8)
        ends = torch.tensor([3, 8], dtype=torch.int32) if rank == 2 else None
        scales, rows = scales.to("meta"), rows.to("meta")
        if rank == 3:
            found = F.scaled_grouped_mm(a, b, rows, F.ScalingType.RowWise, scales, F.ScalingType.RowWise, offs=ends)
            assert found.shape == (2, 8, 32) and found.dtype == torch.bfloat16 and found.is_meta
        with pytest.raises(ValueError, match="Invalid scaling configuration"):
            F.scaled_grouped_mm(a, b, rows, F.ScalingType.TensorWise, scales, F.ScalingType.RowWise, offs=ends)


def test_the_processor_is_described():
    known = torch.cpu.get_capabilities()
    assert torch._C._cpu._get_cpu_capability() == known and torch._C._cpu._init_amx() is False
    assert torch.cpu._is_avx2_supported() is known.get("avx2", False)
    assert torch.cpu._is_amx_fp16_supported() is (known.get("amx_tile", False) and known.get("amx_fp16", False))
    assert torch.cpu._is_avx512_bf16_supported() <= torch.cpu._is_avx512_supported() <= torch.cpu._is_avx2_supported()


def test_there_is_no_mode_of_fake_tensors():
    from rushlight._subclasses.fake_tensor import unset_fake_temporarily

    assert torch._guards.active_fake_mode() is None and torch._guards.detect_fake_mode([torch.ones(2)]) is None
    with unset_fake_temporarily() as mode:
        assert mode is None
