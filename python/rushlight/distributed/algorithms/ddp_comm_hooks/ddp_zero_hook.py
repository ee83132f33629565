"""Hooks of `DistributedDataParallel` that make the steps of a `ZeroRedundancyOptimizer` within the backward pass."""

from rushlight.distributed._backends import Backend
from rushlight.distributed._groups import get_backend

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]


def __dir__() -> list[str]:
    return __all__


def hook_with_zero_step(hook, ddp, zero, shard_buckets=False):
    """A hook that averages as another one does, and then makes the step of the optimizer, which has `overlap_with_ddp`.

    The program does not call ``zero.step()``. The first backward pass makes a step already (torch leaves out the first two or three).

    Args:
        hook: the other hook, for example `default_hooks.allreduce_hook`.
        ddp: the `DistributedDataParallel` that gets the hook.
        zero: the optimizer of its parameters.
        shard_buckets: accepted; parameters belong to ranks as the optimizer divides them.

    Raises:
        ValueError: the optimizer has no `overlap_with_ddp`.
        RuntimeError: the backend is `gloo`, as in torch. `mpi` is the same code.
    """
    if not zero._overlap_with_ddp:
        raise ValueError(
            "ZeroRedundancyOptimizer must be constructed with `overlap_with_ddp=True` to use this hook properly"
        )
    if get_backend(ddp.process_group) == Backend.GLOO:
        raise RuntimeError("Gloo backend using Overlapping DDP with ZeRO may meet hangs")
    begun = []

    def with_step(state, bucket):
        future = hook(state, bucket)
        begun.append((bucket, future))
        if not bucket.is_last():
            return future
        every = begun.copy()
        begun.clear()

        def step(done):
            _step(zero, every)
            return bucket.buffer()

        return future.then(step)

    return with_step


def hook_with_zero_step_interleaved(hook, ddp, zero, shard_buckets=False):
    """The same as `hook_with_zero_step`."""
    return hook_with_zero_step(hook, ddp, zero, shard_buckets)


def _step(zero, every):
    """Makes a step with the gradients of all buckets, which the parameters get only afterwards."""
    before = []
    for bucket, future in every:
        result = future.wait()
        result = result[0] if isinstance(result, (list, tuple)) else result
        if result.data_ptr() != bucket.buffer().data_ptr():
            bucket.buffer().copy_(result.view(-1))
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            before.append((parameter, parameter.grad))
            parameter.grad = gradient
    try:
        zero._step(None)
    finally:
        for parameter, grad in before:
            parameter.grad = grad
