"""PowerSGD (Vogels, Karimireddy and Jaggi 2019): gradients travel as products of two narrow matrices.

What a product leaves out is added to the next gradient, so that it is late and not lost.
"""

import math

import rushlight as torch
from rushlight.distributed import _collectives
from rushlight.distributed._groups import resolve
from rushlight.futures import Future

from . import default_hooks

__all__ = ["PowerSGDState", "powerSGD_hook", "batched_powerSGD_hook"]


def __dir__() -> list[str]:
    return __all__


class PowerSGDState:
    """The state of `powerSGD_hook` and `batched_powerSGD_hook`.

    Args:
        process_group: the ranks that average, by default all.
        matrix_approximation_rank: the width of the narrow matrices.
        start_powerSGD_iter: the number of first steps that average gradients as they are.
        min_compression_rate: gradients that would not shrink by this factor travel as they are.
        use_error_feedback: whether what is left out is added to the next gradient.
        warm_start: whether a step begins with the matrices of the last one.
        orthogonalization_epsilon: added to the lengths of columns.
        random_seed: the seed of the first matrices.
        compression_stats_logging_frequency: accepted; nothing is logged.
        batch_tensors_with_same_shape: accepted; it has no effect on results.

    Raises:
        ValueError: it would begin before the second step with feedback or a warm start.
    """

    def __init__(
        self,
        process_group,
        matrix_approximation_rank=1,
        start_powerSGD_iter=1_000,
        min_compression_rate=2,
        use_error_feedback=True,
        warm_start=True,
        orthogonalization_epsilon=0,
        random_seed=0,
        compression_stats_logging_frequency=10_000,
        batch_tensors_with_same_shape=False,
    ):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.generator = torch.Generator().manual_seed(random_seed)  # the same on every rank
        self.error_dict, self.q_memory_dict = {}, {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket):
        """Counts a step at its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self):
        """How many times fewer numbers travelled, and the numbers before and after."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0, before, after)

    def __getstate__(self):
        kept = {**self.__dict__, "generator": self.generator.get_state()}
        del kept["process_group"]
        return kept

    def __setstate__(self, state):
        self.__dict__.update(state, process_group=None)
        self.generator = torch.Generator()
        self.generator.set_state(state["generator"])


def _orthogonal(matrix, epsilon):
    """A matrix with orthogonal columns of length one that span the same space."""
    if not epsilon:
        return torch.linalg.qr(matrix)[0]
    columns = []
    for column in matrix.unbind(1):
        for other in columns:
            column = column - (column @ other) * other
        columns.append(column / (column.norm() + epsilon))
    return torch.stack(columns, 1)


def _averages(tensors, group):
    """Averages tensors over all ranks in one call. The tensors are replaced."""
    if not tensors:
        return []
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    _collectives.all_reduce(flat.div_(group.size()), group=group)
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors)]


def _seed(generator):
    """The next number that NumPy's ``RandomState(seed).randint(1_000_000_000)`` draws, as torch's hook does."""
    while True:
        # NumPy takes the lowest 30 bits of a word, and another word if they are too large.
        drawn = torch.empty((), dtype=torch.int32).random_(generator=generator).item() & (1 << 30) - 1
        if drawn < 1_000_000_000:
            return drawn


def _approximate(state, group, key, matrices):
    """The averages of matrices over all ranks, as products of narrow matrices."""
    known = state.q_memory_dict.get(key) if state.warm_start else None
    if known is None:
        known, generator = [], torch.Generator().manual_seed(_seed(state.generator))
        for matrix in matrices:
            rank = min(*matrix.shape, state.matrix_approximation_rank)
            drawn = torch.randn(matrix.shape[1], rank, generator=generator, dtype=matrix.dtype)
            known.append(_orthogonal(drawn.to(matrix.device), state.orthogonalization_epsilon))
    left = _averages([matrix @ q for matrix, q in zip(matrices, known)], group)
    left = [_orthogonal(p, state.orthogonalization_epsilon) for p in left]
    right = _averages([matrix.mT @ p for matrix, p in zip(matrices, left)], group)
    state.q_memory_dict[key] = [_orthogonal(q, state.orthogonalization_epsilon) for q in right]
    state.total_numel_after_compression += sum(p.numel() + q.numel() for p, q in zip(left, right))
    return [p @ q.mT for p, q in zip(left, right)]


def _begin(state, bucket):
    """Adds what was left out before. Returns the gradients to send."""
    buffer = bucket.buffer()
    error = state.error_dict.get(bucket.index())
    if error is not None:
        buffer.add_(error)
    state.total_numel_before_compression += buffer.numel()
    return buffer.clone()


def _end(state, bucket, own):
    """Keeps what was left out. Returns the hook's result."""
    buffer = bucket.buffer()
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = own.sub_(buffer)
    state.maybe_increase_iter(bucket)
    future = Future()
    future.set_result(buffer)
    return future


def _as_they_are(state, bucket):
    state.maybe_increase_iter(bucket)
    return default_hooks._average(state.process_group, bucket.buffer())


def powerSGD_hook(state, bucket):
    """Averages each gradient with two or more dimensions as a product of narrow matrices, and the others as they are."""
    if state.iter < state.start_powerSGD_iter:
        return _as_they_are(state, bucket)
    group, own = resolve(state.process_group), _begin(state, bucket)
    plain, high = [], []
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else gradient.view(-1, 1)
        rank = min(*matrix.shape, state.matrix_approximation_rank)
        small = gradient.dim() < 2 or sum(matrix.shape) * rank * state.min_compression_rate >= matrix.numel()
        (plain if small else high).append(matrix)
    state.total_numel_after_compression += sum(matrix.numel() for matrix in plain)
    averages = _averages(plain, group)
    for matrix, average in zip(plain, averages):
        matrix.copy_(average)
    for matrix, average in zip(high, _approximate(state, group, bucket.index(), high) if high else []):
        matrix.copy_(average)
    error = own
    if state.use_error_feedback:
        # What travelled as it was leaves nothing out.
        at = 0
        for gradient in bucket.gradients():
            if any(gradient.data_ptr() == matrix.data_ptr() for matrix in plain):
                error[at : at + gradient.numel()] = gradient.reshape(-1)
            at += gradient.numel()
    return _end(state, bucket, error)


def batched_powerSGD_hook(state, bucket):
    """Averages the whole bucket as one square matrix, a product of narrow ones. It is faster, and less exact."""
    if state.iter < state.start_powerSGD_iter:
        return _as_they_are(state, bucket)
    group, own = resolve(state.process_group), _begin(state, bucket)
    buffer = bucket.buffer()
    side = math.ceil(math.sqrt(buffer.numel()))
    square = torch.nn.functional.pad(buffer, (0, side * side - buffer.numel())).view(side, side)
    (average,) = _approximate(state, group, bucket.index(), [square])
    buffer.copy_(average.view(-1)[: buffer.numel()])
    return _end(state, bucket, own)
