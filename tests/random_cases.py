"""Random operators for every dtype and many layouts. `test_random_streams.py` compares them with torch 2.13.

`python tests/random_cases.py` needs torch and writes `tests/data/random_streams.json`.
"""

import json
import warnings
import zlib
from pathlib import Path

RECORDED = Path(__file__).resolve().parent / "data" / "random_streams.json"

DTYPES = "uint8 int8 int16 int32 int64 bool float16 bfloat16 float32 float64 complex64 complex128".split()
#: Operators that only draw and compute nothing.
WIDE = ["uint16", "uint32", "uint64"]

#: The calls, and the value of all elements of `x`.
CALLS = {
    "x.uniform_(-1, 3)": 0,
    "x.normal_(0.5, 2.0)": 0,
    "x.exponential_(1.5)": 0,
    "x.geometric_(0.3)": 0,
    "x.cauchy_(0.1, 2)": 0,
    "x.log_normal_(0.2, 0.5)": 0,
    "x.random_()": 0,
    "x.random_(100)": 0,
    "x.random_(-3, 90)": 0,
    "x.random_(1, None)": 0,
    "x.random_(-2**63, None)": 0,
    "x.random_(9, 3)": 0,
    "x.bernoulli_(0.3)": 0,
    "x.bernoulli_(torch.full(x.shape, 0.4))": 0,
    "x.bernoulli_(torch.full(x.shape, 0.4, dtype=torch.float64))": 0,
    "x.bernoulli_(torch.tensor(0.4))": 0,
    "x.bernoulli_(torch.tensor(0.4, dtype=torch.float64))": 0,
    "x.bernoulli_(torch.tensor(1))": 0,
    "torch.bernoulli(x)": 0.5,
    "torch.bernoulli(x, 0.5)": 0.5,
    "torch.bernoulli(torch.full(x.shape, 0.5), out=x)": 0,
    "torch.rand_like(x)": 0,
    "torch.randn_like(x)": 0,
    "torch.randint_like(x, 50)": 0,
    "torch.randint_like(x, 3, 50)": 0,
    "torch.rand(x.shape, out=x)": 0,
    "torch.randn(x.shape, out=x)": 0,
    "torch.randint(50, x.shape, out=x)": 0,
    "torch.randint(3, 50, x.shape, out=x)": 0,
    "torch.rand(x.shape, dtype=x.dtype)": 0,
    "torch.randn(x.shape, dtype=x.dtype)": 0,
    "torch.randint(50, x.shape, dtype=x.dtype)": 0,
    "torch.randperm(x.numel(), dtype=x.dtype)": 0,
    "torch.normal(x, x)": 1,
    "torch.normal(x, 1.5)": 1,
    "torch.normal(1.1, x)": 1,
    "torch.normal(x, torch.full(x.shape, 2.0))": 1,
    "torch.normal(0.5, 2.0, x.shape, out=x)": 0,
    "torch.normal(torch.ones(x.shape), 2.0, out=x)": 0,
    "torch.multinomial(x, 1)": 1,
    "torch.multinomial(x, 2)": 1,
    "torch.multinomial(x, 3, True)": 1,
    "torch.poisson(x)": 3,
    "torch.poisson(x)  # large": 20,
    "torch.binomial(x, torch.full_like(x, 0.3))": 20,
    "torch.binomial(x, torch.full_like(x, 0.7))": 90,
    "torch._standard_gamma(x)": 0.7,
    "torch._standard_gamma(x)  # large": 2.3,
    "torch.rrelu(x, training=True)": -1,
    "torch.dropout(x, 0.4, True)": 1,
    "F.dropout(x, 0.4, inplace=True)": 1,
    "F.dropout1d(x, 0.4)": 1,
    "F.alpha_dropout(x, 0.4, True)": 1,
    "F.alpha_dropout(x, 1.0, True)": 1,
    "F.feature_alpha_dropout(x, 0.4, True)": 1,
    "torch.nn.init.kaiming_uniform_(x)": 0,
    "torch.nn.init.xavier_normal_(x)": 0,
}  # fmt: skip

LAYOUTS = {
    "()": lambda full: full(()),
    "(0,)": lambda full: full((0,)),
    "(5,)": lambda full: full((5,)),
    "(16,)": lambda full: full((16,)),
    "(33,)": lambda full: full((33,)),
    "(34,) every second": lambda full: full((34,))[::2],
    "(4, 8)": lambda full: full((4, 8)),
    "(8, 4) across": lambda full: full((8, 4)).t(),
    "(6, 10) across, every second": lambda full: full((6, 10)).t()[::2],
    "(3, 7, 2) turned": lambda full: full((3, 7, 2)).permute(2, 0, 1),
}


def dtypes(call):
    return DTYPES + WIDE if call.startswith(("x.", "torch.rand")) else DTYPES


def drawn(torch, call, dtype, layout):
    """The result of a call and the state of the random stream after it, or the error."""
    x = LAYOUTS[layout](lambda sizes: torch.full(sizes, CALLS[call], dtype=getattr(torch, dtype)))
    torch.manual_seed(7)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = eval(call, {"torch": torch, "F": torch.nn.functional, "x": x})
    except (RuntimeError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    # Dropout ends with a multiplication, which determines the strides.
    strides = y.stride() if y.numel() and not call.startswith("F.") else ""
    text = f"{y.dtype} {list(y.shape)} {strides} {y.tolist()} {torch.rand(1).item()}"
    return f"{zlib.crc32(text.encode()):08x}"


def main():
    import torch

    errors, calls = [], []
    for call in CALLS:
        # For each dtype one word per layout: a checksum of the result, or the index of the error in the list.
        said = {}
        for dtype in dtypes(call):
            words = [drawn(torch, call, dtype, layout) for layout in LAYOUTS]
            errors += dict.fromkeys(word for word in words if " " in word and word not in errors)
            said[dtype] = " ".join(str(errors.index(word)) if " " in word else word for word in words)
        calls.append(f"{json.dumps(call)}: {json.dumps(said, indent=0)}")
    draws = ",\n".join(calls)
    RECORDED.write_text(f'{{"errors": {json.dumps(errors, indent=0)},\n"draws": {{\n{draws}\n}}}}\n')


if __name__ == "__main__":
    main()
