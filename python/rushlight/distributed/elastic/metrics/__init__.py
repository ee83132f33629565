"""Metrics: numbers with names, which a program gives to a handler."""

from .api import (
    ConsoleMetricHandler,
    MetricData,
    MetricHandler,
    MetricsConfig,
    NullMetricHandler,
    configure,
    get_elapsed_time_ms,
    getStream,
    prof,
    profile,
    publish_metric,
    put_metric,
)

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricsConfig",
    "NullMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "initialize_metrics",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]


def __dir__() -> list[str]:
    return [*__all__, "api"]


def initialize_metrics(cfg=None):
    """Accepted; `configure` chooses where metrics go.

    Args:
        cfg: a `MetricsConfig`.
    """
