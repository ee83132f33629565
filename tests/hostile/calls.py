"""Calls of the operators as text, each a sample with changes that may make it invalid.

A `Call` is a public name, the text of its arguments in the samples' syntax, and the dtype of their tensors. The text means
the same for rushlight and for torch, so that `compared.py` can evaluate it with both. `fuzzed` makes random calls: case `n`
of a seed is always the same. `sweep` lists every argument of every operator with every wrong value.
"""

import ast
import random
import sys
from itertools import chain
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ops"))

from table_cases import ALL, OPERATORS

#: Arguments of a wrong kind for most parameters.
WRONG = (
    *(
        "None",
        "True",
        "2",
        "-1",
        "2.5",
        "1j",
        "''",
        "'x'",
        "b'x'",
        "()",
        "[]",
        "{}",
        "[1]",
        "(1, 2)",
        "[1, 'x']",
        "[None]",
    ),
    *(
        "2**63",
        "-2**63",
        "2**100",
        "nan",
        "inf",
        "object()",
        "len",
        "slice(1)",
        "...",
        "range(2)",
        "torch.float32",
        "torch.bool",
    ),
    *(
        "np.float32(2)",
        "np.int64(1)",
        "np.ones(2)",
        "t(2, 3)",
        "t()",
        "t(0)",
        "i(2, 3)",
        "i(2)",
        "b(2, 3)",
        "[t(2), t(2)]",
        "[t(2), 1]",
    ),
    *(
        "torch.strided",
        "torch.channels_last",
        "'cpu'",
        "'cuda'",
        "'meta'",
        "'nowhere'",
        "torch.device('cpu')",
        "torch.Generator()",
    ),
)
NUMBERS = ("0", "1", "-1", "2", "-2", "3", "5", "-7", "100", "0.5", "-2.5", "True", "1j", "nan", "inf", "-inf", "1e300")
HUGE = ("2**31", "-2**31", "2**53", "2**62", "2**63 - 1", "-2**63", "2**63", "2**64", "2**100")
#: What changes a tensor's layout, dtype or place, after the word that makes it.
AFTER = (
    *(
        ".mT",
        ".transpose(0, -1)",
        "[..., ::2]",
        "[1:]",
        "[:0]",
        "[None]",
        "[..., None]",
        "[0]",
        ".expand(3, 2, 3)",
        ".flatten()",
    ),
    *(
        ".requires_grad_()",
        ".requires_grad_().clone()",
        ".conj()",
        ".imag",
        ".to('meta')",
        ".contiguous(memory_format=torch.channels_last)",
    ),
    *(
        ".as_strided((2, 2), (1, 1))",
        ".as_strided((2, 3), (0, 1))",
        ".unsqueeze(0)",
        ".repeat(2)",
        ".sum()",
        ".to_sparse()",
        ".numpy()",
    ),
    *(".tolist()", ".flip(0)", ".mul(0)", ".div(0)", ".neg()", ".mul(1000)"),
)
MAKES = ("t", "real", "pos", "unit", "i", "b")
#: Names whose arguments or results are others on each side, or that change the process.
BEYOND = ("seed", "from_file", "save", "load")


class Call(NamedTuple):
    name: str
    arguments: str
    dtype: str

    def __str__(self):
        return f"torch.{self.name}({self.arguments})  # t: {self.dtype}"


class Row:
    """An operator of the table with its samples as trees."""

    def __init__(self, op):
        self.op = op
        self.prefix = f"{op.namespace}." if op.namespace else ""
        self.samples = [sample for sample, *_ in op.errors] + list(op.samples) * 2 or [""]
        self.forms = [form for form in op.variants if form != "out"]

    def name(self, form):
        own = self.op.python_name
        return {"function": self.prefix + own, "method": f"Tensor.{own}", "inplace": f"Tensor.{own}_"}[form]


#: Names with a leading underscore are the engine's own. torch's of the same name need not be the same.
ROWS = [
    Row(op)
    for op in OPERATORS
    if not op.python_name.startswith((*BEYOND, "_")) or op.python_name.startswith("_foreach")
]


def parsed(sample):
    return ast.parse(f"f({sample})", mode="eval").body


def expression(text):
    return ast.parse(text, mode="eval").body


def text(call):
    return ast.unparse(call)[2:-1]


def after(node, change):
    """The tree of an expression followed by an attribute, a call or brackets."""
    return expression(ast.unparse(node) + change)


class Fuzzed:
    """One random call."""

    def __init__(self, seed, number):
        self.random = random.Random(seed * 1_000_003 + number)
        self.row = ROWS[number % len(ROWS)]
        self.call = parsed(self.pick(self.row.samples))
        for _ in range(self.pick((0, 1, 1, 1, 1, 2, 2, 3))):
            self.pick(CHANGES)(self)
        form = self.pick(self.row.forms)
        if "out" in self.row.op.variants and form == "function" and self.chance(0.2):
            self.add_out()
        accepted = self.chance(0.85) and self.row.op.dtypes
        self.made = Call(self.row.name(form), text(self.call), self.pick(accepted or ALL))

    def chance(self, share):
        return self.random.random() < share

    def pick(self, items):
        return self.random.choice(items)

    def value(self):
        return expression(self.pick((self.pick(WRONG), self.pick(NUMBERS), self.pick(HUGE), self.shaped())))

    def shaped(self):
        """A tensor of a random small shape."""
        sizes = [
            self.pick((0, 1, 2, 3, 4)) if self.chance(0.2) else self.pick((2, 3))
            for _ in range(self.random.randint(0, 4))
        ]
        word = self.pick(("t", "t", "t", "b", "i"))
        return f"{word}({', '.join(map(str, [5] * (word == 'i') + sizes))})"

    # Changes of an argument

    def places(self):
        """The arguments, as pairs of what contains them and their key."""
        found = [(self.call.args, at) for at in range(len(self.call.args))]
        found += [(keyword, "value") for keyword in self.call.keywords]
        inner = [
            (node.elts, at)
            for list_, key in found
            if isinstance(node := get(list_, key), ast.List | ast.Tuple)
            for at in range(len(node.elts))
        ]
        return found + inner

    def place(self, wanted=lambda node: True):
        found = [place for place in self.places() if wanted(get(*place))]
        return self.pick(found) if found else None

    def replace(self):
        if place := self.place():
            put(*place, self.value())

    def renumber(self):
        if place := self.place(is_number):
            put(*place, expression(self.pick(NUMBERS if self.chance(0.8) else HUGE)))

    def resize(self):
        """Changes, adds or removes a size of a tensor."""
        if place := self.place(makes_tensor):
            sizes = get(*place).args
            least = get(*place).func.id == "i"
            if self.chance(0.3):
                sizes.insert(self.random.randint(least, len(sizes)), ast.Constant(self.pick((0, 1, 2, 3))))
            elif len(sizes) > least:
                at = self.random.randrange(least, len(sizes))
                if self.chance(0.4):
                    del sizes[at]
                else:
                    sizes[at] = ast.Constant(self.pick((0, 1, 2, 3, 4, 5)))

    def twist(self):
        if place := self.place(makes_tensor):
            convert = self.chance(0.35)
            put(*place, after(get(*place), f".to(torch.{self.pick(ALL)})" if convert else self.pick(AFTER)))

    def lengthen(self):
        """Adds an item to a list, or removes one."""
        if place := self.place(lambda node: isinstance(node, ast.List | ast.Tuple)):
            items = get(*place).elts
            if items and self.chance(0.5):
                del items[self.random.randrange(len(items))]
            else:
                items.append(self.pick(items) if items and self.chance(0.7) else self.value())

    # Changes of the call

    def drop(self):
        place = self.place()
        if place and isinstance(place[0], list):
            del place[0][place[1]]

    def append(self):
        self.call.args.append(self.value())

    def name_argument(self):
        """Passes the last positional argument by name, perhaps by a wrong one or as well."""
        at = len(self.call.args) - 1
        places = [param["name"] for param in self.row.op.params if not param["keyword_only"]]
        if 0 <= at < len(places):
            name = self.pick((places[at], places[at], self.pick(places), "x", "input", "dim", "axis"))
            value = self.call.args[at] if self.chance(0.15) else self.call.args.pop()
            self.add_keyword(name, value)

    def add_parameter(self):
        """Passes a parameter that the sample leaves out."""
        if not self.row.op.params:
            return
        param = self.pick(self.row.op.params)
        self.add_keyword(param["name"], expression(self.pick(BY_KIND.get(param["kind"], NUMBERS))))

    def add_keyword(self, name, value):
        if all(keyword.arg != name for keyword in self.call.keywords):
            self.call.keywords.append(ast.keyword(name, value))

    def add_out(self):
        """Adds `out=`: another tensor, an operand or something wrong."""
        args = self.call.args
        if args and makes_tensor(args[0]) and self.chance(0.2):
            args[0] = expression(f"(x := {ast.unparse(args[0])})")
            self.add_keyword("out", expression("x"))
        elif args and makes_tensor(args[0]) and self.chance(0.6):
            like = ast.unparse(args[0]) + self.pick(("", "", ".mT", f".to(torch.{self.pick(ALL)})", "[..., ::2]"))
            self.add_keyword("out", expression(like))
        else:
            self.add_keyword(
                "out", expression(self.pick(("t(0)", "t(2, 3)", "[t(0), i(2, 0)]", "(t(0), t(0))", self.shaped())))
            )


CHANGES = (
    *(Fuzzed.replace, Fuzzed.replace, Fuzzed.renumber, Fuzzed.renumber, Fuzzed.resize, Fuzzed.resize, Fuzzed.resize),
    *(
        Fuzzed.twist,
        Fuzzed.twist,
        Fuzzed.twist,
        Fuzzed.lengthen,
        Fuzzed.drop,
        Fuzzed.append,
        Fuzzed.name_argument,
        Fuzzed.add_parameter,
    ),
)
BY_KIND = {
    "Bool": ("True", "False"),
    "DType": [f"torch.{dtype}" for dtype in ALL],
    "Ints": ("0", "(0, 1)", "[-1]", "()", "[2, 3]", "None"),
    "Str": ("'mean'", "'none'", "'sum'", "'x'", "None"),
    "Tensor": ("t(2, 3)", "t(3)", "None"),
    "Operand": ("t(2, 3)", "2", "2.5"),
    "Device": ("'cpu'", "'meta'", "None"),
    "Layout": ("torch.strided", "torch.sparse_coo", "None"),
    "MemoryFormat": ("torch.contiguous_format", "torch.channels_last", "torch.preserve_format"),
    "Generator": ("None", "torch.Generator()"),
}


def get(container, key):
    return container[key] if isinstance(container, list) else getattr(container, key)


def put(container, key, value):
    if isinstance(container, list):
        container[key] = value
    else:
        setattr(container, key, value)


def is_number(node):
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def makes_tensor(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKES


def fuzzed(seed, number):
    return Fuzzed(seed, number).made


def sweep(rows=ROWS):
    """Every operator in every form with every argument replaced by every wrong value, left out, and one too many."""
    for row in rows:
        samples = row.op.samples or [""]
        longest = max(samples, key=lambda sample: len(parsed(sample).args) + len(parsed(sample).keywords))
        dtype = next(
            (dtype for dtype in ("float32", "int64", "bool", "complex64") if dtype in row.op.dtypes), "float32"
        )
        for form in row.forms:
            tried = chain(row.op.samples, (sample for sample, *_ in row.op.errors), wrong(longest))
            yield from (Call(row.name(form), arguments, dtype) for arguments in tried)
            yield from (Call(row.name(form), longest, other) for other in ALL if other != dtype)


def wrong(sample):
    """The sample with one argument changed."""
    call = parsed(sample)
    for keyed in call.keywords:
        right = keyed.value
        for value in WRONG:
            keyed.value = expression(value)
            yield text(call)
        keyed.value = right
    for at, right in enumerate(call.args):
        ends = (
            [f"{ast.unparse(right)}{end}" for end in AFTER + tuple(f".to(torch.{dtype})" for dtype in ALL)]
            if makes_tensor(right)
            else []
        )
        for value in (*WRONG, *(HUGE if is_number(right) else ()), *ends):
            call.args[at] = expression(value)
            yield text(call)
        call.args[at] = right
    for at in range(len(call.args)):
        yield text(ast.Call(call.func, call.args[:at] + call.args[at + 1 :], call.keywords))
    for extra in ("1", "None", "t(2)", "'x'"):
        yield text(ast.Call(call.func, [*call.args, expression(extra)], call.keywords))
    yield text(ast.Call(call.func, call.args, [*call.keywords, ast.keyword("nothing", ast.Constant(1))]))
