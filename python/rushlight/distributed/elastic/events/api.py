"""What an event consists of, and its form as a line of JSON."""

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import ClassVar

__all__ = ["EventSource", "Event", "NodeState", "RdzvEvent"]


def __dir__() -> list[str]:
    return [*__all__, "EventMetadataValue"]


EventMetadataValue = str | int | float | bool | None


class EventSource(str, Enum):  # noqa: UP042 - its text is "EventSource.AGENT", as in torch
    """Who records an event.

    >>> torch.distributed.elastic.events.EventSource.AGENT
    <EventSource.AGENT: 'AGENT'>
    """

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(str, Enum):  # noqa: UP042
    """The state of a machine in a rendezvous.

    >>> torch.distributed.elastic.events.NodeState.INIT
    <NodeState.INIT: 'INIT'>
    """

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class _Line:
    """An event as a line of JSON."""

    #: The field that has a member of an enumeration, and the enumeration.
    _enumerated: ClassVar[tuple[str, type[Enum]]]

    def __str__(self):
        return self.serialize()

    def serialize(self) -> str:
        """The event as JSON."""
        return json.dumps(asdict(self))  # type: ignore[call-overload]

    @classmethod
    def deserialize(cls, data):
        """The event of a line of JSON; an event as it is.

        Raises:
            KeyError: there is no source or state, or none of that name.

        >>> events = torch.distributed.elastic.events
        >>> events.Event.deserialize('{"name": "saved", "source": "AGENT"}').source
        <EventSource.AGENT: 'AGENT'>
        """
        if isinstance(data, cls):
            return data
        found = json.loads(data)
        name, kind = cls._enumerated
        found[name] = kind[found[name]]
        return cls(**found)


@dataclass
class Event(_Line):
    """Something that happened to processes that torchrun started.

    Args:
        name: what happened.
        source: an `EventSource`.
        timestamp: milliseconds since 1970.
        metadata: a dict from names to texts, numbers, truth values and None.

    >>> event = torch.distributed.elastic.events.Event("saved", torch.distributed.elastic.events.EventSource.WORKER)
    >>> print(event)
    {"name": "saved", "source": "WORKER", "timestamp": 0, "metadata": {}}
    """

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    _enumerated = ("source", EventSource)


@dataclass
class RdzvEvent(_Line):
    """Something that happened when machines met.

    Args:
        name: what happened.
        run_id: the name of the job.
        message: a text.
        hostname, pid: the process.
        node_state: a `NodeState`.
        master_endpoint: HOST:PORT of the store, if it is known.
        rank, local_id: the number of the machine, and that of the process on it.
        error_trace: the traceback of an error.
    """

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    _enumerated = ("node_state", NodeState)
