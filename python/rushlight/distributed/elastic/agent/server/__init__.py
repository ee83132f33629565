"""Agents: what starts the processes of a program on a machine, and watches them."""

from . import api, local_elastic_agent
from .api import ElasticAgent, RunResult, SimpleElasticAgent, Worker, WorkerGroup, WorkerSpec, WorkerState

__all__ = ["ElasticAgent", "RunResult", "SimpleElasticAgent", "Worker", "WorkerGroup", "WorkerSpec", "WorkerState"]


def __dir__() -> list[str]:
    return [*__all__, "api", "local_elastic_agent"]
