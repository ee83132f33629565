"""Programs of kernels as the engine writes them, for the tests that compile and launch them: the texts are read from its files."""

import re
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "rust/cuda/src/kernels"


def source(file):
    return (KERNELS.parent / f"{file}.rs").read_text()


def programs(file):
    """The texts of the programs in a file of the engine, with placeholders."""
    texts = re.findall(r'r#"(.*?)"#', source(file), re.DOTALL)
    if file == "normalize":
        # A head, and a kernel for each of these calls.
        head, kernel = texts
        calls = re.findall(r'\(c"(\w+)", "(.+)"\),', source(file))
        return [head + "".join(kernel.replace("{name}", name).replace("{call}", call) for name, call in calls)]
    return [text for text in texts if text.startswith("#include")]


def filled(text, /, **values):
    """A text with values in place of its placeholders, as `format!` fills it."""
    return re.sub(r"\{\{|\}\}|\{(\w+)\}", lambda found: str(values[found[1]]) if found[1] else found[0][0], text)


def elementwise(form, value, compute, types, items, packs, index="u32"):
    """A program for a result and operands of these types; `value` computes an element from `x0`, `x1` and so on. The forms are those of
    `elementwise.rs`, where rows of packs are `Strided` too."""
    calls = dict(re.findall(r'Form::(\w+) => (?:format!\()?"(.+?)"', source("elementwise")))
    [text] = programs("elementwise")
    values = {
        "text": "",
        "parameters": "".join(f", {compute} x{n}" for n in range(len(types) - 1)),
        "value": value,
        "compute": compute,
        "types": "".join(f", {kind}" for kind in types),
        "items": items,
        "packs": packs,
        "operands": len(types),
        "index": index,
        "loops": "" if form == "Flat" else f", Loops<{len(types)}> loops",
    }
    return filled(text, run=filled(calls[form], **values), **values)


def reduction(plan, functions, name, element, accumulator, result, stored, even):
    """A program for one of the plans in `reduce.rs`. `functions` is the text of those of the fold, which are called `start`, `take`,
    `join` and `done` in place of `{}` in `name`."""
    kernels = dict(re.findall(r'const (SERIAL|ROWS): &str = r#"(.*?)"#', source("reduce"), re.DOTALL))
    plans = dict(re.findall(r'Plan::(\w+) => ROWS((?:\.replace\("\w+", "[^"]*"\))+)', source("reduce")))
    kernel = kernels["SERIAL" if plan == "Serial" else "ROWS"]
    for old, new in re.findall(r'"(\w+)", "([^"]*)"', plans.get(plan, "")):
        kernel = kernel.replace(old, new)
    [text] = programs("reduce")
    return filled(
        text,
        text=functions,
        element=element,
        accumulator=accumulator,
        types=f"{result}, {stored}, {str(even).lower()}",
        kernels=kernel,
        take_numbers="",
        done_numbers="",
        **{part: f"folds::{name.format(part)}" for part in ("start", "take", "join", "done")},
    )


def functions_of_fold(name):
    """The functions of a fold of the engine, for all dtypes."""
    _, folds = (KERNELS / "expressions.cuh").read_text().split("namespace rushlight::folds {\n")
    return re.search(rf"^// {name}\n(.*?)\n(?:// |\n)", folds, re.DOTALL | re.MULTILINE)[1]


def lines(what, item_bits, each, along, alone, resident):
    """A program that accumulates lines; see `cumulative.rs`."""
    [text] = programs("cumulative")
    each, along, alone = (str(flag).lower() for flag in (each, along, alone))
    return filled(text, text=what, item_bits=item_bits, each=each, along=along, alone=alone, resident=resident)


def sort(element, key, index, raw):
    [text] = programs("order")
    return filled(text, element=element, key=key, index=index, raw=raw)


def attention(kernel, header, types, parts):
    """The program of the results and that of the gradients. `parts` are the bounds and the further parameters of the kernels `forward`,
    `of_queries` and `of_keys`; see `attention.rs`."""
    gradients, forward = programs("attention")
    (bounds, more), (of_queries, for_queries), (of_keys, for_keys) = parts
    return [
        filled(forward, kernel=kernel, bounds=bounds, arguments=types + more),
        filled(
            gradients,
            kernel=kernel,
            header=header,
            of_queries=of_queries,
            queries=types + for_queries,
            of_keys=of_keys,
            keys=types + for_keys,
        ),
    ]
