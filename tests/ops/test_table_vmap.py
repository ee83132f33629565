"""Compares every operator under `vmap` (simple, nested and differentiated) with separate calls."""

import contextlib

import pytest
from table_cases import (
    Draw,
    Report,
    cases,
    change,
    depends_on_dtype,
    every_operator,
    is_inexact,
    is_tensor,
    may_require_grad,
    name_of,
    tensors_in,
    unless_unknown,
)

import rushlight as torch
from rushlight import func

DTYPES = ("float64", "int64", "bool")
#: Operators that depend on values. torch raises these errors inside `vmap`.
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

#: Operators that still run once per sample, for values or only for gradients. An operator that gets a batching rule is
#: removed from the list; no operator is added.
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
        embedding_bag _ctc_loss _ctc_loss_backward ctc_loss.IntList ctc_loss.Tensor _fractional_max _taps _taps_spread
    """,
    "gradients": """
        segment_reduce cov topk narrow.Tensor tensor_split.tensor_indices_or_sections
        masked_scatter.out_of_place repeat_interleave.self_Tensor _linalg_lstsq
        linalg.lstsq linalg.matrix_exp matrix_exp rnn_tanh.data rnn_relu.data gru.data lstm lstm.data
        nn.functional.multilabel_margin_loss embedding_dense_backward embedding_bag
        _fractional_max _lstm_sequence _nll_loss _nll_loss2d _nll_loss_backward nn.functional.cross_entropy
        nn.functional.nll_loss _taps _taps_spread
    """,
}

#: Operators of which no sample can be compared, with the reason.
NOT_COMPARED = {
    "linspace": "no operands",
    "logspace": "no operands",
    **dict.fromkeys(["_fused_adam", "_fused_sgd", "_fused_step"], "they change lists of tensors and return nothing"),
}


class Samples:
    """Two calls of an operator with different values in their tensors, as functions of these tensors."""

    def __init__(self, op, dtype, sample):
        drawn = [eval(f"capture({sample})", Draw(dtype, f"{op.name} {sample} {seed}").words()) for seed in "12"]
        self.op, self.form = op, drawn[0]
        self.tensors = [tensors_in(arguments) for arguments in drawn]
        #: A different batch dimension for each argument, counted from either end.
        self.dims = [
            (place + 1) % (x.dim() + 1) - (place % 2) * (x.dim() + 1) for place, x in enumerate(self.tensors[0])
        ]

    def run(self, *tensors):
        """The operator's results as a tuple, for other tensors in place of the generated ones."""
        rest = iter(tensors)
        args, kwargs = change(self.form, lambda _: next(rest))
        results = self.op.function()(*args, **kwargs)
        return tuple(results) if isinstance(results, (list, tuple)) else (results,)

    def differentiable(self):
        """The positions of the real tensors that may require a gradient."""
        chosen = [id(x) for x in may_require_grad(self.op, *self.form)]
        return tuple(place for place, x in enumerate(self.tensors[0]) if x.is_floating_point() and id(x) in chosen)

    def batches(self, order, dims):
        """A batch for each argument: the samples in this order, along these dimensions."""
        return [torch.stack([self.tensors[at][k] for at in order], dim) for k, dim in enumerate(dims)]

    def loop(self, order, alone=None):
        """The results of separate calls from the same generator state. None if they cannot be stacked. The tensor at
        position `alone` is that of the first sample in all calls."""
        chosen = [[self.tensors[0 if k == alone else at][k] for k in range(len(self.dims))] for at in order]
        each = [self.run(*[x.clone() for x in tensors]) for tensors in chosen]
        columns = list(zip(*each))
        if not all(is_tensor(x) for column in columns for x in column):
            return None
        if any(x.shape != column[0].shape for column in columns for x in column):
            return None
        return [torch.stack(list(column)) for column in columns]


def samples_of(op, dtypes):
    for dtype, sample in cases(op, dtypes):
        made = Samples(op, dtype, sample)
        if made.tensors[0] and [x.shape for x in made.tensors[0]] == [x.shape for x in made.tensors[1]]:
            yield dtype, sample, made


class Count:
    """The number of samples that were compared, the number that raised an error, and whether a call ran once per sample."""

    def __init__(self, op, what):
        self.op, self.what, self.compared, self.refused = op, what, 0, 0
        self.loops, _ = torch._C._vmap_fallbacks()

    def unless_refused(self, check):
        """Runs the check. An expected error counts as correct."""

        def checked():
            try:
                return check()
            except RuntimeError as error:
                if REFUSED.get(self.op.name, "\0") not in str(error):
                    raise
                self.refused += 1

        return checked

    def close(self):
        """Checks the operator's entries in the lists above."""
        name = self.op.name
        if self.what == "values":
            assert (self.refused > 0) == (name in REFUSED), f"{name} refused {self.refused} samples"
            seen = self.compared + self.refused
            assert (seen > 0) != (name in NOT_COMPARED), f"{name} had {seen} samples compared"
        loops, last = torch._C._vmap_fallbacks()
        found, listed = loops > self.loops, self.op.full_name() in LOOPS[self.what].split()
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


@every_operator
def test_values(op):
    """A batch along any dimension, into any dimension, with an unbatched operand, and nested batches."""
    if op.is_stride_dependent() or op.is_factory():
        pytest.skip("another layout or another generator is another question")
    report, count = Report(op), Count(op, "values")
    for dtype, sample, made in [*samples_of(op, DTYPES)] or samples_of(op, ("complex128", "int32")):

        def check(made=made):
            torch.manual_seed(0)
            wanted = made.loop([0, 1])
            if wanted is None:
                if op.name in REFUSED:
                    with contextlib.suppress(ValueError):  # for results without tensors
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
                # One operand is the same for all samples.
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
                    and not op.writes()
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


@every_operator
def test_gradients(op):
    """The gradients for each sample of a batch."""
    if not op.is_differentiable() or op.writes() or op.is_stride_dependent() or op.is_factory():
        pytest.skip("no gradients, or of what it overwrites, or another question")
    report, count = Report(op), Count(op, "gradients")
    for dtype, sample, made in samples_of(op, ("float64",)):
        if not depends_on_dtype(sample):
            continue

        def check(made=made):
            places = made.differentiable()

            def loss(*tensors):
                # Magnitudes, because the phase of eigenvectors is arbitrary.
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
            # The first operand is unbatched: it has one gradient per sample, and their sum outside of vmap.
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
