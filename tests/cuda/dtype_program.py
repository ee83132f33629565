"""Random calls on a device whose results must be those of the CPU: any dtype, layout, size around those of tiles and packs, and special
values; see `test_dtypes_on_device.py`.

`python dtype_program.py KIND FIRST COUNT` runs the cases with these numbers and prints those that differ. A case depends on its kind and
number alone, so that `KIND NUMBER 1` repeats it.
"""

import math
import operator
import random
import sys
import warnings

import rushlight as torch

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
FLOAT8 = [
    torch.float8_e5m2,
    torch.float8_e4m3fn,
    torch.float8_e5m2fnuz,
    torch.float8_e4m3fnuz,
    torch.float8_e8m0fnu,
]
ALL = [torch.bool, *INTEGERS, *UNSIGNED, *FLOATS, *COMPLEX, torch.complex32]
#: The steps of a dtype at one.
STEP = {
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.complex32: 2e-3,
    **dict.fromkeys([torch.float32, torch.complex64], 2e-5),
    **dict.fromkeys([torch.float64, torch.complex128], 1e-11),
}
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 5e-8, 65504.0, 1e38]
NUMBERS = [0, 1, 2, 0.1, -0.5, 1e-3, 300, 70000, 1e39, math.inf, math.nan, 2**31, 2**53 + 1, 1 - 2j, True]
#: Around packs, warps, blocks, tiles of all kernels, and the lengths at which they change their way.
SHORT = [1, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100, 129]
LONG = [
    1,
    127,
    255,
    256,
    257,
    511,
    513,
    1023,
    1024,
    1025,
    2047,
    2048,
    2049,
    4096,
    4097,
    8191,
    8193,
    16385,
    65537,
    131073,
]
LENGTHS = [1, 1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 191, 193, 257]
WIDTHS = [1, 2, 3, 7, 8, 9, 12, 16, 17, 24, 31, 32, 40, 56, 64, 65, 72, 80, 81, 96, 100, 112, 120, 127, 128]


def drawn(rng, shape, dtype, scale=4.0):
    """Numbers of which some are alike, and some special."""
    made = torch.Generator().manual_seed(rng.randrange(2**31))
    if dtype == torch.bool:
        return torch.rand(shape, generator=made) < 0.5
    if dtype.is_complex:
        part = torch.float64 if dtype == torch.complex128 else torch.float32
        return torch.complex(drawn(rng, shape, part, scale), drawn(rng, shape, part, scale)).to(dtype)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        if rng.random() < 0.5:
            return torch.randint(max(info.min, -20), 20, shape, generator=made).to(dtype)
        return torch.randint(-(2**63), 2**63 - 1, shape, generator=made).view(torch.int64).to(dtype)
    x = torch.randn(shape, generator=made, dtype=torch.float64) * scale
    if rng.random() < 0.4:
        x = x.round()
    if rng.random() < 0.5 and x.numel():
        for value in rng.choices(SPECIAL, k=3):
            x.view(-1)[rng.randrange(x.numel())] = value
    return x.to(dtype)


def laid(rng, x):
    """The same values in some layout, on the CPU and on the device."""
    rank, sizes = x.dim(), x.shape
    kind = rng.choice(["plain", "plain", "shifted", "gaps", "permuted", "expanded", "conjugate"])
    base, view = x, lambda x: x
    if kind == "shifted":
        shift = rng.choice([1, 2, 3, 5, 8])
        base = torch.cat([torch.zeros(shift, dtype=x.dtype), x.reshape(-1)])
        view = lambda base: base[shift:].view(sizes)
    elif kind == "gaps" and 0 < rank and x.numel() < 10000:
        steps = [rng.choice([1, 1, 2, 3]) for _ in sizes]
        parts = tuple(slice(step - 1, None, step) for step in steps)
        base = torch.zeros([size * step for size, step in zip(sizes, steps)], dtype=x.dtype)
        view = lambda base: base[parts]
        view(base).copy_(x)
    elif kind == "permuted" and rank > 1:
        order = rng.sample(range(rank), rank)
        base = x.permute(order).contiguous()
        view = lambda base: base.permute([order.index(dim) for dim in range(rank)])
    elif kind == "expanded" and rank and x.numel():
        base = x.narrow(rng.randrange(rank), 0, 1).contiguous()
        view = lambda base: base.expand(sizes)
    elif kind == "conjugate" and x.dtype in COMPLEX:
        view = torch.Tensor.conj
    return view(base), view(base.to("cuda"))


def sizes_of(rng, limit=30000, longest=True):
    """A shape and a dimension, which may be long."""
    while True:
        sizes = [rng.choice(SHORT) for _ in range(rng.choice([1, 2, 2, 3, 4]))]
        dim = rng.randrange(len(sizes))
        sizes[dim] = rng.choice(LONG) if longest else sizes[dim]
        if math.prod(sizes) <= limit or math.prod(sizes) == max(sizes):
            return [0 if rng.random() < 0.02 else size for size in sizes], dim


def elementwise(rng):
    dtype, to = rng.choice([*ALL, rng.choice(FLOAT8)]), rng.choice([*ALL, *FLOAT8])
    number, shape = rng.choice(NUMBERS), sizes_of(rng)[0]
    operands = [laid(rng, drawn(rng, shape, dtype)) for _ in range(3)]
    name = rng.choice(["add", "sub", "mul", "maximum", "eq", "lt", "truediv"])
    function = getattr(operator, name, None) or getattr(torch, name)

    def into(x, y):
        """Into every second element, or over an operand."""
        out = torch.zeros(
            [2 * size for size in torch.broadcast_shapes(x.shape, y.shape)], dtype=x.dtype, device=x.device
        )
        torch.add(x, y, out=out[tuple(slice(1, None, 2) for _ in out.shape)])
        return out

    calls = {
        f"{name}": lambda x, y, z: function(x, y),
        f"{name} itself": lambda x, y, z: function(x, x),
        f"{name} number": lambda x, y, z: function(x, number),
        f"number {name}": lambda x, y, z: function(number, x),
        "number in place": lambda x, y, z: x.clone().mul_(number),
        "alpha": lambda x, y, z: torch.add(x, y, alpha=number),
        "alpha in place": lambda x, y, z: x.clone().sub_(y, alpha=number),
        "itself in place": lambda x, y, z: operator.imul(own := x.clone(), own),
        "value": lambda x, y, z: torch.addcmul(x, y, z, value=number),
        "weight": lambda x, y, z: torch.lerp(x, y, number),
        "bounds": lambda x, y, z: torch.clamp(x, 1, number),
        "where": lambda x, y, z: torch.where(x.ne(0), y, z),
        "copy": lambda x, y, z: x.to(to),
        "mixed": lambda x, y, z: x + y.to(to),
        "row": lambda x, y, z: x + y[..., :1],
        "transposed": lambda x, y, z: x.permute(*reversed(range(x.dim()))).contiguous(),
        "flipped": lambda x, y, z: x.flip(-1).contiguous(),
        "into": lambda x, y, z: into(x, y),
        "over": lambda x, y, z: torch.mul(own := x.clone(), y, out=own),
        "imaginary": lambda x, y, z: x.conj().imag + y.conj().imag,
        "fill": lambda x, y, z: torch.empty_like(x).fill_(number),
        "power": lambda x, y, z: x**2,
    }
    title = rng.choice(list(calls))
    return f"{title} {dtype} {to} {shape} {number}", calls[title], zip(*operands), same_bits


def reductions(rng):
    dtype = rng.choice([*ALL, rng.choice(FLOAT8), *FLOATS])
    name = rng.choice(
        "sum prod mean amax amin argmax argmin any all var std logsumexp nansum count_nonzero aminmax norm".split()
    )
    shape, dim = sizes_of(rng, 150000)
    if name == "prod":
        # Products of many numbers overflow, and then the order of factors decides.
        x = (1 + drawn(rng, shape, torch.float64) % 1e-3).to(dtype)
    else:
        x = drawn(rng, shape, dtype)
    options = {"keepdim": rng.random() < 0.5}
    if name in ("argmax", "argmin", "prod", "aminmax"):
        options["dim"] = dim
    else:
        options["dim"] = rng.choice([dim, tuple(rng.sample(range(len(shape)), rng.randint(1, len(shape))))])
    if name == "count_nonzero":
        options.pop("keepdim")
    if name in ("sum", "nansum", "norm", "mean") and rng.random() < 0.3:
        options["dtype"] = rng.choice([torch.float64, torch.float32, torch.complex128, torch.int64, torch.float16])
    if name in ("var", "std"):
        # The CPU sums squares that float32 does not hold.
        x = x.masked_fill(x.abs().isfinite() & (x.abs() > 1e15), 1) if x.dtype in (*FLOATS, *COMPLEX) else x
        options["correction"] = rng.choice([0, 1, 2])
    order = rng.choice([1, 2, 3, 0, math.inf, -math.inf])
    into = rng.random() < 0.3 and name in ("sum", "amax", "any", "nansum")

    def call(x):
        if name == "norm":
            return torch.linalg.vector_norm(x, order, **options)
        if into:
            out = getattr(torch, name)(x, **options)
            return getattr(torch, name)(
                x, **options, out=torch.empty_like(out).T.contiguous().T if out.dim() > 1 else out
            )
        return getattr(torch, name)(x, **options)

    sums = name in ("sum", "prod", "mean", "var", "std", "logsumexp", "nansum") or (
        name == "norm" and abs(order) < math.inf
    )
    return (
        f"{name} {dtype} {shape} {options} {order}",
        call,
        zip(laid(rng, x)),
        close(x, sum(shape) if name.endswith("sum") else 1, 2 if name == "var" else 1) if sums else same_bits,
    )


def cumulative(rng):
    dtype = rng.choice([*ALL[:-1], *FLOATS])
    name = rng.choice(["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
    shape, dim = sizes_of(rng, 100000)
    x = drawn(rng, shape, dtype)
    if name == "cumprod":
        x = (1 + drawn(rng, shape, torch.float64) % 1e-3).to(dtype)
    options = (
        {"dtype": rng.choice([torch.float64, torch.int64, torch.complex64])}
        if name == "cumsum" and rng.random() < 0.3
        else {}
    )
    own = (
        rng.random() < 0.2
        and name.startswith("cum")
        and not name.startswith("cumm")
        and dtype in (*FLOATS, *COMPLEX)
        and not options
    )

    def call(x):
        return getattr(x.clone(), name + "_")(dim) if own else getattr(x, name)(dim, **options)

    compare = same_bits if name.startswith("cumm") else close(x, shape[dim] if name == "cumsum" else 1)
    return f"{name} {dtype} {shape} {dim} {options} {own}", call, zip(laid(rng, x)), compare


def order(rng):
    dtype = rng.choice([*ALL[:-3], *FLOATS])
    shape, dim = sizes_of(rng, 60000)
    x, n = drawn(rng, shape, dtype, rng.choice([1, 4, 50])), shape[dim]
    k, flag, more = rng.randint(min(n, 1), n), rng.random() < 0.5, rng.random() < 0.5
    pieces = {"return_inverse": flag, "return_counts": more}

    def most_frequent(x):
        # Which of equal elements is chosen differs, as in torch, and zeros with and without a sign are equal.
        values, places = torch.mode(x, dim)
        return values.double() + 0, x.gather(dim, places.unsqueeze(dim)).squeeze(dim).double() + 0

    calls = {
        "sort": lambda x: torch.sort(x, dim=dim, descending=flag, stable=more),
        "argsort": lambda x: torch.argsort(x, dim=dim, descending=flag, stable=True),
        "topk": lambda x: torch.topk(x, k, dim=dim, largest=flag),
        "kthvalue": lambda x: torch.kthvalue(x, k, dim=dim, keepdim=flag),
        "median": lambda x: torch.median(x, dim=dim, keepdim=flag),
        "nanmedian": lambda x: torch.nanmedian(x, dim=dim, keepdim=flag),
        "mode": most_frequent,
        "msort": torch.msort,
        "unique": lambda x: torch.unique(x, **pieces),
        "unique_consecutive": lambda x: torch.unique_consecutive(x, **pieces),
        "searchsorted": lambda x: torch.searchsorted(x.reshape(-1).sort().values, x, right=flag),
        "isin": lambda x: torch.isin(x, x.reshape(-1)[:5]),
    }
    name = rng.choice(list(calls))
    return f"{name} {dtype} {shape} {dim} {k} {flag} {more}", calls[name], zip(laid(rng, x)), same_bits


def long(rng):
    """Lines of more than a million elements."""
    dtype, shape = rng.choice([torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float32]), [2**20 + 3]
    x = drawn(rng, shape, dtype)
    calls = {
        "sort": lambda x: torch.sort(x, stable=True),
        "descending": lambda x: torch.sort(x, descending=True, stable=True),
        "topk": lambda x: torch.topk(x, 1000),
        "kthvalue": lambda x: torch.kthvalue(x, 500000),
        "unique": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        "cummax": lambda x: torch.cummax(x, 0),
        "argmin": torch.argmin,
        "count_nonzero": torch.count_nonzero,
        "arithmetic": lambda x: torch.add(x, x, alpha=3).mul_(x),
        "strided": lambda x: x[1::3] + x[2::3],
    }
    name = rng.choice(list(calls))
    return f"{name} {dtype} {shape}", calls[name], zip(laid(rng, x)), same_bits


def attention(rng):
    """Results and gradients against those of the CPU in twice the precision."""
    dtype = rng.choice([torch.float32, torch.float16, torch.bfloat16])
    grouped = rng.choice([1, 1, 1, 2])
    batch, heads, queries, keys = rng.choice([1, 2]), rng.choice([1, 2]), rng.choice(LENGTHS), rng.choice(LENGTHS)
    width = rng.choice(WIDTHS)
    depth = rng.choice([width, width, rng.choice(WIDTHS)])
    if rng.random() < 0.1:
        queries, keys = rng.choice([(0, keys), (queries, 0)])
    causal, scale = rng.random() < 0.3, rng.choice([None, None, 0.3, -0.2, 0.0])
    made = torch.Generator().manual_seed(rng.randrange(2**31))

    def operand(*shape):
        """Numbers, and how they lie: each head in turn, or the heads of a row beside each other; shifted; with gaps behind rows."""
        x = torch.randn(shape, generator=made).to(dtype)
        way, gap = rng.choice(["plain", "heads", "shifted", "gaps"]), rng.choice([1, 2, 8])

        def lay(x):
            if way == "heads":
                return x.transpose(1, 2).contiguous().transpose(1, 2)
            if way == "shifted":
                return torch.cat([x.new_zeros(gap), x.reshape(-1)])[gap:].view(x.shape)
            if way == "gaps":
                return torch.cat([x, x.new_full((*x.shape[:-1], gap), math.nan)], -1)[..., : x.shape[-1]]
            return x

        return x, lay(x.to("cuda"))

    sources = [
        operand(batch, heads * grouped, queries, width),
        operand(batch, heads, keys, width),
        operand(batch, heads, keys, depth),
    ]
    grad = operand(batch, heads * grouped, queries, depth)
    mask, masked = None, "no mask"
    if not causal and rng.random() < 0.6:
        shape = rng.choice(
            [
                (queries, keys),
                (batch, 1, queries, keys),
                (batch, heads * grouped, queries, keys),
                (batch, 1, 1, keys),
                (queries, 1),
            ]
        )
        mask = torch.randn(shape, generator=made)
        masked = rng.choice(["hides", "adds", "adds and hides"])
        if masked == "hides":
            mask = mask > rng.choice([-1, 0, 1])
        elif masked == "adds":
            mask = mask.to(dtype)
        else:
            mask = mask.masked_fill(mask > 1, -math.inf).to(dtype)

    def call(*operands):
        *operands, grad = operands
        operands = [x.detach() if grad.is_cuda else x.detach().double() for x in operands]
        own = [x.requires_grad_() for x in operands]
        bias = mask if mask is None or mask.dtype == torch.bool else mask.to(own[0].dtype)
        bias = None if bias is None else bias.to(grad.device)
        result = torch.nn.functional.scaled_dot_product_attention(
            *own, attn_mask=bias, is_causal=causal, scale=scale, enable_gqa=grouped > 1
        )
        result.backward(grad.to(result.dtype))
        return result.detach(), *(x.grad for x in own)

    def compare(got, wanted):
        most = wanted.abs().max().item() if wanted.numel() else 0.0
        step = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}[dtype]
        return got.dtype == dtype and bool(((got.double() - wanted).abs() <= step * (1 + most)).all())

    title = f"{dtype} {batch} {heads}x{grouped} {queries} {keys} {width} {depth} {masked} {causal} {scale}"
    return title, call, zip(*sources, grad), compare


def same_bits(got, wanted):
    """Whether all bits are equal; any NaN is equal to any."""
    if got.dtype != wanted.dtype:
        return False
    got, wanted = (x.resolve_conj().resolve_neg().reshape(-1).contiguous() for x in (got, wanted))
    if got.is_complex():
        part = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}[
            got.dtype
        ]
        got, wanted = got.view(part), wanted.view(part)
    if got.dtype.is_floating_point:
        integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[got.dtype.itemsize]
        return bool(((got.view(integer) == wanted.view(integer)) | (isnan(got) & isnan(wanted))).all())
    return bool((got == wanted).all())


def isnan(x):
    return x.float().isnan() if x.dtype in FLOAT8 else x.isnan()


def close(x, terms, power=1):
    """A comparison of results of many elements, which depend on the order of additions."""
    numbers = x.to(torch.complex128).abs()
    numbers = numbers[numbers.isfinite()]
    most = (1 + (numbers.max().item() if numbers.numel() else 0.0) * max(terms, 1)) ** power

    def compare(got, wanted):
        if got.dtype != wanted.dtype or got.dtype not in STEP:
            return same_bits(got, wanted)
        wide = torch.complex128 if got.is_complex() else torch.float64
        step, got, wanted = STEP[got.dtype], got.to(wide).resolve_conj(), wanted.to(wide).resolve_conj()
        size = wanted.abs().nan_to_num(0.0, 0.0, 0.0)
        if wide == torch.complex128:
            got, wanted, size = torch.view_as_real(got), torch.view_as_real(wanted), size.unsqueeze(-1)
        equal = (got == wanted) | (got.isnan() & wanted.isnan())
        return bool((equal | ((got - wanted).abs() <= step * (most + size))).all())

    return compare


def outcome(call, operands):
    """The results of a call, or its error."""
    try:
        results = call(*operands)
    except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError) as error:
        return error
    return results if isinstance(results, tuple) else (results,)


def difference(call, operands, compare):
    """What differs between the CPU and the device, or None; and whether both have results."""
    host, device = operands
    wanted, got = outcome(call, host), outcome(call, device)
    if isinstance(got, Exception) or isinstance(wanted, Exception):
        same = type(got) is type(wanted)
        return None if same else f"{got!r} instead of {wanted!r}", False
    for n, (own, other) in enumerate(zip(got, wanted)):
        if not own.is_cuda:
            return "the result is on another device", True
        if own.shape != other.shape or (call.__name__ != "call" and own.stride() != other.stride()):
            return f"result {n}: {own.shape}, {own.stride()} instead of {other.shape}, {other.stride()}", True
        if not compare(own.cpu(), other):
            return f"result {n} differs: {own} instead of {other}", True
    return None, True


def main(kind, first, count):
    warnings.simplefilter("ignore")
    make, ran, failed = globals()[kind], 0, []
    for number in range(first, first + count):
        title, call, operands, compare = make(random.Random(f"{kind} {number}"))
        text, has_results = difference(call, operands, compare)
        ran += has_results
        if text:
            failed.append(f"{kind} {number}, {title}: {text}")
    print(f"{ran} of {count} cases have results")
    print("\n".join(failed))
    return bool(failed) or ran < count / 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
