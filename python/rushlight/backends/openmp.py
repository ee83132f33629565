"""Whether OpenMP computes: it does not."""


def is_available() -> bool:
    """Whether OpenMP runs the threads: they are rushlight's own.

    >>> torch.backends.openmp.is_available()
    False
    """
    return False
