"""`SummaryWriter` writes numbers, pictures and more into files that TensorBoard reads."""

import os
import socket
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tensorboard.compat.proto import event_pb2
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import rushlight as torch
from rushlight.utils.tensorboard import _embedding, summary
from rushlight.utils.tensorboard._graph import graph
from rushlight.utils.tensorboard._numbers import make_np


def _histogram_edges() -> list[float]:
    """TensorBoard's bins: each is a tenth wider than the one before, on both sides of zero."""
    edges, edge = [], 1e-12
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [-edge for edge in reversed(edges)] + [0.0] + edges


class FileWriter:
    """Writes events into a file in a folder, from a thread of its own.

    Args:
        log_dir: the folder.
        max_queue: how many events wait at most; a call waits while there are more.
        flush_secs: after how many seconds events are in the file at the latest.
        filename_suffix: the end of the file's name.
    """

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self):
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event, step=None, walltime=None):
        """Writes an event, at a step and a time (in seconds, now if None)."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            # Also a tensor or an array of one element.
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary, global_step=None, walltime=None):
        """Writes a summary."""
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile, walltime=None):
        """Writes a graph and the statistics of its run."""
        definition, statistics = graph_profile
        self.add_event(event_pb2.Event(graph_def=definition.SerializeToString()), None, walltime)
        run = event_pb2.TaggedRunMetadata(tag="step1", run_metadata=statistics.SerializeToString())
        self.add_event(event_pb2.Event(tagged_run_metadata=run), None, walltime)

    def flush(self):
        """Waits until all events are in the file."""
        self.event_writer.flush()

    def close(self):
        """Writes what is left and closes the file."""
        self.event_writer.close()

    def reopen(self):
        """Continues after `close`, in another file."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes numbers, pictures and more into files that TensorBoard reads.

    Args:
        log_dir: the folder, by default ``runs/`` with the time, the machine's name and `comment`.
        comment: added to the name of the default folder.
        purge_step: TensorBoard hides what an earlier, crashed run wrote for this step and later ones.
        max_queue, flush_secs, filename_suffix: as in `FileWriter`.

    Each method has the arguments `tag`, a name with ``/`` between groups, `global_step`, the number of the step, and
    `walltime`, seconds since 1970 in place of now.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
    ...     for step, loss in enumerate([2.0, 1.0, 0.5]):
    ...         writer.add_scalar("loss/train", loss, step)
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if not log_dir:
            log_dir = os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self.default_bins = _histogram_edges()
        self._projector_config = ProjectorConfig()
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._open(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                event = event_pb2.Event(file_version="brain.Event:2")
                self.file_writer.add_event(event, self.purge_step)
                start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                self.file_writer.add_event(event_pb2.Event(session_log=start), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _open(self, folder: Any) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _add(self, made, global_step=None, walltime=None):
        self._get_file_writer().add_summary(made, global_step, walltime)

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """Writes a number. With `new_style` TensorBoard reads it faster, with `double_precision` as float64."""
        self._add(summary.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Writes several numbers for one diagram, each by a writer of its own in a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        main = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(main, main_tag.replace("/", "_") + "_" + tag)
            if folder not in self.all_writers:
                self.all_writers[folder] = self._open(folder)
            self.all_writers[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """Writes all elements of a tensor."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """Writes how the elements of a tensor are distributed. `bins` is also what `numpy.histogram` accepts."""
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag,
        min,
        max,
        num,
        sum,
        sum_squares,
        bucket_limits,
        bucket_counts,
        global_step=None,
        walltime=None,
    ):
        """Writes a histogram that was computed elsewhere: a right limit and a count for each bin."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """Writes an image: bytes from 0 to 255, or other numbers from 0 to 1, with the dimensions `dataformats`."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Writes several images in a grid, eight in a row."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag,
        img_tensor,
        box_tensor,
        global_step=None,
        walltime=None,
        rescale=1,
        dataformats="CHW",
        labels=None,
    ):
        """Writes an image with boxes, rows of left, top, right and bottom, and a label for each."""
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != len(box_tensor):
            labels = None
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(made, global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """Writes a figure of matplotlib, or a list of them, and closes it."""
        from matplotlib import pyplot
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        def pixels(one):
            canvas = FigureCanvasAgg(one)
            canvas.draw()
            found = torch.tensor(bytearray(canvas.buffer_rgba()), dtype=torch.uint8)
            width, height = canvas.get_width_height()
            if close:
                pyplot.close(one)
            return found.view(height, width, 4)[:, :, :3]

        if isinstance(figure, list):
            images = torch.stack([pixels(one) for one in figure])
            self.add_image(tag, images, global_step, walltime, dataformats="NHWC")
        else:
            self.add_image(tag, pixels(figure), global_step, walltime, dataformats="HWC")

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Writes moving images of shape (N, T, C, H, W) as a GIF."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Writes one channel of sound between -1 and 1."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Writes text, which TensorBoard shows as Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_onnx_graph(self, prototxt):
        """Refused: rushlight does not read ONNX files.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("rushlight does not read ONNX files\n  add_graph(model, input) writes a graph.")

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """Writes the calls that a model makes for an input, a tensor or a tuple, and prints them if `verbose`."""
        if input_to_model is None:
            raise ValueError("add_graph needs an input of the model\n  Pass `input_to_model`.")
        self._get_file_writer().add_graph(graph(model, input_to_model, verbose))

    def add_embedding(
        self,
        mat,
        metadata=None,
        label_img=None,
        global_step=None,
        tag="default",
        metadata_header=None,
    ):
        """Writes points for the projector: a matrix with a row for each, their names and square pictures (N, C, H, W)."""
        points = make_np(mat)
        step = 0 if global_step is None else global_step
        if points.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        pictures = None if label_img is None else make_np(label_img)
        if metadata is not None and len(metadata) != len(points):
            raise AssertionError("#labels should equal with #data points")
        if pictures is not None and len(pictures) != len(points):
            raise AssertionError("#images should equal with #data points")
        folder = f"{str(step).zfill(5)}/{quote(tag, safe='')}"
        path = os.path.join(self._get_file_writer().get_logdir(), folder)
        os.makedirs(path, exist_ok=True)
        if metadata is not None:
            _embedding.write_names(metadata, path, metadata_header)
        if pictures is not None:
            _embedding.write_pictures(pictures, path)
        _embedding.write_points(points, path)
        info = _embedding.describe(f"{tag}:{str(step).zfill(5)}", folder, pictures, metadata is not None)
        self._projector_config.embeddings.append(info)
        _embedding.write_config(self._projector_config, self._get_file_writer().get_logdir())

    def add_pr_curve(
        self,
        tag,
        labels,
        predictions,
        global_step=None,
        num_thresholds=127,
        weights=None,
        walltime=None,
    ):
        """Writes precision and recall of predictions between 0 and 1 for labels 0 and 1, at up to 127 thresholds."""
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag,
        true_positive_counts,
        false_positive_counts,
        true_negative_counts,
        false_negative_counts,
        precision,
        recall,
        global_step=None,
        num_thresholds=127,
        weights=None,
        walltime=None,
    ):
        """Writes precision and recall that were computed elsewhere."""
        made = summary.pr_curve_raw(
            tag,
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
            num_thresholds,
        )
        self._add(made, global_step, walltime)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        """Draws several scalars in one diagram."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        """Draws a scalar with a lower and an upper bound: three tags."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout):
        """Draws scalars together: ``{category: {title: ["Multiline" or "Margin", tags]}}``."""
        self._add(summary.custom_scalars(layout))

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None):
        """Writes a surface: vertices (B, N, 3), their colours from 0 to 255, and triangles (B, F, 3)."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Writes hyperparameters and the measures that they led to, as a run in a folder below this one."""
        plan, start, end = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), str(time.time()) if run_name is None else run_name)
        with SummaryWriter(folder) as writer:
            for part in (plan, start, end):
                writer._add(part, global_step)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    def flush(self):
        """Waits until everything is in the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """Writes what is left and closes the files. Another call opens new ones."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
