"""Mixed precision: the dtype of each operator, and gradients."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

HALF, SINGLE = torch.bfloat16, torch.float32
X = torch.linspace(0.2, 0.8, 9).reshape(3, 3)
IMAGE = torch.linspace(0.1, 0.9, 16).reshape(1, 1, 4, 4)
H = X.to(HALF)

LOWER = {
    "mm": lambda: torch.mm(X, H),
    "@": lambda: X @ X,
    "addmm": lambda: torch.addmm(X, X, X),
    "bmm": lambda: torch.bmm(X[None], X[None]),
    "einsum": lambda: torch.einsum("ij,jk", X, X),
    "tensordot": lambda: torch.tensordot(X, X, 1),
    "linear": lambda: F.linear(X, X),
    "conv2d": lambda: F.conv2d(IMAGE, IMAGE[..., :2, :2]),
    "conv_transpose2d": lambda: F.conv_transpose2d(IMAGE, IMAGE[..., :2, :2]),
    "attention": lambda: F.scaled_dot_product_attention(IMAGE, IMAGE, IMAGE),
    # In no list: computed in the dtype of the arguments.
    "softmax": lambda: H.softmax(0),
    "gelu": lambda: F.gelu(H),
    "sum": lambda: H.sum(),
    "adaptive_max_pool2d": lambda: F.adaptive_max_pool2d(IMAGE.to(HALF), 2),
    "prelu": lambda: F.prelu(X, X[0]),
    "prelu of both": lambda: F.prelu(H, X[0]),
    "lstm": lambda: nn.LSTM(3, 4)(X)[0],
    "lstm of half": lambda: nn.LSTM(3, 4)(H)[1][1],
    "rnn": lambda: nn.RNN(3, 4)(X)[0],
    "rnn of half": lambda: nn.RNN(3, 4)(H)[0],
    "rnn cell": lambda: nn.RNNCell(3, 4)(X),
    "gru of half": lambda: nn.GRU(3, 4)(H)[0],
    "lstm cell of half": lambda: nn.LSTMCell(3, 4)(H)[1],
    "gru cell of half": lambda: nn.GRUCell(3, 4)(H),
    "local_response_norm of rows": lambda: F.local_response_norm(IMAGE[0].to(HALF), 2),
    "circular": lambda: F.pad(IMAGE.to(HALF), (1, 1, 1, 1), mode="circular"),
    "avg_pool2d": lambda: F.avg_pool2d(IMAGE.to(HALF), 2),
}
FULL = {
    "mv": lambda: X.mv(X[0]),
    "outer": lambda: torch.outer(X[0], X[0]),
    "add": lambda: H + X,
    "softmax": lambda: X.softmax(0),
    "prod": lambda: H.prod(),
    "trace": lambda: H.trace(),
    "cdist": lambda: torch.cdist(H, H),
    "quantile": lambda: torch.quantile(H, 0.5),
    "inverse": lambda: torch.linalg.inv(H + 2 * torch.eye(3, dtype=HALF)),
    "mse_loss": lambda: F.mse_loss(H, H),
    "cross_entropy": lambda: F.cross_entropy(H, torch.tensor([0, 1, 2])),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(H, H),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(H, H),
    "grid_sample": lambda: F.grid_sample(IMAGE.to(HALF), torch.zeros(1, 2, 2, 2, dtype=HALF), align_corners=False),
    "adaptive_max_pool3d": lambda: F.adaptive_max_pool3d(IMAGE.to(HALF), 2),
    "fractional_max_pool2d": lambda: F.fractional_max_pool2d(IMAGE.to(HALF), 2, output_size=2),
    "max_unpool2d": lambda: F.max_unpool2d(IMAGE.to(HALF)[..., :1, :1], torch.zeros(1, 1, 1, 1, dtype=torch.int64), 2),
    "reflect": lambda: F.pad(IMAGE.to(HALF), (1, 1, 1, 1), mode="reflect"),
    "replicate": lambda: F.pad(IMAGE.to(HALF), (1, 1, 1, 1), mode="replicate"),
    "bilinear": lambda: F.bilinear(X, X, X.expand(2, 3, 3)),
    "gru": lambda: nn.GRU(3, 4)(X)[0],
    "gru cell": lambda: nn.GRUCell(3, 4)(X),
    "lstm cell": lambda: nn.LSTMCell(3, 4)(X)[0],
    "local_response_norm": lambda: F.local_response_norm(IMAGE.to(HALF), 2),
    "fft": lambda: torch.fft.rfft(H).real,
    "max_pool3d": lambda: F.max_pool3d(IMAGE.to(HALF)[None], (1, 2, 2)),
    "cat": lambda: torch.cat([H, X]),
    "stack": lambda: torch.stack([H, X]),
}


@pytest.mark.parametrize(
    ("call", "dtype"),
    [(call, HALF) for call in LOWER.values()] + [(call, SINGLE) for call in FULL.values()],
    ids=[f"{name} lower" for name in LOWER] + [f"{name} full" for name in FULL],
)
def test_types_are_torchs(call, dtype):
    with torch.autocast("cpu"):
        assert call().dtype == dtype


def test_fourier_transforms_and_float64():
    with torch.autocast("cpu"):
        assert torch.fft.fft(H[0]).dtype == torch.complex64
        assert (X.double() @ X.double()).dtype == torch.float64
        assert torch.cat([H, H]).dtype == HALF


def test_blocks_nest_and_end():
    assert not torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == HALF
    with torch.autocast("cpu", dtype=torch.float16):
        assert torch.is_autocast_enabled("cpu") and (X @ X).dtype == torch.float16
        with torch.autocast("cpu", enabled=False):
            assert (X @ X).dtype == SINGLE
        assert (X @ X).dtype == torch.float16
    assert (X @ X).dtype == SINGLE
    with pytest.raises(ZeroDivisionError), torch.autocast("cpu"):
        raise ZeroDivisionError
    assert not torch.is_autocast_enabled("cpu")

    @torch.autocast("cpu")
    def product(x):
        return x @ x

    assert product(X).dtype == HALF and (X @ X).dtype == SINGLE


def test_training_keeps_parameters_and_gradients_in_float32():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    with torch.autocast("cpu"):
        result = model(IMAGE.repeat(8, 1, 1, 1))
        loss = F.cross_entropy(result, torch.zeros(8, dtype=torch.int64))
    assert result.dtype == HALF and loss.dtype == SINGLE
    loss.backward()
    assert {parameter.grad.dtype for parameter in model.parameters()} == {SINGLE}


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN, nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_recurrence_runs(make):
    layer = make(3, 4)
    with torch.autocast("cpu"):
        result = layer(X)
    while isinstance(result, tuple):
        result = result[0]
    result.float().sum().backward()
    assert all(parameter.grad.dtype == SINGLE for parameter in layer.parameters())


def test_attention_and_transformers_run():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    with torch.autocast("cpu"):
        result = layer(torch.randn(2, 3, 4))
    result.float().sum().backward()
    assert all(parameter.grad.dtype == SINGLE for parameter in layer.parameters())


def test_messages():
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda, .* device type at start of device string: tpu"):
        torch.autocast("tpu")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(3)
    with pytest.raises(TypeError, match=r"set_autocast_dtype\(\): argument 'dtype' \(position 2\) must be torch.dtype"):
        torch.set_autocast_dtype("cpu", True)
    with pytest.raises(TypeError, match=r"set_autocast_enabled\(\): argument 'enabled' must be bool"):
        torch.set_autocast_enabled("cpu", 3)
    with pytest.raises(TypeError, match="enabled must be a bool"):
        torch.set_autocast_cache_enabled(1)
    with pytest.raises(TypeError, match=r"autocast\(\)\(func\) requires a callable"):
        torch.autocast("cpu")(3)
    with pytest.warns(UserWarning, match="CUDA is not available"), torch.autocast("cuda"):
        assert (X @ X).dtype == SINGLE
    with pytest.warns(UserWarning, match="the target dtype is not supported"):
        torch.autocast("cpu", dtype=torch.float64)
    with pytest.warns(FutureWarning, match=r"Please use `torch.amp.autocast\('cpu', args...\)`"):
        torch.cpu.amp.autocast()


def test_functions_choose_their_types():
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=SINGLE)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad @ x.T + x.T @ grad

    leaf = X.clone().requires_grad_()
    with torch.autocast("cpu"):
        result = Product.apply(leaf)
    assert result.dtype == SINGLE
    result.sum().backward()
    assert leaf.grad.dtype == SINGLE


def test_another_half_type_belongs_to_no_mixed_precision():
    with torch.autocast("cpu"):
        for join in (torch.cat, torch.stack):
            with pytest.raises(RuntimeError, match="^Unexpected floating ScalarType in at::autocast::prioritize"):
                join([X.half(), H])
        assert torch.cat([X, X.half()]).dtype == SINGLE
    assert torch.cat([X.half(), H]).dtype == SINGLE


def test_a_thread_sets_its_mode():
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        torch.set_autocast_enabled("cpu", True)
        assert torch.is_autocast_enabled("cpu") and (X @ X).dtype == torch.float16
        torch.set_autocast_dtype("cpu", HALF)
        assert (X @ X).dtype == HALF
        with torch.autocast("cpu", torch.float16, cache_enabled=False):
            assert (X @ X).dtype == torch.float16 and not torch.is_autocast_cache_enabled()
        assert (X @ X).dtype == HALF and torch.is_autocast_cache_enabled()
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", HALF)
    assert (X @ X).dtype == SINGLE
    torch.set_autocast_enabled(True)
    assert torch.is_autocast_enabled() and not torch.is_autocast_enabled("cpu")
    torch.set_autocast_enabled(False)
    assert not torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.float16


@pytest.mark.parametrize(
    ("call", "result", "instead"),
    [
        (lambda: torch.is_autocast_cpu_enabled(), False, r"is_autocast_enabled\('cpu'\)"),
        (lambda: torch.set_autocast_cpu_enabled(False), None, r"set_autocast_enabled\('cpu', enabled\)"),
        (lambda: torch.get_autocast_cpu_dtype(), HALF, r"get_autocast_dtype\('cpu'\)"),
        (lambda: torch.set_autocast_cpu_dtype(HALF), None, r"set_autocast_dtype\('cpu', dtype\)"),
        (lambda: torch.get_autocast_gpu_dtype(), torch.float16, r"get_autocast_dtype\('cuda'\)"),
        (lambda: torch.set_autocast_gpu_dtype(torch.float16), None, r"set_autocast_dtype\('cuda', dtype\)"),
    ],
)
def test_deprecated_names(call, result, instead):
    with pytest.warns(DeprecationWarning, match=f"is deprecated. Please use torch.{instead} instead"):
        assert call() == result


def test_targets_say_their_own_types():
    with torch.autocast("cpu"):
        assert torch.mm(X, X, out=torch.empty(3, 3)).dtype == SINGLE
        with pytest.raises(RuntimeError):
            torch.mm(X, X, out=torch.empty(3, 3, dtype=HALF))
        assert torch.mm(X, X).dtype == HALF


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("lower", [None, HALF])
def test_checkpoints_compute_again_in_the_same_types(reentrant, lower):
    seen = []

    def run(x):
        seen.append((X @ X).dtype)
        return (x @ X).exp()

    x = X.clone().requires_grad_()
    with torch.autocast("cpu", enabled=lower is not None):
        y = torch.utils.checkpoint.checkpoint(run, x, use_reentrant=reentrant)
    with torch.autocast("cpu", enabled=lower is None):
        y.float().sum().backward()
    assert seen == [lower or SINGLE] * 2 and x.grad is not None


def test_functions_decorated_by_the_names_of_old():
    with pytest.warns(FutureWarning, match=r"`torch.cuda.amp.custom_(fwd|bwd)\(args...\)` is deprecated"):

        class Double(torch.autograd.Function):
            @staticmethod
            @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
            def forward(ctx, x):
                return x * 2

            @staticmethod
            @torch.cuda.amp.custom_bwd
            def backward(ctx, grad):
                return grad * 2

    x = torch.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_devices_of_mixed_precision_by_their_names():
    assert torch.autocast("cpu:0").device == "cpu:0" and not torch.is_autocast_enabled("mps")
    with torch.autocast("cpu:0"):
        assert torch.is_autocast_enabled("cpu")
    for ask in (torch.autocast, torch.is_autocast_enabled, torch.get_autocast_dtype, torch.amp.is_autocast_available):
        with pytest.raises(RuntimeError, match="Expected one of cpu, cuda, .* at start of device string: gpu"):
            ask("gpu")
    with pytest.raises(
        TypeError, match=r"is_autocast_enabled\(\): argument 'device_type' \(position 1\) must be str, not"
    ):
        torch.is_autocast_enabled(torch.ones(2))


@pytest.mark.parametrize(
    "device, dtype", [("mps", "float16"), ("xpu", "float16"), ("hpu", "bfloat16"), ("xla:1", "bfloat16")]
)
def test_modes_of_absent_devices_have_no_effect(device, dtype):
    assert torch.amp.is_autocast_available(device) and torch.get_autocast_dtype(device) == getattr(torch, dtype)
    with torch.autocast(device) as mode:
        assert torch.is_autocast_enabled(device) and mode.fast_dtype == getattr(torch, dtype)
        assert (X @ X).dtype == SINGLE and not torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled(device)
    name = device.partition(":")[0].upper()
    with pytest.warns(UserWarning, match=f"In {name} autocast, but the target dtype is not supported"):
        torch.autocast(device, dtype=torch.float64)


def test_devices_without_mixed_precision():
    assert not torch.amp.is_autocast_available("vulkan") and not torch.amp.is_autocast_available("meta")
    for ask in (torch.is_autocast_enabled, lambda device: torch.set_autocast_enabled(device, True)):
        with pytest.raises(
            RuntimeError, match="unknown device type for autocast in get_autocast_dispatch_key_from_device_type"
        ):
            ask("meta")
    with pytest.raises(RuntimeError, match="unsupported scalarType"):
        torch.get_autocast_dtype("meta")
    with pytest.raises(RuntimeError, match="unsupported scalarType"):
        torch.autocast("vulkan")
    with pytest.raises(RuntimeError, match="User specified an unsupported autocast device_type 'hip'"):
        torch.autocast("hip")
    with pytest.raises(RuntimeError, match="User specified an unsupported autocast device_type 'meta'"):
        torch.autocast("meta", torch.float16)
    with pytest.raises(AssertionError, match="Tried to use AMP with the `privateuseone` backend"):
        torch.autocast("privateuseone")


def test_blocks_of_mixed_precision_are_counted():
    assert torch.autocast_increment_nesting() == 1
    with torch.autocast("cpu"):
        assert torch.autocast_increment_nesting() == 3 and torch.autocast_decrement_nesting() == 2
    assert torch.autocast_decrement_nesting() == 0
    with pytest.warns(DeprecationWarning):
        assert torch.is_autocast_xla_enabled() is False


@pytest.mark.filterwarnings("ignore:In CPU autocast")
def test_a_refused_beginning_changes_nothing():
    with pytest.raises(TypeError, match="set_autocast_dtype"), torch.autocast("cpu", dtype=3):
        pass
    assert torch.autocast_increment_nesting() == 1 and not torch.is_autocast_enabled("cpu")
    torch.autocast_decrement_nesting()
