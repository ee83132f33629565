"""The parameters of one module that are gathered together, and when.

Between uses, each rank keeps its rows of each parameter. The whole parameters are gathered before forward and backward, and their
memory is given back afterwards. Gradients are averaged and cut once the backward pass has all of them.
"""

import rushlight as torch
from rushlight.autograd import _queue_callback
from rushlight.distributed import _collectives
from rushlight.distributed._reduce_op import ReduceOp
from rushlight.distributed.tensor import DTensor, Replicate, Shard
from rushlight.distributed.tensor._api import leaf
from rushlight.distributed.tensor._layout import Spec, cut
from rushlight.nn import Parameter
from rushlight.utils._pytree import tree_map


class Piece:
    """A parameter: this rank's rows, and the whole one whose memory comes and goes."""

    def __init__(self, parameter, places, mesh, dtype):
        placements = (Replicate(),) * (mesh.ndim - 1) + (Shard(0),)
        self.spec, self.places = Spec(mesh, placements, parameter.shape), places
        self.count = parameter.numel()
        rows = cut(parameter.detach(), self.spec, mesh.ndim - 1)
        self.own = Parameter(leaf(rows.clone(), self.spec), parameter.requires_grad)
        self.own._fsdp = True
        dtype = parameter.dtype if dtype is None or not parameter.is_floating_point() else dtype
        self.whole = Parameter(torch.empty(parameter.shape, dtype=dtype), parameter.requires_grad)
        self.bytes = self.whole.untyped_storage().nbytes()
        self.whole.untyped_storage().resize_(0)
        #: The elements of the parts of all ranks but the last ones, which may have fewer.
        ranks = mesh.size(mesh.ndim - 1)
        self.part = -(-parameter.shape[0] // ranks) * (self.count // max(1, parameter.shape[0]))
        self.show(self.own)

    def show(self, parameter):
        """Lets the modules have the rows, or the whole parameter."""
        for module, name in self.places:
            module._parameters[name] = parameter

    def find(self):
        """The rows, which a program may have replaced, for example to change their dtype."""
        module, name = self.places[0]
        found = module._parameters[name]
        if isinstance(found, DTensor):
            self.own = found

    def rows(self, dtype):
        """This rank's rows as a flat tensor of the size that all ranks give."""
        flat = self.own.to_local().detach().to(dtype).reshape(-1)
        return torch.nn.functional.pad(flat, (0, self.part - flat.numel()))


class Unit:
    """The parameters of a module that belong to no unit inside of it."""

    def __init__(self, module, mesh, policy, reshards, ignored):
        self.module, self.mesh, self.policy = module, mesh, policy
        self.group = mesh.get_group(mesh.ndim - 1)
        self.copies = mesh.get_group(0) if mesh.ndim == 2 else None
        self.reshards_after_forward, self.reshards_after_backward, self.syncs = reshards, True, True
        self.is_outermost = True
        self.reduces_copies, self.divide_by, self.unshards_in_backward = True, None, True
        self.pieces = [
            Piece(parameter, places, mesh, policy.param_dtype) for parameter, places in _owned(module, ignored)
        ]
        self.is_whole, self.in_backward, self.left = False, False, 0
        for piece in self.pieces:
            if piece.whole.requires_grad:
                piece.whole.register_post_accumulate_grad_hook(self._ready)
        module.register_forward_pre_hook(self.before_forward, prepend=True, with_kwargs=True)
        module.register_forward_hook(self.after_forward)
        module.register_state_dict_pre_hook(lambda *_: self.reshard())
        module.register_load_state_dict_pre_hook(lambda *_: self.reshard())

    def _by_dtype(self, dtype_of):
        found = {}
        for piece in self.pieces:
            found.setdefault(dtype_of(piece), []).append(piece)
        return found

    def unshard(self):
        """Gathers the whole parameters."""
        if self.is_whole:
            return
        size = self.group.size()
        with torch.no_grad():
            for piece in self.pieces:
                piece.find()
            for dtype, pieces in self._by_dtype(lambda piece: piece.whole.dtype).items():
                given = torch.cat([piece.rows(dtype) for piece in pieces])
                got = given.new_empty(size * given.numel())
                _collectives.all_gather_single(got, given, self.group)
                table, at = got.view(size, -1), 0
                for piece in pieces:
                    piece.whole.untyped_storage().resize_(piece.bytes)
                    # `data` does not count as a change of what backward needs.
                    piece.whole.data.view(-1).copy_(table[:, at : at + piece.part].reshape(-1)[: piece.count])
                    at += piece.part
        for piece in self.pieces:
            piece.show(piece.whole)
        self.is_whole = True

    def reshard(self):
        """Gives back the memory of the whole parameters."""
        if not self.is_whole:
            return
        for piece in self.pieces:
            piece.show(piece.own)
            piece.whole.untyped_storage().resize_(0)
        self.is_whole = False

    def before_forward(self, module, args, kwargs):
        self.unshard()
        dtype = self.policy.param_dtype
        if dtype is not None and self.policy.cast_forward_inputs:
            return tree_map(lambda value: _cast(value, dtype), (args, kwargs))
        return args, kwargs

    def after_forward(self, module, args, output):
        # The outermost module needs its parameters again at once.
        wanted = not self.is_outermost if self.reshards_after_forward is None else self.reshards_after_forward
        if not self.in_backward and (wanted or not torch.is_grad_enabled()):
            self.reshard()
        if self.policy.output_dtype is not None:
            output = tree_map(lambda value: _cast(value, self.policy.output_dtype), output)
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
        """The end of the whole backward pass: some parameters may have taken no part."""
        if self.in_backward:
            self._after_backward()

    def _after_backward(self):
        self.in_backward = False
        if self.syncs and any(piece.whole.grad is not None for piece in self.pieces):
            with torch.no_grad():
                self._reduce()
        if self.reshards_after_backward:
            self.reshard()

    def _reduce(self):
        """Averages the gradients over all ranks, and keeps those of this rank's rows."""
        size, wanted = self.group.size(), self.policy.reduce_dtype
        trained = self._by_dtype(lambda piece: wanted or piece.whole.dtype)
        for dtype, every in trained.items():
            pieces = [piece for piece in every if piece.whole.requires_grad]
            given = torch.zeros(size, sum(piece.part for piece in pieces), dtype=dtype)
            at = 0
            for piece in pieces:
                if piece.whole.grad is not None:
                    flat = piece.whole.grad.to(dtype).reshape(-1)
                    flat = torch.nn.functional.pad(flat, (0, size * piece.part - piece.count))
                    given[:, at : at + piece.part] = flat.view(size, piece.part)
                at += piece.part
            got = given.new_empty(given.size(1))
            op = ReduceOp.AVG if self.divide_by is None else ReduceOp.SUM
            _collectives.reduce_scatter_single(got, given.view(-1), op, self.group)
            if self.copies is not None and self.reduces_copies:
                _collectives.all_reduce(got, op, self.copies)
            if self.divide_by is not None:
                got /= self.divide_by
            for piece, part in zip(pieces, got.split([piece.part for piece in pieces])):
                self._keep(piece, part)

    @staticmethod
    def _keep(piece, part):
        rows = piece.own.to_local()
        part = part[: rows.numel()].view(rows.shape).to(rows.dtype)
        if piece.own.grad is None:
            piece.own.grad = leaf(part.clone(), piece.spec)
        else:
            piece.own.grad.to_local().add_(part)
        piece.whole.grad = None


def _cast(value, dtype):
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if floating else value


def _owned(module, ignored):
    """The parameters of a module that belong to no unit inside of it, and the places of each."""
    found = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is None or parameter in ignored or getattr(parameter, "_fsdp", False):
                continue
            if isinstance(parameter, DTensor):
                raise NotImplementedError(f"{name} is a DTensor already, which fully_shard cannot cut again.")
            if parameter.dim() == 0:
                raise ValueError(
                    f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
                )
            found.setdefault(parameter, []).append((part, name))
    return found.items()
