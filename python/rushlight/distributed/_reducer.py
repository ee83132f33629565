"""Averages gradients over the ranks of a group while the backward pass still runs.

Gradients are collected in buckets, in the reverse order of the parameters, which is about the order in which they are
ready. A bucket of dense gradients is reduced in the background once it is full; a parameter with sparse gradients has a
bucket of its own, whose reduction is waited for. All ranks reduce the buckets in one order. With a static graph the first
pass only counts how often each parameter takes part, and reduces all buckets at its end.
"""

import math
import threading

import rushlight as torch
from rushlight._set_module import set_module
from rushlight.autograd import _queue_callback
from rushlight.autograd._graph_leaves import leaves_of
from rushlight.distributed._collectives import all_reduce
from rushlight.distributed._reduce_op import ReduceOp
from rushlight.futures import Future

FIRST_BUCKET_BYTES = 1 << 20

_NOT_FINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that "
    "your module has parameters that were not used in producing loss. You can enable unused parameter detection by "
    "passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by "
    "making sure all `forward` function outputs participate in calculating loss. "
)
_CHANGED = (
    "Your training graph has changed in this iteration, e.g., one parameter is unused in first iteration, but then got "
    "used in the second iteration. this is not compatible with static_graph set to True."
)
_TWICE = (
    "Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a "
    "module parameter outside the `forward` function. Please make sure model parameters are not shared across multiple "
    "concurrent forward-backward passes. or try to use _set_static_graph() as a workaround if this module graph does "
    "not change during training loop.2) Reused parameters in multiple reentrant backward passes. For example, if you "
    "use multiple `checkpoint` functions to wrap the same part of your model, it would result in the same set of "
    "parameters been used by different reentrant backward passes multiple times, and hence marking a variable ready "
    "multiple times. DDP does not support such use cases in default. You can try to use _set_static_graph() as a "
    "workaround if your module graph does not change over iterations."
)


class GradBucket:
    """The gradients that a communication hook reduces together.

    A hook gets one, and returns a future of the tensor that takes the place of `buffer()`.
    """

    def __init__(self, index, buffer, views, parameters, last):
        self._index, self._buffer, self._views, self._parameters, self._last = index, buffer, views, parameters, last

    def index(self):
        """The number of the bucket. Buckets are reduced in this order."""
        return self._index

    def buffer(self):
        """All gradients as one flat tensor."""
        return self._buffer

    def set_buffer(self, buffer):
        """Replaces the flat tensor."""
        self._buffer = buffer

    def gradients(self):
        """The gradients, as views of the buffer."""
        at, views = 0, []
        for view in self._views:
            views.append(self._buffer[at : at + view.numel()].view(view.shape))
            at += view.numel()
        return views

    def parameters(self):
        """The parameters of the gradients."""
        return list(self._parameters)

    def is_last(self):
        """Whether this is the last bucket of the pass."""
        return self._last


class _Bucket:
    def __init__(self, parameters, indices, dtype):
        self.parameters, self.indices = parameters, indices
        first = parameters[0]
        self.dtype = dtype if dtype is not None and first.is_floating_point() else first.dtype
        self.buffer = torch.zeros(sum(p.numel() for p in parameters), dtype=self.dtype, device=first.device)
        self.views, at = [], 0
        for parameter in parameters:
            self.views.append(self.buffer[at : at + parameter.numel()].view(parameter.shape))
            at += parameter.numel()
        #: The gradients that are missing, and the reduction that runs: a piece of work, or the future of a hook.
        self.left, self.running = len(parameters), None
        #: Whether a parameter takes part in this pass, and the gradients that are yet to be copied.
        self.is_used, self.waiting = True, []


def assign(parameters, sizes, sparse):
    """Cuts a list of parameters into buckets of one dtype of up to so many bytes; lists of indices.

    Args:
        sizes: the limits of the first buckets; the last one stands for all others.
        sparse: the indices of parameters with sparse gradients, which are alone in their buckets.
    """
    open_ones, done, limits = {}, [], {}
    for index in reversed(range(len(parameters))):
        parameter = parameters[index]
        if index in sparse:
            done.append([index])
            continue
        key = (parameter.dtype, parameter.device)
        indices, total = open_ones.get(key, ([], 0))
        indices.append(index)
        total += parameter.numel() * parameter.element_size()
        open_ones[key] = (indices, total)
        limit = sizes[min(limits.get(key, 0), len(sizes) - 1)]
        if total >= limit:
            done.append(indices)
            limits[key] = limits.get(key, 0) + 1
            del open_ones[key]
    done += [indices for indices, _ in open_ones.values()]
    # Of several dtypes, the bucket that is ready first comes first.
    return sorted(done, key=max, reverse=True)


class Reducer:
    """Averages the gradients of some parameters over a group. `DistributedDataParallel` has one.

    Args:
        parameters, names: the parameters and their names.
        group: the ranks.
        bucket_sizes: the bytes of the first buckets; the last number stands for all others.
        sparse: the indices of parameters with sparse gradients.
        find_unused: whether parameters may take no part in a pass.
        bucket_views: whether gradients become views of the buckets.
        static_graph: whether all passes use the same parameters.
        skips_unused: whether buckets without a used parameter are left out, because ranks use the same ones.
        copies_together: whether gradients are copied once a bucket is full.
        dtype: that of the buckets, or None for that of the parameters.
    """

    def __init__(
        self,
        parameters,
        names,
        group,
        *,
        bucket_sizes,
        sparse=(),
        find_unused,
        bucket_views,
        static_graph,
        skips_unused=False,
        copies_together=False,
        dtype=None,
    ):
        self._parameters, self._names, self._group = parameters, names, group
        self._find_unused, self._bucket_views, self._static = find_unused, bucket_views, static_graph
        self._skips_unused, self._copies_together = skips_unused, copies_together
        self._sparse = set(sparse)
        self._buckets, self._place = [], {}
        for indices in assign(parameters, bucket_sizes, self._sparse):
            bucket = None if indices[0] in self._sparse else _Bucket([parameters[i] for i in indices], indices, dtype)
            for position, index in enumerate(indices):
                self._place[index] = (len(self._buckets), position)
            self._buckets.append(bucket if bucket is not None else _Sparse(parameters[indices[0]], indices))
        self.hook, self.divide_by = None, group.size()
        self._lock = threading.RLock()
        self._expected: list[int] | None = None
        #: The parameters that no rank uses, if the graph is static and the first pass has ended.
        self._never: set[int] = set()
        self._active, self._pending = False, False
        for index, parameter in enumerate(parameters):
            parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._ready(index))

    def _greatest(self, numbers):
        """The greatest of the ranks' numbers for each parameter."""
        tensor = torch.tensor(numbers, dtype=torch.int32, device=self._group._object_device())
        all_reduce(tensor, ReduceOp.MAX, self._group)
        return tensor.tolist()

    @property
    def bucket_sizes(self):
        return [sum(parameter.numel() for parameter in bucket.parameters) for bucket in self._buckets]

    def check_finished(self):
        """Raises torch's error if the last pass gave no gradient for some parameters."""
        if not self._pending:
            return
        missing = [index for index in range(len(self._parameters)) if not self._seen[index]]
        rank = self._group._rank
        raise RuntimeError(
            f"{_NOT_FINISHED}\nIf you already have done the above, then the distributed data parallel module wasn't able "
            "to locate the output tensors in the return value of your module's `forward` function. Please include the "
            "loss function and the structure of the return value of `forward` of your module when reporting this issue "
            f"(e.g. list, dict, iterable).\nParameter indices which did not receive grad for rank {rank}: "
            f"{' '.join(map(str, missing))}\n  Their names: {', '.join(self._names[index] for index in missing)}."
        )

    def prepare(self, outputs):
        """Begins a pass whose gradients are reduced. `outputs` are the tensors that forward returned."""
        self._active, self._pending = True, False
        self._seen = [0] * len(self._parameters)
        self._used = None
        self._launched = 0
        for bucket in self._buckets:
            bucket.left, bucket.running, bucket.is_used, bucket.waiting = len(bucket.parameters), None, False, []
        if self._find_unused and not self._static:
            self._used = [0] * len(self._parameters)
            reached = {id(leaf) for leaf in leaves_of(outputs)}
            self._unused = [i for i, p in enumerate(self._parameters) if id(p) not in reached]
            self._unused_marked = False

    def needs_sink(self):
        """Whether the outputs of this pass go through `Sink`."""
        return self._static and self._expected is None

    def skip(self):
        """Begins a pass whose gradients stay on this rank."""
        self._active = False

    def _ready(self, index):
        with self._lock:
            if not self._active:
                return
            if not self._pending:
                self._pending = True
                if self._used is not None and not self._unused_marked:
                    self._unused_marked = True
                    for unused in self._unused:
                        self._mark(unused, used=False)
                for never in self._never:
                    self._mark(never, used=False)
            if self._static and self._expected is None:
                # The first pass finds out how often each parameter takes part. `Sink` reduces everything at its end.
                self._seen[index] += 1
                return
            if index in self._never:
                raise RuntimeError(_CHANGED)
            self._mark(index, used=True)

    def _mark(self, index, used):
        self._seen[index] += 1
        if self._static:
            if self._seen[index] < self._expected[index]:
                return
        elif self._seen[index] > 1:
            if self._used is not None and index in self._unused:
                return
            raise RuntimeError(_TWICE)
        if self._used is not None and used:
            self._used[index] = 1
        number, position = self._place[index]
        bucket = self._buckets[number]
        self._take(bucket, position, used)
        bucket.left -= 1
        while self._launched < len(self._buckets) and self._buckets[self._launched].left == 0:
            self._launch(self._launched)
            self._launched += 1
            if self._launched == len(self._buckets):
                _queue_callback(self._finish)

    def _take(self, bucket, position, used):
        """Copies a gradient into its bucket, now or once the bucket is full."""
        bucket.is_used |= used
        if isinstance(bucket, _Sparse):
            return
        if self._copies_together:
            bucket.waiting.append((position, used))
        else:
            self._collect(bucket, position, used)

    def _becomes_view(self, bucket, parameter, used):
        return self._bucket_views and used and bucket.dtype == parameter.dtype

    def _collect_waiting(self, bucket):
        """Copies the gradients of a full bucket together, divided by the number of ranks."""
        places, grads = [], []
        with torch.no_grad():
            for position, used in bucket.waiting:
                parameter, view = bucket.parameters[position], bucket.views[position]
                grad = parameter.grad
                if grad is None:
                    view.zero_()
                elif grad.data_ptr() != view.data_ptr():
                    places.append(view)
                    grads.append(grad.detach().to_dense() if grad.is_sparse else grad.detach())
                    if self._becomes_view(bucket, parameter, used):
                        parameter.grad = view
            bucket.waiting = []
            if places:
                torch._foreach_copy_(places, grads)
            if self.hook is None:
                bucket.buffer.mul_(1.0 / self.divide_by)

    def _collect(self, bucket, position, used):
        """Copies a gradient into its bucket, divided by the number of ranks (a hook divides by itself)."""
        parameter, view = bucket.parameters[position], bucket.views[position]
        with torch.no_grad():
            if parameter.grad is None:
                view.zero_()
                return
            grad = parameter.grad.detach()
            if grad.is_sparse:
                grad = grad.to_dense()
            if self.hook is not None:
                if grad.data_ptr() != view.data_ptr():
                    view.copy_(grad)
            else:
                torch.mul(grad, 1.0 / self.divide_by, out=view)
            if self._becomes_view(bucket, parameter, used) and parameter.grad.data_ptr() != view.data_ptr():
                parameter.grad = view

    def _launch(self, number):
        bucket = self._buckets[number]
        if self._skips_unused and not bucket.is_used:
            return
        if bucket.waiting:
            self._collect_waiting(bucket)
        if isinstance(bucket, _Sparse):
            bucket.launch(self._group, self.divide_by)
            return
        last = number == len(self._buckets) - 1
        if self.hook is None:
            bucket.running = all_reduce(bucket.buffer, group=self._group, async_op=True)
            return
        state, function = self.hook
        future = function(state, GradBucket(number, bucket.buffer, bucket.views, bucket.parameters, last))
        if not isinstance(future, Future):
            raise RuntimeError(
                f"callback must return a torch.futures.Future object, but got {type(future)}\n"
                "  A communication hook returns a future of the reduced tensor."
            )
        bucket.running = future

    def reduce_nothing(self):
        """Takes part in the reductions of a pass of the other ranks, with zeros."""
        with self._lock:
            first = self._static and self._expected is None
            if first:
                self._expect([0] * len(self._parameters))
            for number, bucket in enumerate(self._buckets):
                if self._skips_unused and not bucket.is_used:
                    continue
                if isinstance(bucket, _Sparse):
                    bucket.launch(self._group, None)
                else:
                    bucket.buffer.zero_()
                    self._launch(number)
            if first or (self._find_unused and not self._static and not self._skips_unused):
                self._greatest([0] * len(self._parameters))
            for bucket in self._buckets:
                if bucket.running is not None:
                    bucket.running.wait()
                    bucket.running = None

    def _expect(self, seen):
        """The ranks agree on how often each parameter takes part in a pass of a static graph."""
        self._expected = self._greatest(seen)
        self._never = {index for index, count in enumerate(self._expected) if count == 0}

    def _finish_first(self):
        """Ends the first pass with a static graph: the ranks agree on the counts, and everything is reduced."""
        with self._lock:
            self._expect(self._seen)
            self._used = [int(count > 0) for count in self._seen]
            for index in range(len(self._parameters)):
                number, position = self._place[index]
                self._take(self._buckets[number], position, self._seen[index] > 0)
            for number in range(len(self._buckets)):
                self._launch(number)
            self._launched = len(self._buckets)
            self._finish()

    def _finish(self):
        """Waits for the buckets and gives the parameters their gradients."""
        with self._lock:
            used = self._used
            if used is not None and not self._skips_unused:
                used = self._greatest(used)
            if used is None and self._never:
                used = [int(index not in self._never) for index in range(len(self._parameters))]
            for bucket in self._buckets:
                self._give_back(bucket, used)
            self._active, self._pending = False, False

    def _give_back(self, bucket, used):
        if isinstance(bucket, _Sparse) or bucket.running is None:
            return
        running, bucket.running = bucket.running, None
        if isinstance(running, Future):
            result = running.wait()
            result = result[0] if isinstance(result, (list, tuple)) else result
            if result.data_ptr() != bucket.buffer.data_ptr():
                bucket.buffer.copy_(result.view(-1))
        else:
            running.wait()
        with torch.no_grad():
            for parameter, view, index in zip(bucket.parameters, bucket.views, bucket.indices):
                # A parameter that no rank has used keeps the gradient that it had.
                if used is not None and not used[index]:
                    continue
                if self._becomes_view(bucket, parameter, used=True):
                    if parameter.grad is None or parameter.grad.data_ptr() != view.data_ptr():
                        parameter.grad = view
                elif parameter.grad is None:
                    parameter.grad = view.to(parameter.dtype, copy=True)
                else:
                    parameter.grad.detach().copy_(view)


class Sink(torch.autograd.Function):
    """Returns tensors as they are, and has the gradients reduced at the end of the whole backward pass.

    The hooks of parameters cannot do this: a checkpoint runs them in a backward pass of its own.
    """

    @staticmethod
    def forward(ctx, reducer, *tensors):
        """Returns the tensors, and keeps the reducer for `backward`."""
        ctx.reducer = reducer
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        """Returns the gradients, and queues the reduction for the end of the pass."""
        _queue_callback(ctx.reducer._finish_first)
        return None, *grads


class _Sparse:
    """The bucket of a parameter with a sparse gradient."""

    def __init__(self, parameter, indices):
        self.parameters, self.indices = [parameter], indices
        self.left, self.running = 1, None
        self.is_used, self.waiting = True, []

    def launch(self, group, divide_by):
        """Averages the gradient. Without a divisor, this rank only takes part, with zeros."""
        grad = None if divide_by is None else self.parameters[0].grad
        if grad is None:
            size, device = self.parameters[0].shape, self.parameters[0].device
            nothing = torch.zeros(1, 0, dtype=torch.int64, device=device), torch.zeros(0, *size[1:], device=device)
            grad = torch.sparse_coo_tensor(*nothing, size)
        with torch.no_grad():
            grad = grad.detach() / (divide_by or 1)
            all_reduce(grad, group=group)
            if divide_by is not None:
                self.parameters[0].grad = grad


def bytes_of(megabytes):
    """The bytes of a number of megabytes, at least one."""
    return max(1, math.ceil(megabytes * (1 << 20)))


set_module("rushlight.distributed", GradBucket)
