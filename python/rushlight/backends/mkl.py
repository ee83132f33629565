"""Settings of MKL, which is not used."""


def is_available() -> bool:
    """Whether MKL is used: always False.

    >>> torch.backends.mkl.is_available()
    False
    """
    return False
