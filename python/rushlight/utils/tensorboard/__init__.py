"""`torch.utils.tensorboard`: writes what TensorBoard shows. It needs the package ``tensorboard``."""

try:
    import tensorboard as _tensorboard
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        f"{_error.msg}\n  torch.utils.tensorboard writes with it: pip install tensorboard", name=_error.name
    ) from None

from tensorboard.summary.writer.record_writer import RecordWriter

from rushlight.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
