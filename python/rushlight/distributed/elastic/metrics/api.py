"""Numbers with names, and where they go."""

import abc
import functools
import time
import warnings
from typing import NamedTuple

__all__ = [
    "MetricsConfig",
    "MetricHandler",
    "ConsoleMetricHandler",
    "NullMetricHandler",
    "MetricStream",
    "configure",
    "getStream",
    "prof",
    "profile",
    "put_metric",
    "publish_metric",
    "get_elapsed_time_ms",
    "MetricData",
]


def __dir__() -> list[str]:
    return __all__


class MetricData(NamedTuple):
    """A number: the time in seconds since 1970, its group, its name and the value."""

    timestamp: float
    group_name: str
    name: str
    value: float


class MetricsConfig:
    """Options of metrics, by name."""

    __slots__ = ["params"]

    def __init__(self, params=None):
        self.params = {} if params is None else params


class MetricHandler(abc.ABC):
    """Where metrics go. A subclass has `emit`."""

    @abc.abstractmethod
    def emit(self, metric_data):
        """Takes a `MetricData`."""


class ConsoleMetricHandler(MetricHandler):
    """Prints metrics.

    >>> metrics = torch.distributed.elastic.metrics
    >>> metrics.ConsoleMetricHandler().emit(metrics.MetricData(1.5, "train", "loss", 0.25))
    [1.5][train]: loss=0.25
    """

    def emit(self, metric_data):
        print(f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}")


class NullMetricHandler(MetricHandler):
    """Drops metrics. It is the default."""

    def emit(self, metric_data):
        pass


class MetricStream:
    """The metrics of a group and their handler."""

    def __init__(self, group_name, handler):
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name, metric_value):
        """Gives a number to the handler, with the time."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_handlers: dict[str, MetricHandler] = {}
_default_handler: MetricHandler = NullMetricHandler()


def configure(handler, group=None):
    """Sets the `MetricHandler` of a group, or without a group that of all groups that have none of their own.

    >>> metrics = torch.distributed.elastic.metrics
    >>> metrics.configure(metrics.ConsoleMetricHandler(), group="printed")
    """
    global _default_handler
    if group is None:
        _default_handler = handler
    else:
        _handlers[group] = handler


def getStream(group):
    """The `MetricStream` of a group."""
    return MetricStream(group, _handlers.get(group, _default_handler))


def put_metric(metric_name, metric_value, metric_group="torchelastic"):
    """Gives a number to the handler of a group.

    >>> torch.distributed.elastic.metrics.put_metric("loss", 0.25, "train")
    """
    getStream(metric_group).add_value(metric_name, metric_value)


def get_elapsed_time_ms(start_time_in_seconds):
    """The milliseconds since a time, a whole number."""
    return int((time.time() - start_time_in_seconds) * 1000)


def _get_metric_name(fn):
    qualified = fn.__qualname__
    return qualified if "." in qualified else f"{fn.__module__}.{qualified}"


def _measured(fn, name, put):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        start = time.time()
        try:
            result = fn(*args, **kwargs)
            put(f"{name}.success", 1)
        except Exception:
            put(f"{name}.failure", 1)
            raise
        finally:
            put(f"{name}.duration.ms", get_elapsed_time_ms(start))
        return result

    return wrapper


def prof(fn=None, group="torchelastic"):
    """Decorates a function: its calls give `<name>.success` or `<name>.failure`, and `<name>.duration.ms`.

    The name is that of the class and the method, or that of the module and the function.

    >>> torch.distributed.elastic.metrics.prof(max)(1, 2)
    2
    """
    if fn is None:
        return functools.partial(prof, group=group)
    return _measured(fn, _get_metric_name(fn), lambda name, value: put_metric(name, value, group))


def profile(group=None):
    """The older form of `prof`; metrics have the name of the function alone."""
    warnings.warn("Deprecated, use `@prof` instead", FutureWarning, stacklevel=2)

    def decorate(fn):
        return _measured(fn, fn.__name__, lambda name, value: publish_metric(group, name, value))

    return decorate


def publish_metric(metric_group, metric_name, metric_value):
    """The older form of `put_metric`."""
    warnings.warn(
        "Deprecated, use `put_metric(metric_group)(metric_name, metric_value)` instead", FutureWarning, stacklevel=2
    )
    put_metric(metric_name, metric_value, metric_group)
