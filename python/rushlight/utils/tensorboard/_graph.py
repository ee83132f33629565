"""The graph of a model: the calls that it makes for one input, inside the modules that make them."""

import contextlib
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

import rushlight as torch
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._tensors import tensors_in


class _Recorder(TorchFunctionMode):
    """Makes a node of every call that returns tensors."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.nodes: list[NodeDef] = []
        #: The tensors are kept, so that no other one gets the same id.
        self._producers: dict[int, tuple[str, torch.Tensor]] = {}
        self._names: dict[str, int] = {}
        self._scopes = {id(model): type(model).__name__}
        for module in model.modules():
            for child_name, child in module.named_children():
                scope = f"{self._scopes[id(module)]}/{type(child).__name__}[{child_name}]"
                self._scopes.setdefault(id(child), scope)
        self._path = [type(model).__name__]
        for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
            owner, _, own_name = name.rpartition(".")
            scope = self._scopes[id(model.get_submodule(owner))]
            self._produce(f"{scope}/{own_name}", "Parameter", [], [parameter])

    def __torch_function__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        found = [tensor for tensor in tensors_in(results) if id(tensor) not in self._producers]
        name = getattr(func, "__name__", "")
        if found and not name.startswith("__get__"):
            operation = name.strip("_")
            self._produce(f"{self._path[-1]}/{operation}", operation, tensors_in((args, kwargs)), found)
        return results

    def enter(self, module, _):
        """Called before the forward of a module."""
        self._path.append(self._scopes[id(module)])

    def leave(self, *_):
        """Called after the forward of a module."""
        self._path.pop()

    def begin(self, inputs: list[torch.Tensor]) -> None:
        """Makes nodes of the model's inputs."""
        for number, tensor in enumerate(inputs):
            self._produce(f"input/input_{number}", "IO Node", [], [tensor])

    def end(self, outputs: list[torch.Tensor]) -> None:
        """Makes nodes of the model's outputs."""
        for number, tensor in enumerate(outputs):
            self._node(f"output/output_{number}", "IO Node", [tensor], [tensor])

    def _produce(self, name: str, operation: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        name = self._node(name, operation, inputs, outputs)
        for tensor in outputs:
            self._producers[id(tensor)] = (name, tensor)

    def _node(self, name: str, operation: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> str:
        count = self._names[name] = self._names.get(name, 0) + 1
        if count > 1:
            name = f"{name}_{count - 1}"
        shapes = [TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in each.shape]) for each in outputs]
        node = NodeDef(
            name=name,
            op=operation,
            input=dict.fromkeys(self._producers[id(tensor)][0] for tensor in inputs if id(tensor) in self._producers),
            attr={"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=shapes))},
        )
        self.nodes.append(node)
        return name


def graph(model: torch.nn.Module, inputs: Any, verbose: bool = False) -> tuple[GraphDef, RunMetadata]:
    """Calls the model with `inputs`, one tensor or a tuple, and returns what it did."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    recorder = _Recorder(model)
    recorder.begin(tensors_in(inputs))
    with contextlib.ExitStack() as hooks, torch.no_grad():
        for module in model.modules():
            if module is not model:
                hooks.callback(module.register_forward_pre_hook(recorder.enter).remove)
                hooks.callback(module.register_forward_hook(recorder.leave, always_call=True).remove)
        with recorder:
            outputs = model(*inputs)
    recorder.end(tensors_in(outputs))
    if verbose:
        for node in recorder.nodes:
            print(f"{node.name} = {node.op}({', '.join(node.input)})")
    stats = RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))
    return GraphDef(node=recorder.nodes, versions=VersionDef(producer=22)), stats
