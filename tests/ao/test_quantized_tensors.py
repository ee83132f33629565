"""Quantised tensors: what they share with others, what they refuse, and how they are copied and saved."""

import copy
import io
import pickle

import pytest

import rushlight as torch


def quantized(dtype=torch.quint8):
    x = torch.arange(12.0).reshape(3, 4) - 3
    return torch.quantize_per_tensor(x, 0.5, 10, dtype)


def by_channel(axis=0):
    x = torch.arange(12.0).reshape(3, 4) - 3
    count = x.shape[axis]
    return torch.quantize_per_channel(x, torch.arange(1.0, count + 1) / 4, torch.arange(count), axis, torch.qint8)


MADE = {
    "tensor": quantized,
    "int32": lambda: quantized(torch.qint32),
    "rows": by_channel,
    "columns": lambda: by_channel(1),
}


@pytest.mark.parametrize("name", MADE)
def test_copies_and_files_keep_the_quantizer(name):
    q = MADE[name]()
    file = io.BytesIO()
    torch.save([q, q.dtype, q.qscheme()], file)
    file.seek(0)
    loaded, dtype, scheme = torch.load(file)
    assert (dtype, scheme) == (q.dtype, q.qscheme())
    for other in (
        q.clone(),
        copy.copy(q),
        copy.deepcopy(q),
        pickle.loads(pickle.dumps(q)),
        loaded,
        q.detach(),
        q.cpu(),
    ):
        assert torch.equal(other, q) and other.is_quantized and repr(other) == repr(q)


def test_views_share_the_integers():
    q = quantized()
    row = q.t()[1]
    row.fill_(2.0)
    assert q[:, 1].dequantize().tolist() == [2.0, 2.0, 2.0] and row.q_zero_point() == 10
    assert q.untyped_storage().data_ptr() == row.untyped_storage().data_ptr()
    q[0] = torch.zeros(4)
    assert q.int_repr()[0].tolist() == [10] * 4


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_channels_have_their_numbers(axis):
    q = by_channel(axis)
    whole = q.dequantize()
    for place in (0, (slice(None), 1), slice(1, 3), (slice(None), slice(0, 4, 2)), -1, (1, 2), None):
        assert torch.equal(q[place].dequantize(), whole[place]), place
    one = q.select(axis, 1)
    assert one.qscheme() is torch.per_tensor_affine and (one.q_scale(), one.q_zero_point()) == (0.5, 1)
    assert q.unsqueeze(0).q_per_channel_axis() == axis + 1
    assert q.view(3, 4, 1).q_per_channel_axis() == axis
    with pytest.raises(RuntimeError, match="Setting strides is possible only on uniformly quantized tensor"):
        q.t()
    with pytest.raises(RuntimeError, match="length of scales must equal to channel"):
        q.flatten()


REFUSED = {
    "q + q": "Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend",
    "q.sum()": "Could not run 'aten::sum.IntList_out' with arguments from the 'QuantizedCPU' backend",
    "torch.zeros_like(q)": "with arguments from the 'QuantizedCPU' backend",
    "torch.rand_like(q)": "with arguments from the 'QuantizedCPU' backend",
    "q.zero_()": "with arguments from the 'QuantizedCPU' backend",
    "q.set_()": "Could not run 'aten::set_.source_Tensor' with arguments from the 'QuantizedCPU' backend",
    "q.float()": "Creation of quantized tensor requires quantized dtype like torch.quint8",
    "q.to(torch.float32)": "Creation of quantized tensor requires quantized dtype like torch.quint8",
    "x.to(torch.quint8)": "empty_strided not supported on quantized tensors yet",
    "x.to(q)": "empty_strided not supported on quantized tensors yet",
    "torch.empty(2, dtype=torch.quint8)": "empty_strided not supported on quantized tensors yet",
    "q.tolist()": "load_scalar: invalid type",
    "q.requires_grad_()": "only Tensors of floating point dtype can require gradients",
    "q.__dlpack__()": "QUInt/QInt types are not supported by dlpack",
    "x.clone().copy_(q)": "Copying from quantized Tensor to non-quantized Tensor is not allowed",
    "x.q_scale()": "Could not run 'aten::q_scale' with arguments from the 'CPU' backend",
    "q.q_per_channel_axis()": "Expected quantizer->qscheme() == kPerChannelAffine",
    "p.q_scale()": "Expected quantizer->qscheme() == kPerTensorAffine to be true",
    "torch.promote_types(torch.quint8, torch.float32)": "offending types: QUInt8 Float",
    "torch.quint8.is_signed": "isSignedType not supported for quantized types",
    "torch.quint8.to_complex()": "Unknown Complex ScalarType for QUInt8",
    "torch.quantize_per_tensor(x, 0.1, 0, torch.uint8)": "ScalarType Byte is not supported in new_qtensor.",
    "torch.quantize_per_tensor(x.double(), 0.1, 0, torch.quint8)": "Quantize only works on Float Tensor, got Double",
    "torch.quantize_per_tensor(x, 0.1, 300, torch.quint8)": "zero_point 300 is above upper bound.",
    "torch.quantize_per_tensor(x, 0.1, -1, torch.quint8)": "zero_point -1 is below lower bound.",
    "torch.quantize_per_tensor(q, 0.1, 0, torch.quint8)": "Could not run 'aten::quantize_per_tensor'",
    "torch.quantize_per_channel(x, torch.ones(3), torch.zeros(3), 5, torch.qint8)": "Channel axis out of range",
    "torch.quantize_per_channel(x, torch.ones(2), torch.zeros(2), 0, torch.qint8)": "expected 3 got, 2",
    "torch._make_per_tensor_quantized_tensor(torch.ones(1), 0.1, 0)": "requires quantized dtype like torch.quint8",
    "torch.cat([q, p])": "Only per-tensor quantization is supported in 'cat'!",
}


@pytest.mark.parametrize("call", REFUSED)
def test_refusals_have_torchs_words(call):
    names = {"torch": torch, "q": quantized(), "p": by_channel(), "x": torch.ones(3, 4)}
    with pytest.raises((RuntimeError, NotImplementedError, BufferError)) as caught:
        eval(call, names)
    assert REFUSED[call] in str(caught.value).splitlines()[0]


def test_numbers_and_questions():
    q = quantized()
    assert q[0, 0].item() == -3.0 and bool(q[0, 0]) and not bool(q[0, 3]) and len(q) == 3
    assert (q.element_size(), q.nbytes, q.itemsize, q.dtype.itemsize) == (1, 12, 1, 1)
    assert isinstance(torch.quint8, torch.dtype) and q.dtype is torch.quint8 and not torch.ones(1).is_quantized
    assert q.type() == "torch.quantized.QUInt8Tensor" and torch.dequantize([q])[0].dtype is torch.float32
    assert q.to("cpu") is q and q.to(q) is q
    with pytest.raises(TypeError, match="Got unsupported ScalarType QUInt8"):
        q.numpy()


def test_impossible_zero_points_are_errors():
    q = torch._make_per_tensor_quantized_tensor(torch.ones(1, 2, dtype=torch.uint8), 0.1, 40000)
    packed = torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(torch.ones(1, 2), 0.5, 0, torch.qint8))
    with pytest.raises(RuntimeError, match="the zero point 40000"):
        torch.ops.quantized.linear(q, packed, 0.1, 0)


def test_sequences_of_different_lengths():
    layer = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.LSTM(3, 4, 2, bidirectional=True)))[0]
    float_layer = torch.nn.LSTM(3, 4, 2, bidirectional=True)
    layer = torch.ao.nn.quantized.dynamic.LSTM.from_float(float_layer)
    x = torch.rand(6, 3, 3) * 2 - 1
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, [6, 4, 1])
    result, (hidden, cell) = layer(packed)
    expected, (wanted, of_cell) = float_layer(packed)
    assert torch.equal(result.batch_sizes, packed.batch_sizes)
    for one, other in ((result.data, expected.data), (hidden, wanted), (cell, of_cell)):
        assert torch.allclose(one, other, atol=0.05)


def test_models_are_copied_and_saved():
    model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GRU(4, 2)))
    x = torch.rand(5, 2, 3)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)):
        assert torch.equal(other(x)[0], model(x)[0])
    file = io.BytesIO()
    torch.save(model[0].state_dict(), file)
    file.seek(0)
    fresh = torch.ao.nn.quantized.dynamic.Linear(3, 4)
    fresh.load_state_dict(torch.load(file))
    assert torch.equal(fresh(x), model[0](x))


def test_the_engine_has_a_name():
    backend = torch.backends.quantized
    assert backend.engine == "x86"
    backend.engine = "fbgemm"
    assert backend.engine == "fbgemm"
    backend.engine = "x86"
    with pytest.raises(RuntimeError, match="qnnpack is not supported"):
        backend.engine = "qnnpack"


def test_classes_of_programs_are_swapped():
    class Observed(torch.nn.ReLU):
        pass

    class Replaced(torch.nn.Identity):
        @classmethod
        def from_observed(cls, observed):
            made = cls()
            made.source = observed
            return made

    module = Observed()
    swap = torch.ao.quantization.swap_module
    assert swap(module, {}, {Observed: Replaced}) is module, "it has no configuration"
    module.qconfig = torch.ao.quantization.default_qconfig
    module.register_forward_hook(lambda module, args, output: output + 1)
    made = swap(module, {}, {Observed: Replaced})
    assert type(made) is Replaced and made.source is module and made(torch.ones(1)).item() == 2


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1.0, float("nan")], "In ChooseQuantizationParams, min should be less than or equal to max"),
        ([1.0, float("inf")], "zero_point -2147483648 is below lower bound"),
        ([], "Expected reduction dim to be specified for input.numel\\(\\) == 0"),
    ],
)
def test_a_range_has_two_finite_ends(values, sentence):
    with pytest.raises(RuntimeError, match=sentence):
        torch.quantize_per_tensor_dynamic(torch.tensor(values), torch.quint8, False)


def test_numbers_are_quantised_when_they_are_assigned():
    q = torch.quantize_per_tensor(torch.arange(3.0), 1.0, 0, torch.quint8)
    for number, integer in [(2.0, 2), (2, 2), (300, 255), (-5, 0), (float("inf"), 255), (1.6, 2), (True, 1)]:
        q[0] = number
        assert q.int_repr().tolist() == [integer, 1, 2]
    with pytest.raises(NotImplementedError, match=r"Use x.dequantize\(\) for the numbers"):
        q.sum()


def test_statistics_keep_the_quantizer():
    own = quantized()
    for call in (lambda x: x.std(1), lambda x: x.std(), lambda x: torch.std(x, 0, correction=0, keepdim=True)):
        result = call(own)
        expected = torch.quantize_per_tensor(call(own.dequantize()), 0.5, 10, torch.quint8)
        assert result.q_scale() == 0.5 and torch.equal(result.int_repr(), expected.int_repr())
    assert torch.threshold(own, 0.0, 2.0).dequantize()[0].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8, torch.qint32])
def test_images_are_resized(dtype):
    integers = torch.arange(16).reshape(1, 1, 4, 4) * 3
    own = torch.quantize_per_tensor(integers * 0.5, 0.5, 0, dtype)
    resize = torch.nn.functional.interpolate
    for options in ({"scale_factor": 2}, {"size": (3, 6)}, {"size": (3, 6), "mode": "nearest-exact"}):
        result = resize(own, **options)
        assert result.q_scale() == 0.5 and result.dtype is dtype
        assert torch.equal(result.int_repr().long(), resize(integers.float(), **options).long())
    for align in (False, True):
        result = resize(own, size=(3, 7), mode="bilinear", align_corners=align)
        expected = resize(integers.double(), size=(3, 7), mode="bilinear", align_corners=align)
        assert (result.int_repr() - expected).abs().max() <= 0.5 + 1e-5
    assert resize(own.to(memory_format=torch.channels_last), scale_factor=2).shape == (1, 1, 8, 8)
    assert resize(own[None], scale_factor=2).shape == (1, 1, 2, 8, 8)
    with pytest.raises(
        NotImplementedError, match="aten::upsample_bicubic2d.out' with arguments from the 'QuantizedCPU'"
    ):
        resize(own, scale_factor=2, mode="bicubic")
    with pytest.raises(NotImplementedError, match="aten::upsample_nearest1d.out"):
        resize(own[0], scale_factor=2)


def test_numbers_are_written_by_masks_and_indices():
    own = quantized()
    own[own.dequantize() > 5] = 1.0
    assert own.dequantize().tolist()[2] == [5, 1, 1, 1]
    own[torch.tensor([0])] = torch.tensor([0.0, 0.5, 1.0, 1.5])
    assert own.int_repr()[0].tolist() == [10, 11, 12, 13]
    with pytest.raises(RuntimeError, match="Value argument for quantized input_put should not be quantized"):
        own[torch.tensor([0])] = own[1]
    assert torch.equal(quantized().copy_(own[:1]).int_repr(), own[:1].int_repr().expand(3, 4))
    assert torch.ones_like(own).dequantize().eq(1).all() and torch.full_like(own, 2.5).int_repr().eq(15).all()
    rows = by_channel()
    assert rows.fill_(2.0).int_repr()[:, 0].tolist() == [8, 5, 5] and rows.dequantize()[0, 0] == 2


def test_out_takes_the_numbers():
    own = quantized()
    answer = torch.empty(0, dtype=torch.bool)
    assert torch.eq(own, 1.0, out=answer) is answer and answer.tolist()[1] == [True, False, False, False]
    joined = torch._empty_affine_quantized((6, 4), scale=1.0, zero_point=3, dtype=torch.quint8)
    assert torch.cat([own, own], out=joined) is joined and joined.q_scale() == 1
    assert joined.int_repr()[:3].tolist() == own.dequantize().add(3).tolist()
    with pytest.raises(NotImplementedError, match="'aten::cat' with arguments from the 'QuantizedCPU' backend"):
        torch.cat([own, own], out=torch.empty(6, 4))


def test_parts_of_tensors_with_channels():
    rows, columns = by_channel(), by_channel(1)
    for part, whole in zip(rows.unbind(), rows.dequantize()):
        assert part.qscheme() is torch.per_tensor_affine and torch.equal(part.dequantize(), whole)
    assert [len(part) for part in rows] == [4, 4, 4]
    for own in (rows, columns):
        for parts, wholes in (
            (own.split(2), own.dequantize().split(2)),
            (own.chunk(2, 1), own.dequantize().chunk(2, 1)),
        ):
            for part, whole in zip(parts, wholes):
                assert part.qscheme() is torch.per_channel_affine and torch.equal(part.dequantize(), whole)


REFUSALS = {
    "x + 1": "empty_strided not supported on quantized tensors yet",
    "x * 2.5": "empty_strided not supported on quantized tensors yet",
    "x + x.dequantize()": "promoteTypes with quantized numbers is not handled yet; .* offending types: QUInt8 Float",
    "x.dequantize() - x": "offending types: Float QUInt8",
    "torch.isclose(x, x)": "isclose is not supported for quantized inputs",
    "c.max()": "Max operator for quantized tensors only works for per tensor quantized tensors",
    "c.relu()": "Expected quantizer->qscheme\\(\\) == kPerTensorAffine to be true",
    "c.topk(2)": "Top-K is only supported on per-tensor quantization",
    "c.masked_fill(c.dequantize() > 0, 1)": "masked_fill__quantized_cpu for quantized tensors is currently only supported",
    "c.clone().copy_(x.to('cpu'))": "Quantized Copy only works with same qscheme",
    "x.clone().copy_(y)": "Expected self.scalar_type\\(\\) == src.scalar_type\\(\\) to be true",
}


@pytest.mark.parametrize("call", REFUSALS)
def test_refusals_say_what_is_missing(call):
    names = {"torch": torch, "x": quantized(), "y": quantized(torch.qint32), "c": by_channel()}
    with pytest.raises(RuntimeError, match=REFUSALS[call]):
        eval(call, names)


def test_equality_with_numbers_is_false():
    own = quantized()
    assert not torch.equal(own, own.dequantize()) and not torch.equal(own.dequantize(), own)
    assert torch.max_pool1d(own, 2).dequantize().tolist()[0] == [-2, 0]
    padded = torch.nn.functional.pad(own, (1, 1), mode="reflect")
    assert padded.int_repr()[:, 0].tolist() == own.int_repr()[:, 1].tolist()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1, 2], [0, 0], 0), "scale tensor must be floating point"),
        (([True, True], [0, 0], 0), "scale tensor must be floating point"),
        (([1, 2], [0, 0], 4), "scale tensor must be floating point"),
        (([1, 2, 3], [0, 0], 0), "number of elements in scales and zero_points must match"),
        (([1.0, 2.0], [0, 500], 0), "quantize_tensor_per_channel_affine zero_point 500 is above upper bound"),
    ],
)
def test_scales_of_channels_are_floats(arguments, sentence):
    scales, zero_points, axis = arguments
    with pytest.raises(RuntimeError, match=f"^{sentence}"):
        torch.quantize_per_channel(
            torch.ones(2, 2), torch.tensor(scales), torch.tensor(zero_points), axis, torch.quint8
        )


def test_what_is_quantised_is_float32():
    scales, none = torch.ones(2), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="^quantize_tensor_per_channel_affine expects a Float Tensor, got Double"):
        torch.quantize_per_channel(torch.ones(2, 2).double(), scales, none, 0, torch.quint8)
    with pytest.raises(RuntimeError, match="^a Tensor with 2 elements cannot be converted to Scalar"):
        torch.quantize_per_tensor(torch.ones(2), scales, none[:1], torch.quint8)
