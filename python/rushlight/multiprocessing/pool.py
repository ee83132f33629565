"""``Pool`` with this package's queues, which need no locks."""

import multiprocessing.pool
import time


class Pool(multiprocessing.pool.Pool):
    """The pool of `multiprocessing`. Tensors in arguments and results are sent as handles to shared memory."""

    def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None):
        if context is None:
            from .context import default

            context = default.get_context()
        super().__init__(processes, initializer, initargs, maxtasksperchild, context)

    @staticmethod
    def _help_stuff_finish(inqueue, task_handler, size):
        # The handler may be waiting for space in the queue, but the workers no longer read tasks.
        while task_handler.is_alive() and inqueue._reader.poll():
            inqueue._reader.recv_message(block=False)
            time.sleep(0)
