"""Models whose layers are on several ranks, and that compute with several parts of a batch at a time (`torch.distributed.pipelining`)."""

from typing import TYPE_CHECKING, Any

from rushlight._set_module import set_public_module
from rushlight._unsupported import declare

from . import microbatch as microbatch
from . import schedules as schedules
from . import stage as stage
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
    *declare(
        globals(),
        "gradients of parameters and of activations are computed together",
        "class ScheduleDualPipeV ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble",
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


set_public_module(globals())


def __dir__() -> list[str]:
    return [*__all__, "microbatch", "schedules", "stage"]
