"""Every row under `vmap`, alone, nested and differentiated, against the calls that it stands for."""

import contextlib

import pytest
from table_cases import (
    Draw,
    Report,
    cases,
    change,
    depends_on_dtype,
    every_row,
    is_inexact,
    is_tensor,
    name_of,
    tensors_in,
    unless_unknown,
)

import rushlight as torch
from rushlight import func

DTYPES = ("float64", "int64", "bool")
#: What depends on values: torch refuses it inside `vmap`, in these words.
REFUSED = {
    "_unique2": "output dynamic shape",
    "_unique_consecutive": "output dynamic shape",
    "_unique_dim": "output dynamic shape",
    "nonzero": "output dynamic shape",
    "argwhere": "output dynamic shape",
    "where.condition": "output dynamic shape",
    "masked_select": "differently shaped Tensor",
    "index_put": "dynamic shape",
    "equal": "calling .item() on a Tensor",
    "allclose": "calling .item() on a Tensor",
}

#: Rows of which a call still runs once for each sample, for values or only for gradients. A row that gets a rule leaves the
#: list; none joins it.
LOOPS = {
    "values": """
        segment_reduce cov topk bincount histc histogram.bins_tensor histogram.bin_ct _histogramdd_bin_edges
        _histogramdd_from_bin_tensors narrow.Tensor tensor_split.tensor_indices_or_sections
        index_fill.int_Tensor index_fill index_reduce masked_scatter masked_scatter.out_of_place nonzero_static
        repeat_interleave.self_Tensor
        repeat_interleave.Tensor fill_diagonal fill_.Tensor _linalg_lstsq linalg.lstsq linalg.matrix_exp matrix_exp
        nn.functional.nll_loss _nll_loss _nll_loss2d _nll_loss_backward nn.functional.cross_entropy _lstm_sequence
        _lstm_sequence_backward rnn_tanh.data rnn_relu.data gru.data lstm lstm.data
        nn.functional.multilabel_margin_loss embedding_dense_backward embedding_renorm_ nn.functional.one_hot
        embedding_bag _ctc_loss _ctc_loss_backward ctc_loss.IntList ctc_loss.Tensor _fractional_max
    """,
    "gradients": """
        segment_reduce cov topk narrow.Tensor tensor_split.tensor_indices_or_sections
        masked_scatter.out_of_place repeat_interleave.self_Tensor _linalg_lstsq
        linalg.lstsq linalg.matrix_exp matrix_exp rnn_tanh.data rnn_relu.data gru.data lstm lstm.data
        nn.functional.multilabel_margin_loss embedding_dense_backward embedding_bag
        _fractional_max _lstm_sequence _nll_loss _nll_loss2d _nll_loss_backward nn.functional.cross_entropy
        nn.functional.nll_loss
    """,
}

#: Rows none of whose samples can be compared, with the reason.
NOT_COMPARED = {
    "linspace": "no operands",
    "logspace": "no operands",
    **dict.fromkeys(["_fused_adam", "_fused_sgd", "_fused_step"], "they change lists of tensors, and give nothing"),
}


class Samples:
    """Two calls of a row that differ in the values of their tensors, as functions of these tensors."""

    def __init__(self, row, dtype, sample):
        drawn = [eval(f"capture({sample})", Draw(dtype, f"{row.name} {sample} {seed}").words()) for seed in "12"]
        self.row, self.form = row, drawn[0]
        self.tensors = [tensors_in(arguments) for arguments in drawn]
        #: Another dimension for each argument, counted from either end.
        self.dims = [
            (place + 1) % (x.dim() + 1) - (place % 2) * (x.dim() + 1) for place, x in enumerate(self.tensors[0])
        ]

    def run(self, *tensors):
        """The row's results as a tuple, for tensors in the place of those that were drawn."""
        rest = iter(tensors)
        args, kwargs = change(self.form, lambda _: next(rest))
        results = self.row.function()(*args, **kwargs)
        return tuple(results) if isinstance(results, (list, tuple)) else (results,)

    def batches(self, order, dims):
        """A batch of each argument: the samples in this order, along these dimensions."""
        return [torch.stack([self.tensors[at][k] for at in order], dim) for k, dim in enumerate(dims)]

    def loop(self, order, alone=None):
        """What the calls give one by one, from the generator's start; None where that does not stack. The tensor at the
        place `alone` is the first sample's in all of them."""
        chosen = [[self.tensors[0 if k == alone else at][k] for k in range(len(self.dims))] for at in order]
        each = [self.run(*[x.clone() for x in tensors]) for tensors in chosen]
        columns = list(zip(*each))
        if not all(is_tensor(x) for column in columns for x in column):
            return None
        if any(x.shape != column[0].shape for column in columns for x in column):
            return None
        return [torch.stack(list(column)) for column in columns]


def samples_of(row, dtypes):
    for dtype, sample in cases(row, dtypes):
        made = Samples(row, dtype, sample)
        if made.tensors[0] and [x.shape for x in made.tensors[0]] == [x.shape for x in made.tensors[1]]:
            yield dtype, sample, made


class Count:
    """How many samples of a row were compared, how many refused, and whether a call ran once for each sample."""

    def __init__(self, row, what):
        self.row, self.what, self.compared, self.refused = row, what, 0, 0
        self.loops, _ = torch._C._vmap_loops()

    def unless_refused(self, check):
        """The check, in which a refusal is right where one is due."""

        def checked():
            try:
                return check()
            except RuntimeError as error:
                if REFUSED.get(self.row.name, "\0") not in str(error):
                    raise
                self.refused += 1

        return checked

    def close(self):
        """What the lists above say of the row is so."""
        name = self.row.name
        if self.what == "values":
            assert (self.refused > 0) == (name in REFUSED), f"{name} refused {self.refused} samples"
            seen = self.compared + self.refused
            assert (seen > 0) != (name in NOT_COMPARED), f"{name} had {seen} samples compared"
        loops, last = torch._C._vmap_loops()
        found, listed = loops > self.loops, self.row.full_name() in LOOPS[self.what].split()
        assert found == listed, f"{last} ran once for each sample" if found else f"{name} has a rule now"


def differs(got, wanted):
    if len(got) != len(wanted):
        return f"{len(got)} results instead of {len(wanted)}"
    for a, b in zip(got, wanted):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"{name_of(a.dtype)} {list(a.shape)} instead of {name_of(b.dtype)} {list(b.shape)}"
        close = 1e-6 if a.dtype in (torch.float32, torch.complex64) else 1e-9
        if not torch.allclose(a, b, close, close, equal_nan=True):
            return f"{a} instead of {b}"
    return None


@every_row
def test_values(row):
    """A batch along any dimension, into any dimension, with an operand that all samples share, and batches of batches."""
    if row.sees_memory() or row.is_factory():
        pytest.skip("another layout or another generator is another question")
    report, count = Report(row), Count(row, "values")
    for dtype, sample, made in [*samples_of(row, DTYPES)] or samples_of(row, ("complex128", "int32")):

        def check(made=made):
            torch.manual_seed(0)
            wanted = made.loop([0, 1])
            if wanted is None:
                if row.name in REFUSED:
                    with contextlib.suppress(ValueError):  # of what gives no tensors, when it need not look at values
                        func.vmap(made.run, tuple(made.dims), 0, "different")(*made.batches([0, 1], made.dims))
                return None
            count.compared += 1
            outs = tuple(place % x.dim() - (place % 2) * x.dim() for place, x in enumerate(wanted))
            call = func.vmap(made.run, tuple(made.dims), outs, "different")
            torch.manual_seed(0)
            got = [x.movedim(dim, 0) for x, dim in zip(call(*made.batches([0, 1], made.dims)), outs)]
            if text := differs(got, wanted):
                return text
            for alone in range(len(made.dims) if len(made.dims) > 1 else 0):
                # One operand that is the same for all.
                dims = [None if place == alone else dim for place, dim in enumerate(made.dims)]
                torch.manual_seed(0)
                wanted = made.loop([0, 1], alone)
                batches = [
                    x if dim is not None else made.tensors[0][place]
                    for place, (dim, x) in enumerate(zip(dims, made.batches([0, 1], made.dims)))
                ]
                torch.manual_seed(0)
                if (
                    wanted
                    and not row.writes()
                    and (text := differs(func.vmap(made.run, tuple(dims), 0, "different")(*batches), wanted))
                ):
                    return f"argument {alone} the same for all: {text}"
            first = [0] * len(made.dims)
            pairs = [torch.stack([a, b]) for a, b in zip(made.batches([0, 1], first), made.batches([1, 0], first))]
            torch.manual_seed(0)
            got = func.vmap(func.vmap(made.run, randomness="different"), randomness="different")(*pairs)
            torch.manual_seed(0)
            wanted = [x.unflatten(0, (2, 2)) for x in made.loop([0, 1, 1, 0])]
            return (text := differs(got, wanted)) and f"nested: {text}"

        report.guard(dtype, sample, count.unless_refused(check))
    report.close()
    count.close()


@every_row
def test_gradients(row):
    """The gradients of each sample of a batch."""
    if not row.is_differentiable() or row.writes() or row.sees_memory() or row.is_factory():
        pytest.skip("no gradients, or of what it overwrites, or another question")
    report, count = Report(row), Count(row, "gradients")
    for dtype, sample, made in samples_of(row, ("float64",)):
        if not depends_on_dtype(sample):
            continue

        def check(made=made):
            places = tuple(place for place, x in enumerate(made.tensors[0]) if x.is_floating_point())

            def loss(*tensors):
                # Of magnitudes, since eigenvectors are known but for their phase.
                followed = [x.abs() for x in made.run(*tensors) if is_tensor(x) and is_inexact(x) and x.numel()]
                return sum((x.cos().sum().double() for x in followed), torch.zeros((), dtype=torch.float64))

            if not places:
                return None
            one = func.grad(loss, places)
            torch.manual_seed(0)
            wanted = [one(*[x.clone() for x in tensors]) for tensors in made.tensors]
            torch.manual_seed(0)
            got = func.vmap(one, tuple(made.dims), 0, "different")(*made.batches([0, 1], made.dims))
            if text := differs(got, [torch.stack(list(column)) for column in zip(*wanted)]):
                return text
            if len(made.dims) < 2:
                return None
            # The first operand serves all samples: one gradient for each of them, and the sum of these from outside.
            dims = [None, *made.dims[1:]]
            order = [[made.tensors[0][0], *tensors[1:]] for tensors in made.tensors]
            torch.manual_seed(0)
            wanted = [one(*[x.clone() for x in tensors]) for tensors in order]
            batches = [made.tensors[0][0], *made.batches([0, 1], made.dims)[1:]]
            torch.manual_seed(0)
            got = func.vmap(one, tuple(dims), 0, "different")(*batches)
            if text := differs(got, [torch.stack(list(column)) for column in zip(*wanted)]):
                return f"shared: {text}"
            if places[0] == 0:
                whole = lambda *tensors: func.vmap(loss, tuple(dims), 0, "different")(*tensors).sum()
                torch.manual_seed(0)
                (got,) = func.grad(whole, (0,))(*batches)
                return (text := differs([got], [sum(g[0] for g in wanted)])) and f"from outside: {text}"
            return None

        report.guard(dtype, sample, count.unless_refused(unless_unknown(check)))
    report.close()
    count.close()
