"""Functions written in Python refuse arguments of a wrong kind with torch's class and sentence, not with their own insides."""

import copy
import io
import pickle
import warnings

import pytest

import rushlight as torch

CASES = """
torch.use_deterministic_algorithms(1)
TypeError: _set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not int
torch.autograd.set_multithreading_enabled('x')
TypeError: set_multithreading_enabled(): argument 'enabled' (position 1) must be bool, not str
torch.autograd.enforce_grad_layout_policy(None)
TypeError: set_grad_layout_enforcement_enabled(): argument 'enabled' (position 1) must be bool, not NoneType
torch.autograd.set_detect_anomaly(1)
TypeError: set_anomaly_enabled(): argument 'enabled' (position 1) must be bool, not int
torch.autograd.graph.set_override_stale_capture_stream(5)
RuntimeError: enabled must be a bool, but got int
torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch('x')
RuntimeError: enabled must be a bool, but got str
torch.autograd.backward('x')
AssertionError: Expected output to be a torch.Tensor
torch.autograd.backward(y, inputs='x')
RuntimeError: all inputs have to be Tensors or GradientEdges, but got str
torch.autograd.backward(y, retain_graph='x')
TypeError: 'str' object cannot be interpreted as an integer
torch.autograd.grad([3], x)
AssertionError: Expected output to be a torch.Tensor
torch.autograd.grad(y, [3])
RuntimeError: all inputs have to be Tensors or GradientEdges, but got int
torch.autograd.grad(y, x, create_graph=1.5)
TypeError: 'float' object cannot be interpreted as an integer
F.dropout(x, training=None)
TypeError: dropout(): argument 'train' (position 3) must be bool, not NoneType
F.dropout(x, training=1, inplace=True)
TypeError: dropout_(): argument 'train' (position 3) must be bool, not int
F.dropout2d(torch.ones(1, 1, 1, 1), training='x')
TypeError: feature_dropout(): argument 'train' (position 3) must be bool, not str
F.alpha_dropout(x, training=[])
TypeError: alpha_dropout(): argument 'train' (position 3) must be bool, not list
F.feature_alpha_dropout(x, training=5)
TypeError: feature_alpha_dropout(): argument 'train' (position 3) must be bool, not int
F.max_unpool2d(torch.ones(1, 1, 1), 5, 2)
TypeError: max_unpool2d(): argument 'indices' (position 2) must be Tensor, not int
F.max_unpool3d(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64), 2, 0)
RuntimeError: strides should be greater than zero, but got stride: [0, 0, 0]
F.max_unpool3d(torch.ones(1, 1, 1, 1), None, 2)
TypeError: max_unpool3d(): argument 'indices' (position 2) must be Tensor, not NoneType
F.ctc_loss(torch.zeros(2, 1, 2), torch.tensor([[1]]), None, torch.tensor([1]))
TypeError: ctc_loss() received an invalid combination of arguments - got (Tensor, Tensor, NoneType, Tensor, int, int, bool), but expected one of:
F.embedding_bag(torch.tensor([[0]]), torch.ones(1, 1), mode=[])
ValueError: mode has to be one of sum, mean or max
nn.utils.clip_grad_norm_([x], None)
TypeError: float() argument must be a string or a real number, not 'NoneType'
nn.utils.rnn.pack_padded_sequence('x', [1])
TypeError: _pack_padded_sequence(): argument 'input' (position 1) must be Tensor, not str
nn.utils.rnn.pack_padded_sequence(torch.ones(1, 1), [1], batch_first=1)
TypeError: _pack_padded_sequence(): argument 'batch_first' (position 3) must be bool, not int
nn.utils.rnn.pad_sequence([x], batch_first=None)
TypeError: pad_sequence(): argument 'batch_first' (position 2) must be bool, not NoneType
nn.utils.rnn.pad_sequence([x], padding_side=5)
TypeError: pad_sequence(): argument 'padding_side' (position 4) must be str, not int
nn.utils.rnn.pad_sequence([x, 5])
TypeError: expected Tensor as element 1 in argument 0, but got int
nn.utils.rnn.invert_permutation('x')
TypeError: empty_like(): argument 'input' (position 1) must be Tensor, not str
nn.MultiheadAttention(2, 1)(x[None], x[None], x[None], attn_mask=5)
TypeError: is_floating_point(): argument 'input' (position 1) must be Tensor, not int
nn.MultiheadAttention(2, 1)(x[None], x[None], x[None], key_padding_mask='x')
TypeError: is_floating_point(): argument 'input' (position 1) must be Tensor, not str
torch.signal.windows.hann(4, dtype=[])
ValueError: hann expects float32 or float64 dtypes, got: []
torch.signal.windows.hann(4, layout=None)
ValueError: hann is implemented for strided tensors only, got: None
torch.testing.assert_close(x, object)
TypeError: No comparison pair was able to handle inputs of type <class 'rushlight.Tensor'> and <class 'type'>.
torch.testing.make_tensor(2, dtype=None)
TypeError: The requested dtype 'None' is not supported by torch.testing.make_tensor()
torch.testing.make_tensor(2, dtype=torch.int8, requires_grad=True)
ValueError: `requires_grad=True` is not supported for boolean and integral dtypes, but got dtype=torch.int8
torch.testing.make_tensor(2, dtype=torch.float32, noncontiguous=True, memory_format=torch.contiguous_format)
ValueError: The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got noncontiguous=True and memory_format=torch.contiguous_format
torch.library.define(5, '() -> Tensor')
ValueError: define(qualname, schema): expected qualname to be instance of str, got <class 'int'>
torch.amp.custom_fwd(device_type=None)
ValueError: Expected `device_type` of type `str`, got: `<class 'NoneType'>`
torch.amp.custom_bwd(device_type=5)
ValueError: Expected `device_type` of type `str`, got: `<class 'int'>`
torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(torch.optim.SGD([x], lr=1), None)
TypeError: '<=' not supported between instances of 'NoneType' and 'int'
F.max_pool2d_with_indices(torch.ones(1, 1, 2, 2), 2, nothing=1)
TypeError: max_pool2d_with_indices() got an unexpected keyword argument 'nothing'
F.max_pool2d_with_indices(5, 2, return_indices=True)
TypeError: max_pool2d_with_indices(): argument 'input' (position 1) must be Tensor, not int
F.lp_pool1d(torch.ones(1, 4), 2, [2])
TypeError: mul(): argument 'other' (position 1) must be Tensor, not list
F.lp_pool2d(torch.ones(1, 4, 4), 2, [2])
ValueError: not enough values to unpack (expected 2, got 1)
F.lp_pool3d(torch.ones(1, 4, 4, 4), 2, (2, 2))
ValueError: not enough values to unpack (expected 3, got 2)
F.lp_pool2d(torch.ones(1, 4, 4), 2, 2, ceil_mode=5)
TypeError: avg_pool2d(): argument 'ceil_mode' must be bool, not int
F.dropout('x', 0.5, False)
TypeError: dropout(): argument 'input' (position 1) must be Tensor, not str
F.dropout(None, 0.0)
TypeError: dropout(): argument 'input' (position 1) must be Tensor, not NoneType
F.alpha_dropout(torch.float32, 0.5)
TypeError: alpha_dropout(): argument 'input' (position 1) must be Tensor, not torch.dtype
F.embedding(torch.tensor([0]), torch.ones(2, 2), 'x')
TypeError: '>' not supported between instances of 'str' and 'int'
F.embedding(None, torch.ones(2, 2), max_norm=1.0)
AttributeError: 'NoneType' object has no attribute 'contiguous'
F.adaptive_max_pool1d(None, 2)
TypeError: adaptive_max_pool1d(): argument 'input' (position 1) must be Tensor, not NoneType
F.binary_cross_entropy(x, x, 'x')
AttributeError: 'str' object has no attribute 'size'
F.interpolate(torch.ones(1, 1, 2, 2), (3, 3), mode='bilinear', align_corners='x')
TypeError: upsample_bilinear2d() received an invalid combination of arguments - got (Tensor, tuple, str, NoneType), but expected one of:
F.interpolate(torch.ones(1, 1, 2, 2), scale_factor=2.0, mode='bicubic', align_corners=1)
TypeError: upsample_bicubic2d() received an invalid combination of arguments - got (Tensor, NoneType, int, list), but expected one of:
F.interpolate(torch.ones(1, 1, 2, 2), 3, mode='bilinear', align_corners=[], antialias=True)
TypeError: _upsample_bilinear2d_aa() received an invalid combination of arguments - got (Tensor, list, list, NoneType), but expected one of:
nn.Dropout('x')
TypeError: '<' not supported between instances of 'str' and 'int'
nn.Dropout(float('nan'))(x)
RuntimeError: dropout probability has to be between 0 and 1, but got nan
nn.init.eye_(None)
AttributeError: 'NoneType' object has no attribute 'ndimension'
nn.init.trunc_normal_(0.0, 1.0)
AttributeError: 'float' object has no attribute 'is_meta'
nn.init.trunc_normal_(torch.ones(2), 0.0, None)
TypeError: unsupported operand type(s) for *: 'int' and 'NoneType'
nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_sequence([x]), 0)
TypeError: _pad_packed_sequence(): argument 'batch_first' (position 3) must be bool, not int
nn.utils.clip_grads_with_norm_(leaf(), 1.0, torch.ones(2))
RuntimeError: scalar tensor expected to be 0 dim but it has 1 dimensions and 2 elements.
nn.utils.stateless.functional_call(nn.Linear(2, 1), [], x)
AttributeError: 'list' object has no attribute 'keys'
torch.func.functional_call(nn.Linear(2, 1), {}, x, 0)
TypeError: Linear(in_features=2, out_features=1, bias=True) argument after ** must be a mapping, not int
torch.optim.Adam([leaf()], differentiable='x').step()
TypeError: set_grad_enabled(): argument 'enabled' (position 1) must be bool, not str
torch.optim.Rprop([leaf()], step_sizes=None).step()
TypeError: cannot unpack non-iterable NoneType object
torch.optim.Rprop([leaf()], step_sizes=[1]).step()
ValueError: not enough values to unpack (expected 2, got 1)
torch.optim.lr_scheduler.ChainedScheduler(None)
TypeError: object of type 'NoneType' has no len()
torch.optim.lr_scheduler.SequentialLR(torch.optim.SGD([x], lr=1), None, [1])
TypeError: object of type 'NoneType' has no len()
torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(torch.optim.SGD([x], lr=1), 5, None)
TypeError: '<' not supported between instances of 'NoneType' and 'int'
torch.optim.lr_scheduler.OneCycleLR(torch.optim.SGD([x], lr=1), 0.1, 10, pct_start=None)
TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'
torch.optim.lr_scheduler.OneCycleLR(torch.optim.SGD([x], lr=1), 0.1, 10, pct_start=2.0)
ValueError: Expected float between 0 and 1 pct_start, but got 2.0
torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([x], lr=1), threshold=None).step(1.0)
TypeError: unsupported operand type(s) for -: 'float' and 'NoneType'
torch.distributions.Normal(0.0, 1.0).expand(4)
TypeError: 'int' object is not iterable
torch.distributions.Normal(0.0, 1.0).expand((4, None))
TypeError: torch.Size() takes an iterable of 'int' (item 1 is 'NoneType')
torch.distributions.Gamma(1.0, 1.0).expand((4,), 5)
AttributeError: 'int' object has no attribute 'concentration'
torch.distributions.Binomial(3, 0.5).expand(None)
TypeError: 'NoneType' object is not iterable
torch.set_grad_enabled(torch.float32)
TypeError: set_grad_enabled(): argument 'enabled' (position 1) must be bool, not torch.dtype
torch.Size([torch.float32])
TypeError: torch.Size() takes an iterable of 'int' (item 0 is 'torch.dtype')
torch.cond('x', abs, abs, (x,))
RuntimeError: Expected pred to be bool or tensor, but got x.
torch.unique(torch.tensor([1]), 1, dim=0)
TypeError: unique_dim(): argument 'sorted' must be bool, not int
torch.unique(torch.tensor(1), dim=0)
IndexError: Dimension specified as 0 but tensor has no dimensions
torch.svd_lowrank(torch.ones(5, 4), 2, 2, 2.5)
AttributeError: 'float' object has no attribute 'broadcast_to'
torch.lobpcg(torch.eye(9), 2, ortho_iparams=2.5)
TypeError: 'float' object is not iterable
torch.utils.data.random_split(range(4), [2, 2], 0)
TypeError: randperm() received an invalid combination of arguments - got (int, generator=int), but expected one of:
torch.utils.checkpoint.checkpoint(abs, x, use_reentrant=True, debug=None)
ValueError: Passing `context_fn` or `debug` is only supported when use_reentrant=False.
torch.profiler.profile(schedule='x')
TypeError: 'str' object is not callable
torch.futures.Future(devices=2.5)
TypeError: 'float' object is not iterable
torch.futures.Future(devices=['cpu'])
ValueError: Expected devices to have indices, got cpu
torch.save(x, io.BytesIO(), pickle_protocol=2.5)
TypeError: 'float' object cannot be interpreted as an integer
torch.load(saved(), nothing=1)
TypeError: Unpickler.__init__() got an unexpected keyword argument 'nothing'
torch.load(saved(), fix_imports=True)
TypeError: Unpickler.__init__() got an unexpected keyword argument 'fix_imports'
"""
LINES = CASES.split("\n")[1:-1]


def leaf():
    made = torch.ones(2, requires_grad=True)
    made.grad = torch.ones(2)
    return made


def saved():
    file = io.BytesIO()
    torch.save([torch.ones(2)], file)
    file.seek(0)
    return file


def kept(value: torch.Tensor) -> torch.Tensor:
    return value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "said"), list(zip(LINES[::2], LINES[1::2])), ids=LINES[::2])
def test_an_argument_of_a_wrong_kind(call, said):
    x = torch.ones(2, requires_grad=True)
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "x": x, "y": (x * x).sum(), "io": io}
    names.update(leaf=leaf, saved=saved)
    with pytest.raises(Exception) as caught:
        eval(call, names)
    assert f"{caught.type.__name__}: {str(caught.value).splitlines()[0]}" == said


def test_switches_of_backward_may_be_numbers():
    """Programs write ``retain_graph=1``."""
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=1)
    y.backward(retain_graph=torch.tensor(0))
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()
    assert x.grad.tolist() == [4, 4]
    (once,) = torch.autograd.grad((x * x).sum(), x, create_graph=1)
    other = torch.zeros(1, requires_grad=True)
    twice, unused = torch.autograd.grad(once.sum(), (x, other), allow_unused=1)
    assert twice.tolist() == [2, 2] and unused is None
    assert torch.autograd.grad((x * x).sum(), (x, other), materialize_grads=1)[1].tolist() == [0]


def test_ranks_above_that_of_the_matrix():
    """A small matrix fits the default of six values, as in torch."""
    for shape in ((2, 2), (3, 2), (2, 5), (2, 3, 2), (0, 3)):
        matrix = torch.rand(*shape)
        u, values, v = torch.svd_lowrank(matrix)
        assert values.shape[-1] == min(shape[-2:])
        torch.testing.assert_close(u @ torch.diag_embed(values) @ v.mT, matrix)


def test_lengths_may_be_floats():
    padded = torch.tensor([[1.0, 2.0], [3.0, 0.0]])
    parts = torch.nn.utils.rnn.unpad_sequence(padded, torch.tensor([2.0, 1.0]), batch_first=True)
    assert [part.tolist() for part in parts] == [[1, 2], [3]]


def test_hooks_are_not_saved():
    """A tensor of its own says so in every form of pickle; a copy in memory and a parameter do not."""
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda grad: grad)
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.register_hook(lambda grad: grad)
    for save in (lambda: torch.save(x, io.BytesIO()), lambda: pickle.dumps(x), lambda: copy.copy(x)):
        with pytest.warns(UserWarning, match=r"backward hook <function .*> on tensor will not be serialized"):
            save()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy.deepcopy(x)
        torch.save(parameter, io.BytesIO())


def test_names_that_programs_import():
    assert torch.nn.intrinsic.ConvReLU2d is torch.ao.nn.intrinsic.ConvReLU2d
    assert torch.nn.intrinsic.qat.ConvBn2d is torch.ao.nn.intrinsic.qat.ConvBn2d
    assert torch.nn.qat.Linear is torch.ao.nn.qat.Linear
    assert torch._VF.lstm is torch.lstm and torch._VF.gru_cell is torch.gru_cell
    with pytest.raises(AttributeError, match="module 'torch._VF' has no attribute 'lstms'"):
        torch._VF.lstms  # asked for
    from rushlight._jit_internal import BroadcastingList2, List, boolean_dispatch

    assert boolean_dispatch is torch.nn.functional.boolean_dispatch
    assert BroadcastingList2 is torch.nn.functional.BroadcastingList2 and List[int]
    collation = torch.utils.data._utils.collate
    with pytest.raises(TypeError, match=collation.default_collate_err_msg_format.format("<class 'object'>")):
        collation.default_collate([object()])
    storage = torch.TypedStorage(wrap_storage=torch.UntypedStorage(8), dtype=torch.int32, _internal=True)
    assert storage.size() == 2
    assert "Tensor" in dir(torch._tensor)
    assert torch.masked.sum(torch.ones(2, 2), 0, keepdim=1).shape == (1, 2)


def test_what_torch_takes_as_a_truth():
    """Options of optimizers and of pooling may be anything that is true or false."""
    for make, options in ((torch.optim.Adam, {"amsgrad": 2.5}), (torch.optim.SGD, {"momentum": 0.5, "nesterov": "x"})):
        alike = {name: bool(value) if name in ("amsgrad", "nesterov") else value for name, value in options.items()}
        trained = []
        for given in ({**options, "maximize": [1]}, {**alike, "maximize": True}):
            weight = leaf()
            optimizer = make([weight], lr=0.1, **given)
            optimizer.step()
            optimizer.step()
            trained.append(weight.tolist())
        assert trained[0] == trained[1]
    images = torch.arange(4.0).reshape(1, 1, 2, 2)
    for name in ("max_pool1d_with_indices", "max_pool2d_with_indices"):
        pool = getattr(torch.nn.functional, name)
        values, places = pool(images[0] if "1d" in name else images, 2, return_indices=None)
        assert (values.amax().item(), places.amax().item()) == (3.0, 1 if "1d" in name else 3)
    values, places = torch.nn.functional.adaptive_max_pool2d_with_indices(images, (None, 1))
    assert (values.tolist(), places.tolist()) == ([[[[1.0], [3.0]]]], [[[[1], [3]]]])


def test_a_name_is_no_sequence_of_names():
    with pytest.raises(ValueError, match="mutates_args must either be a sequence of the names"):
        torch.library.infer_schema(kept, mutates_args="value")
    assert torch.library.infer_schema(kept, mutates_args=["value"]) == "(Tensor(a0!) value) -> Tensor"


def test_options_that_are_tensors_of_one_element():
    weights = [leaf(), leaf()]
    for weight, decay in zip(weights, (torch.tensor(0.25), 0.25)):
        optimizer = torch.optim.Adagrad([weight], lr=0.1, lr_decay=decay)
        optimizer.step()
        optimizer.step()
    assert weights[0].tolist() == weights[1].tolist()


def test_steps_of_lbfgs_may_be_a_fraction():
    """As many steps as are begun before the limit."""
    counts = []
    for limit in (2.5, 3):
        weight = torch.tensor([5.0], requires_grad=True)
        optimizer = torch.optim.LBFGS([weight], lr=0.01, max_iter=limit, max_eval=20)

        def closure(weight=weight, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (weight**4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        counts.append(optimizer.state[weight]["n_iter"])
    assert counts == [3, 3]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("F.hardshrink()", 'hardshrink() missing 1 required positional arguments: "input"'),
        ("F.bilinear()", 'bilinear() missing 3 required positional argument: "input1", "input2", "weight"'),
        ("F.conv2d()", "conv2d() received an invalid combination of arguments - got (), but expected one of:"),
        ("F.prelu(x, unknown=1)", 'prelu() missing 1 required positional arguments: "weight"'),
        ("F.relu_(x, unknown=1)", "relu_() got an unexpected keyword argument 'unknown'"),
        ("F.celu_()", 'celu_() missing 1 required positional arguments: "input"'),
        ("F.selu_()", 'selu_() missing 1 required positional arguments: "input"'),
        ("F.threshold_()", 'threshold_() missing 3 required positional argument: "input", "threshold", "value"'),
        ("F.conv_transpose1d()", 'conv_transpose1d() missing 2 required positional argument: "input", "weight"'),
    ],
)
def test_compiled_functions_of_nn_functional_refuse_as_such(call, said):
    """Their sentences are not CPython's."""
    with pytest.raises(TypeError) as caught:
        eval(call, {"F": torch.nn.functional, "x": torch.ones(2, 3)})
    assert str(caught.value).splitlines()[0] == said
