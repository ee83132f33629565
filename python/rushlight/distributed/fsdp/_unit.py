"""The parameters of one module that are gathered together, and when.

Between uses, each rank keeps its shard of each parameter. The whole parameters are gathered before forward and backward, and their
memory is given back afterwards. Gradients are averaged and cut once the backward pass has all of them. What a shard is, the pieces
of a unit decide: the rows of a parameter (`_rows`), or an interval of all elements (`_flat`).
"""

import rushlight as torch
from rushlight.autograd import _queue_callback
from rushlight.distributed import _collectives
from rushlight.distributed._reduce_op import ReduceOp
from rushlight.distributed.tensor import DTensor
from rushlight.utils._pytree import tree_map
from rushlight.utils._tensors import cast

from ._comm import AllGather, ReduceScatter


class Piece:
    """What a unit gathers as one tensor. `whole` is it, a parameter whose memory comes and goes.

    A subclass also has `own`, this rank's shard of it between uses, `shard_numel`, the number of elements that each rank of the
    unit gives, and the methods below that raise `NotImplementedError`.
    """

    #: This rank's shard among fewer ranks than those of the unit, while the unit is sharded among them.
    shrunk = None

    def __init__(self, whole, memory):
        self.whole = whole
        self.replace(memory)

    def replace(self, memory):
        """Takes other memory for the whole parameter."""
        self.memory, self._bytes = memory, memory.untyped_storage().nbytes()
        self.free()

    def allocate(self):
        self.memory.untyped_storage().resize_(self._bytes)

    def free(self):
        self.memory.untyped_storage().resize_(0)

    def find(self):
        """Takes note of parameters with which the program has replaced this rank's shard."""

    def width(self):
        """The number of elements that each rank gives now."""
        return self.shard_numel

    def give(self, place):
        """Writes this rank's shard into a flat tensor of `width` elements."""
        raise NotImplementedError

    def shrink(self, mesh):
        """Keeps, of the whole tensor, this rank's shard among the ranks of the last dimension of a mesh."""
        raise NotImplementedError

    def joined(self, table):
        """The whole tensor of the shards of all ranks, the lines of a table."""
        raise NotImplementedError

    def cut(self, whole):
        """A table of the shards of all ranks, of a tensor like the whole."""
        raise NotImplementedError

    def show(self, is_whole):
        """Lets the modules have the whole parameter, or this rank's shard."""
        raise NotImplementedError

    def keep(self, shard):
        """Adds a shard to the gradient of this rank's shard."""
        raise NotImplementedError


class Unit:
    """The pieces of modules that belong to no unit inside of them.

    Args:
        modules: the modules, usually one. The unit is in use from the beginning of the first to the end of the last one's forward.
        group: the ranks that share the whole parameters, or None if each rank has all of them.
        copies: the ranks that have this rank's shard as well, or None.
        policy: a `MixedPrecisionPolicy`.
        reshards: whether forward gives the whole parameters back; None if it depends on the place of the module.
        smaller: a mesh along whose last dimension parameters are sharded between forward and backward, or None.
        device: that of inputs, if there are no pieces whose device it is.
    """

    def __init__(self, modules, group, copies, policy, reshards, pieces, device, smaller=None):
        self.modules, self.group, self.copies, self.policy, self.pieces = modules, group, copies, policy, pieces
        self._device, self.ran = device, set()
        self.size = 1 if group is None else group.size()
        self.reshards_after_forward, self.reshards_after_backward, self.syncs = reshards, True, True
        self.is_outermost = True
        self.reduces_copies, self.divide_by, self.unshards_in_backward = True, None, True
        self.only_sums, self.after_reduction, self.counts_unused = False, None, False
        self.all_gather, self.reduce_scatter = AllGather(), ReduceScatter()
        self.smaller, self.is_shrunk = smaller, False
        self.is_whole, self.in_backward, self.left = False, False, 0
        for piece in pieces:
            if piece.whole.requires_grad:
                piece.whole.register_post_accumulate_grad_hook(self._ready)
        for inner in {inner for module in modules for inner in module.modules()}:
            # A module is the outermost until another one around it is given.
            unit = getattr(inner, "_fsdp_unit", None)
            if unit is not None:
                unit.is_outermost = False
        for module in modules:
            module._fsdp_unit = self
            module.register_forward_pre_hook(self.before_forward, prepend=True, with_kwargs=True)
            module.register_forward_hook(self.after_forward)

    @property
    def device(self):
        """The device of the whole parameters."""
        return self.pieces[0].memory.device if self.pieces else self._device

    def _by_dtype(self, dtype_of):
        found = {}
        for piece in self.pieces:
            found.setdefault(dtype_of(piece), []).append(piece)
        return found

    def gathered(self, pieces, give, dtype):
        """Pairs of pieces and tables of the shards that all ranks give. `give` writes a piece's shard of this rank."""
        group = self.smaller.get_group(1) if self.is_shrunk else self.group
        ranks, rank = (1, 0) if group is None else (group.size(), group.rank())
        widths = [piece.width() for piece in pieces]
        flat = self.all_gather.allocate((ranks * sum(widths),), dtype=dtype, device=self.device)
        table = flat.view(ranks, sum(widths))
        # Parts are written where the output has them: no other copy is made, and a call of the program may rely on it, as in torch.
        own = table[rank]
        for piece, place in zip(pieces, own.split(widths)):
            give(piece, place)
        if group is not None:
            self.all_gather(output_tensor=flat, input_tensor=own, group=group, async_op=False)
        return zip(pieces, table.split(widths, 1))

    def unshard(self):
        """Gathers the whole parameters."""
        if self.is_whole:
            return
        with torch.no_grad():
            if not self.is_shrunk:
                for piece in self.pieces:
                    piece.find()
                self._expect_memory()
            for dtype, pieces in self._by_dtype(lambda piece: piece.whole.dtype).items():
                for piece, table in self.gathered(pieces, lambda piece, place: piece.give(place), dtype):
                    piece.allocate()
                    # `data` does not count as a change of what backward needs.
                    piece.memory.data.copy_(piece.joined(table))
        self.is_whole = True
        self._drop_shrunk()
        self._show()

    def _drop_shrunk(self):
        self.is_shrunk = False
        for piece in self.pieces:
            piece.shrunk = None

    def _expect_memory(self):
        without = {id(piece.own) for piece in self.pieces if piece.own.is_meta}
        if without:
            named = (pair for module in self.modules for pair in module.named_parameters())
            names = [name for name, parameter in named if id(parameter) in without]
            raise RuntimeError(
                "FSDP parameters should be materialized from meta device before training, but the following were still "
                f"on meta device: {names}\n"
                "For example, call module.to_empty(device) to materialize to device and call module.reset_parameters() on "
                "each module to initialize values."
            )

    def _show(self):
        for piece in self.pieces:
            piece.show(self.is_whole)

    def reshard(self):
        """Gives back the memory of the whole parameters, and of shards among fewer ranks."""
        if self.is_whole or self.is_shrunk:
            self._drop_shrunk()
            self._free()

    def _shrink(self):
        """Gives back the memory of the whole parameters, except for this rank's shard among the ranks of the smaller mesh."""
        with torch.no_grad():
            for piece in self.pieces:
                piece.shrink(self.smaller)
        self.is_shrunk = True
        self._free()

    def _free(self):
        self.is_whole = False
        self._show()
        for piece in self.pieces:
            piece.free()

    def casts_inputs(self):
        return self.policy.cast_forward_inputs

    def before_forward(self, module, args, kwargs):
        self.unshard()
        if self.is_outermost and self.device.type == "cuda":
            args, kwargs = tree_map(self._moved, (args, kwargs))
        dtype = self.policy.param_dtype
        if dtype is not None and self.casts_inputs():
            return tree_map(lambda value: cast(value, dtype), (args, kwargs))
        return args, kwargs

    def _moved(self, value):
        return value.to(self.device) if isinstance(value, torch.Tensor) else value

    def after_forward(self, module, args, output):
        # The outermost module needs its parameters again at once.
        wanted = not self.is_outermost if self.reshards_after_forward is None else self.reshards_after_forward
        if not self.in_backward:
            self.ran.add(module)
            if len(self.ran) == len(self.modules):
                self.ran.clear()
                # Without gradients no backward pass follows that needs the parameters soon.
                if wanted and self.smaller is not None and torch.is_grad_enabled():
                    self._shrink()
                elif wanted or not torch.is_grad_enabled():
                    self.reshard()
        if self.policy.output_dtype is not None:
            output = tree_map(lambda value: cast(value, self.policy.output_dtype), output)
        if torch.is_grad_enabled():
            output = tree_map(self._watch, output)
        return output

    def _watch(self, value):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            value.register_hook(self._before_backward)
        return value

    def _before_backward(self, grad):
        if not self.in_backward:
            self.in_backward = True
            self.left = sum(piece.whole.requires_grad for piece in self.pieces)
            _queue_callback(self._end)
            if self.unshards_in_backward:
                self.unshard()

    def _ready(self, parameter):
        self.left -= 1
        if self.left == 0 and self.in_backward:
            self._after_backward()

    def _end(self):
        """The end of the whole backward pass: some parameters may not have been used."""
        if self.in_backward:
            self._after_backward()

    def _after_backward(self):
        self.in_backward = False
        if self.syncs and (self.counts_unused or any(piece.whole.grad is not None for piece in self.pieces)):
            with torch.no_grad():
                self._reduce()
        if self.reshards_after_backward:
            self.reshard()

    def abandon(self):
        """Forgets a pass that an error has ended, and its gradients."""
        self.in_backward = False
        self.ran.clear()
        for piece in self.pieces:
            piece.whole.grad = None
        self.reshard()

    def _reduce(self):
        """Averages the gradients over all ranks, and keeps those of this rank's shard."""
        wanted = self.policy.reduce_dtype
        trained = self._by_dtype(lambda piece: wanted or piece.whole.dtype)
        for dtype, every in trained.items():
            pieces = [piece for piece in every if piece.whole.requires_grad]
            if not pieces:
                continue
            # The last columns tell which parameters have a gradient on any rank. The others get none, and so no step.
            width, marks = sum(piece.shard_numel for piece in pieces), len(pieces) if len(self.pieces) > 1 else 0
            length = self.size * (width + marks)
            given = self.reduce_scatter.allocate((length,), dtype=dtype, device=self.device).view(self.size, -1)
            given[:, :width] = 0
            given[:, width:] = 1
            at, lacks = 0, []
            for number, piece in enumerate(pieces):
                if piece.whole.grad is not None:
                    grad = piece.whole.grad
                    given[:, at : at + piece.shard_numel] = piece.cut(
                        (grad.to_local() if isinstance(grad, DTensor) else grad).to(dtype)
                    )
                    piece.whole.grad = None
                elif not self.counts_unused:
                    given[:, width + number] = 0
                    lacks.append(number)
                at += piece.shard_numel
            got, used = self._reduced(given).split([width, marks])
            if self.divide_by is not None:
                got /= self.divide_by
            elif self.only_sums:
                got /= self._ranks()
            if self.after_reduction is not None:
                self.after_reduction(got)
            # Reading a number makes the host wait for a GPU, so only ranks that lack a gradient do.
            unused = [number for number in lacks if not used[number] > 0]
            for number, (piece, shard) in enumerate(zip(pieces, got.split([piece.shard_numel for piece in pieces]))):
                if number not in unused:
                    piece.keep(shard)

    def _ranks(self):
        """The number of ranks over which gradients are added up."""
        return self.size * (self.copies.size() if self.copies is not None and self.reduces_copies else 1)

    def _reduced(self, given):
        """This rank's shard of the average, or sum, of tables."""
        op = ReduceOp.SUM if self.only_sums or self.divide_by is not None else ReduceOp.AVG
        got = self.reduce_scatter.allocate((given.size(1),), dtype=given.dtype, device=given.device)
        if self.group is None:
            got.copy_(given[0])
        else:
            self.reduce_scatter(output_tensor=got, input_tensor=given.view(-1), group=self.group, op=op, async_op=False)
        if self.copies is not None and self.reduces_copies:
            _collectives.all_reduce(got, op, self.copies)
        return got


def device_of(mesh):
    """The device of this rank on a mesh."""
    return torch.device("cuda", torch.cuda.current_device()) if mesh.device_type == "cuda" else torch.device("cpu")


def move(tensors, device):
    """Moves parameters and buffers that have memory to a device."""
    for tensor in tensors:
        if tensor.device != device and not tensor.is_meta:
            tensor.data = tensor.data.to(device)


def owned(modules, ignored):
    """The parameters of modules that belong to no unit inside of them, and the places of each."""
    found: dict = {}
    for inner in dict.fromkeys(inner for module in modules for inner in module.modules()):
        for name, parameter in inner._parameters.items():
            if parameter is None or parameter in ignored or getattr(parameter, "_fsdp", False):
                continue
            found.setdefault(parameter, []).append((inner, name))
    return found
