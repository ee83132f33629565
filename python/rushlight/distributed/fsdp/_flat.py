"""The parameters of a module as one flat parameter, of which each rank keeps an interval."""

import contextlib

import rushlight as torch
from rushlight.distributed import _collectives
from rushlight.distributed._reduce_op import ReduceOp
from rushlight.nn import Parameter
from rushlight.utils._tensors import cast

from ._unit import Piece, Unit

NAME = "_flat_param"
#: The attribute that has the wrapped module, as part of names.
PREFIX = "_fsdp_wrapped_module."
#: With the original parameters, each one begins at a multiple of this many bytes, as in torch.
ALIGNMENT = 16


class Flat(Piece):
    """All parameters of a unit, one after the other.

    Args:
        root: the module that gets the flat parameter, if it does not keep the original ones.
        names: the parameters' names in it.
        parameters: the parameters, and the places of each: the modules that have it, and its name there.
        size, rank: the number of ranks that share the parameters, and the place of this one.
        dtype: that of the whole parameters, or None for their own.
        keeps: whether modules keep the original parameters, which then are views of this rank's interval.
        offload: a `CPUOffload`, which may keep this rank's interval on the CPU, or None.
    """

    def __init__(self, root, names, parameters, size, rank, dtype, keeps, offload):
        self.root, self.names, self.places, self.keeps, self.size = root, names, list(parameters.values()), keeps, size
        self.offloads = offload is not None and offload.offload_params
        every = list(parameters)
        first = every[0]
        self.shapes = [parameter.shape for parameter in every]
        step = max(1, ALIGNMENT // first.itemsize) if keeps else 1
        self.starts, end = [], 0
        for shape in self.shapes:
            end += -end % step
            self.starts.append(end)
            end += shape.numel()
        self.shard_numel = -(-end // size)
        self.count, self.first = self.shard_numel * size, self.shard_numel * rank
        flat = first.new_zeros(self.count, requires_grad=False)
        with torch.no_grad():
            for parameter, view in zip(every, self.views(flat)):
                view.copy_(parameter)
        self.trained = [parameter.requires_grad for parameter in every]
        own = flat[self.first : self.first + self.shard_numel].clone()
        own = own.cpu() if self.offloads else own
        memory = torch.empty(self.count, dtype=dtype or first.dtype, device=first.device)
        whole = Parameter(memory, any(self.trained))
        if keeps:
            # The original parameters live on, so that an optimizer made before still has them.
            self.own, self.originals = own, every
            for parameter in every:
                parameter._fsdp = True
        else:
            self.own, self.originals = Parameter(own, whole.requires_grad), []
            self.own._fsdp = self.own._is_flat_param = True
            for places in self.places:
                for module, name in places:
                    del module._parameters[name]
            root.register_parameter(NAME, self.own)
        super().__init__(whole, memory)
        self._lay_out_originals()
        self.show(False)

    def parameters(self):
        """The parameters that an optimizer has."""
        return self.originals if self.keeps else [self.own]

    def find(self):
        if not self.keeps:
            self.own = self.root._parameters[NAME]
            self._follow()
            return
        for number, places in enumerate(self.places):
            module, name = places[0]
            found = module._parameters[name]
            if isinstance(found, Parameter):
                self.originals[number] = found
                found._fsdp = True
        memory = self.own.untyped_storage().data_ptr()
        if all(one.numel() == 0 or one.untyped_storage().data_ptr() == memory for one in self.originals):
            return
        own = self.flat_of(lambda number: self.originals[number].detach(), self.originals[0].dtype)
        self.own = own.to(self.originals[0].device)
        self._follow()
        self._lay_out_originals()

    def _follow(self):
        """The program may have moved the module to another device."""
        if not self.offloads and self.own.device != self.memory.device:
            memory = torch.empty_like(self.memory, device=self.own.device)
            self.whole.data = memory
            self.replace(memory)

    def views(self, flat):
        """The parameters within a flat tensor."""
        return [flat[at : at + shape.numel()].view(shape) for at, shape in zip(self.starts, self.shapes)]

    def interval(self, number):
        """Where the elements of a parameter are that this rank has, within its interval and within the parameter."""
        start, count = self.starts[number], self.shapes[number].numel()
        first, last = max(start, self.first), min(start + count, self.first + self.shard_numel)
        last = max(first, last)
        return slice(first - self.first, last - self.first), slice(first - start, last - start)

    def within(self, flat, number):
        """The elements of a parameter within this rank's interval, which are all of them if there is one rank."""
        elements = flat[self.interval(number)[0]]
        return elements.view(self.shapes[number]) if self.size == 1 else elements

    def flat_of(self, elements_of, dtype):
        """This rank's interval, from what `elements_of` returns for the number of each parameter: a tensor or None."""
        flat = torch.zeros(self.shard_numel, dtype=dtype, device=self.memory.device)
        for number in range(len(self.shapes)):
            elements = elements_of(number)
            if elements is not None:
                self.within(flat, number).copy_(elements)
        return flat

    def interval_of(self, wholes, dtype):
        """This rank's interval of whole parameters."""
        return self.flat_of(lambda number: self._cut_to_interval(wholes[number], number), dtype)

    def _cut_to_interval(self, whole, number):
        return whole if self.size == 1 else whole.reshape(-1)[self.interval(number)[1]]

    def keep_whole(self, grads):
        """Replaces the gradients of the original parameters by this rank's shard of whole ones."""
        for number, (parameter, grad) in enumerate(zip(self.originals, grads)):
            shard = None if grad is None else self._cut_to_interval(grad, number)
            empty = shard is None or shard.numel() == 0
            parameter.grad = None if empty else shard.clone().to(parameter.device)

    def _lay_out_originals(self):
        for number, parameter in enumerate(self.originals):
            parameter.data = self.within(self.own, number)

    def give(self, place):
        place.copy_(self.own.detach())

    def joined(self, table):
        return table.reshape(-1)

    def cut(self, whole):
        return whole.view(self.size, self.shard_numel)

    def show(self, is_whole):
        if is_whole:
            # Each forward pass has views of its own, because a backward pass may have ended the history of others.
            with torch.enable_grad():
                shown = self._split()
        else:
            # What has no memory outside of use still has its shape.
            shown = self.originals if self.keeps else [view.detach() for view in self._split()]
        self._put(shown)

    def _put(self, shown):
        for places, value in zip(self.places, shown):
            for module, name in places:
                if self.keeps or isinstance(value, Parameter):
                    module._parameters[name] = value
                else:
                    module.__dict__[name] = value

    def _split(self):
        sizes, at = [], 0
        for start, shape in zip(self.starts, self.shapes):
            sizes += [start - at, shape.numel()]
            at = start + shape.numel()
        views = self.whole.split([*sizes, self.count - at])[1::2]
        made = [view.view(shape) for view, shape in zip(views, self.shapes)]
        return [view if trained else view.detach() for view, trained in zip(made, self.trained)]

    def keep(self, shard):
        if not self.keeps:
            _add(self.own, shard)
            return
        for number, parameter in enumerate(self.originals):
            own = self.within(shard, number)
            if own.numel() and self.trained[number]:
                _add(parameter, own)

    @contextlib.contextmanager
    def presented(self, values, grads=None):
        """Lets the modules have parameters with other values and gradients. Yields a function that returns what they have then.

        The original parameters stay the same objects, if the modules keep them and the values are plain tensors.
        """
        if not self.keeps:
            self.root._parameters.pop(NAME)
            for places in self.places:
                for module, name in places:
                    module.__dict__.pop(name, None)
        same = self.keeps and type(values[0]) is torch.Tensor
        own_grads = [parameter.grad for parameter in self.originals]
        if same:
            shown = self.originals
            for parameter, value in zip(shown, values):
                parameter.grad = None
                parameter.data = value
        else:
            shown = [Parameter(value, trained) for value, trained in zip(values, self.trained)]
        for parameter, grad in zip(shown, grads or ()):
            parameter.grad = grad
        self._put(shown)
        try:
            yield lambda: [places[0][0]._parameters[places[0][1]] for places in self.places]
        finally:
            if same:
                self._lay_out_originals()
                for parameter, grad in zip(self.originals, own_grads):
                    parameter.grad = grad
            elif not self.keeps:
                for places in self.places:
                    for module, name in places:
                        module._parameters.pop(name, None)
                self.root._parameters[NAME] = self.own
            self.show(False)


class FlatUnit(Unit):
    """The unit of a `FullyShardedDataParallel`: one flat parameter, or none if the module has no parameters left."""

    hook = None

    def __init__(self, modules, group, copies, policy, reshards, pieces, device):
        super().__init__(modules, group, copies, policy, reshards, pieces, device)
        self.rank = 0 if group is None else group.rank()

    def casts_inputs(self):
        return self.policy.cast_root_forward_inputs if self.is_outermost else self.policy.cast_forward_inputs

    def before_forward(self, module, args, kwargs):
        if self.is_whole:
            self._show()
        return super().before_forward(module, args, kwargs)

    def full(self, flat):
        """The whole flat tensor of the intervals that the ranks give."""
        ((piece, table),) = self.gathered(self.pieces, lambda _, place: place.copy_(flat), flat.dtype)
        return piece.joined(table)

    def on_any(self, here):
        """Whether something is so on any rank."""
        if self.group is None:
            return here
        found = torch.tensor(int(here), device=self.group._object_device())
        _collectives.all_reduce(found, ReduceOp.MAX, self.group)
        return bool(found)

    def _reduced(self, given):
        if self.hook is None:
            return super()._reduced(given)
        hook, state = self.hook
        if self.group is None:
            hook(state, given[0])
            return given[0]
        got = given.new_empty(given.size(1))
        hook(state, given.view(-1), got)
        return got


def _add(parameter, shard):
    shard = cast(shard, parameter.dtype).to(parameter.device)
    if parameter.grad is None:
        parameter.grad = shard.clone()
    else:
        parameter.grad.add_(shard)
