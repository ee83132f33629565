"""Programs that run on a GPU where there is one, and on the card made of software otherwise, in processes of their own."""

import os

import pytest
import soft_card

import rushlight as torch

#: Whether this process has a device, so that programs find one too.
HAS_DEVICE = torch.cuda.is_available()

#: For tests of this process, and not of programs.
needs_device = pytest.mark.skipif(
    not HAS_DEVICE, reason="there is no GPU; make test-cuda runs this on a card made of software"
)

needs_card = pytest.mark.skipif(
    not HAS_DEVICE and soft_card.why_not() is not None, reason=f"there is no GPU, and {soft_card.why_not()}"
)


def environment(**variables):
    """Variables that begin with SOFTCUDA order the work of the card made of software; a GPU does not read them."""
    if not HAS_DEVICE:
        return soft_card.environment(**variables)
    return {**os.environ, **{name: str(value) for name, value in variables.items()}}


def run(program, **variables):
    """What a program prints; an error if it fails."""
    return soft_card.run_in(environment(**variables), program)


def run_file(path, program, **variables):
    """The same for a program that starts processes, which need it as a file."""
    return soft_card.run_file_in(environment(**variables), path, program)
