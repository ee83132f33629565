"""The options of `FullyShardedDataParallel` (`torch.distributed.fsdp.api`)."""

from dataclasses import dataclass
from enum import Enum, auto

import rushlight as torch
from rushlight._set_module import set_module
from rushlight.nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


def __dir__() -> list[str]:
    return __all__


class ShardingStrategy(Enum):
    """What each rank keeps of the parameters, and when it has them whole.

    - ``FULL_SHARD``: a shard of the parameters, gradients and states. The whole parameters are there during forward, and again during
      backward.
    - ``SHARD_GRAD_OP``: the same, but the whole parameters stay from the beginning of forward to the end of backward.
    - ``NO_SHARD``: all of them, as with `DistributedDataParallel`.
    - ``HYBRID_SHARD``: ``FULL_SHARD`` within a machine, and copies on the machines.

    >>> torch.distributed.fsdp.ShardingStrategy.FULL_SHARD
    <ShardingStrategy.FULL_SHARD: 1>
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When backward gathers the parameters of the next unit. Accepted; they are gathered when they are needed.

    >>> torch.distributed.fsdp.BackwardPrefetch.BACKWARD_PRE.name
    'BACKWARD_PRE'
    """

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class MixedPrecision:
    """The dtypes of a `FullyShardedDataParallel`.

    Args:
        param_dtype: that of the whole parameters, and so of forward and backward. The shards of the ranks, and so the steps of
            optimizers and checkpoints, keep their own.
        reduce_dtype: that in which gradients are averaged; by default `param_dtype`.
        buffer_dtype: that of buffers, from the first forward pass on.
        keep_low_precision_grads: False.
        cast_forward_inputs: whether inputs of forward get `param_dtype`.
        cast_root_forward_inputs: the same for the outermost module.
        _module_classes_to_ignore: classes of modules that an `auto_wrap_policy` leaves in full precision.

    >>> torch.distributed.fsdp.MixedPrecision(param_dtype=torch.bfloat16).cast_root_forward_inputs
    True
    """

    param_dtype: torch.dtype | None = None
    reduce_dtype: torch.dtype | None = None
    buffer_dtype: torch.dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: tuple = (_BatchNorm,)

    #: Outputs keep their dtype, unlike those of `fully_shard`.
    output_dtype = None


@dataclass
class CPUOffload:
    """Where parameters are that are not in use. Accepted; they are on the CPU, where they are anyway.

    >>> torch.distributed.fsdp.CPUOffload()
    CPUOffload(offload_params=False)
    """

    offload_params: bool = False


class StateDictType(Enum):
    """What `state_dict` of a `FullyShardedDataParallel` returns: whole parameters, flat shards, or rows of parameters.

    >>> torch.distributed.fsdp.StateDictType.SHARDED_STATE_DICT
    <StateDictType.SHARDED_STATE_DICT: 3>
    """

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class StateDictConfig:
    """The base of options of states of models.

    Args:
        offload_to_cpu: whether tensors are on the CPU.

    >>> torch.distributed.fsdp.StateDictConfig()
    StateDictConfig(offload_to_cpu=False)
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Options of whole parameters.

    Args:
        offload_to_cpu: whether tensors are on the CPU.
        rank0_only: rank 0 alone gets the state, and the others an empty one.

    >>> torch.distributed.fsdp.FullStateDictConfig(rank0_only=True)
    FullStateDictConfig(offload_to_cpu=False, rank0_only=True)
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Options of flat shards.

    >>> torch.distributed.fsdp.LocalStateDictConfig()
    LocalStateDictConfig(offload_to_cpu=False)
    """


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Options of rows of parameters, which are `DTensor`s.

    >>> torch.distributed.fsdp.ShardedStateDictConfig()
    ShardedStateDictConfig(offload_to_cpu=False, _use_dtensor=False)
    """

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """The base of options of states of optimizers.

    >>> torch.distributed.fsdp.OptimStateDictConfig()
    OptimStateDictConfig(offload_to_cpu=True)
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Options of whole states.

    Args:
        offload_to_cpu: whether tensors are on the CPU.
        rank0_only: rank 0 alone gets the state, and the others an empty one.

    >>> torch.distributed.fsdp.FullOptimStateDictConfig()
    FullOptimStateDictConfig(offload_to_cpu=True, rank0_only=False)
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Options of states of flat shards.

    >>> torch.distributed.fsdp.LocalOptimStateDictConfig()
    LocalOptimStateDictConfig(offload_to_cpu=False)
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Options of rows of states, which are `DTensor`s.

    >>> torch.distributed.fsdp.ShardedOptimStateDictConfig()
    ShardedOptimStateDictConfig(offload_to_cpu=True, _use_dtensor=False)
    """

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """What `FullyShardedDataParallel.get_state_dict_type` returns."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


#: The options of each kind of state.
CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}

set_module("rushlight.distributed.fsdp", *(globals()[name] for name in __all__))
