"""Results are the same bits for any number of threads, forward and backward, for every operator and many shapes."""

import math
from functools import partial

import pytest
from table_cases import (
    PUBLIC,
    Draw,
    Report,
    array,
    call,
    depends_on_dtype,
    difference,
    directions,
    draw,
    every_operator,
    gradients,
    is_inexact,
    may_require_grad,
    same_bits,
    tensors_in,
)

import rushlight as torch

THREADS = (1, 2, 3, 7, 64)
#: Further dtypes for thorough runs.
DTYPES = ("float32", "float64", "bfloat16", "complex64", "int64")

#: Work is split into pieces of 32,768 elements. With this many elements several threads are used.
LARGE = 200_000


def enlarge(op, sample):
    """A factor for the sizes of a sample that makes its largest tensor large."""
    tensors = tensors_in(draw(op, sample, "float32"))
    numel = max((x.numel() for x in tensors), default=0)
    rank = max((sum(size > 1 for size in x.shape) for x in tensors), default=0)
    if not numel or not rank:
        return 0
    # Results may grow faster than arguments, for example with the square of the number of elements.
    small, double = (results_numel(op, sample, scale) for scale in (1, 2))
    growth = math.log2(double / small) if small and double and double > small else rank
    return round(min((LARGE / numel) ** (1 / rank), (20 * LARGE / (small or 1)) ** (1 / growth)))


def results_numel(op, sample, scale):
    try:
        args, kwargs = draw(op, sample, "float32", scale)
        return sum(x.numel() for x in tensors_in(call(op.function(), args, kwargs)))
    except (RuntimeError, IndexError, ValueError):
        return 0  # the sample has numbers that cannot be scaled with its sizes


def large_calls():
    """Calls for operators whose samples cannot be scaled, by full name."""
    matrices = "t(64, 24, 24) + torch.eye(24) * 9"
    definite = "t(64, 24, 24) * 0.1 + torch.eye(24) * 4"
    pivots = "torch.arange(1, 25, dtype=torch.int32).expand(64, 24)"
    factored = f"{matrices}, {pivots}, t(64, 24, 8)"
    tensors = "(t(256, 256) + torch.eye(256) * 99).reshape(16, 16, 256)"
    packed = "t(3000, 20), torch.tensor([2000, 1000])"
    gates = lambda count: ", ".join([f"t({20 * count}, 20), t({20 * count}, 20), t({20 * count}), t({20 * count})"] * 2)
    plane, space = "t(4, 8, 60, 60), unit(4, 60, 60, 2)", "t(2, 4, 16, 16, 16), unit(2, 16, 16, 16, 3)"
    steps = "t(50, 64, 20).log_softmax(-1)"
    chebyshev = [f"special.{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"]
    calls = {
        "(500, 400)": "zeros ones rand randn",
        "200000": "arange randperm fft.fftfreq fft.rfftfreq hann_window hamming_window blackman_window bartlett_window"
        " kaiser_window",
        "500, 500": "tril_indices triu_indices eye",
        "t(200000), (50000, 150000)": "split_with_sizes_copy unsafe_split_with_sizes",
        "t(200000), 50000": "split_copy unsafe_split",
        "t(64, 24, 24)": "linalg.eigh linalg.eigvalsh linalg.eigvals",
        definite: "linalg.cholesky_ex linalg.cholesky cholesky cholesky_inverse",
        matrices: "linalg.lu_factor_ex linalg.lu_factor linalg.lu linalg.inv_ex linalg.inv inverse linalg.det det"
        " linalg.slogdet slogdet logdet",
        factored: "linalg.lu_solve linalg.ldl_solve",
        f"{matrices}, t(64, 24, 8)": "linalg.solve linalg.solve_ex",
        f"{matrices}, t(64, 24, 8), upper=True": "linalg.solve_triangular",
        f"t(64, 24, 8), {matrices}": "triangular_solve",
        f"t(64, 24, 8), {matrices}, {pivots}": "lu_solve",
        f"{matrices}, 'fro'": "linalg.cond.p_str",
        f"{tensors}, 2": "linalg.tensorinv",
        f"{tensors}, t(16, 16)": "linalg.tensorsolve",
        "t(70000, 3), t(70000, 3)": "linalg.cross",
        "t(70000, 3), t(70000, 3), 1": "cross",
        "t(800, 256), (256,), pos(256), t(256)": "nn.functional.layer_norm",
        "t(800, 256), (256,), None, None, 0.1": "native_layer_norm",
        "t(800, 256), (256,)": "nn.functional.rms_norm",
        "t(800, 256), pos(256), t(256), (800, 1, 256, 1), False, True, 0.1": "_normalize_layer",
        "t(40, 64, 100), pos(64), t(64), (40, 8, 8, 100), False, True, 0.1": "_normalize_group",
        "t(2000, 64), pos(64), t(64), (2000, 64, 1, 1), True, True, 0.1": "_normalize_batch",
        "t(800, 256), t(800, 256), t(800, 1), pos(800, 1), pos(256), (800, 1, 256, 1), False, True, 0.1": (
            "_normalize_backward"
        ),
        "t(40, 64, 50), pos(64), t(64), 40, 64, 50, 8, 0.1": "native_group_norm",
        "t(5000, 64), i(40, 5000), 40, -1, False": "embedding_dense_backward",
        "t(1, 1000), (300, 1000)": "broadcast_to",
        "t(400, 500), (1, 500)": "sum_to_size",
        f"{packed}, t(2, 2000, 20), [{gates(1)}], True, 1, 0.0, True, True": "rnn_tanh.data rnn_relu.data",
        f"{packed}, t(2, 2000, 20), [{gates(3)}], True, 1, 0.0, True, True": "gru.data",
        f"{packed}, [t(2, 2000, 20), t(2, 2000, 20)], [{gates(4)}], True, 1, 0.0, True, True": "lstm.data",
        "t(5000, 20), i(20, 5000, 20)": "nn.functional.multilabel_margin_loss",
        "t(512, 48, 12), (4, 5), 2": "nn.functional.fold",
        f"{plane}, align_corners=False": "nn.functional.grid_sample",
        f"{plane}, 0, 0, False": "grid_sampler grid_sampler_2d",
        f"{space}, 0, 0, True": "grid_sampler_3d",
        "t(64, 2, 3), (64, 1, 60, 60), False": "affine_grid_generator",
        "unit(500, 400), i(12, 400)": "special.hermite_polynomial_h special.hermite_polynomial_he"
        f" special.laguerre_polynomial_l special.legendre_polynomial_p {' '.join(chebyshev)}",
        f"{steps}, i(19, 64, 10) + 1, (50,) * 64, (10,) * 64": "ctc_loss.IntList",
        f"{steps}, i(19, 64, 10) + 1, torch.tensor([50] * 64), torch.tensor([10] * 64)": "ctc_loss.Tensor",
        "t(200000), b(200000), t(200000)": "masked_scatter.out_of_place",
        "t(600, 400), t(300, 400), 0, 100, 400": "slice_scatter",
        "t(400000), t(200000), (200000,), (2,)": "as_strided_scatter",
        "b(500, 400)": "where.condition",
        "t(500, 400), t(400, 500)": "resize_as_",
        "i(3, 100000)": "repeat_interleave.Tensor",
        "(500, 400), 2": "full",
        "1, 200001": "arange.start_step",
        "0, 1, 200000": "linspace",
        "0, 2, 200000": "logspace",
        "10, (500, 400)": "randint",
        "3, 10, (500, 400)": "randint.low",
        "0., 1., (500, 400)": "normal.float_float",
    }
    return {name: sample for sample, names in calls.items() for name in names.split()}


LARGE_CALLS = large_calls()

#: Operators that do not use threads, or that call another operator.
NOT_SHARED = {
    "empty": "its elements are not written",
    "empty_strided": "its elements are not written",
    "empty_permuted": "its elements are not written",
    "scalar_tensor": "one element",
    "searchsorted.Scalar": "one element",
    "bucketize.Scalar": "one element",
    "linalg.eig": "its gradient is not defined for random directions; eigvals runs the same kernel",
}


def large_cases(op):
    """The operator's samples with factors that make them large, and the calls written for it."""
    name = ".".join(filter(None, (op.namespace, op.name)))
    if name in LARGE_CALLS:
        yield LARGE_CALLS[name], 1
        return
    for sample in op.samples:
        scale = enlarge(op, sample) if depends_on_dtype(sample) else 0
        if scale:
            yield sample, scale


def equal_bytes(first, second):
    """A faster check that finds nearly all differences that `same_bits` finds."""
    return len(first) == len(second) and all(array(a).tobytes() == array(b).tobytes() for a, b in zip(first, second))


def differs(compute):
    """The first difference between the results of `compute` for one and for several threads, as text, or None."""
    before, first = torch.get_num_threads(), None
    try:
        for threads in THREADS:
            torch.set_num_threads(threads)
            found = compute()
            if first is None:
                first = found
            elif not equal_bytes(first, found) and not same_bits(first, found):
                return f"{threads} threads: {difference(found, first) or 'other bits'}"
    finally:
        torch.set_num_threads(before)
    return None


def with_gradients(results, inputs):
    """The results, and the gradients of the inputs in a direction for each."""
    wanted = [r for r in results if r.requires_grad]
    try:
        return [*results, *(gradients(wanted, inputs, directions(wanted, 7)) if wanted else [])]
    except NotImplementedError:
        return results  # not differentiable in torch either
    except RuntimeError as error:
        if "ill-defined" not in str(error):
            raise
        return results  # the gradient depends on the phase of an eigenvector


class Unfit(Exception):
    """The sample has numbers that cannot be scaled with its sizes."""


def places_of_gradients(op, sample, dtype):
    """The positions, among the tensors of a sample, of those that may require a gradient."""
    args, kwargs = draw(op, sample, dtype)
    allowed = [id(x) for x in may_require_grad(op, args, kwargs)]
    return [place for place, x in enumerate(tensors_in((args, kwargs))) if id(x) in allowed]


def compute_large(op, sample, scale, dtype, places):
    try:
        args, kwargs = draw(op, sample, dtype, scale)
        tensors = tensors_in((args, kwargs))
        inputs = [tensors[place] for place in places]
        for x in inputs:
            x.requires_grad_()
        if op.writes():
            args = (args[0].clone(), *args[1:])
        results = tensors_in(call(op.function(), args, kwargs))
    except (RuntimeError, IndexError, ValueError) as error:
        raise Unfit from error
    return with_gradients(results, inputs)


@every_operator
def test_operators(op, thorough):
    if op.implementation in ("view", "multi-view") or "float32" not in op.dtypes or op not in PUBLIC:
        pytest.skip("no arithmetic, or called by operators that have checked the arguments")
    report = Report(op)
    tested = set()
    for sample, scale in large_cases(op):
        for dtype in DTYPES if thorough else DTYPES[:1]:
            # Every sample in one dtype, and one sample in the others, because the split among threads does not depend
            # on the dtype.
            if dtype not in op.dtypes or (dtype in tested and not (thorough and dtype == DTYPES[0])):
                continue
            try:
                text = differs(partial(compute_large, op, sample, scale, dtype, places_of_gradients(op, sample, dtype)))
            except Unfit:
                continue
            tested.add(dtype)
            if text:
                report.add(dtype, sample, text)
    report.close()
    name = ".".join(filter(None, (op.namespace, op.name)))
    assert tested or name in NOT_SHARED, "no sample grows: write a large call for this operator into LARGE_CALLS"


class Leaves(Draw):
    """Generates tensors that require gradients, and records them."""

    def __init__(self, *args):
        super().__init__(*args)
        self.made = []

    def make(self, *args):
        made = super().make(*args)
        if is_inexact(made):
            self.made.append(made.requires_grad_())
        return made


#: Few long rows, many short operators, medium sizes, one row, and three dimensions.
SHAPES = ("37, 9001", "9001, 37", "700, 500", "400000", "60, 70, 80")
#: Methods along one dimension of a tensor with such a shape, and their first arguments.
ALONG = {
    "": "sum mean var std logsumexp amax prod nansum cumsum cumprod logcumsumexp softmax log_softmax sort max argmin median"
    " cummax count_nonzero nanmean argsort all",
    "2, ": "norm",
    "5, ": "kthvalue topk",
}
#: Calls that are split inside an algorithm: blocks of products, panels of factorisations, writes to the same element.
CUT = {
    "products": """
        t(300, 400) @ t(400, 350); t(3, 70000) @ t(70000, 5); t(200000) @ t(200000); t(1000, 700) @ t(700); t(5, 3) @ t(3, 90000)
        t(16, 60, 70) @ t(16, 70, 50); t(300, 64, 3) @ t(300, 3, 64); torch.addmm(t(300), t(200, 500), t(500, 300))
        torch.einsum("bij,bkj->ik", t(20, 90, 80), t(20, 70, 80)); torch.nn.functional.bilinear(t(300, 20), t(300, 30), t(40, 20, 30))
        torch.nn.functional.linear(t(2000, 90), t(110, 90), t(110)); torch.cdist(t(400, 20), t(300, 20)); torch.kron(t(60, 50), t(20, 9))
    """,
    "convolutions": """
        F.conv1d(t(8, 16, 3000), t(24, 16, 5), t(24)); F.conv2d(t(8, 16, 40, 40), t(32, 16, 3, 3), t(32), padding=1)
        F.conv2d(t(2, 32, 60, 60), t(32, 1, 3, 3), t(32), groups=32); F.conv2d(t(4, 8, 50, 50), t(16, 8, 5, 5), None, 2, 2, 2)
        F.conv3d(t(2, 6, 14, 14, 14), t(8, 6, 3, 3, 3), t(8)); F.conv_transpose2d(t(4, 16, 30, 30), t(16, 12, 4, 4), t(12), 2, 1)
        F.conv2d(t(1, 3, 200, 200), t(64, 3, 7, 7), t(64), 2, 3); F.conv2d(t(16, 64, 20, 20), t(64, 64, 1, 1), t(64))
        F.unfold(t(4, 6, 60, 60), (3, 3)); F.conv_transpose1d(t(4, 16, 2000), t(16, 8, 7), t(8), 3)
    """,
    "pooling and sampling": """
        F.max_pool2d(t(8, 16, 60, 60), 3, 2); F.avg_pool2d(t(8, 16, 60, 60), 3, 2, 1); F.adaptive_avg_pool2d(t(8, 16, 61, 47), (7, 5))
        F.adaptive_max_pool2d(t(8, 16, 61, 47), (7, 5)); F.max_pool3d(t(4, 4, 20, 30, 30), 2); F.lp_pool2d(pos(4, 8, 60, 60), 2, 3)
        F.interpolate(t(4, 8, 50, 50), scale_factor=2.3, mode="bilinear"); F.interpolate(t(4, 8, 50, 50), size=(70, 30), mode="bicubic")
        F.interpolate(t(4, 8, 60, 60), size=(31, 17), mode="area"); F.grid_sample(t(4, 8, 60, 60), unit(4, 50, 50, 2), align_corners=True)
        F.pad(t(8, 16, 50, 50), (3, 4, 5, 6), "reflect")
    """,
    "norms and losses": """
        F.batch_norm(t(64, 32, 15, 15), None, None, t(32), t(32), True); F.layer_norm(t(900, 300), (300,), t(300), t(300))
        F.layer_norm(t(3, 90000), (90000,), t(90000), t(90000)); F.group_norm(t(20, 32, 20, 20), 8, t(32), t(32))
        F.instance_norm(t(20, 32, 20, 20)); F.rms_norm(t(9001, 37), (37,), t(37)); F.local_response_norm(t(8, 20, 40, 40), 5)
        F.cross_entropy(t(3000, 100), i(100, 3000), pos(100)); F.nll_loss(t(8, 10, 60, 60), i(10, 8, 60, 60)); F.mse_loss(t(700, 500), t(700, 500))
        F.kl_div(t(700, 500), pos(700, 500)); F.smooth_l1_loss(t(300000), t(300000)); F.normalize(t(9001, 37)); F.cosine_similarity(t(900, 300), t(900, 300))
        F.ctc_loss(t(60, 40, 20).log_softmax(-1), i(19, 40, 10) + 1, (60,) * 40, (10,) * 40); F.triplet_margin_loss(t(900, 99), t(900, 99), t(900, 99))
    """,
    "writes to one place": """
        F.embedding(i(50, 9000), t(50, 40)); F.embedding(i(50, 9000), t(50, 40), scale_grad_by_freq=True)
        F.embedding_bag(i(50, 900, 10), t(50, 40)); F.embedding_bag(i(50, 900, 10), t(50, 40), mode="max")
        t(50, 40).index_add(0, i(50, 9000), t(9000, 40)); t(40, 50).index_add(1, i(50, 9000), t(40, 9000)); t(90).index_add(0, i(90, 200000), t(200000))
        t(50, 40).scatter_add(0, i(50, 9000, 40), t(9000, 40)); t(40, 50).scatter_add(1, i(50, 40, 9000), t(40, 9000))
        t(50, 40).scatter_reduce(0, i(50, 9000, 40), t(9000, 40), "mean"); t(50, 40).scatter_reduce(0, i(50, 9000, 40), t(9000, 40), "prod")
        t(50, 40).scatter_reduce(0, i(50, 9000, 40), t(9000, 40), "amax"); t(50, 40).index_reduce(0, i(50, 9000), t(9000, 40), "mean")
        t(70, 60)[i(70, 300000)]; t(70, 60)[i(70, 300000), i(60, 300000)]; t(70, 60)[:, i(60, 9000)]; t(300000).take(i(300000, 400000))
        t(70, 60).index_put((i(70, 300000), i(60, 300000)), t(300000), True); t(3000).put(i(3000, 300000), t(300000), True)
        t(70, 60).gather(0, i(70, 9000, 60)); t(70, 60).index_select(1, i(60, 9000)); t(300, 400).masked_select(b(300, 400))
        torch.bincount(i(90, 300000), pos(300000).detach()); torch.histc(t(300000)); t(70, 60).repeat(50, 2); t(1, 60).expand(9000, 60) * t(9000, 60)
        t(60, 1).expand(60, 9000) * 2; t(20, 99).repeat_interleave(i(30, 20) + 1, 0); t(300, 40).unfold(0, 7, 1) * 2; t(200000).as_strided((9000, 30), (3, 2)) * 3
        torch.segment_reduce(t(90000, 3), "mean", lengths=torch.full((300,), 300)); t(90, 80)[b(90, 80)]; t(9, 400, 70).cumsum(1).diff(dim=0)
    """,
    "attention and sequences": """
        F.scaled_dot_product_attention(t(2, 4, 200, 32), t(2, 4, 210, 32), t(2, 4, 210, 32)); F.scaled_dot_product_attention(t(1, 1, 900, 32), t(1, 1, 900, 32), t(1, 1, 900, 32), is_causal=True)
        F.scaled_dot_product_attention(t(2, 8, 100, 32), t(2, 2, 110, 32), t(2, 2, 110, 32), t(100, 110), enable_gqa=True)
        torch.lstm(t(50, 40, 30), (t(1, 40, 20), t(1, 40, 20)), [t(80, 30), t(80, 20), t(80), t(80)], True, 1, 0.0, True, False, False)
        torch.gru(t(50, 40, 30), t(1, 40, 20), [t(60, 30), t(60, 20), t(60), t(60)], True, 1, 0.0, True, False, False)
        torch.lstm(t(9, 400, 30), (t(2, 400, 64), t(2, 400, 64)), [t(256, 30), t(256, 64), t(256), t(256)] * 2, True, 1, 0.0, True, True, False)
    """,
    "factorisations and transforms": """
        torch.linalg.qr(t(300, 200))[1]; torch.linalg.inv(t(250, 250) + torch.eye(250) * 30); torch.linalg.svdvals(t(200, 90)); torch.linalg.svdvals(t(60, 20, 15))
        torch.linalg.eigvalsh(t(150, 150)); torch.linalg.cholesky(t(200, 200) * 0.05 + torch.eye(200) * 20); torch.linalg.lstsq(t(300, 80), t(300, 7)).solution
        torch.linalg.solve(t(200, 200) + torch.eye(200) * 30, t(200, 90)); torch.linalg.matrix_exp(t(30, 24, 24) * 0.1); torch.linalg.det(t(90, 20, 20))
        torch.linalg.solve_triangular(t(200, 200) + torch.eye(200) * 30, t(200, 90), upper=True); torch.linalg.pinv(t(200, 90)); torch.linalg.slogdet(t(200, 200))[1]
        torch.fft.fft(t(60, 4096)).abs(); torch.fft.rfft(t(4096, 60), dim=0).real; torch.fft.fft2(t(20, 100, 90)).abs(); torch.fft.irfft(t(200, 2001), 4001); torch.fft.rfftn(t(40, 50, 60)).abs()
        torch.stft(t(9, 30000), 400, window=pos(400), return_complex=True).abs(); torch.corrcoef(t(90, 3000)); torch.cov(t(90, 3000)); torch.trapezoid(t(900, 300), dim=0); t(900, 300).renorm(2, 0, 1.0)
        t(900, 300).aminmax(dim=0); t(300, 900).aminmax(dim=1)
    """,
}


def calls():
    """Every call, grouped by family, as Python text."""
    for shape in SHAPES:
        dims = ("", *range(shape.count(",") + 1))
        for before, names in ALONG.items():
            for name in names.split():
                for dim in dims if not before and name not in UNDIRECTED else dims[1:]:
                    yield shape, f"t({shape}).{name}({before}{dim})"
    for family, text in CUT.items():
        for line in text.splitlines():
            yield from ((family, part.strip()) for part in line.split("; ") if part.strip())


#: Methods that require a dimension.
UNDIRECTED = (
    *("logsumexp", "cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax", "cummax"),
    *("sort", "mode", "argsort"),
)


@pytest.mark.parametrize("family", dict(calls()))
def test_calls(family, thorough):
    texts = [text for name, text in calls() if name == family]
    found = []
    for text in texts if thorough else texts[::5]:
        for dtype in DTYPES[:3] if thorough else DTYPES[:1]:

            def compute(text=text, dtype=dtype):
                drawn = Leaves(dtype, text)
                torch.manual_seed(0)
                return with_gradients(tensors_in(eval(text, {**drawn.words(), "F": torch.nn.functional})), drawn.made)

            try:
                if text_of := differs(compute):
                    found.append(f"{dtype} {text}: {text_of}")
            except (NotImplementedError, RuntimeError) as error:
                if dtype == "float32":  # other dtypes do not support all functions
                    found.append(f"{text}: {error}")
    assert not found, "\n".join(found)
