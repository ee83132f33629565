"""`FullyShardedDataParallel`: a module whose parameters are spread over ranks as flat parameters (Zhao and others 2023).

`fully_shard` cuts each parameter into rows instead. Both work in units, `_unit`.
"""

import contextlib
import warnings

import rushlight as torch
from rushlight._set_module import set_module
from rushlight.distributed import _groups
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor import DTensor, Shard, distribute_tensor
from rushlight.distributed.tensor._api import leaf
from rushlight.distributed.tensor._layout import Spec
from rushlight.nn import Module
from rushlight.utils._tensors import cast

from . import _optim_state
from ._arguments import (
    HYBRID,
    check_alike,
    device_of,
    ignored_of,
    materialise,
    names_of,
    own_buffers,
    ranks_of,
    settings_of,
    synchronise,
)
from ._flat import NAME, PREFIX, Flat, FlatUnit
from ._norm import clipped
from ._unit import owned
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .wrap import wrap_children

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]

OptimStateKeyType = _optim_state.OptimStateKeyType

_INNER = PREFIX.removesuffix(".")
_ZERO2 = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2, ShardingStrategy.NO_SHARD)


def __dir__() -> list[str]:
    return __all__


class FullyShardedDataParallel(Module):
    """A module whose parameters, gradients and optimizer states are spread over ranks.

    The parameters that belong to no `FullyShardedDataParallel` inside of the module become one flat parameter, of which each rank
    keeps a shard of equal size. It is gathered when forward and backward begin, and its memory is given back. Make the optimizer
    afterwards, unless `use_orig_params` is set.

    Args:
        module: the module.
        process_group: the ranks; by default all. For ``HYBRID_SHARD`` a pair: the ranks that share the parameters, and those
            that have copies of a shard.
        sharding_strategy: a `ShardingStrategy`, by default ``FULL_SHARD``.
        cpu_offload: a `CPUOffload`: shards, their gradients and so the states of the optimizer are on the CPU.
        auto_wrap_policy: chooses the modules that are wrapped themselves: one of `torch.distributed.fsdp.wrap`.
        backward_prefetch: accepted.
        mixed_precision: a `MixedPrecision`.
        ignored_modules: modules whose parameters stay as they are.
        param_init_fn: fills a module whose parameters have no memory yet (``device="meta"``). Without it `reset_parameters` does.
        device_id: the device to which the module is moved, by default none. The whole parameters are on that of the module.
        sync_module_states: copy parameters and buffers of rank 0 to the others first.
        forward_prefetch, limit_all_gathers: accepted.
        use_orig_params: the module keeps its parameters. Each of them is what this rank has of it, flat, and may be empty.
        ignored_states: parameters or modules that stay as they are.
        device_mesh: a mesh of one dimension in place of a group, or of two for ``HYBRID_SHARD``.

    Raises:
        ValueError: parameters of one unit differ in dtype or, without `use_orig_params`, in `requires_grad`; or options
            contradict each other.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = dist.fsdp.FullyShardedDataParallel(torch.nn.Linear(2, 3), sharding_strategy=dist.fsdp.ShardingStrategy.NO_SHARD)
    >>> [parameter.shape for parameter in model.parameters()], model(torch.ones(1, 2)).shape
    ([torch.Size([9])], torch.Size([1, 3]))
    >>> list(model.state_dict())
    ['weight', 'bias']
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module,
        process_group=None,
        sharding_strategy=None,
        cpu_offload=None,
        auto_wrap_policy=None,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE,
        mixed_precision=None,
        ignored_modules=None,
        param_init_fn=None,
        device_id=None,
        sync_module_states=False,
        forward_prefetch=False,
        limit_all_gathers=True,
        use_orig_params=False,
        ignored_states=None,
        device_mesh=None,
    ):
        super().__init__()
        if mixed_precision is not None and mixed_precision.keep_low_precision_grads:
            raise NotImplementedError("MixedPrecision: gradients have the dtype of their parameters.")
        strategy = ShardingStrategy.FULL_SHARD if sharding_strategy is None else sharding_strategy
        if strategy not in list(ShardingStrategy):
            raise KeyError(strategy)
        device, (skipped, ignored) = device_of(device_id), ignored_of(module, ignored_modules, ignored_states)
        group, copies = ranks_of(process_group, strategy, auto_wrap_policy, device_mesh)
        if group.size() == 1 and strategy not in (ShardingStrategy.NO_SHARD, *HYBRID):
            warnings.warn(
                f"FSDP is switching to use `NO_SHARD` instead of {strategy} since the world size is 1.", stacklevel=2
            )
            strategy = ShardingStrategy.NO_SHARD
        if auto_wrap_policy is not None:
            options = {
                "process_group": (group, copies) if strategy in HYBRID else group,
                "sharding_strategy": strategy,
                "mixed_precision": mixed_precision,
                "param_init_fn": param_init_fn,
                "cpu_offload": cpu_offload,
                "device_id": device_id,
                "sync_module_states": sync_module_states,
                "use_orig_params": use_orig_params,
                "ignored_states": ignored,
            }
            wrap_children(module, auto_wrap_policy, FullyShardedDataParallel, skipped, ignored, options)
        self.process_group, self.sharding_strategy, self._has_mesh = group, strategy, device_mesh is not None
        self.mixed_precision = mixed_precision or MixedPrecision()
        self._use_orig_params, self._inside, self._loading = use_orig_params, False, contextlib.ExitStack()
        self._settings = settings_of(StateDictType.FULL_STATE_DICT)
        materialise(module, param_init_fn, device, ignored)
        if sync_module_states:
            synchronise(module, ignored, group, copies)
        if strategy is ShardingStrategy.NO_SHARD:
            group, copies = None, group
        found = owned([module], ignored)
        check_alike(found, use_orig_params)
        names = names_of(module)
        pieces = []
        if found:
            size, rank = (1, 0) if group is None else (group.size(), group.rank())
            known = [names[places[0]] for places in found.values()]
            dtype = self.mixed_precision.param_dtype
            pieces.append(Flat(module, known, found, size, rank, dtype, use_orig_params, cpu_offload))
        self._fsdp_wrapped_module = module
        reshards = False if strategy in _ZERO2 else None
        FlatUnit([self], group, copies, self.mixed_precision, reshards, pieces, device or torch.device("cpu"))
        self._buffer_dtypes: dict = {}
        self.register_forward_pre_hook(lambda *_: self._cast_buffers())
        self.register_load_state_dict_post_hook(lambda *_: self._loading.close())

    @property
    def module(self):
        """The module that is wrapped."""
        return self._fsdp_wrapped_module

    @property
    def _flat_param(self):
        pieces = self._fsdp_unit.pieces
        return pieces[0].own if pieces and not self._use_orig_params else None

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _INNER:
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key):
        return self._fsdp_wrapped_module[key]

    def forward(self, *args, **kwargs):
        """Calls the module, with its whole parameters."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def check_is_root(self):
        """Whether no other `FullyShardedDataParallel` contains this one."""
        return self._fsdp_unit.is_outermost

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """The instances of this class in a module.

        Args:
            module: the module.
            root_only: only those that no other one contains.
        """
        found = [one for one in module.modules() if isinstance(one, FullyShardedDataParallel)]
        return [one for one in found if one.check_is_root()] if root_only else found

    def _cast_buffers(self):
        dtype = self.mixed_precision.buffer_dtype
        if dtype is None or self._buffer_dtypes:
            return
        for module, name, buffer in own_buffers(self._fsdp_wrapped_module):
            self._buffer_dtypes[module, name] = buffer.dtype
            module._buffers[name] = cast(buffer, dtype)

    # Parameters for the program.

    def named_parameters(self, *args, **kwargs):
        """The parameters and their names: those of the wrapped module alone within `summon_full_params`."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(PREFIX, "") if self._inside else name, parameter

    def named_buffers(self, *args, **kwargs):
        """The buffers and their names: those of the wrapped module alone within `summon_full_params`."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield name.replace(PREFIX, "") if self._inside else name, buffer

    def apply(self, fn):
        """Calls a function for each module, which sees whole parameters and may change them."""
        with self._summoned():
            return super().apply(fn)

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False
    ):
        """A context in which modules have their whole parameters. All ranks enter it, outside of forward and backward.

        Args:
            module: the module.
            recurse: also the instances inside of it.
            writeback: keep changes of the parameters.
            rank0_only: on rank 0 alone.
            offload_to_cpu: the whole parameters are on the CPU.
            with_grads: the parameters have whole gradients, with `use_orig_params`.

        Raises:
            NotImplementedError: a combination that does not exist.
        """
        found = FullyShardedDataParallel.fsdp_modules(module)
        if not recurse:
            found = [module] if module in found else FullyShardedDataParallel.fsdp_modules(module, root_only=True)
        with contextlib.ExitStack() as stack:
            for one in found:
                stack.enter_context(one._summoned(writeback, rank0_only, offload_to_cpu, with_grads))
            yield

    @contextlib.contextmanager
    def _summoned(self, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False):
        if with_grads and (offload_to_cpu or not self._use_orig_params):
            raise NotImplementedError(
                f"with_grads={with_grads}, use_orig_params={self._use_orig_params}, offload_to_cpu={offload_to_cpu} is "
                "not supported yet"
            )
        if offload_to_cpu and self.sharding_strategy is ShardingStrategy.NO_SHARD:
            raise NotImplementedError("offload_to_cpu=True and NO_SHARD is not supported yet")
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported yet")
        unit = self._fsdp_unit
        if not unit.pieces:
            yield
            return
        (piece,) = unit.pieces
        values = [value.cpu() for value in self._whole()] if offload_to_cpu else self._whole()
        grads = None
        if with_grads and unit.on_any(any(one.grad is not None for one in piece.originals)):
            dtype = piece.originals[0].dtype
            grad_of = lambda number: piece.originals[number].grad
            grads = piece.views(unit.full(piece.flat_of(grad_of, dtype)))
            grads = [grad if trained else None for grad, trained in zip(grads, piece.trained)]
        if rank0_only and unit.rank != 0:
            yield
            return
        self._inside = True
        try:
            with piece.presented(values, grads) as shown:
                yield
                after = shown()
                changed = [parameter.detach() for parameter in after]
                gradients = [parameter.grad for parameter in after]
            if writeback:
                self._write(changed)
                if with_grads:
                    piece.keep_whole(gradients)
        finally:
            self._inside = False

    def _whole(self):
        """The whole parameters of this unit, as copies."""
        unit = self._fsdp_unit
        unit.reshard()
        (piece,) = unit.pieces
        piece.find()
        with torch.no_grad():
            return [view.clone() for view in piece.views(unit.full(piece.own.detach()))]

    def _write(self, values):
        """Keeps this rank's shard of whole parameters."""
        (piece,) = self._fsdp_unit.pieces
        with torch.no_grad():
            piece.own.detach().copy_(piece.interval_of(values, piece.own.dtype))

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """Scales the gradients of all ranks so that their norm is at most a number.

        Args:
            max_norm: the number.
            norm_type: the p of the p-norm.

        Returns:
            the norm before.

        Raises:
            RuntimeError: another `FullyShardedDataParallel` contains this one.
        """
        if not self.check_is_root():
            raise RuntimeError("`clip_grad_norm_()` should only be called on the root FSDP instance")
        units = [one._fsdp_unit for one in self.fsdp_modules(self)]
        pieces = [piece for unit in units if unit.group is not None for piece in unit.pieces]
        cut = {parameter for piece in pieces for parameter in piece.parameters()}
        return clipped(self.parameters(), cut, self.process_group, max_norm, float(norm_type))

    @contextlib.contextmanager
    def no_sync(self):
        """A context in which backward adds up whole gradients on each rank, without averaging them.

        Raises:
            RuntimeError: another `FullyShardedDataParallel` contains this one.
        """
        if not self.check_is_root():
            raise RuntimeError(
                "`no_sync()` on inner FSDP instances is not supported. Please call `no_sync()` on root FSDP module."
            )
        units = [one._fsdp_unit for one in self.fsdp_modules(self)]
        before = [unit.syncs for unit in units]
        for unit in units:
            unit.syncs = False
        try:
            yield
        finally:
            for unit, synced in zip(units, before):
                unit.syncs = synced

    def register_comm_hook(self, state, hook):
        """Replaces the average of gradients by a function.

        Args:
            state: the first argument of the function.
            hook: ``hook(state, gradient)`` for ``NO_SHARD``, which changes the gradient in place. Otherwise ``hook(state, gradient,
                shard)``, which writes this rank's shard of the whole gradient.

        Raises:
            AssertionError: another instance contains this one, some of the ranks have copies, or there is a hook already.
        """
        if not self.check_is_root():
            raise AssertionError("register_comm_hook can only be called on a root instance.")
        units = [one._fsdp_unit for one in self.fsdp_modules(self)]
        for one, unit in zip(self.fsdp_modules(self), units):
            if one.sharding_strategy in HYBRID:
                raise AssertionError(
                    f"Communication hook is not supported for hybrid strategies: {one.sharding_strategy}"
                )
            if unit.hook is not None:
                raise AssertionError("A communication hook is already registered")
        if not callable(hook):
            raise ValueError(f"The communication hook must be callable but got {hook}")
        for unit in units:
            unit.hook = hook, state

    # States.

    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Chooses what `state_dict` of the instances in a module returns.

        Args:
            module: the module.
            state_dict_type: a `StateDictType`.
            state_dict_config, optim_state_dict_config: options.

        Returns:
            the `StateDictSettings` before.

        Raises:
            RuntimeError: options of another type.
        """
        made = settings_of(state_dict_type, state_dict_config, optim_state_dict_config)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for one in FullyShardedDataParallel.fsdp_modules(module):
            one._settings = made
        return before

    @staticmethod
    def get_state_dict_type(module):
        """The `StateDictSettings` of the instances in a module."""
        found = [one._settings for one in FullyShardedDataParallel.fsdp_modules(module)]
        if any(settings != found[0] for settings in found):
            raise AssertionError(f"All FSDP module must have the same state dict settings, but got {found}")
        return found[0] if found else settings_of(StateDictType.FULL_STATE_DICT)

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """A context with other settings: see `set_state_dict_type`."""
        change = FullyShardedDataParallel.set_state_dict_type
        before = change(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            change(module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config)

    def state_dict(self, *args, **kwargs):
        """The state under the names of the wrapped module, in the form that `set_state_dict_type` chose."""
        prefix = kwargs.get("prefix", args[1] if len(args) > 1 else "")
        settings, unit, changed = self._settings, self._fsdp_unit, contextlib.nullcontext()
        unit.reshard()
        local = settings.state_dict_type is StateDictType.LOCAL_STATE_DICT
        if local and self._has_mesh:
            raise RuntimeError(
                "Found state_dict_type LOCAL_STATE_DICT. DeviceMesh is not compatible with LOCAL_STATE_DICT. Please set "
                "state_dict_type to SHARDED_STATE_DICT to get DTensor state_dict."
            )
        if unit.pieces and not local:
            values = self._whole()
            if settings.state_dict_type is StateDictType.SHARDED_STATE_DICT and unit.group is not None:
                values = [self._rows(value) for value in values]
            changed = unit.pieces[0].presented(values)
        with changed:
            state = super().state_dict(*args, **kwargs)
        inner = prefix + PREFIX
        found = {name: state.pop(name) for name in list(state) if name.startswith(inner)}
        full = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        if full and settings.state_dict_config.rank0_only and _groups.get_rank() != 0:
            return state
        if local and unit.pieces:
            (piece,) = unit.pieces
            for name in piece.names:
                found.pop(inner + name, None)
            shard = piece.own.detach()
            found[inner + NAME] = leaf(shard, Spec(self._mesh(), (Shard(0),), torch.Size([piece.count])))
        for name, value in found.items():
            module, _, own = name.removeprefix(inner).rpartition(".")
            before = self._saved_dtype(module, own)
            value = value if before is None else value.to(before)
            offloads = settings.state_dict_config.offload_to_cpu and isinstance(value, torch.Tensor)
            state[prefix + name.removeprefix(inner)] = value.cpu() if offloads else value
        return state

    def _saved_dtype(self, module, name):
        """The dtype that a buffer had before the first forward pass, if it has another one now."""
        if not self._buffer_dtypes:
            return None
        path = ".".join((_INNER, module)) if module else _INNER
        return self._buffer_dtypes.get((dict(self.named_modules()).get(path), name))

    def _mesh(self):
        return DeviceMesh.from_group(self._fsdp_unit.group or self.process_group, self._fsdp_unit.device.type)

    def _rows(self, value):
        if value.dim() == 0:
            return value
        return distribute_tensor(value, self._mesh(), (Shard(0),), src_data_rank=None)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        """Lets the wrapped module have whole parameters to load into, until the hook that ends the call."""
        self._loading.close()
        unit, inner = self._fsdp_unit, prefix + PREFIX
        for name in [name for name in state_dict if name.startswith(prefix) and not name.startswith(inner)]:
            state_dict[inner + name.removeprefix(prefix)] = state_dict.pop(name)
        unit.reshard()
        if unit.pieces and self._settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            (piece,) = unit.pieces
            shard = state_dict.get(inner + NAME)
            if shard is not None:
                shard = shard.to_local() if isinstance(shard, DTensor) else shard
                if self._use_orig_params:
                    del state_dict[inner + NAME]
                    for number, name in enumerate(piece.names):
                        state_dict[inner + name] = piece.within(shard, number)
                else:
                    state_dict[inner + NAME] = shard
        elif unit.pieces:
            for name in [inner + name for name in unit.pieces[0].names]:
                value = state_dict.get(name)
                if isinstance(value, DTensor):
                    state_dict[name] = _optim_state.gathered(value)
            self._loading.enter_context(self._summoned())
        super()._load_from_state_dict(state_dict, prefix, *args)

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None):
        """The state of an optimizer under the names of the parameters, in the form that `set_state_dict_type` chose.

        Args:
            model: the module whose parameters the optimizer has.
            optim: the optimizer.
            optim_state_dict: its state, by default ``optim.state_dict()``.
            group: accepted.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        full, config = settings.state_dict_type is StateDictType.FULL_STATE_DICT, settings.optim_state_dict_config
        rank0_only = full and config.rank0_only
        return _optim_state.saved(model, optim, optim_state_dict, full, rank0_only, config.offload_to_cpu)

    @staticmethod
    def optim_state_dict_to_load(
        model, optim, optim_state_dict, is_named_optimizer=False, load_directly=False, group=None
    ):
        """What an optimizer loads, from what `optim_state_dict` returned.

        Args:
            model: the module whose parameters the optimizer has.
            optim: the optimizer.
            optim_state_dict: the state, of the form that `set_state_dict_type` chose.
            is_named_optimizer: the optimizer's own states have names in place of numbers.
            load_directly: load it as well.
            group: accepted.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        full = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        rank0_only = full and settings.optim_state_dict_config.rank0_only
        made = _optim_state.loadable(model, optim, optim_state_dict, is_named_optimizer, rank0_only)
        if load_directly:
            optim.load_state_dict(made)
        return made

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only=True, group=None):
        """The whole state of an optimizer, by default on rank 0 alone. `optim_state_dict` takes its place."""
        return _optim_state.saved(model, optim, None, True, rank0_only, True)

    @staticmethod
    def sharded_optim_state_dict(model, optim, group=None):
        """The rows of an optimizer's state. `optim_state_dict` takes its place."""
        return _optim_state.saved(model, optim, None, False, False, True)

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None):
        """What this rank's optimizer loads, from a whole state. `optim_state_dict_to_load` takes its place."""
        return _optim_state.loadable(model, optim, full_optim_state_dict, False, False)

    @staticmethod
    def flatten_sharded_optim_state_dict(sharded_optim_state_dict, model, optim):
        """What this rank's optimizer loads, from rows. `optim_state_dict_to_load` takes its place."""
        return _optim_state.loadable(model, optim, sharded_optim_state_dict, False, False)

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None, group=None):
        """What this rank's optimizer loads, from the whole state of rank 0. `optim_state_dict_to_load` takes its place."""
        return _optim_state.loadable(model, optim, full_optim_state_dict, False, True)

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict, optim_state_key_type, model, optim_input=None, optim=None):
        """A whole state with names in place of numbers, or numbers in place of names.

        Args:
            optim_state_dict: the state.
            optim_state_key_type: an `OptimStateKeyType`.
            model: the module whose parameters it is about, not wrapped.
            optim_input: what the optimizer was made of; by default the parameters of the model.
            optim: the optimizer.
        """
        return _optim_state.rekeyed(optim_state_dict, optim_state_key_type, model, optim_input, optim)


set_module("rushlight.distributed.fsdp", FullyShardedDataParallel)
