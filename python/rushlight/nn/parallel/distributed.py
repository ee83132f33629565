"""Modules that several processes train together."""

from __future__ import annotations

import contextlib
import warnings

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed._collectives import all_reduce, broadcast
from rushlight.distributed._objects import all_gather_object
from rushlight.distributed._reducer import FIRST_BUCKET_BYTES, Reducer, Sink, bytes_of
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.nn.modules.module import Module
from rushlight.nn.parallel._mixed_precision import LowerPrecision, _MixedPrecision
from rushlight.nn.parallel.scatter_gather import scatter_kwargs
from rushlight.nn.parameter import UninitializedBuffer, UninitializedParameter
from rushlight.utils._pytree import tree_flatten, tree_unflatten
from rushlight.utils._tensors import cast, tensors_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["DistributedDataParallel"]

_OLDER = (
    "`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead. IMPORTANT: unlike `broadcast_buffers=False`, "
    "`forward_sync_buffers=False` still syncs buffers at init. If you rely on buffers NOT being synced at init (e.g. rank-local "
    "buffers), keep using `broadcast_buffers=False` until `init_sync_buffers` is available."
)
_BOTH = (
    "Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated and its value is "
    "ignored when `forward_sync_buffers` is provided."
)


class DistributedDataParallel(Module, Joinable):
    """Trains one module in several processes, each on its part of a batch.

    Every process calls the module on its own samples. During the backward pass gradients are averaged over all
    processes, in the background, so that all of them make the same step. With a loss that is a mean and parts of one
    size, the gradients are those of the whole batch.

    Args:
        module: the module, which must be the same in every process. Rank 0 gives its parameters and buffers to the others.
        device_ids: a list with the GPU of the module, to which inputs are copied; None if they lie there.
        output_device: a GPU, which changes nothing; by default that of `device_ids`.
        broadcast_buffers: the older name of `forward_sync_buffers`. False also leaves buffers out of `init_sync`.
        init_sync: whether rank 0 gives its parameters and buffers to the others now.
        process_group: by default the default group.
        bucket_cap_mb: how many megabytes of gradients are reduced together, 25 by default.
        find_unused_parameters: whether parameters may take no part in a pass. They get the average of the other ranks, or
            keep their gradient if no rank has used them.
        gradient_as_bucket_view: whether gradients are views of the buckets, which saves a copy and memory.
        static_graph: whether every pass uses the same parameters. They may then be used several times, as by checkpoints.
        mixed_precision: a `_MixedPrecision`, the dtypes of computations, reductions and buffers.
        device_mesh: in place of `process_group`, an object whose `get_group(mesh_dim=0)` is the group.
        skip_all_reduce_unused_params: whether buckets without a used parameter are not reduced. All ranks must use the same
            parameters in each pass.
        bucket_cap_mb_list: in place of `bucket_cap_mb`, the sizes of the first buckets. The last one is that of all others.
        batched_grad_copy: whether gradients are copied into a bucket together, once it is full, which saves calls on GPUs.
        forward_sync_buffers: whether rank 0 gives its buffers to the others before each forward pass, True by default.
        dim, check_reduction, delay_all_reduce_named_params, param_to_hook_all_reduce: accepted, without effect.

    Raises:
        RuntimeError: no parameter requires a gradient, or the parameters of the processes differ.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(3, 2)).mean().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: _MixedPrecision | None = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            process_group = device_mesh.get_group(mesh_dim=0)
        self.process_group = dist._groups.resolve(process_group)
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        named = [(name, p) for name, p in module.named_parameters() if name not in ignored]
        if not any(parameter.requires_grad for _, parameter in named):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        for _, tensor in [*named, *module.named_buffers()]:
            if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
                raise RuntimeError(
                    "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. "
                    "Run a dummy forward pass to correctly initialize the modules"
                )
        devices = {parameter.device for _, parameter in named}
        kinds = {device.type for device in devices}
        if len(kinds) != 1:
            raise ValueError(
                "DistributedDataParallel's input module must be on the same type of devices, but input module parameters "
                f"locate in {kinds}."
            )
        is_whole = bool(device_ids) and kinds != {"cpu"} and len(devices) == 1
        if not is_whole and (device_ids or output_device):
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                f"{device_ids}, output_device {output_device}, and module parameters {devices}."
            )
        self.device_ids: list[int] | None = None
        self.output_device: int | None = None
        self.dim = dim
        if is_whole:
            self.device_ids = [torch.cuda.device(device).idx for device in device_ids]
            self.output_device = torch.cuda.device(device_ids[0] if output_device is None else output_device).idx
        self.device, self.device_type = next(iter(devices)), next(iter(devices)).type
        self.module = module
        if broadcast_buffers is not None:
            warnings.warn(_OLDER if forward_sync_buffers is None else _BOTH, FutureWarning, stacklevel=2)
        if forward_sync_buffers is None:
            forward_sync_buffers = broadcast_buffers is not False
            syncs_buffers = forward_sync_buffers
        else:
            syncs_buffers = True
        self.forward_sync_buffers = self.broadcast_buffers = forward_sync_buffers
        self.find_unused_parameters = find_unused_parameters
        self.skip_all_reduce_unused_params, self.batched_grad_copy = skip_all_reduce_unused_params, batched_grad_copy
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        default = bytes_of(25 if bucket_cap_mb is None else bucket_cap_mb)
        # The first bucket is small, so that communication begins early.
        first = [min(FIRST_BUCKET_BYTES, default), default]
        self.bucket_bytes_cap_list = [bytes_of(size) for size in bucket_cap_mb_list or ()] or first
        self.bucket_bytes_cap = max(self.bucket_bytes_cap_list)
        self.mixed_precision = mixed_precision
        self._lower: LowerPrecision | None = None
        if mixed_precision is not None:
            self._lower_precision(mixed_precision)
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._divides_by_all = True
        self._comm_hooks: list[tuple[Callable[..., Any], Any]] = []
        if init_sync:
            self._check_same_parameters(named)
            self._give([parameter for _, parameter in named] + (self._buffers_to_give() if syncs_buffers else []))
        self._build()

    def _lower_precision(self, policy: _MixedPrecision) -> None:
        if policy.param_dtype is not None:
            self._lower = LowerPrecision(self.module, policy.param_dtype, self.parameters_to_ignore)
        if policy.buffer_dtype is not None:
            for buffer in self._buffers_to_give():
                buffer.data = cast(buffer.data, policy.buffer_dtype)

    def _build(self) -> None:
        trained = [
            (name, parameter)
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name not in self.parameters_to_ignore
        ]
        sparse_modules = [
            name
            for name, module in self.module.named_modules()
            if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse
        ]
        sparse_names = {f"{name}.weight" if name else "weight" for name in sparse_modules}
        policy = self.mixed_precision
        self.reducer = Reducer(
            [parameter for _, parameter in trained],
            [name for name, _ in trained],
            self.process_group,
            bucket_sizes=self.bucket_bytes_cap_list,
            sparse=[index for index, (name, _) in enumerate(trained) if name in sparse_names],
            find_unused=self.find_unused_parameters,
            bucket_views=self.gradient_as_bucket_view,
            static_graph=self.static_graph,
            skips_unused=self.skip_all_reduce_unused_params,
            copies_together=self.batched_grad_copy,
            dtype=None if policy is None else policy.reduce_dtype or policy.param_dtype,
        )

    def _buffers_to_give(self) -> list[Any]:
        return [buffer for name, buffer in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def _check_same_parameters(self, named: list[tuple[str, Any]]) -> None:
        """Raises an error if the parameters of the ranks differ in number, shape or dtype."""
        own = [(name, tuple(parameter.shape), str(parameter.dtype)) for name, parameter in named]
        everyone: list[Any] = [None] * self.process_group.size()
        # The program need not have chosen the GPU of its parameters as the current one.
        with torch.cuda.device_of(named[0][1]):
            all_gather_object(everyone, own, self.process_group)
        for rank, other in enumerate(everyone):
            if len(other) != len(own):
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but Rank {self.process_group._rank} has {len(own)} "
                    f"params, while rank {rank} has inconsistent {len(other)} params."
                )
            for number, (mine, theirs) in enumerate(zip(own, other)):
                if mine[1:] != theirs[1:]:
                    raise RuntimeError(
                        f"[{self.process_group._rank}]: params[{number}] in this process with sizes {list(mine[1])} "
                        f"appears not to match sizes of the same param in process {rank}.\n"
                        f"  {mine[0]} is {mine[2]} of shape {mine[1]} here, and {theirs[2]} of shape {theirs[1]} there."
                    )

    def _give(self, tensors: list[Any], source: int = 0) -> None:
        """A rank gives tensors to the others, those of a dtype and device together."""
        by_kind: dict[Any, list[Any]] = {}
        for tensor in tensors:
            by_kind.setdefault((tensor.dtype, tensor.device), []).append(tensor.detach())
        with torch.no_grad():
            for group in by_kind.values():
                flat = torch.cat([tensor.reshape(-1) for tensor in group])
                broadcast(flat, group=self.process_group, group_src=source)
                if self.process_group._rank != source:
                    for tensor, part in zip(group, flat.split([tensor.numel() for tensor in group])):
                        tensor.copy_(part.view(tensor.shape))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Calls the module."""
        reduces = torch.is_grad_enabled() and self.require_backward_grad_sync
        if reduces:
            self.reducer.check_finished()
        source = self._begin_pass(reduces) if self._join_config.enable and torch.is_grad_enabled() else 0
        if self._gives_buffers():
            self._give(self._buffers_to_give(), source)
        if self.device_ids is not None:
            scattered, keywords = scatter_kwargs(inputs, kwargs, self.device_ids, self.dim)
            inputs, kwargs = scattered[0] if scattered else (), keywords[0] if keywords else {}
        if self._lower is not None:
            output = self._lower.call(self.module, inputs, kwargs)
        else:
            output = self.module(*inputs, **kwargs)
        if reduces:
            self.require_forward_param_sync = True
            self.reducer.prepare(tensors_in(output))
            if self.reducer.needs_sink():
                output = _through_sink(output, self.reducer)
        else:
            if torch.is_grad_enabled():
                self.require_forward_param_sync = False
            self.reducer.skip()
        return output

    def _gives_buffers(self) -> bool:
        return self.require_forward_param_sync and self.broadcast_buffers and bool(self._buffers_to_give())

    def _begin_pass(self, reduces: bool) -> int:
        """Tells ranks without batches what this pass needs. Returns the rank whose buffers count."""
        work = Join.notify_join_context(self)
        if work is not None:
            (active,) = work.result()
            if not self._divides_by_all:
                self.reducer.divide_by = int(active)
        return self._agree([reduces, self._gives_buffers(), self.process_group._rank])[2]

    def _agree(self, needs: list[int]) -> list[int]:
        """What a pass of the ranks that have batches needs: a reduction, buffers, and the rank that gives them."""
        found = torch.tensor([int(need) for need in needs], device=self.process_group._object_device())
        all_reduce(found, dist.ReduceOp.MAX, self.process_group)
        return found.tolist()

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A context for loops whose number of batches differs between ranks. The others go on without those that are done.

        Args:
            divide_by_initial_world_size: divide gradients by the number of all ranks, not by that of those with batches.
            enable: whether to do anything.
            throw_on_early_termination: raise an error on all ranks once one of them is done.

        >>> callable(torch.nn.parallel.DistributedDataParallel.join)
        True
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this module does on a rank without batches; `kwargs` may have `divide_by_initial_world_size`."""
        return _Idle(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> torch.device:
        """The device of the parameters."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The group."""
        return self.process_group

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within this context gradients are only accumulated. The next pass outside averages them.

        >>> hasattr(torch.nn.parallel.DistributedDataParallel, "no_sync")
        True
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Lets a function reduce the gradients: ``hook(state, bucket)`` returns a future of the reduced buffer.

        Raises:
            TypeError: `hook` cannot be called.
            RuntimeError: there is a hook.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._comm_hooks:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._comm_hooks.append((hook, state))
        self.reducer.hook = (state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks

        hooks = {"ALLREDUCE": default_hooks.allreduce_hook, "FP16_COMPRESS": default_hooks.fp16_compress_hook}
        self.register_comm_hook(self.process_group, hooks[comm_hook_type.name])

    def _set_static_graph(self) -> None:
        self.static_graph = True
        self.reducer._static = True

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group._rank,
            "module_name": type(self.module).__name__,
            "backend_name": self.process_group.name(),
            "broadcast_buffers": self.broadcast_buffers,
            "bucket_cap_bytes": self.bucket_bytes_cap,
            "find_unused_parameters": self.find_unused_parameters,
            "gradient_as_bucket_view": self.gradient_as_bucket_view,
            "static_graph": self.static_graph,
            "bucket_sizes": ", ".join(map(str, self.reducer.bucket_sizes)),
        }

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: list[str]) -> None:
        module._ddp_params_and_buffers_to_ignore = names

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not dist.group.WORLD:
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default process group. That is, "
                "when you have called init_process_group and have not passed process_group argument to DDP constructor"
            )
        kept = dict(self.__dict__)
        del kept["process_group"], kept["reducer"]
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = dist._groups.resolve(None)
        self._build()


class _Idle(JoinHook):
    """Takes part in the passes of other ranks."""

    def __init__(self, module: DistributedDataParallel, divides_by_all: bool) -> None:
        self.module = module
        module._divides_by_all = divides_by_all

    def main_hook(self) -> None:
        module = self.module
        reduces, gives, source = module._agree([False, False, -1])
        if gives:
            module._give(module._buffers_to_give(), source)
        if reduces:
            module.reducer.reduce_nothing()

    def post_hook(self, is_last_joiner: bool) -> None:
        module = self.module
        source = module._agree([module.process_group._rank if is_last_joiner else -1])[0]
        module._give(
            [parameter for _, parameter in module.module.named_parameters()] + module._buffers_to_give(), source
        )
        module.reducer.divide_by = module.process_group.size()


def _through_sink(output: Any, reducer: Reducer) -> Any:
    leaves, spec = tree_flatten(output)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    for place, tensor in zip(places, Sink.apply(reducer, *(leaves[place] for place in places)) if places else ()):
        leaves[place] = tensor
    return tree_unflatten(leaves, spec)
