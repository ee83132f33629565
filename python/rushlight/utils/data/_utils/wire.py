"""The connection between the loader and one worker.

The parent writes tasks directly. The worker packs a result immediately (because the dataset may reuse its buffers), but
a thread writes it, so that the worker can continue while the parent is busy. The worker never waits for the parent
while the parent waits for the worker.
"""

import os
import queue
import threading

from rushlight import multiprocessing
from rushlight.multiprocessing.connection import Message


def pipe():
    """Two connected ends, for the parent and for the worker."""
    return multiprocessing.Pipe(duplex=True)


class ParentGone(Exception):
    """The process that owns the loader has ended or has closed the connection."""


class WorkerEnd:
    """The worker's end: `receive` gets tasks, `send` sends results."""

    def __init__(self, connection) -> None:
        self._connection = connection
        self._outgoing: queue.SimpleQueue = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, daemon=True, name="rushlight-worker-results")
        self._writer.start()

    def receive(self):
        # The connection also watches the parent, because another child of it may hold a duplicate of the other end.
        try:
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise ParentGone from error

    def send(self, message, failed) -> None:
        """Sends a message. Errors of pickling are raised. For later errors of sending, `failed()` returns a short
        message that is sent instead."""
        self._outgoing.put((Message(message), failed))

    def _write(self) -> None:
        try:
            while True:
                message, failed = self._outgoing.get()
                try:
                    self._connection.send_message(message)
                except ConnectionError:
                    raise
                except OSError:  # out of descriptors or memory for a large message
                    self._connection.send_message(Message(failed()))
        except ConnectionError:
            return  # the main thread handles the end of the parent, in `receive`
        except BaseException:
            # Nothing can be sent any more. The parent reports that the worker has ended.
            os._exit(1)
