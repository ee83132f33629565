"""Settings of OpenMP, which is not used."""


def is_available() -> bool:
    """Whether OpenMP is used: always False, because rushlight has its own thread pool.

    >>> torch.backends.openmp.is_available()
    False
    """
    return False
