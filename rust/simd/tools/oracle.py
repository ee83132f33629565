"""Writes reference values of the elementary functions, from mpmath.

    python rust/simd/tools/oracle.py 100 > rust/simd/src/math/oracle.txt

Each line: function, the bits of the arguments, the bits of the nearest f64, and how far the true value lies above it in
units in the last place. A larger table for a closer look: write it elsewhere with more points per function and name it in
the variable RUSHLIGHT_ORACLE when running the tests.
"""

import math
import random
import struct
import sys

import mpmath as m

m.mp.dps = 60
m.mp.prec = max(m.mp.prec, 1300)  # huge arguments of sine
BIG = 1.7976931348623157e308


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def from_bits(b):
    return struct.unpack("<d", struct.pack("<Q", b))[0]


def wide(low, high):
    """A float of random exponent within 2^low .. 2^high, of either sign."""
    return random.choice([-1, 1]) * math.ldexp(random.uniform(1, 2), random.randint(low, high - 1))


def anywhere(*spans):
    """Half of the points with exponents over the whole span, half evenly over each interesting interval."""

    def draw():
        a, b = random.choice(spans)
        if random.random() < 0.5:
            return random.uniform(a, b)
        while True:
            top = math.frexp(max(abs(a), abs(b)))[1]
            x = wide(-1074 if random.random() < 0.2 else -40, top)
            if a <= x <= b:
                return x

    return draw


def near_one():
    return 1 - math.ldexp(random.uniform(1, 2), -random.randint(1, 53))


positive = anywhere((5e-324, 4.0), (5e-324, 1e6), (5e-324, BIG), (0.5, 2.0))
angle = anywhere((-10.0, 10.0), (-1e6, 1e6), (-BIG, BIG), (-1e9, 1e9))
unit = lambda: random.choice([anywhere((-1.0, 1.0)), near_one, lambda: -near_one()])()


def power():
    kind = random.random()
    x = random.choice([positive, lambda: random.uniform(0.9, 1.1), lambda: 1 + wide(-52, -3)])()
    if kind < 0.2:
        return random.choice([-1, 1]) * x, float(random.randint(-60, 60))
    if x == 1:
        x = 1.5
    limit = 745 / abs(math.log(x))
    return x, random.uniform(-limit, limit) if kind < 0.8 else max(-limit, min(limit, wide(-30, 9)))


def real(f):
    return lambda *a: m.re(f(*a))


FUNCTIONS = {
    "exp": (m.exp, anywhere((-745.2, 709.8), (-1.0, 1.0))),
    "exp2": (lambda x: m.power(2, x), anywhere((-1075.0, 1024.0), (-2.0, 2.0))),
    "expm1": (m.expm1, anywhere((-50.0, 709.8), (-1.0, 1.0))),
    "sigmoid": (lambda x: 1 / (1 + m.exp(-x)), anywhere((-745.0, 50.0), (-5.0, 5.0))),
    "sinh": (m.sinh, anywhere((-710.4, 710.4), (-2.0, 2.0))),
    "cosh": (m.cosh, anywhere((-710.4, 710.4), (-2.0, 2.0))),
    "tanh": (m.tanh, anywhere((-20.0, 20.0), (-1.0, 1.0))),
    "log": (m.log, positive),
    "log2": (lambda x: m.log(x, 2), positive),
    "log10": (m.log10, positive),
    "log1p": (m.log1p, anywhere((-0.9999999, 1e3), (-0.5, 0.5), (0.0, BIG))),
    "asinh": (m.asinh, anywhere((-5.0, 5.0), (-BIG, BIG), (-1e9, 1e9))),
    "acosh": (real(m.acosh), anywhere((1.0, 2.0), (1.0, 1e9), (1.0, BIG))),
    "atanh": (m.atanh, unit),
    "sin": (m.sin, angle),
    "cos": (m.cos, angle),
    "tan": (m.tan, angle),
    "asin": (m.asin, unit),
    "acos": (real(m.acos), unit),
    "atan": (m.atan, anywhere((-3.0, 3.0), (-BIG, BIG), (-1e6, 1e6))),
    "atan2": (
        m.atan2,
        lambda: (wide(-20, 20), wide(-20, 20)) if random.random() < 0.7 else (wide(-1022, 1023), wide(-1022, 1023)),
    ),
    "erf": (m.erf, anywhere((-6.0, 6.0), (-1.5, 1.5))),
    "erfc": (m.erfc, anywhere((-6.0, 27.2), (-1.5, 1.5))),
    "erfinv": (m.erfinv, unit),
    "pow": (m.power, power),
    "rsqrt": (lambda x: 1 / m.sqrt(x), positive),
    "lgamma": (lambda x: m.loggamma(x), anywhere((1e-300, 20.0), (2.5, 1e6))),
    "digamma": (m.digamma, anywhere((1e-10, 1.3), (1.6, 1e6))),
}


def line(name, f, draw):
    while True:
        args = draw()
        args = args if isinstance(args, tuple) else (args,)
        if any(map(math.isinf, args)):
            continue
        if name == "erfinv" and abs(args[0]) > 0.9:
            y = newton_erfinv(args[0])
        else:
            y = f(*map(m.mpf, args))
        rounded = float(y)
        if math.isinf(rounded) or rounded == 0:
            continue
        exponent = max(m.floor(m.log(abs(m.mpf(rounded)), 2)), -1022)
        rest = (y - m.mpf(rounded)) / m.mpf(2) ** (exponent - 52)
        return " ".join([name, *(f"{bits(a):x}" for a in args), f"{bits(rounded):x}", f"{float(rest):.3f}"])


def newton_erfinv(x):
    """mpmath's own erfinv does not converge at this precision near 1."""
    x = m.mpf(x)
    with m.workdps(60):
        y = m.sign(x) * m.sqrt(max(-m.log((1 - abs(x)) * (1 + abs(x))) - m.mpf(1) / 2, m.mpf(1) / 4))
        for _ in range(60):
            error = (m.erfc(abs(y)) - (1 - abs(x))) * m.sign(x)
            step = error * m.sqrt(m.pi) / 2 * m.exp(y * y)
            y += step
            if abs(step) < m.mpf(10) ** -50:
                break
        return y


def main():
    random.seed(1)
    for name, (f, draw) in FUNCTIONS.items():
        m.mp.prec = 1300 if name in ("sin", "cos", "tan", "log1p", "pow", "expm1", "asinh", "erf") else 400
        for _ in range(int(sys.argv[1])):
            print(line(name, f, draw))


if __name__ == "__main__":
    main()
