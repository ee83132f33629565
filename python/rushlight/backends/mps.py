"""Settings of Apple's GPUs, which are not supported."""


def is_available() -> bool:
    """Whether tensors can be on such a GPU: always False.

    >>> torch.backends.mps.is_available()
    False
    """
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Refuses every call: the version of macOS is asked for only by a build for such a GPU.

    Raises:
        RuntimeError: always.

    >>> try:
    ...     torch.backends.mps.is_macos_or_newer(13, 0)
    ... except RuntimeError as error:
    ...     print(error)
    Cannot execute isOnMacOSorNewer() without MPS backend.
    """
    raise RuntimeError("Cannot execute isOnMacOSorNewer() without MPS backend.")


def is_built() -> bool:
    """Whether this build supports such a GPU: always False.

    >>> torch.backends.mps.is_built()
    False
    """
    return False
