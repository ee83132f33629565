"""Settings of the package opt_einsum, which is not used: `einsum` chooses the order of products itself."""

enabled: bool = True
strategy: str | None = "auto"


def is_available() -> bool:
    """Whether opt_einsum is used: always False.

    >>> torch.backends.opt_einsum.is_available()
    False
    """
    return False
