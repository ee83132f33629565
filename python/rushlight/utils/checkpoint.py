"""Checkpoints: parts of a network run again in backward instead of storing intermediate results, which saves memory."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager, nullcontext
from weakref import WeakKeyDictionary

import rushlight as torch
from rushlight._set_module import set_public_module
from rushlight._warnings import warn
from rushlight.autograd.graph import _Passes, saved_tensors_hooks

from ._selective_checkpoint import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts
from ._tensors import tensors_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

set_public_module(globals())

#: The value set with `set_checkpoint_early_stop`. It overrides arguments.
_early_stop: bool | None = None


class CheckpointError(RuntimeError):
    """The second run of a function in backward saved other tensors than the first.

    >>> issubclass(torch.utils.checkpoint.CheckpointError, RuntimeError)
    True
    """


class DefaultDeviceType:
    """The device whose generators a checkpoint restores, where the arguments do not tell: kept, without an effect.

    >>> torch.utils.checkpoint.DefaultDeviceType.set_device_type("cpu")
    >>> torch.utils.checkpoint.DefaultDeviceType.get_device_type()
    'cpu'
    """

    _name = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._name = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._name


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The GPUs of the tensors among the arguments, and the states of their generators.

    >>> torch.utils.checkpoint.get_device_states(torch.ones(1))
    ([], [])
    """
    found = sorted({tensor.get_device() for tensor in tensors_in(args) if tensor.is_cuda})
    return found, _states(found)


def _states(devices: Iterable[int]) -> list[Tensor]:
    """The states of the generators of GPUs."""
    cuda: Any = torch.cuda
    return [cuda.get_rng_state(index) for index in devices]


def _captures(devices: Iterable[int]) -> list[int | None]:
    """The numbers of the graphs that record the work of the current streams of GPUs."""
    return [torch._C._cuda_current_capture(index) for index in devices]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Gives the generators of GPUs their states again.

    >>> torch.utils.checkpoint.set_device_states(*torch.utils.checkpoint.get_device_states(torch.ones(1)))
    """
    cuda: Any = torch.cuda
    for index, state in zip(devices, states):
        cuda.set_rng_state(state, index)


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts without an effect.

    >>> outside, inside = torch.utils.checkpoint.noop_context_fn()
    >>> with outside, inside:
    ...     pass
    """
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Sets whether recomputation ends as soon as it has saved enough, for all checkpoints in the block.

    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     y = checkpoint(lambda x: [x.exp(), print("called")][0], x, use_reentrant=False)
    called
    >>> y.backward()
    called
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Accepted, like ``debug`` of `checkpoint`. It has no effect, because differences are always described.

    >>> with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):
    ...     pass
    """
    yield


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Detaches the tensors of a tuple. Those that require gradients become leaves.

    Raises:
        RuntimeError: the argument is not a tuple.

    >>> y = torch.ones(1, requires_grad=True).exp()
    >>> torch.utils.checkpoint.detach_variable((y, 3))
    (tensor([2.7183], requires_grad=True), 3)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(
        one.detach().requires_grad_(one.requires_grad) if isinstance(one, torch.Tensor) else one for one in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no input requires a gradient, because parameters would then get no gradients.

    >>> torch.utils.checkpoint.check_backward_validity([torch.ones(1, requires_grad=True)])
    """
    if not any(isinstance(one, torch.Tensor) and one.requires_grad for one in inputs):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls a function and stores only its arguments. In backward the function is called again.

    Args:
        function: the function to call with the other arguments.
        use_reentrant: False is recommended: saved tensors are computed again when they are first needed. True runs a
            nested backward pass; this is the default, with a warning.
        context_fn: returns two contexts, for the first and for the second call; not with ``use_reentrant``.
            `create_selective_checkpoint_contexts` returns such a pair, which saves the results of some operators.
        determinism_check: ``"default"`` compares shapes, dtypes and devices of the tensors, ``"none"`` does not
            compare.
        debug: accepted, but not with ``use_reentrant``; differences are always described.
        early_stop: whether the second call ends as soon as it has saved enough.
        preserve_rng_state: (keyword) whether random numbers are the same in both calls; true by default.

    Raises:
        ValueError: an argument is unknown with ``use_reentrant``, or ``determinism_check`` is.
        CheckpointError: the second call saves other tensors.

    >>> x = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> checkpoint(lambda x: (x.sin() ** 2).sum(), x, use_reentrant=False).backward()
    >>> torch.allclose(x.grad, (2 * x).sin())
    True
    """
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, "
            "calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if "
            "you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more "
            "details on the differences between the two variants.",
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if torch.is_grad_enabled():
            check_backward_validity(args)
        return CheckpointFunction.apply(function, preserve, *args)
    outside, inside = context_fn()
    if not torch.is_grad_enabled():
        with outside:
            return function(*args, **kwargs)
    if _early_stop is not None:
        early_stop = _early_stop
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    modes = _Modes(preserve, (args, kwargs))
    again = _Recomputation(lambda: function(*args, **kwargs), inside, modes, determinism_check, early_stop)
    with saved_tensors_hooks(again.pack, again.unpack), outside:
        result = function(*args, **kwargs)
    again.complete = True
    return result


class _Modes:
    """What decides besides the arguments what a function computes: the random numbers, if they are to be the same again, and the
    mixed precision."""

    def __init__(self, preserve: bool, args: Any) -> None:
        self.state = torch.get_rng_state() if preserve else None
        self.devices, self.states = get_device_states(args) if preserve else ([], [])
        self.captures = _captures(self.devices)
        kinds = ("cpu", "cuda")
        self.precision = [(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)) for kind in kinds]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Sets them as they were, and at the end as they are now."""
        with torch.random.fork_rng(self.devices, enabled=self.state is not None), ExitStack() as precision:
            if self.state is not None:
                torch.set_rng_state(self.state)
                precision.enter_context(self._states_again())
            for kind, dtype, enabled in self.precision:
                precision.enter_context(torch.autocast(kind, dtype, enabled))
            yield

    @contextmanager
    def _states_again(self) -> Iterator[None]:
        """Sets the states of GPUs as they were.

        Raises:
            RuntimeError: the function has drawn numbers, and one of its two calls was recorded in a graph without the other.
        """
        if _captures(self.devices) == self.captures:
            set_device_states(self.devices, self.states)
            yield
            return
        # States in a graph count from where a run begins, so that they mean nothing outside of it.
        before = _states(self.devices)
        try:
            yield
        except _StopRecomputation:
            self._refuse_draws(before)
            raise
        self._refuse_draws(before)

    def _refuse_draws(self, before: list[Tensor]) -> None:
        if not all(map(torch.equal, before, _states(self.devices))):
            raise RuntimeError(
                "torch.utils.checkpoint: random numbers that were drawn while a CUDA graph was recorded cannot be drawn again outside "
                "of that graph, nor the other way round. Record forward and backward in one graph, or pass preserve_rng_state=False "
                "if other numbers will do."
            )


class CheckpointFunction(torch.autograd.Function):
    """The reentrant checkpoint: backward calls the function again and runs a nested backward pass.

    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.utils.checkpoint.CheckpointFunction.apply(torch.exp, True, x).backward()
    >>> x.grad
    tensor([2.7183])
    """

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        ctx.run = run
        ctx.modes = _Modes(preserve, args)
        # Saved with the engine, which checks that they are not changed in place.
        ctx.places = [place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
        ctx.others = [None if isinstance(arg, torch.Tensor) else arg for arg in args]
        ctx.save_for_backward(*[args[place] for place in ctx.places])
        with torch.no_grad():
            return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if torch.autograd._selective.depth:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        args = list(ctx.others)
        for place, tensor in zip(ctx.places, detach_variable(ctx.saved_tensors)):
            args[place] = tensor
        with torch.enable_grad(), ctx.modes.again():
            outputs = ctx.run(*args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (out, grad)
            for out, grad in zip(outputs, grads)
            if isinstance(out, torch.Tensor) and out.requires_grad and grad is not None
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        torch.autograd.backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return None, None, *[arg.grad if isinstance(arg, torch.Tensor) else None for arg in args]


_groups = threading.local()


class GraphExecGroup:
    """A context in which a checkpointed function is computed again at most once, however many backward passes there are.

    It has an effect on `checkpoint` with ``use_reentrant=False``. Each tensor that the function saves may be used by
    one of the passes.

    Raises:
        RuntimeError: such contexts are nested.

    >>> from rushlight.utils.checkpoint import GraphExecGroup, checkpoint
    >>> x = torch.zeros(2, requires_grad=True)
    >>> first, second = checkpoint(lambda x: (x.sin(), x.exp()), x, use_reentrant=False)
    >>> with GraphExecGroup():
    ...     first.sum().backward()
    ...     second.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        #: The tensors that its passes have used, by index.
        self._used: WeakKeyDictionary[_Recomputation, set[int]] = WeakKeyDictionary()

    def __enter__(self) -> GraphExecGroup:
        current = self._get_current_group()
        if current is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {current}")
        _groups.current = self
        return self

    def __exit__(self, *exception: object) -> None:
        _groups.current = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        """The group of this thread."""
        return getattr(_groups, "current", None)

    def _note_use(self, recomputation: _Recomputation, number: int) -> None:
        used = self._used.setdefault(recomputation, set())
        if number in used:
            raise CheckpointError(
                f"{_USED_TWICE}Performing two backward calls that overlap (i.e. require the same saved activation in order "
                "to compute gradients) is not allowed while under the torch.utils.checkpoint.GraphExecGroup context. "
                f"{_ONCE}"
            )
        used.add(number)


_USED_TWICE = "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. "
_ONCE = (
    "If you are calling ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an issue with "
    "details on your use case."
)


class _StopRecomputation(Exception):
    """Raised when everything that is needed has been computed again."""


class _Recomputation:
    """The tensors that a function saves, by index, and the call that recomputes them."""

    def __init__(self, run: Callable[[], Any], context: Any, modes: _Modes, check: str, early_stop: bool) -> None:
        self.run = run
        self.context = context
        self.modes = modes
        self.checks = check != "none"
        self.early_stop = early_stop
        self.saved: list[dict[str, Any]] = []
        self.found: dict[int, tuple[Tensor, int]] = {}
        self.passes = _Passes()
        #: Whether the first call has ended. A backward pass inside of it needs only what was saved so far.
        self.complete = False

    def pack(self, tensor: Tensor) -> int:
        self.saved.append(_metadata(tensor))
        return len(self.saved) - 1

    def unpack(self, number: int) -> Tensor:
        self._note_use(number)
        if number not in self.found:
            self._recompute()
        # Each tensor is needed once in a backward pass. A second pass computes everything again.
        tensor, version = self.found.pop(number)
        if tensor._version != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; expected version {version} "
                "instead.\nThe checkpointed function changes a tensor in place that its derivative needs."
            )
        return tensor

    def _note_use(self, number: int) -> None:
        """Raises CheckpointError if the current backward pass, if any, has used the tensor already."""
        group = GraphExecGroup._get_current_group()
        if group is not None:
            group._note_use(self, number)
            return
        current = self.passes.current()
        if current is None:
            try:
                current = self.passes.begin(None, len(self.saved))
            except RuntimeError:  # outside of a backward pass
                return
        if number in current.found:
            raise CheckpointError(_USED_TWICE + _ONCE)
        current.found[number] = None

    def _recompute(self) -> None:
        count = 0
        self.found = {}

        def keep(tensor: Tensor) -> Tensor:
            nonlocal count
            # The history of a result would lead back to what is saved for it.
            kept = tensor.detach() if tensor.requires_grad else tensor
            if count < len(self.saved):
                self.found[count] = kept, tensor._version
            count += 1
            if self.early_stop and count == len(self.saved):
                raise _StopRecomputation
            return kept

        try:
            with (
                torch.enable_grad(),
                self.modes.again(),
                saved_tensors_hooks(keep, lambda tensor: tensor),
                self.context,
            ):
                self.run()
        except _StopRecomputation:
            pass
        if count < len(self.saved) or (count > len(self.saved) and self.complete):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.saved)}\nNumber of tensors saved during "
                f"recomputation: {count}."
            )
        if self.checks:
            self._compare()

    def _compare(self) -> None:
        changed = "".join(
            f"tensor at position {number}:\nsaved metadata: {self.saved[number]}\nrecomputed metadata: {new}\n"
            for number, new in ((number, _metadata(tensor)) for number, (tensor, _) in self.found.items())
            if new != self.saved[number]
        )
        if changed:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
                f"the forward pass.\n{changed}."
            )


def _metadata(tensor: Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Runs a sequence of modules in segments. All segments except the last run again in backward.

    Args:
        functions: a `torch.nn.Sequential` or a list of modules or functions.
        segments: the number of segments.
        input: the input of the first module.
        use_reentrant, preserve_rng_state: as in `checkpoint`.

    Raises:
        ValueError: an argument is unknown, or there are more segments than modules.

    >>> layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    >>> x = torch.ones(1, 2)
    >>> torch.equal(checkpoint_sequential(layers, 2, x, use_reentrant=False), layers(x))
    True
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. "
            "In version 2.9 we will raise an exception if use_reentrant is not passed. use_reentrant=False is recommended, "
            "but if you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for "
            "more details on the differences between the two variants."
        )
        use_reentrant = True
    parts: Sequence[Any] = list(functions.children()) if isinstance(functions, torch.nn.Sequential) else functions

    def segment(start: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for part in parts[start:end]:
                value = part(value)
            return value

        return run

    size, done = len(parts) // segments, 0
    for start in range(0, size * (segments - 1), size):
        done = start + size
        input = checkpoint(segment(start, done), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return segment(done, len(parts))(input)


def __dir__() -> list[str]:
    return __all__
