"""`parallelize_module`: styles for the submodules of a module."""

import fnmatch
import warnings

from .style import ParallelStyle

__all__ = ["parallelize_module"]


def __dir__() -> list[str]:
    return __all__


def parallelize_module(module, device_mesh=None, parallelize_plan=None, *, src_data_rank=0):
    """Spreads the layers of a module over the ranks of a mesh.

    Args:
        module: the module, which is changed.
        device_mesh: a mesh of one dimension, by default all ranks.
        parallelize_plan: a style for the module, or a dictionary of styles by the names of submodules, in which ``*`` and ``?`` stand
            for parts of a name between two points. The empty name is the module itself.
        src_data_rank: the rank of the mesh whose parameters count, or None to take each rank's own without communication.

    Returns:
        the module.

    Raises:
        ValueError: a mesh of several dimensions.
        TypeError: something else than a style.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> from rushlight.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> model = parallelize_module(torch.nn.Sequential(torch.nn.Linear(2, 4)), mesh, {"0": ColwiseParallel()})
    >>> model[0].weight.placements, model(torch.ones(1, 2)).shape
    ((Shard(dim=0),), torch.Size([1, 4]))
    >>> dist.destroy_process_group()
    """
    if device_mesh is None:
        from rushlight.distributed._groups import get_default_group
        from rushlight.distributed.device_mesh import init_device_mesh

        world = get_default_group()
        device_mesh = init_device_mesh(world._object_device().type, (world.size(),))
    if device_mesh.ndim > 1:
        raise ValueError(
            f"Tensor Parallel only accepts a 1D DeviceMesh, but found {device_mesh.ndim}D!\nIf you have a 2-D or N-D "
            'device_mesh, consider passing in device_mesh["tp"]'
        )
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this parallelize_module "
            "call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, device_mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        if path == "":
            parallelize_module(module, device_mesh, style, src_data_rank=src_data_rank)
            continue
        token, _, rest = path.partition(".")
        found = [child for name, child in module.named_children() if fnmatch.fnmatch(name, token)]
        if not found:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching token '{token}' in module "
                f"{module}, skipping this plan entry.",
                stacklevel=2,
            )
        for child in found:
            parallelize_module(child, device_mesh, {rest: style} if rest else style, src_data_rank=src_data_rank)
    return module
