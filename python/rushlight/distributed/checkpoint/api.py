"""The error of a checkpoint in which a rank has failed."""

import traceback

__all__ = ["CheckpointException"]


def __dir__() -> list[str]:
    return __all__


class CheckpointException(BaseException):
    """Saving or loading has failed on some ranks. All ranks raise it.

    >>> torch.distributed.checkpoint.CheckpointException("save", {1: (ValueError("x"), [])}).failures[1][0]
    ValueError('x')
    """

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self):
        """The error and the stack of each rank that failed."""
        return self._failures

    def __str__(self):
        lines = [f"CheckpointException ranks:{self._failures.keys()}"]
        for rank, (error, stack) in self._failures.items():
            lines.append(f"rank {rank}: {type(error).__name__}: {error}")
            lines += [line.rstrip() for line in traceback.format_list(stack)]
        return "\n".join(lines)
