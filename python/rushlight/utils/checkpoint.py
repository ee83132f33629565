"""Less memory in training: parts of a network run again in backward instead of keeping what they computed."""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from enum import Enum

import rushlight as torch
from rushlight import _C
from rushlight._warnings import warn
from rushlight.autograd.graph import saved_tensors_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]

#: What `set_checkpoint_early_stop` says, in the place of arguments.
_early_stop: bool | None = None


class CheckpointError(RuntimeError):
    """What ran again in backward saved other tensors than in forward.

    >>> issubclass(torch.utils.checkpoint.CheckpointError, RuntimeError)
    True
    """


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing.

    >>> outside, inside = torch.utils.checkpoint.noop_context_fn()
    >>> with outside, inside:
    ...     pass
    """
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether calls in backward end as soon as they have saved enough, for all checkpoints that the block makes.

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
    """Accepted, as ``debug`` of `checkpoint` is: a difference is always described.

    >>> with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):
    ...     pass
    """
    yield


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors of a tuple without what they come from; those that need gradients become leaves.

    Raises:
        RuntimeError: what is no tuple.

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
    """Warns if no tensor among the inputs needs a gradient: those of parameters would be None.

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
    """Calls a function and keeps only its arguments; in backward it is called again.

    Args:
        function: what is called, with the other arguments.
        use_reentrant: False is recommended: what the function saves is computed again when it is first needed. True runs
            a backward within the backward, the older way, and the default, with a warning.
        context_fn: gives two contexts, for the call and for the call in backward; not for the older way.
            `create_selective_checkpoint_contexts` makes such a pair that spares some operators the second call.
        determinism_check: ``"default"`` compares shapes, dtypes and devices of the tensors, ``"none"`` nothing.
        debug: accepted, but not for the older way; a difference is always described.
        early_stop: whether the call in backward ends as soon as it has saved enough.
        preserve_rng_state: (by name) whether random numbers are the same in both calls; true by default.

    Raises:
        ValueError: an unknown argument of the older way.
        CheckpointError: the call in backward does something else.

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
        if context_fn is not noop_context_fn or debug:
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
    again = _Again(lambda: function(*args, **kwargs), inside, preserve, determinism_check, early_stop)
    with saved_tensors_hooks(again.pack, again.unpack), outside:
        return function(*args, **kwargs)


class CheckpointPolicy(Enum):
    """What becomes of an operator's result in a checkpoint; see `create_selective_checkpoint_contexts`.

    Those with ``SAVE`` in their name keep the result, so that the operator does not run again; of the others it does. What
    ``MUST`` says more than ``PREFER`` concerns compilers alone, and results stay where they are with ``CPU_OFFLOAD``: it runs
    again.

    >>> torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE.value
    0
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told of a call beside the operator and its arguments.

    Attributes:
        is_recompute: whether the call is the second one; always False, since policies are asked in the first.
        op_output: what the operator gave.

    >>> torch.utils.checkpoint.SelectiveCheckpointContext(is_recompute=False).op_output is None
    True
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Keepers(threading.local):
    """Who keeps results on a thread, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Any] = [None]


_keepers = _Keepers()


class _Keeper:
    """A context in which the engine tells of the calls that compute, and asks for results that it need not compute."""

    def __enter__(self) -> None:
        _keepers.stack.append(self)
        _C._set_keeper(self)

    def __exit__(self, *exception: object) -> None:
        _keepers.stack.pop()
        _C._set_keeper(_keepers.stack[-1])

    def known(self, namespace: str, name: str) -> list[Tensor] | None:
        """The results of the call that is about to run, where it need not."""
        return None

    def computed(self, namespace: str, name: str, args: tuple[Any, ...], results: list[Tensor]) -> None:
        """A call ran."""


#: Operators that the engine writes in its own way, and which of torch's they are.
_KNOWN_AS = {
    "_affine": "addmm",
    "_linear": "mm",
    "_matmul": "bmm",
    "_normalize_layer": "native_layer_norm",
    "_normalize_group": "native_group_norm",
    "_normalize_batch": "native_batch_norm",
}


def _operator(namespace: str, name: str) -> Any:
    """The function that a program calls for this row."""
    name = name.partition(".")[0]
    home = _C._functions[namespace]
    found = home.get(_KNOWN_AS.get(name, name))
    return found if found is not None else getattr(torch.Tensor, name)


#: In the place of a result: it is to be computed again, and it was taken already.
_AGAIN, _TAKEN = object(), object()


class _First(_Keeper):
    """Keeps what the policy says."""

    def __init__(self, policy: Callable[..., Any], kept: dict[Any, list[Any]]) -> None:
        self.policy = policy
        self.kept = kept

    def computed(self, namespace: str, name: str, args: tuple[Any, ...], results: list[Tensor]) -> None:
        """Asks the policy."""
        output = results[0] if len(results) == 1 else tuple(results)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=output)
        policy = self.policy(context, _operator(namespace, name), *args)
        saves = policy is True or policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        kept = [(result.detach(), result._version) for result in results] if saves else _AGAIN
        self.kept.setdefault((namespace, name), []).append(kept)


class _Second(_Keeper):
    """Gives back what was kept, call by call."""

    def __init__(self, kept: dict[Any, list[Any]], allow_changes: bool) -> None:
        self.kept = kept
        self.allow_changes = allow_changes
        self.counts: dict[Any, int] = {}

    def __enter__(self) -> None:
        self.counts.clear()
        super().__enter__()

    def known(self, namespace: str, name: str) -> list[Tensor] | None:
        """The results of the same call in forward."""
        call = namespace, name
        number = self.counts[call] = self.counts.get(call, -1) + 1
        kept = self.kept.get(call, [])
        if number >= len(kept):
            raise RuntimeError(
                f"{torch.overrides.resolve_name(_operator(namespace, name))} was called {number + 1} times in backward and "
                f"{len(kept)} times in forward: a function under a selective checkpoint has to do the same in both."
            )
        results = kept[number]
        if results is _AGAIN:
            return None
        if results is _TAKEN:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        kept[number] = _TAKEN
        if not self.allow_changes and any(result._version != version for result, version in results):
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated\n"
                "Do not change it in place, or pass allow_cache_entry_mutation=True."
            )
        return [result for result, _ in results]


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Two contexts for `checkpoint` that keep the results of some operators, which then do not run again in backward.

    Args:
        policy_fn_or_list: a list of the operators whose results are kept, or a function ``policy(ctx, op, *args)`` that is
            asked after each operator of the first call and answers with a `CheckpointPolicy`, or True to keep the result.
            ``ctx`` is a `SelectiveCheckpointContext`.
        allow_cache_entry_mutation: whether kept results may be changed in place, for which nothing is computed again.

    Operators are the functions that compute, not those that call others: ``torch.addmm`` is what
    ``torch.nn.functional.linear`` comes to, ``torch.mm`` and ``torch.bmm`` what ``torch.matmul`` does. Nobody is asked about
    views, nor about calls in place.

    Raises:
        TypeError: neither a list nor a function.
        ValueError: an element of the list that is no operator.

    >>> from functools import partial
    >>> from rushlight.utils.checkpoint import create_selective_checkpoint_contexts
    >>> x = torch.eye(2, requires_grad=True)
    >>> contexts = partial(create_selective_checkpoint_contexts, [torch.mm])
    >>> y = checkpoint(lambda x: (x @ x).sin().sum(), x, use_reentrant=False, context_fn=contexts)
    >>> y.backward()
    >>> x.grad
    tensor([[1.0806, 2.0000],
            [2.0000, 1.0806]])
    """
    if isinstance(policy_fn_or_list, list):
        operators = list(policy_fn_or_list)
        for operator in operators:
            if not callable(operator):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {operator} of type {type(operator)}. "
                    "\nName the function that computes, as torch.mm."
                )

        def policy(context: Any, operator: Any, *args: Any) -> bool:
            return operator in operators
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: dict[Any, list[Any]] = {}
    return _First(policy, kept), _Second(kept, allow_cache_entry_mutation)


@contextmanager
def _random_state(state: Tensor | None) -> Iterator[None]:
    """Draws from a state, and gives the present one back."""
    if state is None:
        yield
        return
    present = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(present)


def _precision() -> torch.autocast:
    """Mixed precision as it is now, for later."""
    return torch.autocast("cpu", torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu"))


class CheckpointFunction(torch.autograd.Function):
    """The older way: forward records nothing, backward calls the function again and runs a backward of its own.

    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.utils.checkpoint.CheckpointFunction.apply(torch.exp, True, x).backward()
    >>> x.grad
    tensor([2.7183])
    """

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        ctx.run = run
        ctx.state = torch.get_rng_state() if preserve else None
        ctx.precision = _precision()
        # Tensors through the engine, which checks that nobody changes them.
        ctx.places = [place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
        ctx.others = [None if isinstance(arg, torch.Tensor) else arg for arg in args]
        ctx.save_for_backward(*[args[place] for place in ctx.places])
        with torch.no_grad():
            return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        args = list(ctx.others)
        for place, tensor in zip(ctx.places, detach_variable(ctx.saved_tensors)):
            args[place] = tensor
        with torch.enable_grad(), _random_state(ctx.state), ctx.precision:
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


class _Enough(Exception):
    """All that is needed has been computed again."""


class _Again:
    """What a function saves, by number, and the call that computes it again."""

    def __init__(self, run: Callable[[], Any], context: Any, preserve: bool, check: str, early_stop: bool) -> None:
        self.run = run
        self.context = context
        self.state = torch.get_rng_state() if preserve else None
        self.precision = _precision()
        self.checks = check != "none"
        self.early_stop = early_stop
        self.saved: list[dict[str, Any]] = []
        self.found: dict[int, tuple[Tensor, int]] = {}

    def pack(self, tensor: Tensor) -> int:
        self.saved.append(_metadata(tensor))
        return len(self.saved) - 1

    def unpack(self, number: int) -> Tensor:
        if number not in self.found:
            self._recompute()
        # Each is asked for once in a backward; a second backward computes all again.
        tensor, version = self.found.pop(number)
        if tensor._version != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; expected version {version} "
                "instead.\nThe function under the checkpoint changes a tensor that its derivative reads."
            )
        return tensor

    def _recompute(self) -> None:
        count = 0
        self.found = {}

        def keep(tensor: Tensor) -> Tensor:
            nonlocal count
            if count < len(self.saved):
                self.found[count] = tensor.detach(), tensor._version
            count += 1
            if self.early_stop and count == len(self.saved):
                raise _Enough
            return tensor.detach()

        try:
            with (
                torch.enable_grad(),
                _random_state(self.state),
                self.precision,
                saved_tensors_hooks(keep, lambda tensor: tensor),
                self.context,
            ):
                self.run()
        except _Enough:
            pass
        if count != len(self.saved):
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
    """Runs a sequence of modules in segments, of which all but the last run again in backward.

    Args:
        functions: a `torch.nn.Sequential` or a list of modules or functions.
        segments: into how many parts it is cut.
        input: what the first one takes.
        use_reentrant, preserve_rng_state: as in `checkpoint`.

    Raises:
        ValueError: an unknown argument, or more segments than modules.

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
            "It is True where nothing is said; False is the better choice for new programs."
        )
        use_reentrant = True
    parts: Sequence[Any] = list(functions.children() if isinstance(functions, torch.nn.Sequential) else functions)

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
