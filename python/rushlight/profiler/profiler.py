"""`torch.profiler.profiler`: torch's module of these names."""

from rushlight.profiler import ProfilerAction as ProfilerAction
from rushlight.profiler import profile as profile
from rushlight.profiler import schedule as schedule
from rushlight.profiler import supported_activities as supported_activities
from rushlight.profiler import tensorboard_trace_handler as tensorboard_trace_handler

__all__ = [
    "ProfilerAction",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def _default_schedule_fn(step: int) -> ProfilerAction:
    """The schedule of a profile without one: every step is recorded."""
    return ProfilerAction.RECORD


def __dir__() -> list[str]:
    return __all__
