"""Writes `rust/simd/src/math/tables.rs`: the polynomials and the constants that are split in parts.

    python rust/simd/tools/fit.py | rustfmt --edition 2024 > rust/simd/src/math/tables.rs        (needs mpmath)

Each line of FITS is one function g that is smooth on its interval; the polynomial is the Chebyshev interpolant of g
(near-minimax), computed with 60 digits and then rounded.
"""

import struct

import mpmath as m
from mpmath import chebyfit, mp, mpf, polyval

mp.dps = 60
LN2 = m.log(2)


def series(f, limit):
    """g(0) is a removable singularity: evaluate a hair away from it."""

    def g(x):
        x = mpf(x)
        return f(x if abs(x) > mpf(10) ** -12 else mpf(10) ** -12)

    return g


def odd(f, first):
    """(f(x) - first*x) / x^3 as a function of z = x^2."""

    def g(z):
        with mp.workdps(110):
            x = m.sqrt(max(mpf(z), mpf(10) ** -20))
            return +((f(x) - first * x) / x**3)

    return g


def exp_tail(r):
    with mp.workdps(110):
        r = mpf(r) if abs(r) > mpf(10) ** -15 else mpf(10) ** -15
        return (m.exp(r) - 1 - r) / r**2


def cos_tail(z):
    with mp.workdps(130):
        x = m.sqrt(max(mpf(z), mpf(10) ** -20))
        return (m.cos(x) - 1 + x * x / 2) / x**4


def log_tail(f):
    with mp.workdps(130):
        f = mpf(f) if abs(f) > mpf(10) ** -15 else mpf(10) ** -15
        return (m.log(1 + f) - f + f * f / 2) / f**3


def exp2_slope(r):
    with mp.workdps(110):
        r = mpf(r) if abs(r) > mpf(10) ** -15 else mpf(10) ** -15
        return (mpf(2) ** r - 1) / r


def log2_slope(f):
    with mp.workdps(110):
        f = mpf(f) if abs(f) > mpf(10) ** -15 else mpf(10) ** -15
        return m.log(1 + f, 2) / f


def atanh_tail5(z):
    """(2 atanh(s) - 2s - 2/3 s^3) / s^5"""
    with mp.workdps(130):
        s = m.sqrt(max(mpf(z), mpf(10) ** -16))
        return (2 * m.atanh(s) - 2 * s - mpf(2) / 3 * s**3) / s**5


def erfcx_t(t, K):
    """(1 + 2x) exp(x^2) erfc(x) with x = K (1+t)/(1-t)."""
    t = mpf(t)
    if t > 1 - mpf(10) ** -3:
        t = 1 - mpf(10) ** -3
    x = K * (1 + t) / (1 - t)
    with mp.workdps(80 + int(x * x / 2)):
        return (1 + 2 * x) * m.exp(x * x) * m.erfc(x)


def erfinv_ratio(w):
    """erfinv(x)/x with w = -log(1 - x^2)."""
    w = max(w, mpf(10) ** -18)
    with mp.workdps(100):
        x = m.sqrt(-m.expm1(-w))
        return m.erfinv(x) / x


PI4 = m.pi / 4
R = LN2 / 2 * mpf("1.002")
Z = mpf("0.029438")
FITS = {
    "EXP64": (exp_tail, [-R, R], 10, 64),
    "EXP32": (exp_tail, [-R, R], 4, 32),
    "LOG64": (odd(lambda s: 2 * m.atanh(s), 2), [0, Z], 6, 64),
    "LOGDD": (atanh_tail5, [0, Z], 8, 64),
    "LOG32": (log_tail, [m.sqrt(mpf(1) / 2) - 1, m.sqrt(2) - 1], 8, 32),
    "SIN64": (odd(m.sin, 1), [0, (PI4 * mpf("1.001")) ** 2], 5, 64),
    "COS64": (cos_tail, [0, (PI4 * mpf("1.001")) ** 2], 5, 64),
    "SIN32": (odd(m.sin, 1), [0, (PI4 * mpf("1.04")) ** 2], 2, 32),
    "COS32": (cos_tail, [0, (PI4 * mpf("1.04")) ** 2], 2, 32),
    "EXP2_32": (exp2_slope, [-mpf("0.501"), mpf("0.501")], 5, 32),
    "LOG2_40": (log2_slope, [m.sqrt(mpf(1) / 2) - 1, m.sqrt(2) - 1], 11, 64),
    "EXP2_40": (exp2_slope, [-mpf("0.501"), mpf("0.501")], 5, 64),
    "EXP40": (exp_tail, [-R, R], 6, 64),
    "LOG40": (odd(lambda s: 2 * m.atanh(s), 2), [0, Z], 3, 64),
    "ASIN40": (odd(m.asin, 1), [0, mpf(1) / 4], 7, 64),
    "ATAN40": (odd(m.atan, 1), [0, (m.sqrt(2) - 1) ** 2], 6, 64),
    "SINH40": (odd(m.sinh, 1), [0, 1], 4, 64),
    "ERF40": (odd(m.erf, 2 / m.sqrt(m.pi)), [0, 1], 8, 64),
    "ERFC40": (lambda t: erfcx_t(t, 4), [-1, mpf("0.76")], 15, 64),
    "ERFINV_NEAR40": (erfinv_ratio, [0, mpf("6.25")], 13, 64),
    "ERFINV_FAR40": (lambda t: erfinv_ratio((t + mpf("3.3")) ** 2), [mpf("-0.81"), mpf("0.9")], 10, 64),
    "SIN40": (odd(m.sin, 1), [0, (PI4 * mpf("1.001")) ** 2], 3, 64),
    "COS40": (cos_tail, [0, (PI4 * mpf("1.001")) ** 2], 3, 64),
    "ASIN64": (odd(m.asin, 1), [0, mpf(1) / 4], 12, 64),
    "ATAN64": (odd(m.atan, 1), [0, (m.sqrt(2) - 1) ** 2], 11, 64),
    "SINH64": (odd(m.sinh, 1), [0, 1], 7, 64),
    "TANH64": (odd(m.tanh, 1), [0, mpf("0.36")], 11, 64),
    "TANH32": (odd(m.tanh, 1), [0, mpf("0.81")], 6, 32),
    "ERF64": (odd(m.erf, 2 / m.sqrt(m.pi)), [0, 1], 13, 64),
    "ERF32": (odd(m.erf, 2 / m.sqrt(m.pi)), [0, 1], 5, 32),
    "NDTR32": (lambda x: 1 - m.log(m.erfc(x / m.sqrt(2)), 2), [0, mpf("5.7")], 11, 32),
    "ERFC32": (lambda x: -m.log(m.erfc(x), 2), [1, mpf("4.0")], 8, 32),
    "ERFC64": (lambda t: erfcx_t(t, 4), [-1, mpf("0.76")], 24, 64),
    "ERFINV_NEAR": (erfinv_ratio, [0, mpf("6.25")], 24, 64),
    "ERFINV_MID": (lambda t: erfinv_ratio((t + mpf("3.25")) ** 2), [mpf("-0.75"), mpf("0.75")], 18, 64),
    "ERFINV_FAR": (lambda t: erfinv_ratio((t + 5) ** 2), [mpf(-1), mpf("1.01")], 17, 64),
}


def single(v):
    return struct.unpack("f", struct.pack("f", float(v)))[0]


def short(v):
    """The fewest digits that give this float32."""
    return next(t for d in range(1, 12) if single(float(t := f"{v:.{d}e}")) == v)


def chop(v, bits):
    """The first `bits` bits of v."""
    e = m.floor(m.log(abs(v), 2)) + 1 - bits
    return float(m.floor(v / mpf(2) ** e) * mpf(2) ** e)


def split(v, *bits):
    """v as a sum of floats: parts of the given numbers of bits, then one full float."""
    parts = []
    for b in bits:
        parts.append(chop(v, b))
        v -= mpf(parts[-1])
    return parts + [float(v)]


def rows(items, per_line=4):
    return "".join("    " + ", ".join(items[i : i + per_line]) + ",\n" for i in range(0, len(items), per_line))


def print_constants():
    pairs = [
        ("LN2", LN2, 32),
        ("LOG2E", 1 / LN2, 32),
        ("LOG10E", 1 / m.log(10), 32),
        ("LOG10_2", m.log(2, 10), 32),
        ("PIO4", PI4, 50),
        ("PIO2", m.pi / 2, 53),
        ("TWO_THIRDS", mpf(2) / 3, 53),
    ]
    print("/// Constants as a short upper part, whose products are exact, and the rest.")
    for name, value, bits in pairs:
        hi, lo = split(value, bits)
        print(f"pub const {name}_HI: f64 = {hi!r};\npub const {name}_LO: f64 = {lo!r};")
    ln2_hi = chop(LN2, 12)
    print(
        f"pub const LN2_HI_32: f32 = {short(single(ln2_hi))};\npub const LN2_LO_32: f32 = {short(single(LN2 - mpf(ln2_hi)))};"
    )
    print(f"/// 2 / sqrt(pi) - 1.\npub const ERF_SLOPE: f64 = {float(2 / m.sqrt(m.pi) - 1)!r};")
    print("/// pi / 2 in parts of 33, 33, 33 and 53 bits.")
    print(f"pub const PIO2_PARTS: [f64; 4] = [\n{rows([repr(p) for p in split(m.pi / 2, 33, 33, 33)])}];")
    print("/// The same in parts of 24 bits.")
    parts, rest = [], m.pi / 2
    for _ in range(3):
        parts.append(single(rest))
        rest -= mpf(parts[-1])
    print(f"pub const PIO2_PARTS_32: [f32; 3] = [\n{rows([short(p) for p in parts])}];")
    with mp.workdps(500):
        words = [f"{int(m.floor((2 / m.pi) * mpf(2) ** (64 * i))) & (2**64 - 1):#018x}" for i in range(1, 21)]
    print("/// The bits of 2 / pi after the binary point, behind one word of zeros.")
    print(f"pub const TWO_OVER_PI: [u64; 21] = [\n{rows(['0'] + words, 5)}];")


def print_fit(name):
    g, (a, b), degree, bits = FITS[name]
    coefficients = chebyfit(g, [a, b], degree + 1)
    rounded = [float(c) if bits == 64 else single(c) for c in coefficients]
    points = [a + (b - a) * i / 200 for i in range(201)]
    worst = max(abs(polyval(rounded, x) / g(x) - 1) for x in points)
    text = [repr(c) if bits == 64 else short(c) for c in reversed(rounded)]
    print(f"/// Relative error {m.nstr(worst, 2)}.\npub const {name}: [f{bits}; {len(text)}] = [\n{rows(text)}];")


def main():
    print(
        "//! Generated by `rust/simd/tools/fit.py`; do not edit.\n//!\n//! Polynomials of the functions in this folder, lowest power first, and constants in parts.\n"
    )
    print("#![allow(clippy::excessive_precision, clippy::approx_constant)]\n")
    print_constants()
    for name in FITS:
        print_fit(name)


if __name__ == "__main__":
    main()
