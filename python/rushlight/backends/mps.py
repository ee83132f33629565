"""Settings of Apple's GPUs, which are not supported."""


def is_available() -> bool:
    """Whether tensors can be on such a GPU: always False.

    >>> torch.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """Whether this build supports such a GPU: always False.

    >>> torch.backends.mps.is_built()
    False
    """
    return False
