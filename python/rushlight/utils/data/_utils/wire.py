"""The wire between the loader and one worker.

The parent writes tasks straight into the connection. The worker packs a result at once (the data set may
reuse its buffers) but leaves the writing to a thread, so that it can go on with the next batch while the
parent is busy; and it never waits for the parent while the parent waits for it.
"""

import os
import queue
import threading
from multiprocessing.connection import wait

from rushlight import multiprocessing
from rushlight.multiprocessing.channel import process_descriptor
from rushlight.multiprocessing.connection import Message


def pipe():
    """Two connected ends, for the parent and for the worker."""
    return multiprocessing.Pipe(duplex=True)


class ParentGone(Exception):
    """The process that owns the loader has ended or has closed the connection."""


class WorkerEnd:
    """The worker's end: `receive` tasks, `send` results."""

    def __init__(self, connection, parent_pid: int) -> None:
        self._connection = connection
        self._parent = process_descriptor(parent_pid)
        self._outgoing: queue.SimpleQueue = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, daemon=True, name="rushlight-worker-results")
        self._writer.start()

    def receive(self):
        # The connection alone would not tell: another child of the parent may hold a copy of its other end.
        watched = [self._connection] if self._parent is None else [self._connection, self._parent]
        if self._connection not in wait(watched):
            raise ParentGone
        try:
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise ParentGone from error

    def send(self, message, failed) -> None:
        """Raises what pickling the message raises. What goes wrong later, while it is sent, is in the hands of `failed()`,
        which gives a short message that is sent in its place."""
        self._outgoing.put((Message(message), failed))

    def _write(self) -> None:
        try:
            while True:
                message, failed = self._outgoing.get()
                try:
                    self._connection.send_message(message)
                except ConnectionError:
                    raise
                except OSError:  # no descriptor or no memory for a large message
                    self._connection.send_message(Message(failed()))
        except ConnectionError:
            return  # a parent that is gone is the main thread's business: `receive` says so
        except BaseException:
            # Nothing can be said any more; the parent reports a worker that ended.
            os._exit(1)
