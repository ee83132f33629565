"""Random numbers on GPUs: the default generator of each.

A generator's state is a seed and an offset. As in torch, the numbers of large tensors also depend on the number of multiprocessors. Seeds
that are set before a GPU is used are remembered.
"""

from __future__ import annotations

from rushlight import _C

from ._devices import device_count, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Generator, Tensor


def generator_of(device: Any = None) -> Generator:
    """The default generator of a GPU, by default of the current one."""
    index, count = number_of(device), device_count()
    if not -count <= index < count:
        # torch has them in a tuple, whose last one is that of -1.
        raise IndexError("tuple index out of range")
    return _C._cuda_default_generator(index % count)


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's generator, a tensor of 16 bytes on the CPU.

    >>> if torch.cuda.is_available():
    ...     state = torch.cuda.get_rng_state()
    ...     assert state.numel() == 16
    """
    _C._cuda_init()
    return generator_of(device).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of the generators of all GPUs.

    >>> len(torch.cuda.get_rng_state_all()) == torch.cuda.device_count()
    True
    """
    return [get_rng_state(device) for device in range(device_count())]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Sets the state of a GPU's generator to one that `get_rng_state` returned.

    Raises:
        TypeError: the state is not a tensor of bytes.
        RuntimeError: it has another size, or there is no GPU.

    >>> if torch.cuda.is_available():
    ...     state = torch.cuda.get_rng_state()
    ...     first = torch.rand(2, device="cuda")
    ...     torch.cuda.set_rng_state(state)
    ...     assert torch.equal(torch.rand(2, device="cuda"), first)
    """
    _C._cuda_init()
    generator_of(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Sets the states of the generators of all GPUs.

    >>> torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    """
    for device, state in enumerate(new_states):
        set_rng_state(state, device)


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current GPU; without a GPU it has no effect.

    >>> torch.cuda.manual_seed(0)
    """
    if device_count() > 0 and not _C._cuda_is_in_bad_fork():
        generator_of().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all GPUs, as `torch.manual_seed` does too.

    >>> torch.cuda.manual_seed_all(0)
    """
    _C._cuda_seed_devices(int(seed) % 2**64)


def seed() -> None:
    """Seeds the generator of the current GPU from the system's randomness; without a GPU it has no effect.

    >>> torch.cuda.seed()
    """
    if device_count() > 0:
        generator_of().seed()


def seed_all() -> None:
    """Seeds the generators of all GPUs with one number from the system's randomness.

    >>> torch.cuda.seed_all()
    """
    _C._cuda_seed_devices(_C.Generator().seed())


def initial_seed() -> int:
    """The seed of the current GPU's generator.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.manual_seed(7)
    ...     assert torch.cuda.initial_seed() == 7
    """
    _C._cuda_init()
    return generator_of().initial_seed()
