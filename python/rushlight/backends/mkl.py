"""Whether MKL computes: it does not."""


def is_available() -> bool:
    """Whether MKL is there.

    >>> torch.backends.mkl.is_available()
    False
    """
    return False
