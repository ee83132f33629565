"""An optimizer whose state is spread over the ranks (Rajbhandari and others 2020, the first stage)."""

import warnings

import rushlight as torch
from rushlight.distributed import _collectives
from rushlight.distributed._groups import get_global_rank, resolve
from rushlight.distributed._objects import gather_object
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


def __dir__() -> list[str]:
    return __all__


class _Idle(JoinHook):
    """Makes the steps of a rank without batches: the others need its part of the parameters."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def main_hook(self):
        self.optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Gives each rank a part of the parameters. It makes their steps, keeps their state and gives them to the others.

    Gradients must be the same on all ranks, as `DistributedDataParallel` leaves them. Parameters are then those that the
    optimizer alone would give.

    Args:
        params: parameters or groups of them, the same on every rank.
        optimizer_class: the class of the optimizer.
        process_group: the ranks, by default all.
        parameters_as_bucket_view: accepted; parameters stay where they are.
        overlap_with_ddp: the hook of `DistributedDataParallel` that `hook_with_zero_step` returns makes the steps. `step` does
            nothing then.
        defaults: the options of the optimizer.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    >>> optimizer.consolidate_state_dict()
    >>> sorted(optimizer.state_dict()["state"])
    [0, 1]
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params,
        optimizer_class,
        process_group=None,
        parameters_as_bucket_view=False,
        overlap_with_ddp=False,
        **defaults,
    ):
        self._overlap_with_ddp = overlap_with_ddp
        self.process_group = resolve(process_group)
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._owners, self._loads = {}, [0] * self.world_size
        self._all_states = None
        self._optim_constructor, self._optim_defaults = optimizer_class, defaults
        self._ready = False
        super().__init__(params, defaults)
        own = [{**options, "params": parameters} for options, parameters in map(self._own, self.param_groups)]
        self.optim = optimizer_class(own, **defaults)
        self._ready = True
        for group, local in zip(self.param_groups, self.optim.param_groups):
            _copy_options(local, group)

    def _own(self, group):
        """The options of a group, and those of its parameters that belong to this rank."""
        options = {key: value for key, value in group.items() if key != "params"}
        return options, [parameter for parameter in group["params"] if self._owners[parameter] == self.rank]

    def add_param_group(self, param_group):
        """Adds parameters with their options."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        # The largest parameters first, each to the rank that has least.
        for parameter in sorted(group["params"], key=lambda one: one.numel(), reverse=True):
            rank = self._loads.index(min(self._loads))
            self._owners[parameter] = rank
            self._loads[rank] += parameter.numel()
        if self._ready:
            options, parameters = self._own(group)
            self.optim.add_param_group({**options, "params": parameters})
            _copy_options(self.optim.param_groups[-1], group)

    def step(self, closure=None, **kwargs):
        """Makes the steps of this rank's parameters, and gets those of the others.

        Args:
            closure: computes the loss again, as for the optimizer.
            kwargs: given to the optimizer.
        """
        if self._overlap_with_ddp:
            warnings.warn(
                "`step()` should not be included in the training loop when `overlap_with_ddp=True`", stacklevel=2
            )
            return None
        return self._step(closure, **kwargs)

    def _step(self, closure, **kwargs):
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        for group, local in zip(self.param_groups, self.optim.param_groups):
            _copy_options(group, local)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        for group, local in zip(self.param_groups, self.optim.param_groups):
            _copy_options(local, group)
        self._share()
        return loss

    def _share(self):
        """Each rank gives its parameters to the others, those of a dtype together."""
        parts = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                parts.setdefault((self._owners[parameter], parameter.dtype), []).append(parameter.detach())
        with torch.no_grad():
            begun = []
            for (owner, _), tensors in parts.items():
                flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
                work = _collectives.broadcast(flat, group=self.process_group, group_src=owner, async_op=True)
                begun.append((owner, tensors, flat, work))
            for owner, tensors, flat, work in begun:
                work.wait()
                if owner != self.rank:
                    for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
                        tensor.copy_(part.view(tensor.shape))

    def consolidate_state_dict(self, to=0):
        """Collects the state of all ranks on rank `to` of the default group. All ranks call it."""
        here = get_global_rank(self.process_group, self.rank) == to
        states = [None] * self.world_size if here else None
        gather_object(self.optim.state_dict()["state"], states, to, self.process_group)
        self._all_states = states

    def _places(self):
        """The number of each parameter in the whole optimizer by its rank and number there."""
        found, counts, number = {}, [0] * self.world_size, 0
        for group in self.param_groups:
            for parameter in group["params"]:
                owner = self._owners[parameter]
                found[owner, counts[owner]] = number
                counts[owner] += 1
                number += 1
        return found

    def state_dict(self):
        """The state of the whole optimizer, as it would be without ranks.

        Raises:
            RuntimeError: `consolidate_state_dict` was not called, or not for this rank.
        """
        if self._all_states is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{get_global_rank(self.process_group, self.rank)})` on all ranks beforehand if you meant to save the "
                "global state."
            )
        whole = super().state_dict()
        for (rank, local), number in sorted(self._places().items(), key=lambda pair: pair[1]):
            if local in self._all_states[rank]:
                whole["state"][number] = self._all_states[rank][local]
        return whole

    def load_state_dict(self, state_dict):
        """Restores the state of the whole optimizer. Each rank keeps the part of its own parameters."""
        places = {number: local for (rank, local), number in self._places().items() if rank == self.rank}
        own = {places[number]: state for number, state in state_dict["state"].items() if number in places}
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        groups = self.optim.state_dict()["param_groups"]
        self.optim.load_state_dict({"state": own, "param_groups": groups})
        for group, local in zip(self.param_groups, self.optim.param_groups):
            _copy_options(group, local)

    def join_hook(self, **kwargs):
        """What this optimizer does on a rank without batches: its steps."""
        return _Idle(self)

    @property
    def join_device(self):
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self):
        """The group."""
        return self.process_group


def _copy_options(source, target):
    for key, value in source.items():
        if key != "params":
            target[key] = value
