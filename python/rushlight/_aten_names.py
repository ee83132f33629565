"""The names that torch's operators have inside: ``var.correction`` for ``torch.var``.

Nested and masked tensors refuse functions with these names in the message, as torch does.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: The functions that are called for Python's operators with other names.
PYTHON_OPERATORS = {
    "__eq__": "eq",
    "__ne__": "ne",
    "__pow__": "pow",
    "__rsub__": "rsub",
    "__radd__": "add",
    "__rmul__": "mul",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_",
    "__ipow__": "pow_",
}
#: Functions that torch refuses under another name, because another operator does their work.
_OTHER = dict(
    pair.split("=")
    for pair in """adaptive_avg_pool1d=_adaptive_avg_pool2d adaptive_avg_pool2d=_adaptive_avg_pool2d
    adaptive_avg_pool3d=_adaptive_avg_pool3d argsort=sort argwhere=nonzero avg_pool1d=avg_pool2d
    batch_norm=native_batch_norm bilinear=_trilinear cdist=_cdist_forward corrcoef=mm cov=mm cross_entropy=_log_softmax
    diag=diagonal_copy diagflat=diag_embed embedding_bag=_embedding_bag_forward_only fliplr=flip flipud=flip fold=col2im
    group_norm=native_group_norm layer_norm=native_layer_norm log_softmax=_log_softmax logsigmoid=log_sigmoid_forward
    max_pool1d=max_pool2d_with_indices max_pool2d=max_pool2d_with_indices max_pool3d=max_pool3d_with_indices movedim=permute
    moveaxis=permute T=permute msort=sort nll_loss=nll_loss_forward nanmean=nansum one_hot=max pad=constant_pad_nd
    pdist=_pdist_forward prelu=_prelu_kernel quantile=sort nanquantile=sort relu6=hardtanh rrelu=rrelu_with_noise selu=elu
    softmax=_softmax tile=repeat vander=cumprod multilabel_margin_loss=multilabel_margin_loss_forward
    multilabel_soft_margin_loss=log_sigmoid_forward normalize=norm frobenius_norm=norm nuclear_norm=_linalg_svd
    interpolate=upsample_nearest2d svd=_linalg_svd svdvals=_linalg_svd eigh=_linalg_eigh eigvalsh=_linalg_eigh eig=linalg_eig
    eigvals=linalg_eig cholesky_ex=linalg_cholesky_ex lu_factor=linalg_lu_factor_ex lu_factor_ex=linalg_lu_factor_ex
    lu_solve=linalg_lu_solve qr=linalg_qr solve=_linalg_solve_ex solve_ex=_linalg_solve_ex inv=linalg_inv_ex
    inv_ex=linalg_inv_ex inverse=linalg_inv_ex det=_linalg_det slogdet=_linalg_slogdet matrix_rank=_linalg_svd
    pinv=linalg_pinv.atol_rtol_tensor pinverse=linalg_pinv.atol_rtol_tensor lstsq=linalg_lstsq cond=_linalg_svd
    matrix_exp=linalg_matrix_exp cross=linalg_cross vector_norm=linalg_vector_norm matrix_norm=linalg_vector_norm
    householder_product=linalg_householder_product dropout=native_dropout list=unbind __iter__=unbind item=_local_scalar_dense
    __getitem__=index.Tensor __setitem__=index_put_ repeat_interleave=index_select swapaxes=transpose concat=cat
    conv1d=convolution conv2d=convolution conv3d=convolution ifftshift=roll fftshift=roll fft=_fft_r2c rfft=_fft_r2c""".split()
)
#: The overloads of operators that have no default one.
_OVERLOADS = dict(
    pair.split(".")
    for pair in """bucketize.Tensor count_nonzero.default empty.memory_format frexp.Tensor isin.Tensor_Tensor norm.ScalarOpt_dim
    searchsorted.Tensor select.int select_copy.int slice.Tensor split.Tensor split_copy.Tensor std.correction
    std_mean.correction transpose.int transpose_copy.int unbind.int unbind_copy.int unsafe_split.Tensor var.correction where.self
    var_mean.correction scatter_reduce.two scatter_reduce_.two copysign.Tensor ldexp.Tensor xlogy.Tensor""".split()
)
#: Operators of a tensor and either a tensor or a number.
_TENSOR_OR_SCALAR = set(
    "add sub mul div rsub eq ne lt le gt ge remainder fmod bitwise_and bitwise_or bitwise_xor fill copysign masked_fill lerp "
    "__lshift__ __rshift__ __ilshift__ __irshift__".split()
)
#: Operators that write a tensor or a number, which may be reduced with what was there.
_WRITTEN = {
    ("index_fill", "Tensor", False): "int_Tensor",
    ("index_fill", "Scalar", False): "int_Scalar",
    ("scatter", "Tensor", False): "src",
    ("scatter", "Scalar", False): "value",
    ("scatter", "Tensor", True): "reduce",
    ("scatter", "Scalar", True): "value_reduce",
}
#: Where the last tensor or number stands, if it is not the second argument, and the names that it has.
_PLACES = {"masked_fill": 2, "lerp": 2, "index_fill": 3, "scatter": 3}
_NAMES = ("other", "exponent", "min", "max", "value", "src", "weight")
_SHIFTS = {"bitwise_left_shift", "bitwise_right_shift"}
#: Overloads of forms in place that are not those of the other forms.
_IN_PLACE = {"ldexp": "default", "transpose": "default", "floor_divide": "Tensor"}
#: Operators that reduce all dimensions, one, or several.
_REDUCTIONS = {
    "sum": ("default", "dim_IntList", "dim_IntList"),
    "mean": ("default", "dim", "dim"),
    "prod": ("default", "dim_int", "dim_int"),
    "any": ("default", "dim", "dims"),
    "all": ("default", "dim", "dims"),
    "max": ("default", "dim", "other"),
    "min": ("default", "dim", "other"),
    "median": ("default", "dim", "dim"),
    "nanmedian": ("default", "dim", "dim"),
    "count_nonzero": ("default", "default", "dim_IntList"),
    "squeeze": ("default", "dim", "dims"),
}
_ALIASES = dict(
    pair.split("=")
    for pair in """absolute=abs subtract=sub multiply=mul divide=div true_divide=div negative=neg greater=gt
    greater_equal=ge less=lt less_equal=le not_equal=ne clip=clamp arccos=acos arcsin=asin arctan=atan arccosh=acosh
    arcsinh=asinh arctanh=atanh arctan2=atan2 __rsub__=rsub __pow__=pow __eq__=eq __ne__=ne __rpow__=pow __and__=bitwise_and
    __or__=bitwise_or __xor__=bitwise_xor __rtruediv__=reciprocal
    __floordiv__=floor_divide __mod__=remainder __invert__=bitwise_not""".split()
)


def aten_name(name: str, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> str:
    """The operator and its overload that torch calls for a function and its arguments.

    >>> from rushlight._aten_names import aten_name
    >>> aten_name("var", (torch.ones(2),)), aten_name("sub", (torch.ones(2), 1))
    ('var.correction', 'sub.Tensor')
    """
    plain, ending = _parts(name)
    other = _OTHER.get(plain, plain)
    return other if "." in other else f"{other}{ending}.{_overload(name, other, args, kwargs or {})}"


def own_name(name: str, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> str:
    """A function's own operator and its overload, also where torch calls another operator for the function's work.

    >>> from rushlight._aten_names import own_name
    >>> own_name("argsort", (torch.ones(2),)), own_name("sub_", (torch.ones(2), 1))
    ('argsort.default', 'sub_.Tensor')
    """
    plain, ending = _parts(name)
    return f"{plain}{ending}.{_overload(name, plain, args, kwargs or {})}"


def tells_overload(name: str) -> bool:
    """Whether `own_name` knows the overload of every call of an operator, so that none stands for an unknown one."""
    return name in _OVERLOADS or name in _TENSOR_OR_SCALAR or name in _SHIFTS or name in ("pow", "xlogy")


def _parts(name: str) -> tuple[str, str]:
    """The operator of a function, and the ending of its form in place."""
    ending = "_" if name.endswith("_") and not name.endswith("__") else ""
    plain = name.removesuffix(ending)
    return _ALIASES.get(plain, plain), ending


def _overload(name: str, other: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    import rushlight as torch

    plain, in_place = _parts(name)
    first = args[0] if args else kwargs.get("input")
    # The last tensor, or the number in its place
    place = _PLACES.get(plain, 1)
    by_name = next((kwargs[one] for one in _NAMES if one in kwargs), None)
    second = args[place] if len(args) > place else by_name
    overload = _IN_PLACE.get(plain) if in_place else None
    overload = overload or _OVERLOADS.get(other, "default")
    kind = "Tensor" if isinstance(second, torch.Tensor) else "Scalar"
    if plain == "div" and "rounding_mode" in kwargs:
        overload = "Tensor_mode"
    elif plain in _TENSOR_OR_SCALAR:
        # torch makes a tensor of the number, except where the operator has a form for it.
        overload = "Tensor" if plain in ("add", "sub", "mul", "div") else kind
    elif plain in ("clamp_min", "clamp_max"):
        overload = "Tensor" if kind == "Tensor" else "default"
    elif plain == "xlogy":
        overload = "Tensor" if kind == "Tensor" else "Scalar_Other"
        overload = overload if isinstance(first, torch.Tensor) else "Scalar_Self"
    elif plain in ("index_fill", "scatter"):
        overload = _WRITTEN.get((plain, kind, "reduce" in kwargs), "default")
    elif plain == "random":
        overload = ("default", "to", "from")[min(len(args), 3) - 1]
    elif plain in _SHIFTS:
        overload = "Tensor" if kind == "Tensor" else "Tensor_Scalar"
    elif plain == "pow":
        of_number = name == "__rpow__" or not isinstance(first, torch.Tensor)
        overload = "Scalar" if of_number else kind if in_place else f"Tensor_{kind}"
    elif plain in _REDUCTIONS:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        overload = _REDUCTIONS[plain][0 if dim is None else 1 if isinstance(dim, int) else 2]
    elif plain == "clamp" and any(isinstance(one, torch.Tensor) for one in args[1:]):
        overload = "Tensor"
    elif plain == "sort" and "stable" in kwargs:
        overload = "stable"
    return overload
