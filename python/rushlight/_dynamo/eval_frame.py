"""Names of `torch._dynamo.eval_frame` by which libraries recognise compiled modules. There are none."""

from rushlight._dynamo import OptimizedModule as OptimizedModule


def is_dynamo_supported() -> bool:
    """Whether programs can be captured for a compiler: always False."""
    return False
