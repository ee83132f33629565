"""Models whose layers are on several ranks, and that compute with several parts of a batch at a time (`torch.distributed.pipelining`)."""

from . import microbatch, schedules, stage
from ._pipe import Pipe, SplitPoint, pipe_split, pipeline
from .schedules import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS
from .stage import PipelineStage, build_stage

__all__ = [
    "Pipe",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "SplitPoint",
    "build_stage",
    "pipe_split",
    "pipeline",
]


def __getattr__(name: str):
    from rushlight._names import missing_from

    raise missing_from("torch.distributed.pipelining", name, __dir__)


def __dir__() -> list[str]:
    return [*__all__, "microbatch", "schedules", "stage"]
