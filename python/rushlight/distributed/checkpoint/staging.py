"""Copies of a state, which `async_save` writes while training goes on."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import rushlight as torch
from rushlight.distributed.tensor import DTensor
from rushlight.distributed.tensor._api import leaf

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


def __dir__() -> list[str]:
    return __all__


@runtime_checkable
class AsyncStager(Protocol):
    """What copies a state for `async_save`. A program may give an object of its own."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self):
        """Whether `async_save` calls `synchronize_staging` as soon as writing has begun."""
        return self._synchronize_after_execute

    def stage(self, state_dict):
        """The copy, or a `concurrent.futures.Future` of it."""

    def synchronize_staging(self):
        """Waits until the copy exists."""

    def close(self):
        """Releases what the stager keeps."""


class BlockingAsyncStager(AsyncStager):
    """Copies a state to the host before `async_save` returns.

    Args:
        cache_staged_state_dict: keep the memory of the copy for the next one. The state must be written before that.
        type_check: accepted.

    >>> stager = torch.distributed.checkpoint.staging.BlockingAsyncStager()
    >>> weight = torch.zeros(2)
    >>> staged = stager.stage({"weight": weight})
    >>> weight += 1
    >>> staged
    {'weight': tensor([0., 0.])}
    """

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict=False, type_check=False):
        self._keeps, self._kept = cache_staged_state_dict, None

    def stage(self, state_dict):
        """The copy."""
        made = copied(state_dict, self._kept)
        self._kept = made if self._keeps else None
        return made

    def synchronize_staging(self):
        """Nothing: the copy exists."""

    def close(self):
        """Releases the memory."""
        self._kept = None


@dataclass
class StagingOptions:
    """Options of `DefaultStager`.

    Args:
        use_pinned_memory: accepted.
        use_shared_memory: the copies are in shared memory.
        use_async_staging: a thread copies.
        use_non_blocking_copy: accepted where there is a GPU.
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies a state to the host, in a thread if the options ask for one, and keeps the memory of the copy for the next one.

    Args:
        config: `StagingOptions`.

    Raises:
        AssertionError: `use_non_blocking_copy` is set, and there is no GPU.

    >>> staging = torch.distributed.checkpoint.staging
    >>> stager = staging.DefaultStager(staging.StagingOptions(use_async_staging=True, use_non_blocking_copy=False))
    >>> stager.stage({"weight": torch.zeros(2)}).result()
    {'weight': tensor([0., 0.])}
    >>> stager.close()
    """

    def __init__(self, config=StagingOptions()):
        if config.use_non_blocking_copy and not torch.cuda.is_available():
            raise AssertionError(
                "Non-blocking copy requires that the current accelerator is available.\n"
                "  Give StagingOptions(use_non_blocking_copy=False)."
            )
        self._options, self._kept, self._future = config, None, None
        self._thread = ThreadPoolExecutor(1, "staging") if config.use_async_staging else None

    def stage(self, state_dict):
        """The copy, or a `concurrent.futures.Future` of it."""
        if self._thread is None:
            return self._stage(state_dict, None)
        stream = torch.cuda.current_stream() if torch.cuda.is_initialized() else None
        self._future = self._thread.submit(self._stage, state_dict, stream)
        return self._future

    def _stage(self, state_dict, stream):
        # The thread has a current stream of its own.
        with torch.cuda.stream(stream):
            made = copied(state_dict, self._kept)
        if self._options.use_shared_memory and self._kept is None:
            torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.share_memory_, made)
        self._kept = made
        return made

    def synchronize_staging(self):
        """Waits until the copy exists."""
        if self._future is not None:
            self._future.result()

    def close(self):
        """Ends the thread, and releases the memory."""
        if self._thread is not None:
            self._thread.shutdown()
        self._kept = self._future = None


def copied(value, kept=None):
    """A copy of a state on the host, in the memory of an older one where shapes and dtypes are the same."""
    if isinstance(value, DTensor):
        old = kept.to_local() if isinstance(kept, DTensor) else None
        return leaf(copied(value.to_local(), old), value._spec)
    if isinstance(value, torch.Tensor):
        # On the host, as the thread has another current GPU and stream.
        if isinstance(kept, torch.Tensor) and (kept.shape, kept.dtype) == (value.shape, value.dtype):
            return kept.copy_(value.detach())
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        old = kept if isinstance(kept, dict) else {}
        return {key: copied(one, old.get(key)) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        old = kept if isinstance(kept, (list, tuple)) and len(kept) == len(value) else [None] * len(value)
        made = [copied(one, other) for one, other in zip(value, old)]
        return getattr(type(value), "_make", type(value))(made)
    return copy.deepcopy(value)
