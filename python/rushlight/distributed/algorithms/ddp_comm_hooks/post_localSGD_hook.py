"""Averages gradients over all ranks at first, and then over the ranks of a small group only."""

from rushlight.distributed import _groups

from . import default_hooks

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


def __dir__() -> list[str]:
    return __all__


class PostLocalSGDState:
    """The state of `post_localSGD_hook`.

    Args:
        process_group: the ranks that average at first, by default all.
        subgroup: the ranks that average later, by default those of one machine.
        start_localSGD_iter: the number of steps of the first kind.
        post_local_gradient_allreduce: whether gradients are averaged later at all.
    """

    def __init__(self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True):
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket):
        """Counts a step at its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state, bucket):
    """Averages gradients over the group of the state, and after `start_localSGD_iter` steps over its subgroup.

    Models are averaged besides, by `torch.distributed.algorithms.model_averaging` and `PostLocalSGDOptimizer`.
    """
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks._average(state.process_group, bucket.buffer())
    if not state.post_local_gradient_allreduce:
        from .debugging_hooks import noop_hook

        return noop_hook(None, bucket)
    if state.subgroup is None:
        size = int(_groups.os.environ.get("LOCAL_WORLD_SIZE", _groups.get_world_size()))
        state.subgroup, _ = _groups.new_subgroups(size)
    return default_hooks._average(state.subgroup, bucket.buffer())
