"""Hooks that average gradients, as they are or in half precision."""

import rushlight as torch
from rushlight.distributed import _collectives
from rushlight.distributed._groups import resolve

__all__ = [
    "allreduce_hook",
    "fp16_compress_hook",
    "bf16_compress_hook",
    "fp16_compress_wrapper",
    "bf16_compress_wrapper",
]


def __dir__() -> list[str]:
    return __all__


def _average(group, tensor):
    """A future of the average over all ranks."""
    group = resolve(group)
    work = _collectives.all_reduce(tensor.div_(group.size()), group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group, bucket):
    """Averages gradients, as `DistributedDataParallel` does without a hook. The state is a group or None."""
    return _average(process_group, bucket.buffer())


def _compressed(group, bucket, dtype):
    buffer = bucket.buffer()
    small = _average(group, buffer.to(dtype))

    def widen(done):
        buffer.copy_(done.value())
        return buffer

    return small.then(widen)


def fp16_compress_hook(process_group, bucket):
    """Averages gradients in float16, with half of the bytes. The state is a group or None."""
    return _compressed(process_group, bucket, torch.float16)


def bf16_compress_hook(process_group, bucket):
    """Averages gradients in bfloat16, with half of the bytes. The state is a group or None."""
    return _compressed(process_group, bucket, torch.bfloat16)


def _wrapper(hook, dtype):
    def compress(state, bucket):
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))

        def widen(done):
            value = done.value()
            buffer.copy_(value[0] if isinstance(value, list) else value)
            return buffer

        return hook(state, bucket).then(widen)

    return compress


def fp16_compress_wrapper(hook):
    """A hook that gives another one the gradients in float16."""
    return _wrapper(hook, torch.float16)


def bf16_compress_wrapper(hook):
    """A hook that gives another one the gradients in bfloat16."""
    return _wrapper(hook, torch.bfloat16)
