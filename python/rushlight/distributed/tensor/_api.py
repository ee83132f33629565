"""`DTensor`: a tensor whose parts are on several ranks.

A `DTensor` is the tensor of this rank's part, with the mesh, the placements and the shape of the whole beside it. So the engine
records the part's history and gradient like those of any tensor, and optimizers change parts in place. The functions that
it takes part in are in `_functions`.
"""

import copy

import rushlight as torch
from rushlight import Tensor
from rushlight._answers import elements
from rushlight._C import _disabled_torch_function_impl, _expect_overrides
from rushlight._set_module import set_module
from rushlight.distributed import _collectives

from ._layout import GradientPlaced, Redistribute, Spec, checked, cut, everywhere, is_cut, local_shape, order
from .placement_types import Placement, Shard


class DTensor(Tensor):
    """A tensor whose parts are on the ranks of a mesh.

    `distribute_tensor` and `DTensor.from_local` make it. Elementwise functions work on the parts. Other functions get the
    whole tensor on every rank, so that all ranks of the mesh call them.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> dist.tensor.distribute_tensor(torch.arange(3.0), mesh, [dist.tensor.Shard(0)])
    DTensor(local_tensor=tensor([0., 1., 2.]), device_mesh=DeviceMesh((1,), 'cpu', stride=(1,)), placements=(Shard(dim=0),))
    >>> dist.destroy_process_group()
    """

    _spec: Spec

    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment] # until the class is complete

    @staticmethod
    def from_local(
        local_tensor,
        device_mesh=None,
        placements=None,
        *,
        run_check=False,
        shape=None,
        stride=None,
        grad_placements=None,
    ):
        """A tensor of the parts that the ranks have.

        Args:
            local_tensor: this rank's part. It is moved to the mesh's kind of device.
            device_mesh: the mesh.
            placements: how the parts lie, by default all alike.
            run_check: copy the part of the first rank to those that should be alike.
            shape: the shape of the whole; by default it is computed, which takes parts of one size.
            stride: accepted; a tensor is contiguous.
            grad_placements: accepted; gradients lie like the tensor.
        """
        for number, placement in enumerate(placements or ()):
            if isinstance(placement, Shard) and placement.dim >= local_tensor.dim():
                raise RuntimeError(
                    f"Sharding dim {placement.dim} greater than tensor ndim {local_tensor.dim()} for placement number {number}"
                )
        placements = checked(placements, device_mesh, local_tensor.dim())
        local_tensor = _on(device_mesh, local_tensor)
        if shape is None:
            shape = list(local_tensor.shape)
            for dim, placement in enumerate(placements):
                if isinstance(placement, Shard):
                    shape[placement.dim] *= device_mesh.size(dim)
        if run_check:
            for dim, placement in enumerate(placements):
                if placement.is_replicate():
                    _collectives.broadcast(local_tensor.detach(), group=device_mesh.get_group(dim), group_src=0)
        return wrapped(local_tensor, Spec(device_mesh, placements, torch.Size(shape)))

    @property
    def device_mesh(self):
        """The mesh."""
        return self._spec.mesh

    @property
    def placements(self):
        """The placement along each dimension of the mesh."""
        return self._spec.placements

    @property
    def _local_tensor(self):
        return elements(self)

    def to_local(self, *, grad_placements=None):
        """This rank's part, a plain tensor. Gradients lie like the tensor, unless other placements are given."""
        local = elements(self)
        if grad_placements is None:
            return local
        return GradientPlaced.apply(local, self._spec, checked(grad_placements, self._spec.mesh, len(self._spec.shape)))

    def redistribute(
        self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None, backward_dtype=None
    ):
        """The tensor with other placements. All ranks of the mesh call it.

        Args:
            device_mesh: the tensor's own.
            placements: the new placements.
            async_op: accepted; the parts are there when it returns.
            forward_dtype: the dtype of the result.
            backward_dtype: accepted.

        Raises:
            RuntimeError: no placements are given, or `Partial` ones that the tensor does not have.
            NotImplementedError: another mesh.
        """
        if device_mesh is not None and device_mesh != self._spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        placements = checked(placements, self._spec.mesh, len(self._spec.shape))
        for now, wanted in zip(self._spec.placements, placements):
            if wanted.is_partial() and now != wanted:
                raise RuntimeError(
                    f"Can not redistribute from {now} to {wanted}, redistributing to Partial is for internal use only!"
                )
        return self._moved(placements, forward_dtype)

    def _moved(self, placements, forward_dtype=None):
        local = elements(self) if forward_dtype is None else elements(self).to(forward_dtype)
        if placements != self._spec.placements:
            local = Redistribute.apply(local, self._spec, placements)
        return wrapped(local, self._spec.placed(placements))

    def full_tensor(self, *, grad_placements=None):
        """The whole tensor on every rank. All ranks of the mesh call it."""
        return self.redistribute(placements=everywhere(self._spec.mesh)).to_local(grad_placements=grad_placements)

    def __repr__(self, *, tensor_contents=None):
        with torch.no_grad():
            local = elements(self).detach()
        return f"DTensor(local_tensor={local}, device_mesh={self._spec.mesh}, placements={self._spec.placements})"

    def __copy__(self):
        # The copy shares the elements.
        made = leaf(elements(self).detach(), self._spec, self.requires_grad)
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        made = leaf(copy.deepcopy(elements(self).detach(), memo), self._spec, self.requires_grad)
        made.__dict__.update({key: value for key, value in self.__dict__.items() if key != "_spec"})
        if self.grad is not None:
            made.grad = copy.deepcopy(self.grad, memo)
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol):
        return leaf, (elements(self).detach(), self._spec, self.requires_grad)


def _on(mesh, tensor):
    """A tensor on the mesh's kind of device."""
    return tensor if tensor.is_meta or tensor.device.type == mesh.device_type else tensor.to(mesh.device_type)


def wrapped(local, spec):
    """A part with its history, as a `DTensor`."""
    _expect_overrides()
    made = local.as_subclass(DTensor)
    made._spec = spec
    return made


def leaf(local, spec, requires_grad=False):
    """A part without history, as a `DTensor`."""
    _expect_overrides()
    made = Tensor._make_subclass(DTensor, local, requires_grad)
    made._spec = spec
    return made


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """Gives each rank its part of a tensor.

    Args:
        tensor: the whole tensor, of which that of the first rank of the mesh counts. It is moved to the mesh's kind of device.
        device_mesh: the mesh.
        placements: how it shall lie, by default whole on every rank.
        src_data_rank: 0, or None to take each rank's own values without communication.

    Returns:
        a `DTensor`, a leaf.

    Raises:
        RuntimeError: there is no mesh, or something else than a placement.
        ValueError: the number of placements is not that of the mesh's dimensions.
        AssertionError: the tensor has no such dimension.
    """
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != device_mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {device_mesh}."
            )
        return tensor.redistribute(placements=placements) if placements is not None else tensor
    if device_mesh is None:
        raise RuntimeError("No device mesh is currently active!")
    for dim, placement in enumerate(placements or ()):
        if not isinstance(placement, Placement):
            raise RuntimeError(
                f"Trying to distribute tensor with unsupported placements {placement} on device mesh dimension {dim}!"
            )
        if is_cut(placement) and not -tensor.dim() <= placement.dim < tensor.dim():
            raise AssertionError(f"Sharding dim {placement.dim} greater than tensor ndim {tensor.dim()}")
    placements = checked(placements, device_mesh, tensor.dim())
    spec = Spec(device_mesh, placements, tensor.shape)
    with torch.no_grad():
        local = _on(device_mesh, tensor.detach())
        if src_data_rank is not None and not local.is_meta:
            local = local.clone(memory_format=torch.contiguous_format)
            for dim in range(device_mesh.ndim):
                _collectives.broadcast(local, group=device_mesh.get_group(dim), group_src=src_data_rank)
        for dim in order(placements):
            placement = placements[dim]
            if is_cut(placement):
                local = cut(local, spec, dim)
            elif placement.is_partial() and device_mesh.get_coordinate()[dim] != 0:
                local = torch.zeros_like(local)
        # A part has memory of its own, not that of the whole tensor.
        local = (
            local.clone()
            if local.data_ptr() == tensor.data_ptr()
            or local.numel() < local.untyped_storage().nbytes() // max(1, local.itemsize)
            else local
        )
    return leaf(local, spec, tensor.requires_grad)


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Replaces the parameters and buffers of a module by tensors on a mesh.

    Args:
        module: the module, which is changed.
        device_mesh: the mesh.
        partition_fn: ``partition_fn(name, module, mesh)`` is called for each submodule first, and replaces its parameters. What it
            leaves is then on every rank.
        input_fn, output_fn: ``input_fn(module, inputs, mesh)`` and ``output_fn(module, outputs, mesh)`` change what
            forward gets and returns.
    """
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, device_mesh)
        for own, parameter in list(part._parameters.items()):
            if parameter is not None and not isinstance(parameter, DTensor):
                whole = distribute_tensor(parameter, device_mesh, everywhere(device_mesh))
                part.register_parameter(own, torch.nn.Parameter(whole, parameter.requires_grad))
        for own, buffer in list(part._buffers.items()):
            if buffer is not None and not isinstance(buffer, DTensor):
                part._buffers[own] = distribute_tensor(buffer, device_mesh, everywhere(device_mesh))
    if input_fn is not None:
        module.register_forward_pre_hook(lambda part, inputs: input_fn(part, inputs, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda part, inputs, outputs: output_fn(part, outputs, device_mesh))
    return module


def _factory(name, fill):
    def make(*size, dtype=None, layout=torch.strided, requires_grad=False, device_mesh=None, placements=None):
        size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        spec = Spec(device_mesh, checked(placements, device_mesh, len(size)), torch.Size(size))
        return leaf(fill(local_shape(spec), dtype=dtype, device=device_mesh.device_type), spec, requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`torch.{name}` on a mesh: each rank makes its part."
    return make


zeros = _factory("zeros", torch.zeros)
ones = _factory("ones", torch.ones)
empty = _factory("empty", torch.empty)


def full(size, fill_value, *, dtype=None, layout=torch.strided, requires_grad=False, device_mesh=None, placements=None):
    """`torch.full` on a mesh: each rank makes its part."""
    spec = Spec(device_mesh, checked(placements, device_mesh, len(size)), torch.Size(size))
    made = torch.full(local_shape(spec), fill_value, dtype=dtype, device=device_mesh.device_type)
    return leaf(made, spec, requires_grad)


def _random(name, draw):
    def make(*size, dtype=None, layout=torch.strided, requires_grad=False, device_mesh=None, placements=None):
        size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        made = distribute_tensor(draw(size, dtype=dtype), device_mesh, checked(placements, device_mesh, len(size)))
        return made.requires_grad_(requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`torch.{name}` on a mesh: the first rank draws the whole tensor."
    return make


rand = _random("rand", torch.rand)
randn = _random("randn", torch.randn)

set_module(
    "rushlight.distributed.tensor", DTensor, distribute_tensor, distribute_module, zeros, ones, empty, full, rand, randn
)
