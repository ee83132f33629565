"""How a model is cut into the parts of a pipeline."""

import inspect
from enum import Enum
from typing import Any, NamedTuple

import rushlight as torch
from rushlight import fx

from .stage import PipelineStage, build_stage

#: The tracer that records a model at the moment, for `pipe_split`.
_tracing: list[fx.Tracer] = []


class SplitPoint(Enum):
    """Where a model is cut: before or after a module.

    >>> list(torch.distributed.pipelining.SplitPoint)
    [<SplitPoint.BEGINNING: 1>, <SplitPoint.END: 2>]
    """

    BEGINNING = 1
    END = 2


def pipe_split():
    """Marks a place in a model's forward where `pipeline` cuts it. It does nothing else.

    >>> torch.distributed.pipelining.pipe_split()
    """
    if _tracing:
        _tracing[-1].create_node("call_function", pipe_split, (), {})


class _Tracer(fx.Tracer):
    """Records calls of modules, without what happens in them unless the model is cut there."""

    def __init__(self, names, defaults):
        super().__init__()
        self._names, self._defaults = names, defaults

    def is_leaf_module(self, module, module_qualified_name):
        """Whether a module is called as a whole: no cut lies in it. Without names of cuts, the tracer's own rule decides."""
        if not self._names:
            return super().is_leaf_module(module, module_qualified_name)
        return not any(name.startswith(f"{module_qualified_name}.") for name in self._names)

    def _proxy_placeholder(self, name, concrete_args, sig, fn_for_analysis):
        if name in self._defaults:
            return self._defaults[name]
        return super()._proxy_placeholder(name, concrete_args, sig, fn_for_analysis)


class PipeInfo(NamedTuple):
    """What a stage has to know of its pipeline."""

    graph: fx.Graph
    num_stages: int
    has_loss_and_backward: bool


class Pipe(torch.nn.Module):
    """A model in parts, which `pipeline` makes. Calling it computes with one part after the other.

    Args:
        split_gm: a module whose children ``submod_0``, ``submod_1`` and so on are the parts. Each takes what the one before returns.
        num_stages: the number of parts.
        has_loss_and_backward, loss_spec: False and None: losses are functions of the schedule.

    >>> from rushlight.distributed.pipelining import SplitPoint, pipeline
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> pipe = pipeline(model, (torch.ones(1, 4),), split_spec={"2": SplitPoint.BEGINNING})
    >>> pipe.num_stages, pipe(torch.ones(3, 4)).shape
    (2, torch.Size([3, 2]))
    """

    def __init__(self, split_gm, num_stages, has_loss_and_backward=False, loss_spec=None):
        super().__init__()
        self.split_gm, self.num_stages = split_gm, num_stages
        self.has_loss_and_backward, self.loss_spec = has_loss_and_backward, loss_spec

    def forward(self, *args, **kwargs):
        """Computes with all parts."""
        values = self.get_stage_module(0)(*args, **kwargs)
        for index in range(1, self.num_stages):
            values = self.get_stage_module(index)(*(values if isinstance(values, tuple) else (values,)))
        return values

    def get_stage_module(self, stage_idx):
        """A part.

        Raises:
            ValueError: there is none of this number.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self.split_gm, f"submod_{stage_idx}")

    def info(self):
        """What `build_stage` has to know."""
        return PipeInfo(self.get_stage_module(0).graph, self.num_stages, self.has_loss_and_backward)

    def build_stage(self, stage_index, device, group=None) -> PipelineStage:
        """The stage of a part, for a schedule.

        Args:
            stage_index: its number.
            device: the device on which it computes.
            group: the group of the ranks.
        """
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)

    def print_readable(self):
        """Prints the code of all parts."""
        for index in range(self.num_stages):
            print(f"submod_{index}:\n{self.get_stage_module(index).code}")


def pipeline(module, mb_args, mb_kwargs=None, split_spec=None, split_policy=None):
    """Cuts a model into the parts of a pipeline.

    Its forward is recorded by `torch.fx`, so that it must not depend on the values of tensors where it is cut. Only tensors go from part to
    part. The parts have the parameters of the model, under their names.

    Args:
        module: the model.
        mb_args, mb_kwargs: arguments as those of a microbatch. Parameters of forward that they lack keep their default values.
        split_spec: a `SplitPoint` by name of a module.
        split_policy: in its place, a function that puts calls of `pipe_split` into the recorded module and returns it.
            Without both, `pipe_split` in the model's forward marks the places.

    Raises:
        ValueError: both `split_spec` and `split_policy` are given.
        AttributeError: there is no module of a name.

    >>> torch.distributed.pipelining.pipeline.__name__
    'pipeline'
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    spec = split_spec or {}
    for name in spec:
        module.get_submodule(name)
    parameters = inspect.signature(module.forward).parameters
    given = {*list(parameters)[: len(mb_args)], *(mb_kwargs or {})}
    defaults = {
        name: parameter.default
        for name, parameter in parameters.items()
        if name not in given and parameter.default is not inspect.Parameter.empty
    }
    tracer = _Tracer(list(spec), defaults)
    _tracing.append(tracer)
    try:
        recorded = fx.GraphModule(module, tracer.trace(module), type(module).__name__)
    finally:
        _tracing.pop()
    if split_policy is not None:
        recorded = split_policy(recorded)
    parts = _parts(recorded.graph, spec)
    split = torch.nn.Module()
    for index in range(len(parts)):
        split.add_module(f"submod_{index}", _cut_out(recorded, parts, index))
    return Pipe(split, len(parts))


def _parts(graph, spec):
    """The nodes of each part, without placeholders and the output."""
    parts: list[list[fx.Node]] = [[]]
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op == "call_function" and node.target is pipe_split:
            parts.append([])
            continue
        point = spec.get(node.target) if node.op == "call_module" else None
        if point is SplitPoint.BEGINNING:
            parts.append([])
        parts[-1].append(node)
        if point is SplitPoint.END:
            parts.append([])
    return [part for part in parts if part]


def _cut_out(recorded, parts, index):
    """A module of one part. It gets what it and later parts need, and passes on what only those need."""
    nodes: list[fx.Node] = list(recorded.graph.nodes)
    inputs, output = [node for node in nodes if node.op == "placeholder"], nodes[-1]
    earlier = [*inputs, *(node for part in parts[:index] for node in part if node.op != "get_attr")]
    own = parts[index]
    # Parameters and constants are looked up where they are used.
    own = [
        *(
            node
            for part in parts[:index]
            for node in part
            if node.op == "get_attr" and set(node.users) & {*own, output}
        ),
        *own,
    ]
    later = [*(node for part in parts[index + 1 :] for node in part), output]
    graph, copies = fx.Graph(), {}

    def is_needed(node, by):
        return not set(by).isdisjoint(node.users)

    for node in earlier if index else inputs:
        if not index or is_needed(node, [*own, *later]):
            copies[node] = graph.placeholder(node.name)
    for node in own:
        copies[node] = graph.node_copy(node, lambda one: copies[one])
    if index + 1 == len(parts):
        graph.output(fx.node.map_arg(output.args[0], lambda one: copies[one]))
    else:
        passed: list[Any] = [
            copies[node] for node in [*earlier, *own] if node.op != "get_attr" and is_needed(node, later)
        ]
        graph.output(tuple(passed) if len(passed) > 1 else passed[0])
    return fx.GraphModule(recorded, graph, f"submod_{index}")
