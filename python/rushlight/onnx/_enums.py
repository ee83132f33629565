"""Options of the export to ONNX, which programs name also where they do not export."""

from __future__ import annotations

from enum import Enum, IntEnum


class _Option(IntEnum):
    __str__ = Enum.__str__


class OperatorExportTypes(_Option):
    """Which operators an exported graph has.

    >>> torch.onnx.OperatorExportTypes.ONNX
    <OperatorExportTypes.ONNX: 0>
    """

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(_Option):
    """Whether a model is exported for training.

    >>> torch.onnx.TrainingMode.EVAL
    <TrainingMode.EVAL: 0>
    """

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class TensorProtoDataType(_Option):
    """The dtypes of ONNX.

    >>> torch.onnx.TensorProtoDataType.FLOAT
    <TensorProtoDataType.FLOAT: 1>
    """

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


for _kind in (OperatorExportTypes, TrainingMode, TensorProtoDataType):
    _kind.__module__ = "rushlight.onnx"
