"""Apple's graphics processors, which are not used."""


def is_available() -> bool:
    """Whether tensors can live on one.

    >>> torch.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """Whether this build computes on one.

    >>> torch.backends.mps.is_built()
    False
    """
    return False
