"""Whether OpenMP computes: it does not."""


def is_available() -> bool:
    """Whether OpenMP is there."""
    return False
