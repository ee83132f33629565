"""Summaries: the messages of TensorBoard, made of tensors, arrays and numbers."""

import io
import json
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as layout_metadata
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve import metadata as curve_metadata
from tensorboard.plugins.text import metadata as text_metadata

import rushlight as torch
from rushlight.utils.tensorboard import _images
from rushlight.utils.tensorboard._numbers import make_np, make_number

#: TensorBoard's dtype, the field of `TensorProto` with the elements, and how an array becomes its numbers.
_DTYPES: dict[Any, tuple[str, str, Any]] = {
    torch.float16: ("DT_HALF", "half_val", lambda array: array.view(np.uint16)),
    torch.float32: ("DT_FLOAT", "float_val", None),
    torch.float64: ("DT_DOUBLE", "double_val", None),
    torch.int8: ("DT_INT8", "int_val", None),
    torch.uint8: ("DT_UINT8", "uint32_val", None),
    torch.int16: ("DT_INT16", "int_val", None),
    torch.int32: ("DT_INT32", "int_val", None),
    torch.int64: ("DT_INT64", "int64_val", None),
    torch.bool: ("DT_BOOL", "bool_val", None),
    torch.complex64: ("DT_COMPLEX64", "scomplex_val", lambda array: array.view(np.float32)),
    torch.complex128: ("DT_COMPLEX128", "dcomplex_val", lambda array: array.view(np.float64)),
}

#: Divides in place of a count of zero.
_LEAST_COUNT = 1e-7


def _shape(sizes: Sequence[int]) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def _value(**fields: Any) -> Summary:
    return Summary(value=[Summary.Value(**fields)])


def _plugin(name: str) -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name))


def _floats(array: np.ndarray) -> TensorProto:
    return TensorProto(dtype="DT_FLOAT", float_val=array.reshape(-1).tolist(), tensor_shape=_shape(array.shape))


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Summary:
    """One number, in the form that TensorBoard reads fastest if `new_style`."""
    number = make_number(value)
    if not new_style:
        return _value(tag=tag, simple_value=number)
    if double_precision:
        tensor = TensorProto(dtype="DT_DOUBLE", double_val=[number])
    else:
        tensor = TensorProto(dtype="DT_FLOAT", float_val=[number])
    return _value(tag=tag, tensor=tensor, metadata=_plugin("scalars"))


def tensor_proto(tag: str, tensor: Any) -> Summary:
    """All elements of a tensor."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        kind, field, elements = "DT_BFLOAT16", "half_val", tensor.contiguous().view(torch.uint16).numpy()
    elif tensor.dtype in _DTYPES:
        kind, field, convert = _DTYPES[tensor.dtype]
        array = tensor.contiguous().numpy().reshape(-1)
        elements = array if convert is None else convert(array)
    else:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    proto = TensorProto(dtype=kind, tensor_shape=_shape(tensor.shape), **{field: elements.reshape(-1).tolist()})
    return _value(tag=tag, tensor=proto, metadata=_plugin("tensor"))


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """The numbers of elements in bins: their edges, or one of the names that `numpy.histogram` knows.

    Empty bins at both ends are left out, and neighbours are joined if there are more than `max_bins`.
    """
    array = make_np(values).astype(float).reshape(-1)
    if array.size == 0:
        raise ValueError("The input has no element.")
    counts, edges = np.histogram(array, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.pad(counts, (0, -len(counts) % step)).reshape(-1, step).sum(-1)
        edges = np.append(edges[:-1][::step], edges[-1])
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError("No element is in a bin.\n  Give `bins` that cover the values.")
    first, last = filled[0], filled[-1]
    return histogram_raw(
        tag,
        array.min(),
        array.max(),
        array.size,
        array.sum(),
        array.dot(array),
        edges[first : last + 2].tolist(),
        # The first limit is where the first bin begins; nothing lies below it.
        [0, *counts[first : last + 1].tolist()],
    )


def histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts) -> Summary:
    """A histogram that was computed elsewhere."""
    proto = HistogramProto(
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=bucket_limits,
        bucket=bucket_counts,
    )
    return _value(tag=tag, histo=proto)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """An image, or several in a grid. Bytes are brightness from 0 to 255, other numbers from 0 to 1."""
    array = _images.channels_last(make_np(tensor), dataformats)
    return _value(tag=tag, image=_images.png(_images.to_bytes(array), rescale))


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None) -> Summary:
    """An image with boxes: rows of left, top, right and bottom."""
    array = _images.channels_last(make_np(tensor_image), dataformats)
    boxes = make_np(tensor_boxes)
    return _value(tag=tag, image=_images.png(_images.to_bytes(array), rescale, boxes, labels))


def video(tag: str, tensor: Any, fps: float = 4) -> Summary:
    """Moving images of shape (N, T, C, H, W), as a GIF."""
    array = make_np(tensor)
    if array.ndim != 5:
        raise ValueError(f"not enough values to unpack (expected 5, got {array.ndim})\n  A video is (N, T, C, H, W).")
    return _value(tag=tag, image=_images.gif(array, fps))


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Summary:
    """One channel of sound between -1 and 1, as 16-bit samples."""
    array = make_np(tensor).squeeze()
    if abs(array).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        array = array.clip(-1, 1)
    if array.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes((array * np.iinfo(np.int16).max).astype("<i2").tobytes())
    proto = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=array.size,
        encoded_audio_string=buffer.getvalue(),
        content_type="audio/wav",
    )
    return _value(tag=tag, audio=proto)


def text(tag: str, text: str) -> Summary:
    """Text, which TensorBoard reads as Markdown."""
    proto = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=_shape([1]))
    return _value(tag=f"{tag}/text_summary", tensor=proto, metadata=text_metadata.create_summary_metadata("", ""))


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None) -> Summary:
    """Precision and recall of predictions between 0 and 1, for thresholds at equal distances."""
    num_thresholds = min(num_thresholds, 127)
    labels, predictions = make_np(labels).astype(float), make_np(predictions)
    weights = 1.0 if weights is None else make_np(weights)
    bins = np.floor(predictions * (num_thresholds - 1)).astype(np.int32)

    def at_least(amounts):
        counts = np.histogram(bins, num_thresholds, (0, num_thresholds - 1), weights=amounts)[0]
        return counts[::-1].cumsum()[::-1]

    true_positive, false_positive = at_least(weights * labels), at_least(weights * (1.0 - labels))
    true_negative, false_negative = false_positive[0] - false_positive, true_positive[0] - true_positive
    precision = true_positive / np.maximum(_LEAST_COUNT, true_positive + false_positive)
    recall = true_positive / np.maximum(_LEAST_COUNT, true_positive + false_negative)
    return pr_curve_raw(
        tag, true_positive, false_positive, true_negative, false_negative, precision, recall, num_thresholds
    )


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=127) -> Summary:
    """A curve of precision and recall that was computed elsewhere, one number of each for every threshold."""
    num_thresholds = min(num_thresholds, 127)
    rows = np.stack([make_np(row) for row in (tp, fp, tn, fn, precision, recall)])
    metadata = curve_metadata.create_summary_metadata("", "", num_thresholds)
    return _value(tag=tag, tensor=_floats(rows), metadata=metadata)


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Summary:
    """Which scalars TensorBoard draws together: ``{category: {title: ["Multiline" or "Margin", tags]}}``."""
    categories = []
    for name, charts in layout.items():
        found = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
                series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                content = {"margin": layout_pb2.MarginChartContent(series=[series])}
            else:
                content = {"multiline": layout_pb2.MultilineChartContent(tag=tags)}
            found.append(layout_pb2.Chart(title=title, **content))
        categories.append(layout_pb2.Category(title=name, chart=found))
    proto = TensorProto(
        dtype="DT_STRING",
        string_val=[layout_pb2.Layout(category=categories).SerializeToString()],
        tensor_shape=_shape([]),
    )
    metadata = layout_metadata.create_summary_metadata()
    return _value(tag=layout_metadata.CONFIG_SUMMARY_TAG, tensor=proto, metadata=metadata)


def mesh(tag, vertices, colors=None, faces=None, config_dict=None) -> Summary:
    """A surface in space: vertices of shape (B, N, 3), their colours, and triangles of shape (B, F, 3)."""
    parts = {MeshPluginData.VERTEX: vertices, MeshPluginData.FACE: faces, MeshPluginData.COLOR: colors}
    given = {kind: make_np(part) for kind, part in parts.items() if part is not None}
    components = mesh_metadata.get_components_bitmask(list(given))
    config = json.dumps(config_dict or {}, sort_keys=True)
    values = [
        Summary.Value(
            tag=mesh_metadata.get_instance_name(tag, kind),
            tensor=_floats(array),
            metadata=mesh_metadata.create_summary_metadata(tag, None, kind, components, array.shape, None, config),
        )
        for kind, array in given.items()
    ]
    return Summary(value=values)


def _hparam(name: str, value: Any, choices: Sequence[Any] | None) -> tuple[Any, Any]:
    """The description of a hyperparameter, and its value."""
    message = struct_pb2.Value()
    if isinstance(value, (int, float)):
        kinds: Any = (int, float)
        kind, field = api_pb2.DataType.Value("DATA_TYPE_FLOAT64"), "number_value"
    elif isinstance(value, str):
        kinds, kind, field = str, api_pb2.DataType.Value("DATA_TYPE_STRING"), "string_value"
    elif isinstance(value, torch.Tensor):
        kinds, kind, field = (int, float), api_pb2.DataType.Value("DATA_TYPE_FLOAT64"), "number_value"
        value = make_number(value)
    else:
        raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
    setattr(message, field, value)
    info = api_pb2.HParamInfo(name=name, type=kind)
    for choice in choices or ():
        if not isinstance(choice, kinds):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]."
            )
        setattr(info.domain_discrete.values.add(), field, choice)
    return info, message


def hparams(hparam_dict, metric_dict, hparam_domain_discrete=None) -> tuple[Summary, Summary, Summary]:
    """The hyperparameters of a run and the names of its measures: three summaries, of its plan, its start and its end.

    Raises:
        TypeError: an argument is not a dictionary, or a choice has another type than its hyperparameter.
        ValueError: a hyperparameter is not a number, text or a tensor.
    """
    if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
        raise TypeError("hparam_dict and metric_dict should be dictionary.")
    choices = hparam_domain_discrete or {}
    if not isinstance(choices, dict):
        raise TypeError("hparam_domain_discrete should be a dictionary.")
    for name, values in choices.items():
        if name not in hparam_dict or not isinstance(values, list):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]."
            )
    infos, start = [], plugin_data_pb2.SessionStartInfo()
    for name, value in hparam_dict.items():
        if value is None:
            continue
        info, message = _hparam(name, value, choices.get(name))
        infos.append(info)
        start.hparams[name].CopyFrom(message)
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metric_dict]
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    data = plugin_data_pb2.HParamsPluginData

    def summary(tag, content):
        return _value(tag=tag, metadata=hparams_metadata.create_summary_metadata(content))

    plan = api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)
    return (
        summary(hparams_metadata.EXPERIMENT_TAG, data(experiment=plan)),
        summary(hparams_metadata.SESSION_START_INFO_TAG, data(session_start_info=start)),
        summary(hparams_metadata.SESSION_END_INFO_TAG, data(session_end_info=end)),
    )
