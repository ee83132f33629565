"""The stand-in for cuDNN's recurrent networks, called as the library is: its numbers, and the faults that it finds."""

from soft_card import needs_soft_card, run

pytestmark = needs_soft_card

CALLS = """
import ctypes as C
lib = C.CDLL("libcudnn.so.9")
P, I, Z = C.c_void_p, C.c_int, C.c_size_t
def call(name, *a):
    s = getattr(lib, name)(*a)
    assert s == 0, (name, s)
def make(name):
    p = P(); call("cudnnCreate" + name, C.byref(p)); return p
torch.zeros(1, device="cuda")
h = make("")
call("cudnnSetStream", h, P(torch.cuda.current_stream().cuda_stream))
kept = []
def arr(*n): return (I * len(n))(*n)
def check(kind, mode, proj, bidir, layers, lengths, packed):
    torch.manual_seed(0)
    D = 2 if bidir else 1
    kw = dict(proj_size=proj) if proj else {}
    net = getattr(torch.nn, kind)(5, 6, num_layers=layers, bidirectional=bidir, dtype=torch.float64, **kw)
    out = proj or 6; N = len(lengths); T = lengths[0]
    x = torch.randn(T, N, 5, dtype=torch.float64).requires_grad_()
    inp = torch.nn.utils.rnn.pack_padded_sequence(x, lengths) if packed else x
    y, last = net(inp)
    y = y.data if packed else y
    last = last if isinstance(last, tuple) else (last,)
    dy = torch.randn_like(y); dl = [torch.randn_like(l) for l in last]
    grads = torch.autograd.grad((y * dy).sum() + sum((l * d).sum() for l, d in zip(last, dl)), [x, *net.parameters()])
    drop = make("DropoutDescriptor"); call("cudnnSetDropoutDescriptor", drop, h, C.c_float(0), None, Z(0), C.c_uint64(0))
    r = make("RNNDescriptor")
    call("cudnnSetRNNDescriptor_v8", r, 0, mode, 2, int(bidir), 0, 1, 1, 0, 5, 6, out, layers, drop, 0 if packed else 1)
    xd, yd = make("RNNDataDescriptor"), make("RNNDataDescriptor")
    for d, f in ((xd, 5), (yd, out * D)):
        call("cudnnSetRNNDataDescriptor", d, 1, int(packed), T, N, f, arr(*lengths), None)
    hd, cd = make("TensorDescriptor"), make("TensorDescriptor")
    for d, f in ((hd, out), (cd, 6)):
        call("cudnnSetTensorNdDescriptor", d, 1, 3, arr(layers * D, N, f), arr(N * f, f, 1))
    nb = Z(); call("cudnnGetRNNWeightSpaceSize", h, r, C.byref(nb))
    W = torch.zeros(nb.value // 8, dtype=torch.float64, device="cuda"); dW = torch.zeros_like(W)
    md, bd = make("TensorDescriptor"), make("TensorDescriptor")
    G = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    names = [n for n, _ in net.named_parameters()]
    def find(p, k):
        a, b = P(), P()
        call("cudnnGetRNNWeightParams", h, r, p, nb, P(W.data_ptr()), k, md, C.byref(a), bd, C.byref(b))
        base = W.data_ptr()
        return ((a.value or base) - base) // 8, ((b.value or base) - base) // 8
    places = []
    per = 5 if proj else 4
    for p in range(layers * D):
        (wi, bi), (wh, bh) = find(p, 0), find(p, G)
        places += [wi, wh, bi, bh] + ([find(p, 2 * G)[0]] if proj else [])
    for w, at in zip(net.parameters(), places):
        W[at:at + w.numel()] = w.detach().reshape(-1).cuda()
    ws, rs = Z(), Z(); call("cudnnGetRNNTempSpaceSizes", h, r, 1, xd, C.byref(ws), C.byref(rs))
    work = torch.empty(ws.value, dtype=torch.uint8, device="cuda"); res = torch.empty(rs.value, dtype=torch.uint8, device="cuda")
    lstm = kind == "LSTM"
    cu = lambda t: t.detach().contiguous().cuda()
    X = cu(inp.data if packed else x); Y = torch.empty(y.shape, dtype=y.dtype, device="cuda")
    z = lambda f: torch.zeros(layers * D, N, f, dtype=torch.float64, device="cuda")
    hx, hy, cx, cy, dhx, dcx = z(out), z(out), z(6), z(6), z(out), z(6)
    q = lambda t: P(t.data_ptr())
    c = (lambda t: q(t)) if lstm else (lambda t: None)
    call("cudnnRNNForward", h, r, 1, None, xd, q(X), yd, q(Y), hd, q(hx), q(hy), cd if lstm else None, c(cx), c(cy), nb, q(W), ws, q(work), rs, q(res))
    DY = cu(dy); DH = cu(dl[0]); DC = cu(dl[1]) if lstm else None; DX = torch.empty_like(X)
    global again
    again = [h, r, None, yd, q(Y), q(DY), xd, q(DX), hd, q(hx), q(DH), q(dhx), cd if lstm else None, c(cx), q(DC) if lstm else None, c(dcx), nb, q(W), ws, q(work), rs, q(res)]
    call("cudnnRNNBackwardData_v8", *again)
    call("cudnnRNNBackwardWeights_v8", h, r, 0, None, xd, q(X), hd, q(hx), yd, q(Y), nb, q(dW), ws, q(work), rs, q(res))
    far = [(Y.cpu() - y).abs().max().item(), (hy.cpu() - last[0]).abs().max().item()]
    if lstm: far.append((cy.cpu() - last[1]).abs().max().item())
    gx = torch.nn.utils.rnn.pack_padded_sequence(grads[0], lengths).data if packed else grads[0]
    far.append((DX.cpu() - gx).abs().max().item())
    for g, at in zip(grads[1:], places):
        far.append((dW[at:at + g.numel()].cpu() - g.reshape(-1)).abs().max().item())
    assert max(far) < 1e-12, (kind, proj, bidir, layers, packed, far)
    kept.append((X, Y, hx, hy, cx, cy, dhx, dcx, DY, DH, DC, DX, W, dW, work, res))
    return [h, r, 0, None, xd, q(X), hd, q(hx), yd, q(Y), nb, q(dW), ws, q(work), rs, q(res)]
"""


def test_its_numbers_are_those_of_the_host():
    run(
        CALLS
        + """
for kind, mode in (("RNN", 1), ("GRU", 3), ("LSTM", 2)):
    for bidir in (False, True):
        for layers in (1, 2):
            check(kind, mode, 0, bidir, layers, [4, 4, 4], False)
            check(kind, mode, 0, bidir, layers, [4, 3, 1], True)
check("LSTM", 2, 2, True, 2, [4, 4, 4], False)
check("LSTM", 2, 2, True, 2, [4, 3, 1], True)
"""
    )


def test_it_finds_wrong_calls():
    """Spaces and buffers of other sizes, an address that is not aligned, lengths that must be null, and a reserve that is used up."""
    shown = run(
        CALLS
        + """
last = check("GRU", 3, 0, False, 1, [4, 4, 4], False)
def status(place, value):
    return lib.cudnnRNNBackwardWeights_v8(*last[:place], value, *last[place + 1 :])
assert status(2, 1) == 3000 and status(3, P(16)) == 2000
assert status(10, Z(last[10].value + 8)) == 2000 and status(14, Z(last[14].value - 8)) == 2000
assert status(12, Z(8)) == 2006 and status(5, P(last[5].value + 8)) == 2003 and status(15, P(0)) == 2002
torch.cuda.synchronize()
# The pass backward has run with this reserve.
call("cudnnRNNBackwardData_v8", *again)
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    print(error)
"""
    )
    assert "unspecified launch failure" in shown
