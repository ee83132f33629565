"""PyTorch's API on an engine written in Rust: ``import rushlight as torch``."""

# First, because modules that load after it use it to report missing names.
from rushlight import _missing_names as _missing_names  # isort: skip

# Then the class of storages, which the engine does not have of itself.
from rushlight import _untyped_storage as _untyped_storage  # isort: skip
from os import environ as _environ

from rushlight import _C
from rushlight import _memory_methods as _memory_methods
from rushlight import _old_methods as _old_methods
from rushlight import _sparse_methods as _sparse_methods
from rushlight import _tensor as _tensor
from rushlight import _unsupported_methods as _unsupported_methods
from rushlight._C import *  # noqa: F403
from rushlight._C import Generator as Generator
from rushlight._C import Tensor as Tensor
from rushlight._C import default_generator as default_generator
from rushlight._C import device as device
from rushlight._C import dtype as dtype
from rushlight._functions import *  # noqa: F403
from rushlight._loading import load as _load
from rushlight._modes import enable_grad as enable_grad
from rushlight._modes import inference_mode as inference_mode
from rushlight._modes import no_grad as no_grad
from rushlight._modes import set_grad_enabled as set_grad_enabled
from rushlight._queries import *  # noqa: F403
from rushlight._set_module import set_public_module as _set_public_module
from rushlight._settings import *  # noqa: F403
from rushlight._size import Size as Size

__version__ = "0.1.0"

# Only for the package's own Python files.
del HookHandle  # noqa: F821

# The operators again, including internal ones whose names begin with an underscore.
globals().update(_C._functions[""])

half, float, double = _C.float16, _C.float32, _C.float64
chalf, cfloat, cdouble = _C.complex32, _C.complex64, _C.complex128
short, int, long = _C.int16, _C.int32, _C.int64
bool = _C.bool

pi = 3.141592653589793
e = 2.718281828459045
inf = 1e999
nan = inf - inf
newaxis = None

initial_seed = default_generator.initial_seed
get_rng_state = default_generator.get_state


def _of_the_engine(name: str) -> object:
    """Names of `torch._C` that only libraries use."""
    if name.startswith("__"):
        raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
    return getattr(_load("rushlight._engine_names"), name)


_C.__getattr__ = _of_the_engine  # type: ignore[method-assign]
# Modules below `torch._C` are Python files of this folder.
_C.__path__ = [__file__.removesuffix("__init__.py") + "_built_in"]


def set_rng_state(new_state: Tensor) -> None:
    """Sets the state of the default generator to one that `get_rng_state` returned.

    Raises:
        RuntimeError: the tensor is not a valid state.
        TypeError: the argument is not a tensor of bytes.

    >>> state = torch.get_rng_state()
    >>> first = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(first, torch.rand(2))
    True
    """
    default_generator.set_state(new_state)


# Names that load when they are first used: modules, and functions in modules of their own.
_SUBMODULES = frozenset(
    "accelerator amp ao array_api autograd backends compiler cpu cuda distributed distributions export fft func functional futures fx hub jit "
    "library linalg masked monitor mps mtia multiprocessing nested nn npz numa onnx ops optim overrides package profiler quantization quasirandom random return_types safetensors serialization signal sparse special "
    "storage testing torch_version types utils version xpu __config__ __future__".split()
)
_HIDDEN_SUBMODULES = (
    "_VF",
    "_dynamo",
    "_functorch",
    "_guards",
    "_higher_order_ops",
    "_inductor",
    "_jit_internal",
    "_ops",
    "_prims_common",
    "_tensor_str",
)
_ELSEWHERE = {
    **dict.fromkeys(
        "chain_matmul einsum gesv gradient histogramdd lu tensordot unique unique_consecutive unravel_index".split(),
        "functional",
    ),
    **dict.fromkeys(
        "alpha_dropout alpha_dropout_ dropout_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout "
        "feature_dropout_".split(),
        "_dropouts",
    ),
    **dict.fromkeys(["pca_lowrank", "svd_lowrank"], "_lowrank"),
    **dict.fromkeys(["_grouped_mm", "_int_mm", "_scaled_mm"], "nn._grouped_mm"),
    **dict.fromkeys(["finfo", "iinfo"], "_limits"),
    **dict.fromkeys(
        "_nested_compute_contiguous_strides_offsets _shape_as_tensor legacy_contiguous_format".split(), "_shapes"
    ),
    "while_loop": "_higher_order_ops.while_loop",
    **dict.fromkeys(
        "_adaptive_avg_pool2d _adaptive_avg_pool3d _aminmax _amp_update_scale_ _cast_Byte _cast_Char _cast_Double "
        "_cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _convolution _dim_arange _euclidean_dist "
        "_log_softmax _logcumsumexp _safe_softmax _sample_dirichlet _segment_reduce _softmax _stack _unique "
        "_weight_norm _weight_norm_interface".split(),
        "_private_functions",
    ),
    **dict.fromkeys(
        "bit bits16 bits1x8 bits2x4 bits4x2 bits8 float4_e2m1fn_x2 int1 int2 int3 int4 int5 int6 int7 quint2x4 quint4x2 uint1 "
        "uint2 uint3 uint4 uint5 uint6 uint7".split(),
        "_unsupported_dtypes",
    ),
    **dict.fromkeys(
        "_assert _check _check_index _check_is_size _check_not_implemented _check_tensor_all _check_tensor_all_with _check_type "
        "_check_value _check_with".split(),
        "_checks",
    ),
    **dict.fromkeys(
        "_assert_async _assert_scalar _assert_tensor_metadata _has_compatible_shallow_copy_type _is_all_true _is_any_true".split(),
        "_value_checks",
    ),
    **dict.fromkeys(
        "PyTorchFileReader PyTorchFileWriter ScriptObject SymBool SymFloat SymInt".split(), "_unsupported_classes"
    ),
    **dict.fromkeys(
        "cudnn_is_acceptable cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution "
        "cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler "
        "fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight "
        "fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight "
        "fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix miopen_batch_norm miopen_convolution "
        "miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss "
        "miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d mkldnn_convolution "
        "mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer "
        "quantized_gru_cell quantized_lstm_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell".split(),
        "_unsupported_functions",
    ),
    **dict.fromkeys(
        "choose_qparams_optimized empty_quantized quantized_batch_norm quantized_max_pool1d "
        "quantized_max_pool2d quantized_max_pool3d".split(),
        "_quantized_functions",
    ),
    **dict.fromkeys(
        "AnyType AwaitType BoolType ComplexType DeviceObjType DictType FloatType FutureType InferredType IntType "
        "ListType NoneType NumberType OptionalType PyObjectType RRefType StreamObjType StringType SymBoolType SymIntType "
        "TensorType TupleType Type UnionType unify_type_list".split(),
        "jit._types",
    ),
    **dict.fromkeys("Graph TracingState Use Value".split(), "jit._graph"),
    "FileCheck": "testing",
    "JITException": "jit",
    "Tag": "_tags",
    **dict.fromkeys(
        "_nested_from_padded _nested_get_lengths _nested_get_max_seqlen _nested_get_min_seqlen _nested_get_offsets "
        "_nested_get_ragged_idx _nested_get_values _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned "
        "_nested_tensor_from_tensor_list _nested_view_from_buffer _nested_view_from_jagged".split(),
        "nested._functions",
    ),
    **dict.fromkeys(
        "dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale "
        "q_zero_point quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic _empty_affine_quantized "
        "_empty_per_channel_affine_quantized _make_per_channel_quantized_tensor _make_per_tensor_quantized_tensor".split(),
        "_quantized",
    ),
    **dict.fromkeys(
        "fake_quantize_per_channel_affine fake_quantize_per_tensor_affine fused_moving_avg_obs_fake_quant "
        "_fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine".split(),
        "_fake_quantize",
    ),
    "lobpcg": "_lobpcg",
    **dict.fromkeys("StorageBase has_lapack has_mkl has_openmp has_spectral".split(), "_engine_names"),
    **dict.fromkeys(["Event", "Stream"], "_streams"),
    "AmbiguousReduction": "_warnings",
    **dict.fromkeys(["AcceleratorError", "OutOfMemoryError"], "_errors"),
    **dict.fromkeys(["get_printoptions", "set_printoptions"], "_printing"),
    **dict.fromkeys(["load", "save"], "serialization"),
    **dict.fromkeys(
        "dsmm hsmm hspmm native_norm resize_as_sparse_ _sparse_sum saddmm smm sparse_coo_tensor spmm sspaddmm".split(),
        "sparse",
    ),
    **dict.fromkeys(
        "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo sparse_bsc_tensor sparse_bsr_tensor "
        "sparse_compressed_tensor sparse_csc_tensor sparse_csr_tensor".split(),
        "_sparse_compressed",
    ),
    "from_file": "storage",
    **dict.fromkeys(
        "Storage TypedStorage DoubleStorage FloatStorage HalfStorage BFloat16Storage LongStorage IntStorage ShortStorage CharStorage "
        "ByteStorage BoolStorage ComplexDoubleStorage ComplexFloatStorage QUInt8Storage QInt8Storage QInt32Storage".split(),
        "storage",
    ),
    **dict.fromkeys(["GradScaler", "autocast"], "amp"),
    **dict.fromkeys("eig lstsq matrix_rank solve symeig".split(), "_removed_functions"),
    "range": "_range",
    **dict.fromkeys(
        "autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache get_autocast_cpu_dtype "
        "get_autocast_dtype get_autocast_gpu_dtype get_autocast_ipu_dtype get_autocast_xla_dtype "
        "is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled is_autocast_ipu_enabled "
        "is_autocast_xla_enabled set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled "
        "set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype set_autocast_ipu_dtype "
        "set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled".split(),
        "amp.autocast_mode",
    ),
    **dict.fromkeys(
        "batch_norm batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats "
        "batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats binary_cross_entropy_with_logits conv_tbc convolution "
        "ccol_indices_copy col_indices_copy cosine_embedding_loss crow_indices_copy detach_copy hinge_embedding_loss "
        "indices_copy instance_norm kl_div "
        "margin_ranking_loss native_channel_shuffle native_dropout norm_except_dim poisson_nll_loss "
        "row_indices_copy slice_copy slice_inverse "
        "triplet_margin_loss values_copy view_as_complex_copy view_as_real_copy".split(),
        "_native",
    ),
    **dict.fromkeys(
        "cond sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size sym_int sym_ite sym_max sym_min "
        "sym_not sym_sqrt sym_sum".split(),
        "_symbolic",
    ),
    "set_anomaly_enabled": "autograd.anomaly_mode",
    "thread_safe_generator": "random",
    **dict.fromkeys(["Future", "ScriptModule", "fork", "wait"], "jit"),
    "vmap": "func",
    **dict.fromkeys(
        "set_default_tensor_type FloatTensor DoubleTensor HalfTensor BFloat16Tensor ByteTensor CharTensor ShortTensor "
        "IntTensor LongTensor BoolTensor".split(),
        "_legacy_constructors",
    ),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    # The same names, for editors and type checkers.
    from rushlight import __config__ as __config__
    from rushlight import __future__ as __future__
    from rushlight import accelerator as accelerator
    from rushlight import amp as amp
    from rushlight import ao as ao
    from rushlight import array_api as array_api
    from rushlight import autograd as autograd
    from rushlight import backends as backends
    from rushlight import compiler as compiler
    from rushlight import cpu as cpu
    from rushlight import cuda as cuda
    from rushlight import distributed as distributed
    from rushlight import distributions as distributions
    from rushlight import export as export
    from rushlight import fft as fft
    from rushlight import func as func
    from rushlight import functional as functional
    from rushlight import futures as futures
    from rushlight import fx as fx
    from rushlight import hub as hub
    from rushlight import jit as jit
    from rushlight import library as library
    from rushlight import linalg as linalg
    from rushlight import masked as masked
    from rushlight import monitor as monitor
    from rushlight import mps as mps
    from rushlight import mtia as mtia
    from rushlight import multiprocessing as multiprocessing
    from rushlight import nested as nested
    from rushlight import nn as nn
    from rushlight import npz as npz
    from rushlight import numa as numa
    from rushlight import onnx as onnx
    from rushlight import ops as ops
    from rushlight import optim as optim
    from rushlight import overrides as overrides
    from rushlight import package as package
    from rushlight import profiler as profiler
    from rushlight import quantization as quantization
    from rushlight import quasirandom as quasirandom
    from rushlight import random as random
    from rushlight import return_types as return_types
    from rushlight import safetensors as safetensors
    from rushlight import serialization as serialization
    from rushlight import signal as signal
    from rushlight import sparse as sparse
    from rushlight import special as special
    from rushlight import storage as storage
    from rushlight import testing as testing
    from rushlight import torch_version as torch_version
    from rushlight import types as types
    from rushlight import utils as utils
    from rushlight import version as version
    from rushlight import xpu as xpu
    from rushlight._checks import _assert as _assert
    from rushlight._checks import _check as _check
    from rushlight._checks import _check_index as _check_index
    from rushlight._checks import _check_is_size as _check_is_size
    from rushlight._checks import _check_not_implemented as _check_not_implemented
    from rushlight._checks import _check_tensor_all as _check_tensor_all
    from rushlight._checks import _check_tensor_all_with as _check_tensor_all_with
    from rushlight._checks import _check_type as _check_type
    from rushlight._checks import _check_value as _check_value
    from rushlight._checks import _check_with as _check_with
    from rushlight._dropouts import alpha_dropout as alpha_dropout
    from rushlight._dropouts import alpha_dropout_ as alpha_dropout_
    from rushlight._dropouts import dropout_ as dropout_
    from rushlight._dropouts import feature_alpha_dropout as feature_alpha_dropout
    from rushlight._dropouts import feature_alpha_dropout_ as feature_alpha_dropout_
    from rushlight._dropouts import feature_dropout as feature_dropout
    from rushlight._dropouts import feature_dropout_ as feature_dropout_
    from rushlight._engine_names import StorageBase as StorageBase
    from rushlight._engine_names import has_lapack as has_lapack
    from rushlight._engine_names import has_mkl as has_mkl
    from rushlight._engine_names import has_openmp as has_openmp
    from rushlight._engine_names import has_spectral as has_spectral
    from rushlight._errors import AcceleratorError as AcceleratorError
    from rushlight._errors import OutOfMemoryError as OutOfMemoryError
    from rushlight._fake_quantize import (
        _fake_quantize_learnable_per_channel_affine as _fake_quantize_learnable_per_channel_affine,
    )
    from rushlight._fake_quantize import (
        _fake_quantize_learnable_per_tensor_affine as _fake_quantize_learnable_per_tensor_affine,
    )
    from rushlight._fake_quantize import fake_quantize_per_channel_affine as fake_quantize_per_channel_affine
    from rushlight._fake_quantize import fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine
    from rushlight._fake_quantize import fused_moving_avg_obs_fake_quant as fused_moving_avg_obs_fake_quant
    from rushlight._higher_order_ops.while_loop import while_loop as while_loop
    from rushlight._legacy_constructors import BFloat16Tensor as BFloat16Tensor
    from rushlight._legacy_constructors import BoolTensor as BoolTensor
    from rushlight._legacy_constructors import ByteTensor as ByteTensor
    from rushlight._legacy_constructors import CharTensor as CharTensor
    from rushlight._legacy_constructors import DoubleTensor as DoubleTensor
    from rushlight._legacy_constructors import FloatTensor as FloatTensor
    from rushlight._legacy_constructors import HalfTensor as HalfTensor
    from rushlight._legacy_constructors import IntTensor as IntTensor
    from rushlight._legacy_constructors import LongTensor as LongTensor
    from rushlight._legacy_constructors import ShortTensor as ShortTensor
    from rushlight._legacy_constructors import set_default_tensor_type as set_default_tensor_type
    from rushlight._limits import finfo as finfo
    from rushlight._limits import iinfo as iinfo
    from rushlight._lobpcg import lobpcg as lobpcg
    from rushlight._lowrank import pca_lowrank as pca_lowrank
    from rushlight._lowrank import svd_lowrank as svd_lowrank
    from rushlight._native import batch_norm as batch_norm
    from rushlight._native import batch_norm_backward_elemt as batch_norm_backward_elemt
    from rushlight._native import batch_norm_backward_reduce as batch_norm_backward_reduce
    from rushlight._native import batch_norm_elemt as batch_norm_elemt
    from rushlight._native import batch_norm_gather_stats as batch_norm_gather_stats
    from rushlight._native import batch_norm_gather_stats_with_counts as batch_norm_gather_stats_with_counts
    from rushlight._native import batch_norm_stats as batch_norm_stats
    from rushlight._native import batch_norm_update_stats as batch_norm_update_stats
    from rushlight._native import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
    from rushlight._native import ccol_indices_copy as ccol_indices_copy
    from rushlight._native import col_indices_copy as col_indices_copy
    from rushlight._native import conv_tbc as conv_tbc
    from rushlight._native import convolution as convolution
    from rushlight._native import cosine_embedding_loss as cosine_embedding_loss
    from rushlight._native import crow_indices_copy as crow_indices_copy
    from rushlight._native import detach_copy as detach_copy
    from rushlight._native import hinge_embedding_loss as hinge_embedding_loss
    from rushlight._native import indices_copy as indices_copy
    from rushlight._native import instance_norm as instance_norm
    from rushlight._native import kl_div as kl_div
    from rushlight._native import margin_ranking_loss as margin_ranking_loss
    from rushlight._native import native_channel_shuffle as native_channel_shuffle
    from rushlight._native import native_dropout as native_dropout
    from rushlight._native import norm_except_dim as norm_except_dim
    from rushlight._native import poisson_nll_loss as poisson_nll_loss
    from rushlight._native import row_indices_copy as row_indices_copy
    from rushlight._native import slice_copy as slice_copy
    from rushlight._native import slice_inverse as slice_inverse
    from rushlight._native import triplet_margin_loss as triplet_margin_loss
    from rushlight._native import values_copy as values_copy
    from rushlight._native import view_as_complex_copy as view_as_complex_copy
    from rushlight._native import view_as_real_copy as view_as_real_copy
    from rushlight._printing import get_printoptions as get_printoptions
    from rushlight._printing import set_printoptions as set_printoptions
    from rushlight._private_functions import _adaptive_avg_pool2d as _adaptive_avg_pool2d
    from rushlight._private_functions import _adaptive_avg_pool3d as _adaptive_avg_pool3d
    from rushlight._private_functions import _aminmax as _aminmax
    from rushlight._private_functions import _amp_update_scale_ as _amp_update_scale_
    from rushlight._private_functions import _cast_Byte as _cast_Byte
    from rushlight._private_functions import _cast_Char as _cast_Char
    from rushlight._private_functions import _cast_Double as _cast_Double
    from rushlight._private_functions import _cast_Float as _cast_Float
    from rushlight._private_functions import _cast_Half as _cast_Half
    from rushlight._private_functions import _cast_Int as _cast_Int
    from rushlight._private_functions import _cast_Long as _cast_Long
    from rushlight._private_functions import _cast_Short as _cast_Short
    from rushlight._private_functions import _convolution as _convolution
    from rushlight._private_functions import _dim_arange as _dim_arange
    from rushlight._private_functions import _euclidean_dist as _euclidean_dist
    from rushlight._private_functions import _log_softmax as _log_softmax
    from rushlight._private_functions import _logcumsumexp as _logcumsumexp
    from rushlight._private_functions import _safe_softmax as _safe_softmax
    from rushlight._private_functions import _sample_dirichlet as _sample_dirichlet
    from rushlight._private_functions import _segment_reduce as _segment_reduce
    from rushlight._private_functions import _softmax as _softmax
    from rushlight._private_functions import _stack as _stack
    from rushlight._private_functions import _unique as _unique
    from rushlight._private_functions import _weight_norm as _weight_norm
    from rushlight._private_functions import _weight_norm_interface as _weight_norm_interface
    from rushlight._quantized import _empty_affine_quantized as _empty_affine_quantized
    from rushlight._quantized import _empty_per_channel_affine_quantized as _empty_per_channel_affine_quantized
    from rushlight._quantized import _make_per_channel_quantized_tensor as _make_per_channel_quantized_tensor
    from rushlight._quantized import _make_per_tensor_quantized_tensor as _make_per_tensor_quantized_tensor
    from rushlight._quantized import dequantize as dequantize
    from rushlight._quantized import int_repr as int_repr
    from rushlight._quantized import q_per_channel_axis as q_per_channel_axis
    from rushlight._quantized import q_per_channel_scales as q_per_channel_scales
    from rushlight._quantized import q_per_channel_zero_points as q_per_channel_zero_points
    from rushlight._quantized import q_scale as q_scale
    from rushlight._quantized import q_zero_point as q_zero_point
    from rushlight._quantized import quantize_per_channel as quantize_per_channel
    from rushlight._quantized import quantize_per_tensor as quantize_per_tensor
    from rushlight._quantized import quantize_per_tensor_dynamic as quantize_per_tensor_dynamic
    from rushlight._quantized_functions import choose_qparams_optimized as choose_qparams_optimized
    from rushlight._quantized_functions import empty_quantized as empty_quantized
    from rushlight._quantized_functions import quantized_batch_norm as quantized_batch_norm
    from rushlight._quantized_functions import quantized_max_pool1d as quantized_max_pool1d
    from rushlight._quantized_functions import quantized_max_pool2d as quantized_max_pool2d
    from rushlight._quantized_functions import quantized_max_pool3d as quantized_max_pool3d
    from rushlight._range import range as range
    from rushlight._removed_functions import eig as eig
    from rushlight._removed_functions import lstsq as lstsq
    from rushlight._removed_functions import matrix_rank as matrix_rank
    from rushlight._removed_functions import solve as solve
    from rushlight._removed_functions import symeig as symeig
    from rushlight._shapes import (
        _nested_compute_contiguous_strides_offsets as _nested_compute_contiguous_strides_offsets,
    )
    from rushlight._shapes import _shape_as_tensor as _shape_as_tensor
    from rushlight._shapes import legacy_contiguous_format as legacy_contiguous_format
    from rushlight._sparse_compressed import _convert_indices_from_coo_to_csr as _convert_indices_from_coo_to_csr
    from rushlight._sparse_compressed import _convert_indices_from_csr_to_coo as _convert_indices_from_csr_to_coo
    from rushlight._sparse_compressed import sparse_bsc_tensor as sparse_bsc_tensor
    from rushlight._sparse_compressed import sparse_bsr_tensor as sparse_bsr_tensor
    from rushlight._sparse_compressed import sparse_compressed_tensor as sparse_compressed_tensor
    from rushlight._sparse_compressed import sparse_csc_tensor as sparse_csc_tensor
    from rushlight._sparse_compressed import sparse_csr_tensor as sparse_csr_tensor
    from rushlight._streams import Event as Event
    from rushlight._streams import Stream as Stream
    from rushlight._symbolic import cond as cond
    from rushlight._symbolic import sym_constrain_range as sym_constrain_range
    from rushlight._symbolic import sym_constrain_range_for_size as sym_constrain_range_for_size
    from rushlight._symbolic import sym_float as sym_float
    from rushlight._symbolic import sym_fresh_size as sym_fresh_size
    from rushlight._symbolic import sym_int as sym_int
    from rushlight._symbolic import sym_ite as sym_ite
    from rushlight._symbolic import sym_max as sym_max
    from rushlight._symbolic import sym_min as sym_min
    from rushlight._symbolic import sym_not as sym_not
    from rushlight._symbolic import sym_sqrt as sym_sqrt
    from rushlight._symbolic import sym_sum as sym_sum
    from rushlight._tags import Tag as Tag
    from rushlight._unsupported_classes import PyTorchFileReader as PyTorchFileReader
    from rushlight._unsupported_classes import PyTorchFileWriter as PyTorchFileWriter
    from rushlight._unsupported_classes import ScriptObject as ScriptObject
    from rushlight._unsupported_classes import SymBool as SymBool
    from rushlight._unsupported_classes import SymFloat as SymFloat
    from rushlight._unsupported_classes import SymInt as SymInt
    from rushlight._unsupported_dtypes import bit as bit
    from rushlight._unsupported_dtypes import bits1x8 as bits1x8
    from rushlight._unsupported_dtypes import bits2x4 as bits2x4
    from rushlight._unsupported_dtypes import bits4x2 as bits4x2
    from rushlight._unsupported_dtypes import bits8 as bits8
    from rushlight._unsupported_dtypes import bits16 as bits16
    from rushlight._unsupported_dtypes import float4_e2m1fn_x2 as float4_e2m1fn_x2
    from rushlight._unsupported_dtypes import int1 as int1
    from rushlight._unsupported_dtypes import int2 as int2
    from rushlight._unsupported_dtypes import int3 as int3
    from rushlight._unsupported_dtypes import int4 as int4
    from rushlight._unsupported_dtypes import int5 as int5
    from rushlight._unsupported_dtypes import int6 as int6
    from rushlight._unsupported_dtypes import int7 as int7
    from rushlight._unsupported_dtypes import quint2x4 as quint2x4
    from rushlight._unsupported_dtypes import quint4x2 as quint4x2
    from rushlight._unsupported_dtypes import uint1 as uint1
    from rushlight._unsupported_dtypes import uint2 as uint2
    from rushlight._unsupported_dtypes import uint3 as uint3
    from rushlight._unsupported_dtypes import uint4 as uint4
    from rushlight._unsupported_dtypes import uint5 as uint5
    from rushlight._unsupported_dtypes import uint6 as uint6
    from rushlight._unsupported_dtypes import uint7 as uint7
    from rushlight._unsupported_functions import cudnn_affine_grid_generator as cudnn_affine_grid_generator
    from rushlight._unsupported_functions import cudnn_batch_norm as cudnn_batch_norm
    from rushlight._unsupported_functions import cudnn_convolution as cudnn_convolution
    from rushlight._unsupported_functions import cudnn_convolution_add_relu as cudnn_convolution_add_relu
    from rushlight._unsupported_functions import cudnn_convolution_relu as cudnn_convolution_relu
    from rushlight._unsupported_functions import cudnn_convolution_transpose as cudnn_convolution_transpose
    from rushlight._unsupported_functions import cudnn_grid_sampler as cudnn_grid_sampler
    from rushlight._unsupported_functions import cudnn_is_acceptable as cudnn_is_acceptable
    from rushlight._unsupported_functions import fbgemm_linear_fp16_weight as fbgemm_linear_fp16_weight
    from rushlight._unsupported_functions import (
        fbgemm_linear_fp16_weight_fp32_activation as fbgemm_linear_fp16_weight_fp32_activation,
    )
    from rushlight._unsupported_functions import fbgemm_linear_int8_weight as fbgemm_linear_int8_weight
    from rushlight._unsupported_functions import (
        fbgemm_linear_int8_weight_fp32_activation as fbgemm_linear_int8_weight_fp32_activation,
    )
    from rushlight._unsupported_functions import fbgemm_linear_quantize_weight as fbgemm_linear_quantize_weight
    from rushlight._unsupported_functions import fbgemm_pack_gemm_matrix_fp16 as fbgemm_pack_gemm_matrix_fp16
    from rushlight._unsupported_functions import fbgemm_pack_quantized_matrix as fbgemm_pack_quantized_matrix
    from rushlight._unsupported_functions import miopen_batch_norm as miopen_batch_norm
    from rushlight._unsupported_functions import miopen_convolution as miopen_convolution
    from rushlight._unsupported_functions import miopen_convolution_add_relu as miopen_convolution_add_relu
    from rushlight._unsupported_functions import miopen_convolution_relu as miopen_convolution_relu
    from rushlight._unsupported_functions import miopen_convolution_transpose as miopen_convolution_transpose
    from rushlight._unsupported_functions import miopen_ctc_loss as miopen_ctc_loss
    from rushlight._unsupported_functions import miopen_depthwise_convolution as miopen_depthwise_convolution
    from rushlight._unsupported_functions import miopen_rnn as miopen_rnn
    from rushlight._unsupported_functions import mkldnn_adaptive_avg_pool2d as mkldnn_adaptive_avg_pool2d
    from rushlight._unsupported_functions import mkldnn_convolution as mkldnn_convolution
    from rushlight._unsupported_functions import mkldnn_linear_backward_weights as mkldnn_linear_backward_weights
    from rushlight._unsupported_functions import mkldnn_max_pool2d as mkldnn_max_pool2d
    from rushlight._unsupported_functions import mkldnn_max_pool3d as mkldnn_max_pool3d
    from rushlight._unsupported_functions import mkldnn_rnn_layer as mkldnn_rnn_layer
    from rushlight._unsupported_functions import quantized_gru_cell as quantized_gru_cell
    from rushlight._unsupported_functions import quantized_lstm_cell as quantized_lstm_cell
    from rushlight._unsupported_functions import quantized_rnn_relu_cell as quantized_rnn_relu_cell
    from rushlight._unsupported_functions import quantized_rnn_tanh_cell as quantized_rnn_tanh_cell
    from rushlight._value_checks import _assert_async as _assert_async
    from rushlight._value_checks import _assert_scalar as _assert_scalar
    from rushlight._value_checks import _assert_tensor_metadata as _assert_tensor_metadata
    from rushlight._value_checks import _has_compatible_shallow_copy_type as _has_compatible_shallow_copy_type
    from rushlight._value_checks import _is_all_true as _is_all_true
    from rushlight._value_checks import _is_any_true as _is_any_true
    from rushlight._warnings import AmbiguousReduction as AmbiguousReduction
    from rushlight.amp import GradScaler as GradScaler
    from rushlight.amp import autocast as autocast
    from rushlight.amp.autocast_mode import autocast_decrement_nesting as autocast_decrement_nesting
    from rushlight.amp.autocast_mode import autocast_increment_nesting as autocast_increment_nesting
    from rushlight.amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
    from rushlight.amp.autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
    from rushlight.amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
    from rushlight.amp.autocast_mode import get_autocast_gpu_dtype as get_autocast_gpu_dtype
    from rushlight.amp.autocast_mode import get_autocast_ipu_dtype as get_autocast_ipu_dtype
    from rushlight.amp.autocast_mode import get_autocast_xla_dtype as get_autocast_xla_dtype
    from rushlight.amp.autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
    from rushlight.amp.autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
    from rushlight.amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
    from rushlight.amp.autocast_mode import is_autocast_ipu_enabled as is_autocast_ipu_enabled
    from rushlight.amp.autocast_mode import is_autocast_xla_enabled as is_autocast_xla_enabled
    from rushlight.amp.autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
    from rushlight.amp.autocast_mode import set_autocast_cpu_dtype as set_autocast_cpu_dtype
    from rushlight.amp.autocast_mode import set_autocast_cpu_enabled as set_autocast_cpu_enabled
    from rushlight.amp.autocast_mode import set_autocast_dtype as set_autocast_dtype
    from rushlight.amp.autocast_mode import set_autocast_enabled as set_autocast_enabled
    from rushlight.amp.autocast_mode import set_autocast_gpu_dtype as set_autocast_gpu_dtype
    from rushlight.amp.autocast_mode import set_autocast_ipu_dtype as set_autocast_ipu_dtype
    from rushlight.amp.autocast_mode import set_autocast_ipu_enabled as set_autocast_ipu_enabled
    from rushlight.amp.autocast_mode import set_autocast_xla_dtype as set_autocast_xla_dtype
    from rushlight.amp.autocast_mode import set_autocast_xla_enabled as set_autocast_xla_enabled
    from rushlight.autograd.anomaly_mode import set_anomaly_enabled as set_anomaly_enabled
    from rushlight.func import vmap as vmap
    from rushlight.functional import chain_matmul as chain_matmul
    from rushlight.functional import einsum as einsum
    from rushlight.functional import gesv as gesv
    from rushlight.functional import gradient as gradient
    from rushlight.functional import histogramdd as histogramdd
    from rushlight.functional import lu as lu
    from rushlight.functional import tensordot as tensordot
    from rushlight.functional import unique as unique
    from rushlight.functional import unique_consecutive as unique_consecutive
    from rushlight.functional import unravel_index as unravel_index
    from rushlight.jit import Future as Future
    from rushlight.jit import JITException as JITException
    from rushlight.jit import ScriptModule as ScriptModule
    from rushlight.jit import fork as fork
    from rushlight.jit import wait as wait
    from rushlight.jit._graph import Graph as Graph
    from rushlight.jit._graph import TracingState as TracingState
    from rushlight.jit._graph import Use as Use
    from rushlight.jit._graph import Value as Value
    from rushlight.jit._types import AnyType as AnyType
    from rushlight.jit._types import AwaitType as AwaitType
    from rushlight.jit._types import BoolType as BoolType
    from rushlight.jit._types import ComplexType as ComplexType
    from rushlight.jit._types import DeviceObjType as DeviceObjType
    from rushlight.jit._types import DictType as DictType
    from rushlight.jit._types import FloatType as FloatType
    from rushlight.jit._types import FutureType as FutureType
    from rushlight.jit._types import InferredType as InferredType
    from rushlight.jit._types import IntType as IntType
    from rushlight.jit._types import ListType as ListType
    from rushlight.jit._types import NoneType as NoneType
    from rushlight.jit._types import NumberType as NumberType
    from rushlight.jit._types import OptionalType as OptionalType
    from rushlight.jit._types import PyObjectType as PyObjectType
    from rushlight.jit._types import RRefType as RRefType
    from rushlight.jit._types import StreamObjType as StreamObjType
    from rushlight.jit._types import StringType as StringType
    from rushlight.jit._types import SymBoolType as SymBoolType
    from rushlight.jit._types import SymIntType as SymIntType
    from rushlight.jit._types import TensorType as TensorType
    from rushlight.jit._types import TupleType as TupleType
    from rushlight.jit._types import Type as Type
    from rushlight.jit._types import UnionType as UnionType
    from rushlight.jit._types import unify_type_list as unify_type_list
    from rushlight.nested._functions import _nested_from_padded as _nested_from_padded
    from rushlight.nested._functions import _nested_get_lengths as _nested_get_lengths
    from rushlight.nested._functions import _nested_get_max_seqlen as _nested_get_max_seqlen
    from rushlight.nested._functions import _nested_get_min_seqlen as _nested_get_min_seqlen
    from rushlight.nested._functions import _nested_get_offsets as _nested_get_offsets
    from rushlight.nested._functions import _nested_get_ragged_idx as _nested_get_ragged_idx
    from rushlight.nested._functions import _nested_get_values as _nested_get_values
    from rushlight.nested._functions import _nested_tensor_from_mask as _nested_tensor_from_mask
    from rushlight.nested._functions import (
        _nested_tensor_from_mask_left_aligned as _nested_tensor_from_mask_left_aligned,
    )
    from rushlight.nested._functions import _nested_tensor_from_tensor_list as _nested_tensor_from_tensor_list
    from rushlight.nested._functions import _nested_view_from_buffer as _nested_view_from_buffer
    from rushlight.nested._functions import _nested_view_from_jagged as _nested_view_from_jagged
    from rushlight.nn._grouped_mm import _grouped_mm as _grouped_mm
    from rushlight.nn._grouped_mm import _int_mm as _int_mm
    from rushlight.nn._grouped_mm import _scaled_mm as _scaled_mm
    from rushlight.random import thread_safe_generator as thread_safe_generator
    from rushlight.serialization import load as load
    from rushlight.serialization import save as save
    from rushlight.sparse import _sparse_sum as _sparse_sum
    from rushlight.sparse import dsmm as dsmm
    from rushlight.sparse import hsmm as hsmm
    from rushlight.sparse import hspmm as hspmm
    from rushlight.sparse import native_norm as native_norm
    from rushlight.sparse import resize_as_sparse_ as resize_as_sparse_
    from rushlight.sparse import saddmm as saddmm
    from rushlight.sparse import smm as smm
    from rushlight.sparse import sparse_coo_tensor as sparse_coo_tensor
    from rushlight.sparse import spmm as spmm
    from rushlight.sparse import sspaddmm as sspaddmm
    from rushlight.storage import BFloat16Storage as BFloat16Storage
    from rushlight.storage import BoolStorage as BoolStorage
    from rushlight.storage import ByteStorage as ByteStorage
    from rushlight.storage import CharStorage as CharStorage
    from rushlight.storage import ComplexDoubleStorage as ComplexDoubleStorage
    from rushlight.storage import ComplexFloatStorage as ComplexFloatStorage
    from rushlight.storage import DoubleStorage as DoubleStorage
    from rushlight.storage import FloatStorage as FloatStorage
    from rushlight.storage import HalfStorage as HalfStorage
    from rushlight.storage import IntStorage as IntStorage
    from rushlight.storage import LongStorage as LongStorage
    from rushlight.storage import QInt8Storage as QInt8Storage
    from rushlight.storage import QInt32Storage as QInt32Storage
    from rushlight.storage import QUInt8Storage as QUInt8Storage
    from rushlight.storage import ShortStorage as ShortStorage
    from rushlight.storage import Storage as Storage
    from rushlight.storage import TypedStorage as TypedStorage
    from rushlight.storage import from_file as from_file
    from rushlight.testing import FileCheck as FileCheck
else:

    def __getattr__(name):
        if name in _SUBMODULES or name in _HIDDEN_SUBMODULES:
            return _load(f"rushlight.{name}")
        if name == "torch":  # libraries write `torch.torch.Tensor`
            return _load("rushlight")
        if name == "Storage":  # that of the default dtype
            return _load("rushlight.storage").Storage
        home = "_foreach" if name.startswith(("_foreach_", "_amp_foreach_")) else _ELSEWHERE.get(name)
        if home is not None and hasattr(_load(f"rushlight.{home}"), name):
            value = globals()[name] = getattr(_load(f"rushlight.{home}"), name)
            return value
        from rushlight._missing_names import missing_from

        raise missing_from("torch", name, __dir__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_ELSEWHERE} - {"TYPE_CHECKING"})


if not TYPE_CHECKING:
    # The names that `from rushlight import *` binds: everything except modules.
    __all__ = [name for name in __dir__() if not name.startswith("_") and name not in _SUBMODULES]
    _set_public_module(globals())

if "TORCH_CUDA_SANITIZER" in _environ:
    _load("rushlight.cuda._sanitizer").enable_cuda_sanitizer()
