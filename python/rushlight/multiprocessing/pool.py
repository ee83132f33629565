"""``Pool`` over our queues, which need no locks."""

import multiprocessing.pool
import time


class Pool(multiprocessing.pool.Pool):
    """multiprocessing's pool of workers; tensors in arguments and results travel by descriptor."""

    def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None):
        if context is None:
            from .context import default

            context = default.get_context()
        super().__init__(processes, initializer, initargs, maxtasksperchild, context)

    @staticmethod
    def _help_stuff_finish(inqueue, task_handler, size):
        # The handler may be waiting for room in the queue; nobody is going to read the tasks any more.
        while task_handler.is_alive() and inqueue._reader.poll():
            inqueue._reader.recv_message(block=False)
            time.sleep(0)
