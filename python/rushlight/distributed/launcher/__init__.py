"""Starts a function or a command in several processes, as torchrun does."""

from . import api
from .api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


def __dir__() -> list[str]:
    return [*__all__, "api"]
