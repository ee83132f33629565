"""Errors of the processes of torchrun."""

import functools
import json
import os
import time
import traceback

from rushlight.distributed.run import ChildFailedError

__all__ = ["ChildFailedError", "record"]


def __dir__() -> list[str]:
    return __all__


def record(fn, error_handler=None):
    """Decorates the main function of a program: an error is also written to the file that TORCHELASTIC_ERROR_FILE names.

    Args:
        fn: the function.
        error_handler: an object with ``initialize()`` and ``record_exception(error)`` in place of the file.

    >>> torch.distributed.elastic.multiprocessing.errors.record(lambda: 3)()
    3
    """

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        if error_handler is not None:
            error_handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            # The program has ended by itself, well or with its own message.
            if error.code not in (None, 0):
                (error_handler.record_exception if error_handler is not None else _write)(error)
            raise
        except Exception as error:
            (error_handler.record_exception if error_handler is not None else _write)(error)
            raise

    return wrapper


def _write(error):
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        details = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        with open(path, "w") as file:
            json.dump({"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": details}}, file)
