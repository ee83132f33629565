"""Every optimizer with every option, for either library. Run as a program, it compares rushlight with torch.

`python tests/optim/optimizer_cases.py [NAMES]` needs both libraries. It tests every combination of the options, for
real and complex parameters and groups: parameters and states after six steps, and continuing from the other library's
state. `--record` writes torch's results, with each option alone and with all together, to `tests/data/optimizers.json`,
which `test_optimizer_cases.py` reads.
"""

import argparse
import itertools
import json
import math
import warnings
from pathlib import Path

RECORDED = Path(__file__).resolve().parent.parent / "data" / "optimizers.json"
STEPS = 6

ADAM = {"betas": [(0.9, 0.999), (0.5, 0.3)], "eps": [1e-8, 1e-2], "weight_decay": [0, 0.1]}
DECOUPLED = {"decoupled_weight_decay": [False, True]}
UP = {"maximize": [False, True]}

#: The options of each optimizer: the default or another common value first.
OPTIONS = {
    "SGD": {"momentum": [0, 0.9], "dampening": [0, 0.3], "weight_decay": [0, 0.1], "nesterov": [False, True], **UP},
    "Adam": {**ADAM, "amsgrad": [False, True], **DECOUPLED, **UP},
    "AdamW": {**ADAM, "amsgrad": [False, True], **UP},
    "Adagrad": {
        "lr_decay": [0, 0.1],
        "weight_decay": [0, 0.1],
        "initial_accumulator_value": [0, 0.3],
        "eps": [1e-10, 1e-2],
        **UP,
    },
    "Adadelta": {"rho": [0.9, 0.5], "eps": [1e-6, 1e-2], "weight_decay": [0, 0.1], **UP},
    "Adamax": {**ADAM, **UP},
    "NAdam": {**ADAM, "momentum_decay": [0.004, 0.1], **DECOUPLED, **UP},
    "RAdam": {**ADAM, **DECOUPLED, **UP},
    "RMSprop": {
        "alpha": [0.99, 0.5],
        "eps": [1e-8, 1e-2],
        "weight_decay": [0, 0.1],
        "momentum": [0, 0.9],
        "centered": [False, True],
        **UP,
    },
    "Rprop": {"etas": [(0.5, 1.2), (0.3, 1.5)], "step_sizes": [(1e-6, 50), (0.05, 0.15)], **UP},
    "ASGD": {"lambd": [1e-4, 0.1], "alpha": [0.75, 0.5], "t0": [1e6, 2], "weight_decay": [0, 0.1], **UP},
    "Adafactor": {
        "beta2_decay": [-0.8, -0.5],
        "eps": [(None, 1e-3), (1e-3, 1e-2)],
        "d": [1.0, 1.5],
        "weight_decay": [0, 0.1],
        **UP,
    },
}
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")


def kinds(name):
    """The kinds of parameters: plain, in groups with separate rates, and complex if supported."""
    return ("real", "groups") if name == "Adafactor" else ("real", "groups", "complex")


def ways(name):
    """The options that select an implementation of the step."""
    found = [{}, {"foreach": True}, {"foreach": False}]
    if name != "Adafactor":
        found.append({"differentiable": True})
    return found + [{"fused": True}, {"fused": False}] * (name in FUSED)


def alone_and_together(name):
    """The first values, each other value alone, and all compatible other values together."""
    first = {option: values[0] for option, values in OPTIONS[name].items()}
    together = {option: values[1] for option, values in OPTIONS[name].items()}
    if name == "SGD":
        together["dampening"] = 0  # not supported with Nesterov momentum
        return [first, *({**first, "momentum": 0.9, option: together[option]} for option in first), together]
    if "decoupled_weight_decay" in first:
        first["weight_decay"] = 0.1
    return [first, *({**first, option: value} for option, value in together.items()), together]


def parameters(torch, name, kind):
    """Zero-dimensional, one- and two-dimensional, empty, and non-contiguous parameters."""
    dtype, turn = (torch.complex128, 1 + 0.5j) if kind == "complex" else (torch.float64, 1)
    values = [1.5, [1.0, -2.0, 0.5], [[0.3, 2.0], [-1.0, 0.7], [0.2, 0.1]], [], [[0.4, -0.6, 1.1], [0.9, -1.2, 0.05]]]
    made = [torch.tensor(value, dtype=torch.float64).to(dtype) * turn for value in values]
    made[-1] = made[-1].t()
    if name == "Adafactor":  # it divides by the number of elements
        del made[3]
    return [torch.nn.Parameter(one) for one in made]


class Training:
    """Parameters and their optimizer. `run` makes steps; the third step halves the rates."""

    def __init__(self, torch, name, options, kind):
        self.params = parameters(torch, name, kind)
        if options.get("differentiable"):
            # Only non-leaf tensors may be changed in place while recording.
            self.params = [param.clone() for param in self.params]
        groups = self.params
        if kind == "groups":
            groups = [{"params": self.params[:2], "lr": 0.05}, {"params": self.params[2:]}]
        self.optimizer = getattr(torch.optim, name)(groups, lr=0.1, **options)

    def run(self, steps):
        for step in steps:
            for place, param in enumerate(self.params):
                value = param.detach()
                param.grad = (value * (step + 1) - 0.5 + 0.1 * place) * (-1) ** (step // 3)
            if step == 0:
                self.params[1].grad = None
            for group in self.optimizer.param_groups if step == 3 else ():
                group["lr"] = group["lr"] * 0.5
            self.optimizer.step()
        return self

    def end(self):
        """A weighted sum of the elements of each parameter."""
        found = []
        for param in self.params:
            parts = [part for v in param.detach().reshape(-1).tolist() for part in ((v.real, v.imag) if param.is_complex() else (v,))]  # fmt: skip
            found.append(sum((at + 1) * part for at, part in enumerate(parts)))
        return found


def ends(torch, name, kind, differentiable):
    """The results of an optimizer with each option alone and with all together."""
    way = {"differentiable": True} if differentiable else {}
    return [
        Training(torch, name, {**options, **way}, kind).run(range(STEPS)).end() for options in alone_and_together(name)
    ]


def values(tree):
    """Converts the tensors in a tree to lists."""
    if isinstance(tree, dict):
        return {key: values(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [values(value) for value in tree]
    return tree.detach().tolist() if hasattr(tree, "detach") else tree


def distance(a, b):
    """The largest difference between two trees, relative for numbers above one. Infinite if their structures differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        return max((distance(a[key], b[key]) for key in a), default=0) if a.keys() == b.keys() else math.inf
    if isinstance(a, list) and isinstance(b, list):
        return max((distance(x, y) for x, y in zip(a, b)), default=0) if len(a) == len(b) else math.inf
    if a == b or (a != a and b != b):
        return 0
    if isinstance(a, (int, float, complex)) and isinstance(b, (int, float, complex)):
        apart = abs(a - b) / (1 + abs(b))
        return apart if math.isfinite(apart) else math.inf
    return math.inf


def moved(tree, library):
    """Converts tensors in a tree to the other library, including strides."""
    if isinstance(tree, dict):
        return {key: moved(value, library) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(moved(value, library) for value in tree)
    if not hasattr(tree, "detach"):
        return tree
    made = library.empty_strided(tuple(tree.shape), tree.stride(), dtype=getattr(library, str(tree.dtype)[6:]))
    return made.copy_(library.tensor(tree.detach().tolist(), dtype=made.dtype).reshape(made.shape))


def outcome(library, name, options, kind):
    try:
        return Training(library, name, options, kind).run(range(STEPS)), None
    except Exception as error:
        return None, (type(error).__name__, str(error))


def goes_on(library, name, options, kind, state, params):
    later = Training(library, name, options, kind)
    with library.no_grad():
        for param, value in zip(later.params, params):
            param.copy_(moved(value, library))
    later.optimizer.load_state_dict(moved(state, library))
    return values(later.run(range(STEPS, STEPS + 4)).params)


def compare(own, torch, name):
    """The largest differences of parameters, of states, and after an exchange of states; and other differences."""
    largest, others, count = [0, 0, 0], {}, 0
    for combination in itertools.product(*OPTIONS[name].values()):
        for way, kind in itertools.product(ways(name), kinds(name)):
            options = {**dict(zip(OPTIONS[name], combination)), **way}
            (mine, refused), (theirs, reason) = (outcome(library, name, options, kind) for library in (own, torch))
            count += 1
            if mine is None or theirs is None:
                if refused != reason:
                    others.setdefault((str(way), refused, reason), options)
                continue
            states = [one.optimizer.state_dict() for one in (mine, theirs)]
            found = [
                distance(values(mine.params), values(theirs.params)),
                distance(values(states[0]), values(states[1])),
            ]
            if not way.get("differentiable"):
                start = [param.detach() for param in theirs.params]
                after = [goes_on(library, name, options, kind, states[1], start) for library in (own, torch)]
                back = goes_on(torch, name, options, kind, states[0], [param.detach() for param in mine.params])
                found.append(max(distance(after[0], after[1]), distance(back, after[1])))
            largest = [max(a, b) for a, b in itertools.zip_longest(largest, found, fillvalue=0)]
            if max(found) > 1e-6:
                others.setdefault((str(way), kind, *(f"{one:.1e}" for one in found)), options)
    return count, largest, others


def main():
    import torch

    arguments = argparse.ArgumentParser()
    arguments.add_argument("names", nargs="*", default=list(OPTIONS))
    arguments.add_argument("--record", action="store_true")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    if chosen.record:
        lines = []
        for name in OPTIONS:
            for kind, differentiable in itertools.product(kinds(name)[1:], (False, True)):
                if not differentiable or {"differentiable": True} in ways(name):
                    rows = [[float(f"{x:.12g}") for x in row] for row in ends(torch, name, kind, differentiable)]
                    key = f"{name} {kind}" + " differentiable" * differentiable
                    lines.append(f"{json.dumps(key)}: {json.dumps(rows, separators=(',', ':'))}")
        RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    import rushlight

    print(f"{'optimizer':10s} {'cases':>6s} {'values':>8s} {'states':>8s} {'exchange':>8s}")
    for name in chosen.names:
        count, largest, others = compare(rushlight, torch, name)
        print(f"{name:10s} {count:6d}" + "".join(f" {one:8.1e}" for one in largest), flush=True)
        for what, options in others.items():
            print("   ", *what, options)


if __name__ == "__main__":
    main()
