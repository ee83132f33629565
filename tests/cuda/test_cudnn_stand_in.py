"""The stand-in for cuDNN's recurrent networks, called as the library is: its numbers, and the faults that it finds."""

from soft_card import needs_soft_card, run

pytestmark = needs_soft_card

#: `check(kind, lengths, ...)` compares a network of 5 features and 6 units in double precision with the host's. It returns the arguments
#: of both passes backward, and all tensors, which must stay alive.
CALLS = """
import ctypes
library = ctypes.CDLL("libcudnn.so.9")
pointer, integer, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
MODES = {"LSTM": 2, "GRU": 3, "RNN": 1}
DOUBLE, DOUBLE_BIAS, LINEAR_INPUT, PADDED, ADD = 1, 2, 0, 1, 0
def call(name, *given):
    status = getattr(library, name)(*given)
    assert status == 0, (name, status)
def made(name, *settings):
    one = pointer()
    call("cudnnCreate" + name, ctypes.byref(one))
    if settings:
        call("cudnnSet" + name, one, *settings)
    return one
def numbers(*given):
    return (integer * len(given))(*given)
def at(tensor):
    return None if tensor is None else pointer(tensor.data_ptr())
torch.zeros(1, device="cuda")
handle = made("")
call("cudnnSetStream", handle, pointer(torch.cuda.current_stream().cuda_stream))
def host(net, x, lengths, packed):
    # Results, the gradients that arrive at them, and the gradients of the input and of the parameters.
    x = torch.nn.utils.rnn.pack_padded_sequence(x, lengths).data if packed else x
    x = x.detach().requires_grad_()
    sizes = torch.tensor([sum(length > step for length in lengths) for step in range(lengths[0])])
    given = torch.nn.utils.rnn.PackedSequence(x, sizes) if packed else x
    output, last = net(given)
    results = [output.data if packed else output, *(last if isinstance(last, tuple) else [last])]
    arriving = [torch.randn_like(result) for result in results]
    return x, results, arriving, torch.autograd.grad(results, [x, *net.parameters()], arriving)
def places(net, network, bytes_, weights):
    # Where the parameters begin in the buffer, in elements.
    matrix, bias = made("TensorDescriptor"), made("TensorDescriptor")
    gates = GATES[net.mode.partition("_")[0]]
    def find(layer, part):
        found = pointer(), pointer()
        call("cudnnGetRNNWeightParams", handle, network, layer, bytes_, at(weights), part, matrix, ctypes.byref(found[0]), bias,
             ctypes.byref(found[1]))
        return [((one.value or weights.data_ptr()) - weights.data_ptr()) // 8 for one in found]
    for layer in range(net.num_layers * net._directions):
        (of_input, input_bias), (of_state, state_bias) = find(layer, 0), find(layer, gates)
        yield from (of_input, of_state, input_bias, state_bias)
        if net.proj_size:
            yield find(layer, 2 * gates)[0]
def check(kind, lengths, packed, layers=1, bidirectional=False, projected=0):
    torch.manual_seed(0)
    settings = {"proj_size": projected} if projected else {}
    net = getattr(torch.nn, kind)(5, 6, layers, bidirectional=bidirectional, dtype=torch.float64, **settings)
    width, states, count = projected or 6, layers * net._directions, len(lengths)
    x, results, arriving, grads = host(net, torch.randn(lengths[0], count, 5, dtype=torch.float64), lengths, packed)
    dropout = made("DropoutDescriptor")
    call("cudnnSetDropoutDescriptor", dropout, handle, ctypes.c_float(0), None, size(0), ctypes.c_uint64(0))
    network = made("RNNDescriptor")
    call("cudnnSetRNNDescriptor_v8", network, 0, MODES[kind], DOUBLE_BIAS, int(bidirectional), LINEAR_INPUT, DOUBLE, DOUBLE, 0, 5, 6,
         width, layers, dropout, 0 if packed else PADDED)
    inputs, outputs = [
        made("RNNDataDescriptor", DOUBLE, int(packed), lengths[0], count, features, numbers(*lengths), None)
        for features in (5, width * net._directions)
    ]
    hidden, cell = made("TensorDescriptor"), made("TensorDescriptor")
    for description, features in ((hidden, width), (cell, 6)):
        strides = numbers(count * features, features, 1)
        call("cudnnSetTensorNdDescriptor", description, DOUBLE, 3, numbers(states, count, features), strides)
    bytes_, work_bytes, reserve_bytes = size(), size(), size()
    call("cudnnGetRNNWeightSpaceSize", handle, network, ctypes.byref(bytes_))
    call("cudnnGetRNNTempSpaceSizes", handle, network, 1, inputs, ctypes.byref(work_bytes), ctypes.byref(reserve_bytes))
    def space(count, dtype=torch.uint8):
        return torch.zeros(count, dtype=dtype, device="cuda")
    weights, to_weights = [space(bytes_.value // 8, torch.float64) for _ in range(2)]
    work, reserve = space(work_bytes.value), space(reserve_bytes.value)
    firsts = list(places(net, network, bytes_, weights))
    for weight, first in zip(net.parameters(), firsts, strict=True):
        weights[first : first + weight.numel()] = weight.detach().flatten().cuda()
    x, *arriving = [tensor.detach().cuda() for tensor in (x, *arriving)]
    output, to_x = torch.zeros_like(arriving[0]), torch.zeros_like(x)
    first, last, to_first = [torch.zeros_like(arriving[1]) for _ in range(3)]
    cells = [None] * 3
    if kind == "LSTM":
        cells = [torch.zeros_like(arriving[2]) for _ in range(3)]
    else:
        cell, arriving = None, [*arriving, None]
    spaces = [work_bytes, at(work), reserve_bytes, at(reserve)]
    call("cudnnRNNForward", handle, network, 1, None, inputs, at(x), outputs, at(output), hidden, at(first), at(last), cell, at(cells[0]),
         at(cells[1]), bytes_, at(weights), *spaces)
    of_data = [handle, network, None, outputs, at(output), at(arriving[0]), inputs, at(to_x), hidden, at(first), at(arriving[1]),
               at(to_first), cell, at(cells[0]), at(arriving[2]), at(cells[2]), bytes_, at(weights), *spaces]
    of_weights = [handle, network, ADD, None, inputs, at(x), hidden, at(first), outputs, at(output), bytes_, at(to_weights), *spaces]
    call("cudnnRNNBackwardData_v8", *of_data)
    call("cudnnRNNBackwardWeights_v8", *of_weights)
    found = [output, last, *cells[1:2], to_x]
    found += [to_weights[at : at + grad.numel()].reshape(grad.shape) for at, grad in zip(firsts, grads[1:], strict=True)]
    found = [tensor for tensor in found if tensor is not None]
    for one, other in zip(found, [*results, *grads], strict=True):
        assert torch.allclose(one.cpu(), other, 0, 1e-12), (kind, lengths, packed, layers, bidirectional, projected)
    kept = [x, output, to_x, first, last, to_first, *cells, *arriving, weights, to_weights, work, reserve]
    return of_data, of_weights, kept
"""


def test_its_numbers_are_those_of_the_host():
    run(
        CALLS
        + """
for lengths, packed in (([4, 4, 4], False), ([4, 3, 1], True)):
    for kind in GATES:
        for bidirectional in (False, True):
            for layers in (1, 2):
                check(kind, lengths, packed, layers, bidirectional)
    check("LSTM", lengths, packed, 2, True, projected=2)
"""
    )


def test_it_finds_wrong_calls():
    """Spaces and buffers of other sizes, an address that is not aligned, lengths that must be null, and a reserve that is used up."""
    shown = run(
        CALLS
        + """
BAD_PARAM, NULL_POINTER, SIZE_INSUFFICIENT, MISALIGNED, NOT_SUPPORTED = 2000, 2002, 2006, 2003, 3000
of_data, of_weights, kept = check("GRU", [4, 4, 4], False)
def status(place, value):
    return library.cudnnRNNBackwardWeights_v8(*of_weights[:place], value, *of_weights[place + 1 :])
assert status(2, 1) == NOT_SUPPORTED and status(3, pointer(16)) == BAD_PARAM
for place, bytes_ in ((10, of_weights[10].value + 8), (14, of_weights[14].value - 8)):
    assert status(place, size(bytes_)) == BAD_PARAM, place
assert status(12, size(8)) == SIZE_INSUFFICIENT and status(5, pointer(of_weights[5].value + 8)) == MISALIGNED
assert status(15, pointer(0)) == NULL_POINTER
torch.cuda.synchronize()
# The pass backward has run with this reserve.
call("cudnnRNNBackwardData_v8", *of_data)
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    print(error)
"""
    )
    assert "unspecified launch failure" in shown
