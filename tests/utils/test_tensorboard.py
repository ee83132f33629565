"""What `SummaryWriter` writes, read by TensorBoard. The expected numbers are those that torch writes."""

import doctest
import io
import math
import struct
import subprocess
import sys

import pytest

import rushlight as torch

pytest.importorskip("tensorboard")
import numpy as np
from PIL import Image
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from rushlight.utils.tensorboard import SummaryWriter, writer


def _events(folder):
    """The events of all files directly in a folder, without the one that begins a file."""
    found = []
    for path in sorted(folder.glob("events*")):
        events = [Event.FromString(data) for data in RawEventFileLoader(str(path)).Load()]
        assert events[0].file_version == "brain.Event:2"
        found += events[1:]
    return found


@pytest.fixture
def write(tmp_path):
    """Writes with a method, and returns the summary's values."""

    def call(method, *arguments, **options):
        with SummaryWriter(tmp_path) as writer:
            getattr(writer, f"add_{method}")(*arguments, **options)
        return [value for event in _events(tmp_path) for value in event.summary.value]

    return call


def _picture(value):
    return np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))


@pytest.mark.parametrize(
    "value", [1.5, torch.tensor(1.5), torch.tensor([[1.5]]), np.float32(1.5), torch.tensor([1.5]).bfloat16()]
)
def test_scalars(write, value):
    (written,) = write("scalar", "group/name", value)
    assert (written.tag, written.simple_value) == ("group/name", 1.5)


def test_scalars_of_the_new_style(write):
    single, double = (
        write("scalar", "a", 2.1, new_style=True),
        write("scalar", "a", 2.1, new_style=True, double_precision=True),
    )
    assert (
        single[0].tensor.float_val[0] == pytest.approx(2.1) and single[0].metadata.plugin_data.plugin_name == "scalars"
    )
    assert double[1].tensor.double_val[0] == 2.1


def test_steps_and_times(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1, 3, walltime=7.5)
        writer.add_scalar("a", 2, torch.tensor(4))
        writer.flush()
        assert [(event.step, event.summary.value[0].simple_value) for event in _events(tmp_path)] == [(3, 1), (4, 2)]
    assert _events(tmp_path)[0].wall_time == 7.5


def test_a_crashed_run_is_purged(tmp_path):
    with SummaryWriter(tmp_path, purge_step=5):
        pass
    first, second = _events(tmp_path)
    assert (first.step, second.step, second.session_log.status) == (5, 5, second.session_log.START)


def test_several_scalars_have_folders(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(2):
            writer.add_scalars("loss/all", {"train": step, "test": torch.tensor(2.0 * step)}, step)
    for name, factor in (("train", 1), ("test", 2)):
        events = _events(tmp_path / f"loss_all_{name}")
        assert [(event.step, event.summary.value[0].simple_value) for event in events] == [(0, 0), (1, factor)]


@pytest.mark.parametrize(
    "dtype, field, numbers",
    [
        (torch.float16, "half_val", [0, 0x3C00, 0x4000]),
        (torch.bfloat16, "half_val", [0, 0x3F80, 0x4000]),
        (torch.float32, "float_val", [0, 1, 2]),
        (torch.float64, "double_val", [0, 1, 2]),
        (torch.int8, "int_val", [0, 1, 2]),
        (torch.uint8, "uint32_val", [0, 1, 2]),
        (torch.int64, "int64_val", [0, 1, 2]),
        (torch.bool, "bool_val", [False, True, True]),
        (torch.complex64, "scomplex_val", [0, 0, 1, 0, 2, 0]),
        (torch.complex128, "dcomplex_val", [0, 0, 1, 0, 2, 0]),
    ],
    ids=str,
)
def test_tensors(write, dtype, field, numbers):
    (written,) = write("tensor", "a", torch.tensor([[0], [1], [2]]).to(dtype).t())
    assert list(getattr(written.tensor, field)) == numbers
    assert [dim.size for dim in written.tensor.tensor_shape.dim] == [1, 3]


def test_histograms(write):
    histogram = write("histogram", "a", torch.arange(100.0), max_bins=7)[0].histo
    assert (histogram.min, histogram.max, histogram.num, histogram.sum, histogram.sum_squares) == (
        0,
        99,
        100,
        4950,
        328350,
    )
    assert list(histogram.bucket) == [0, 1, 45, 54]
    assert histogram.bucket_limit[2] == pytest.approx(45.665277614591687, rel=1e-12)


def test_histograms_with_bins(write):
    values = np.array([1, 2, 3, 4, 10])
    histogram = write("histogram", "a", values, bins=4)[0].histo
    assert list(histogram.bucket_limit) == [1, 3.25, 5.5, 7.75, 10] and list(histogram.bucket) == [0, 3, 1, 0, 1]
    histogram = write("histogram", "a", torch.tensor([0.0, 0.0]))[1].histo
    assert list(histogram.bucket_limit) == [0, 1e-12] and list(histogram.bucket) == [0, 2]
    histogram = write("histogram", "a", torch.tensor([1.0, math.nan]))[2].histo
    assert math.isnan(histogram.sum) and list(histogram.bucket) == [0, 1]
    histogram = write("histogram_raw", "a", 0, 3, 4, 6, 14, [0, 1, 2], [1, 2, 1])[3].histo
    assert list(histogram.bucket) == [1, 2, 1]


_IMAGE = (torch.arange(60).reshape(3, 4, 5) * 4).to(torch.uint8)


@pytest.mark.parametrize(
    "tensor, order",
    [(_IMAGE, "CHW"), (_IMAGE.permute(1, 2, 0), "HWC"), (_IMAGE[None], "NCHW"), (_IMAGE.float() / 255, "CHW")],
    ids=["CHW", "HWC", "NCHW", "float"],
)
def test_images(write, tensor, order):
    (written,) = write("image", "a", tensor, dataformats=order)
    assert (written.image.height, written.image.width, written.image.colorspace) == (4, 5, 3)
    assert np.abs(_picture(written).astype(int) - _IMAGE.permute(1, 2, 0).numpy()).max() <= (
        order == "CHW" and tensor.dtype != torch.uint8
    )


def test_grids_of_images(write):
    (written,) = write("images", "a", torch.arange(10).to(torch.uint8).reshape(10, 1, 1, 1).expand(10, 1, 2, 3))
    picture = _picture(written)
    assert picture.shape == (4, 24, 3)
    assert picture[::2, ::3, 0].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 0, 0, 0, 0, 0, 0]]


def test_boxes(write):
    (written,) = write(
        "image_with_boxes", "a", torch.zeros(3, 30, 30), torch.tensor([[2.0, 3, 10, 12]]), rescale=2, labels=["x"]
    )
    picture = _picture(written)
    assert picture.shape == (60, 60, 3) and picture[6, 10].tolist() == [255, 0, 0] and not picture[40:].any()


def test_figures(write):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure = pyplot.figure(figsize=(1, 2), dpi=50)
    (written,) = write("figure", "a", figure)
    assert _picture(written).shape == (100, 50, 3) and not pyplot.fignum_exists(figure.number)


def test_videos(write):
    videos = torch.zeros(3, 2, 3, 4, 4, dtype=torch.uint8)
    videos[:, 1] = 255
    (written,) = write("video", "a", videos, fps=5)
    moving = Image.open(io.BytesIO(written.image.encoded_image_string))
    assert moving.n_frames == 2 and moving.size == (8, 8) and moving.info["duration"] == 200


def test_sound(write, capsys):
    (written,) = write("audio", "a", torch.tensor([[0.0, 0.5, -1.0, 1.5]]), sample_rate=8000)
    assert struct.unpack("<4h", written.audio.encoded_audio_string[-8:]) == (0, 16383, -32767, 32767)
    assert (written.audio.sample_rate, written.audio.length_frames) == (8000, 4)
    assert "clipped" in capsys.readouterr().out


def test_text(write):
    (written,) = write("text", "a", "*words*")
    assert (written.tag, written.tensor.string_val[0]) == ("a/text_summary", b"*words*")


def test_precision_and_recall(write):
    labels, predictions = torch.tensor([0, 1, 1, 0, 1, 0]), torch.tensor([0.1, 0.9, 0.4, 0.6, 0.7, 0.2])
    (written,) = write("pr_curve", "a", labels, predictions, num_thresholds=9)
    rows = np.array(written.tensor.float_val).reshape(6, 9)
    assert rows[0].tolist() == [3, 3, 3, 3, 2, 2, 1, 1, 0] and rows[1].tolist() == [3, 2, 1, 1, 1, 0, 0, 0, 0]
    assert np.allclose(rows[4, :-1], (rows[0] / np.maximum(rows[0] + rows[1], 1e-7))[:-1])
    weighted = write("pr_curve", "a", labels, predictions, num_thresholds=9, weights=torch.full((6,), 2.0))[1]
    assert list(weighted.tensor.float_val)[:18] == (2 * rows[:2]).reshape(-1).tolist()


def test_layouts(write):
    (written,) = write("custom_scalars", {"T": {"l": ["Multiline", ["a", "b"]], "m": ["Margin", ["c", "d", "e"]]}})
    assert (
        written.tensor.string_val[0]
        == b"\x12\x22\n\x01T\x12\x0b\n\x01l\x12\x06\n\x01a\n\x01b\x12\x10\n\x01m\x1a\x0b\n\t\n\x01c\x12\x01d\x1a\x01e"
    )


def test_meshes(write):
    vertices, faces = torch.arange(12.0).reshape(1, 4, 3), torch.tensor([[[0, 1, 2]]])
    values = write("mesh", "a", vertices, torch.ones(1, 4, 3, dtype=torch.uint8), faces)
    assert [value.tag for value in values] == ["a_VERTEX", "a_FACE", "a_COLOR"]
    assert list(values[1].tensor.float_val) == [0, 1, 2]


def test_hyperparameters(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams(
            {"lr": 0.1, "name": "x", "none": None, "t": torch.tensor(3.0)}, {"acc": 1}, {"lr": [0.1, 0.2]}, "run"
        )
    *parts, last = [event.summary.value[0] for event in _events(tmp_path / "run")]
    plan, start, _ = [HParamsPluginData.FromString(part.metadata.plugin_data.content) for part in parts]
    assert [info.name for info in plan.experiment.hparam_infos] == ["lr", "name", "t"]
    assert [choice.number_value for choice in plan.experiment.hparam_infos[0].domain_discrete.values] == [0.1, 0.2]
    assert start.session_start_info.hparams["t"].number_value == 3 and (last.tag, last.simple_value) == ("acc", 1)


def test_embeddings(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        points = torch.arange(6.0).reshape(3, 2)
        writer.add_embedding(points, ["a", "b", "c"], torch.ones(3, 3, 5, 5), 2, "e/f")
        writer.add_embedding(points, [["a", 1], ["b", 2], ["c", 3]], metadata_header=["n", "v"])
    folder = tmp_path / "00002" / "e%2Ff"
    assert (folder / "tensors.tsv").read_text() == "0.0\t1.0\n2.0\t3.0\n4.0\t5.0\n"
    assert Image.open(folder / "sprite.png").size == (10, 10)
    assert (tmp_path / "00000" / "default" / "metadata.tsv").read_text() == "n\tv\na\t1\nb\t2\nc\t3\n"
    assert (tmp_path / "projector_config.pbtxt").read_text().count("embeddings {") == 2


class _Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2))

    def forward(self, x, y):
        x = self.first(x)
        return self.second(x + y) if x.shape[0] == 2 else x


def test_graphs(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        model = _Branches()
        writer.add_graph(model, (torch.zeros(2, 3), torch.ones(4)))
    graph, run = _events(tmp_path)
    nodes = {node.name: node for node in GraphDef.FromString(graph.graph_def).node}
    assert list(nodes["_Branches/add"].input) == ["_Branches/Linear[first]/linear", "input/input_1"]
    assert list(nodes["_Branches/Sequential[second]/ReLU[0]/relu"].input) == ["_Branches/add"]
    last = nodes["_Branches/Sequential[second]/Linear[1]/linear"]
    assert list(last.input)[1:] == [f"_Branches/Sequential[second]/Linear[1]/{name}" for name in ("weight", "bias")]
    assert [dim.size for dim in last.attr["_output_shapes"].list.shape[0].dim] == [2, 2]
    assert list(nodes["output/output_0"].input) == [last.name]
    assert run.HasField("tagged_run_metadata") and not model.first._forward_hooks


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda w: w.add_scalar("a", torch.ones(2)), AssertionError, "Tensor should contain one element"),
        (lambda w: w.add_scalar("a", "hello"), ValueError, "could not convert string to float"),
        (lambda w: w.add_histogram("a", torch.tensor([])), ValueError, "The input has no element."),
        (lambda w: w.add_histogram("a", [1.0]), NotImplementedError, "Got <class 'list'>, but numpy array or torch"),
        (lambda w: w.add_histogram_raw("a", 0, 1, 2, 3, 4, [1], []), ValueError, r"len\(bucket_limits\) !="),
        (
            lambda w: w.add_image("a", _IMAGE, dataformats="NCHW"),
            AssertionError,
            "size of input tensor and input format",
        ),
        (lambda w: w.add_image("a", _IMAGE, dataformats="CCH"), AssertionError, "same dimension shorthand twice"),
        (lambda w: w.add_audio("a", torch.ones(2, 5)), AssertionError, "input tensor should be 1 dimensional."),
        (lambda w: w.add_video("a", _IMAGE), ValueError, "not enough values to unpack"),
        (lambda w: w.add_custom_scalars_marginchart(["a", "b"]), AssertionError, "Expected 3 tags, got 2."),
        (lambda w: w.add_hparams([1], {}), TypeError, "hparam_dict and metric_dict should be dictionary."),
        (lambda w: w.add_hparams({"a": [1]}, {}), ValueError, "value should be one of int, float, str, bool, or"),
        (lambda w: w.add_hparams({"a": 1}, {}, {"b": [1]}), TypeError, "should be a list of same type"),
        (lambda w: w.add_hparams({"a": 1}, {}, {"a": ["x"]}), TypeError, "should be a list of same type"),
        (lambda w: w.add_embedding(torch.ones(2)), AssertionError, "mat should be 2D"),
        (lambda w: w.add_embedding(torch.ones(2, 2), ["a"]), AssertionError, "#labels should equal with #data points"),
        (
            lambda w: w.add_embedding(torch.ones(2, 2), None, torch.ones(2, 3, 4, 5)),
            AssertionError,
            "Image should be square",
        ),
        (lambda w: w.add_graph(torch.nn.Linear(2, 2)), ValueError, "add_graph needs an input"),
        (lambda w: w.add_onnx_graph("a"), NotImplementedError, "does not read ONNX files"),
    ],
)
def test_bad_calls(tmp_path, call, error, text):
    with SummaryWriter(tmp_path) as writer, pytest.raises(error, match=text):
        call(writer)


def test_a_closed_writer_opens_again(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.close()
    writer.add_scalar("late", 1)
    writer.close()
    assert [event.summary.value[0].tag for event in _events(tmp_path)] == ["late"]


def test_the_example():
    failed, tried = doctest.testmod(writer)
    assert tried and not failed


def test_without_the_package():
    program = "import sys; sys.modules['tensorboard'] = None\nimport rushlight.utils.tensorboard"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ModuleNotFoundError" in done.stderr and "pip install tensorboard" in done.stderr
