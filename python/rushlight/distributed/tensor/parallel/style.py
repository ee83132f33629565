"""How one module is spread over the ranks of a mesh, and how its inputs and outputs lie."""

from abc import ABC, abstractmethod

import rushlight as torch
from rushlight.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from rushlight.nn import Embedding, Linear, Parameter

__all__ = [
    "ParallelStyle",
    "RowwiseParallel",
    "SequenceParallel",
    "ColwiseParallel",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
]


def __dir__() -> list[str]:
    return __all__


class ParallelStyle(ABC):
    """The base of styles. A subclass defines ``_apply(module, device_mesh)``.

    >>> issubclass(torch.distributed.tensor.parallel.ColwiseParallel, torch.distributed.tensor.parallel.ParallelStyle)
    True
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module, device_mesh):
        """Changes a module."""

    def _spread(self, module, device_mesh, placements):
        """Replaces a module's own parameters by tensors with the placement that their names have."""
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and not isinstance(parameter, DTensor):
                made = distribute_tensor(parameter, device_mesh, [placements[name]], src_data_rank=self.src_data_rank)
                module.register_parameter(name, Parameter(made, parameter.requires_grad))


def _laid(value, device_mesh, given, wanted):
    """A tensor on the mesh with some placements. A plain tensor is this rank's part under others, those that are given."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, device_mesh, given, run_check=False)
    return value if value.placements == wanted else value.redistribute(placements=wanted)


class _OfLayer(ParallelStyle):
    """The style of a linear layer or an embedding."""

    #: The placements of a linear layer's parameters, of an embedding's, and of the inputs of both.
    linear: dict
    embedding: dict
    wanted: dict

    def __init__(self, input_layouts, output_layouts, use_local_output):
        self.input_layouts, self.output_layouts = (input_layouts,), (output_layouts,)
        self.use_local_output = use_local_output

    def _apply(self, module, device_mesh):
        kind = next((kind for kind in (Linear, Embedding) if isinstance(module, kind)), None)
        if kind is None:
            raise NotImplementedError(f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!")
        placements, wanted = (self.linear if kind is Linear else self.embedding), (self.wanted[kind],)

        given = lambda module, inputs, mesh: _laid(inputs[0], mesh, self.input_layouts, wanted)

        def returned(module, output, mesh):
            output = _laid(output, mesh, self.output_layouts, self.output_layouts)
            return output.to_local() if self.use_local_output else output

        spread = lambda name, part, mesh: self._spread(part, mesh, placements)
        return distribute_module(module, device_mesh, spread, given, returned)

    def __repr__(self):
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_OfLayer):
    """Ranks have some of the outputs of a linear layer, or of the columns of an embedding.

    Args:
        input_layouts: how the input lies, by default whole on every rank.
        output_layouts: how the output shall lie, by default as ``Shard(-1)``.
        use_local_output: whether the module returns this rank's part, a plain tensor.

    >>> torch.distributed.tensor.parallel.ColwiseParallel().output_layouts
    (Shard(dim=-1),)
    """

    linear = {"weight": Shard(0), "bias": Shard(0)}
    embedding = {"weight": Shard(1)}
    wanted = {Linear: Replicate(), Embedding: Replicate()}

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)


class RowwiseParallel(_OfLayer):
    """Ranks have the weights of some of the inputs of a linear layer, or some of the rows of an embedding.

    Args:
        input_layouts: how the input lies, by default as ``Shard(-1)``.
        output_layouts: how the output shall lie, by default whole on every rank.
        use_local_output: whether the module returns this rank's part, a plain tensor.

    >>> torch.distributed.tensor.parallel.RowwiseParallel().input_layouts
    (Shard(dim=-1),)
    """

    linear = {"weight": Shard(1), "bias": Replicate()}
    embedding = {"weight": Shard(0)}
    wanted = {Linear: Shard(-1), Embedding: Replicate()}

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)


class SequenceParallel(ParallelStyle):
    """Ranks have parts of a sequence, which a layer such as `LayerNorm` or `Dropout` works on. Its parameters are on every rank.

    Args:
        sequence_dim: the dimension of the sequence.
        use_local_output: whether the module returns this rank's part, a plain tensor.

    >>> torch.distributed.tensor.parallel.SequenceParallel().sequence_sharding
    (Shard(dim=1),)
    """

    def __init__(self, *, sequence_dim=1, use_local_output=False):
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _apply(self, module, device_mesh):
        def given(module, inputs, mesh):
            first = inputs[0]
            if not isinstance(first, torch.Tensor):
                raise ValueError(f"expecting input of {module} to be a torch.Tensor or DTensor, but got {first}")
            return _laid(first, mesh, self.sequence_sharding, self.sequence_sharding)

        returned = lambda module, output, mesh: output.to_local() if self.use_local_output else output
        return distribute_module(module, device_mesh, None, given, returned)

    def __repr__(self):
        dim = self.sequence_sharding[0].dim
        return f"{type(self).__name__}(sequence_dim={dim}, use_local_output={self.use_local_output})"


def _prepared(value, device_mesh, given, wanted, as_local):
    """An input or output that lies as wanted, if its layout is given. None is no wish."""
    if given is None:
        return value
    start = value.placements if isinstance(value, DTensor) else (given,)
    value = _laid(value, device_mesh, (given,), start if wanted is None else (wanted,))
    return value.to_local() if as_local else value


def _tuple(value):
    return (value,) if value is None or not isinstance(value, (tuple, list)) else tuple(value)


class PrepareModuleInput(ParallelStyle):
    """Lets the inputs of a module lie in some way.

    Args:
        input_layouts: how the positional inputs lie: a placement, or a tuple with a placement or None for each.
        desired_input_layouts: how they shall lie.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same for inputs by name, dictionaries.
        use_local_output: whether the module gets this rank's parts, plain tensors.

    >>> from rushlight.distributed.tensor import Replicate, Shard
    >>> style = torch.distributed.tensor.parallel.PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate())
    >>> style.desired_input_layouts
    (Replicate(),)
    """

    def __init__(
        self,
        *,
        input_layouts=None,
        desired_input_layouts=None,
        input_kwarg_layouts=None,
        desired_input_kwarg_layouts=None,
        use_local_output=False,
    ):
        self.input_layouts = None if input_layouts is None else _tuple(input_layouts)
        self.desired_input_layouts = None if desired_input_layouts is None else _tuple(desired_input_layouts)
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.with_kwargs = input_kwarg_layouts is not None
        if self.with_kwargs and len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")
        self.use_local_output = use_local_output

    def _inputs(self, inputs, mesh):
        if self.input_layouts is None:
            return inputs
        inputs = _tuple(inputs)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        layouts = zip(inputs, self.input_layouts, self.desired_input_layouts)
        return tuple(_prepared(value, mesh, *layout, self.use_local_output) for value, *layout in layouts)

    def _apply(self, module, device_mesh):
        def given(module, inputs, kwargs):
            layouts, wanted = self.input_kwarg_layouts, self.desired_input_kwarg_layouts
            named = {
                name: _prepared(value, device_mesh, layouts.get(name), wanted.get(name), self.use_local_output)
                for name, value in kwargs.items()
            }
            return self._inputs(inputs, device_mesh), named

        module.register_forward_pre_hook(given, with_kwargs=True)
        return module

    def __repr__(self):
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, "
            f"desired_input_layouts={self.desired_input_layouts}, input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, use_local_output={self.use_local_output})"
        )


class PrepareModuleOutput(ParallelStyle):
    """Lets the outputs of a module lie in some way.

    Args:
        output_layouts: how the outputs lie: a placement, or a tuple with a placement or None for each.
        desired_output_layouts: how they shall lie.
        use_local_output: whether the module returns this rank's parts, plain tensors.

    >>> from rushlight.distributed.tensor import Replicate, Shard
    >>> style = torch.distributed.tensor.parallel.PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate())
    >>> style.output_layouts
    (Shard(dim=0),)
    """

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output=True):
        self.output_layouts, self.desired_output_layouts = _tuple(output_layouts), _tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _outputs(self, outputs, mesh):
        several = _tuple(outputs)
        if len(several) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        layouts = zip(several, self.output_layouts, self.desired_output_layouts)
        made = tuple(_prepared(value, mesh, *layout, self.use_local_output) for value, *layout in layouts)
        return made[0] if len(made) == 1 else made

    def _apply(self, module, device_mesh):
        module.register_forward_hook(lambda module, inputs, outputs: self._outputs(outputs, device_mesh))
        return module

    def __repr__(self):
        return (
            f"{type(self).__name__}(output_layouts={self.output_layouts}, "
            f"desired_output_layouts={self.desired_output_layouts}, use_local_output={self.use_local_output})"
        )


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` at once.

    Args:
        input_layouts, desired_input_layouts, input_kwarg_layouts, desired_input_kwarg_layouts: those of `PrepareModuleInput`.
        use_local_input: its `use_local_output`.
        output_layouts, desired_output_layouts, use_local_output: those of `PrepareModuleOutput`.

    >>> from rushlight.distributed.tensor import Replicate, Shard
    >>> torch.distributed.tensor.parallel.PrepareModuleInputOutput(
    ...     input_layouts=Shard(0), desired_input_layouts=Replicate(), output_layouts=Shard(0), desired_output_layouts=Replicate()
    ... ).prepare_module_output.use_local_output
    True
    """

    def __init__(
        self,
        *,
        input_layouts=None,
        desired_input_layouts=None,
        input_kwarg_layouts=None,
        desired_input_kwarg_layouts=None,
        use_local_input=False,
        output_layouts,
        desired_output_layouts,
        use_local_output=True,
    ):
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
