"""Selective checkpoints, which keep the results of some operators instead of computing them again. Part of `checkpoint`."""

from __future__ import annotations

import threading
from enum import Enum

import rushlight as torch
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


class CheckpointPolicy(Enum):
    """What happens to an operator's result in a checkpoint; see `create_selective_checkpoint_contexts`.

    Policies with ``SAVE`` in their name keep the result, so that the operator does not run again. With the others it
    runs again. The difference between ``MUST`` and ``PREFER`` concerns compilers only. ``CPU_OFFLOAD`` does not move
    results: the operator runs again.

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
    """The first argument of a policy function.

    Attributes:
        is_recompute: whether it is the second call; always False, because policies are called in the first.
        op_output: the result of the operator.

    >>> torch.utils.checkpoint.SelectiveCheckpointContext(is_recompute=False).op_output is None
    True
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Caches(threading.local):
    """The active call caches of a thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[Any] = [None]


_caches = _Caches()


class _CallCache:
    """A context in which the engine reports operator calls and asks for results that need not be computed again."""

    def __enter__(self) -> None:
        _caches.stack.append(self)
        _C._set_call_cache(self)

    def __exit__(self, *exception: object) -> None:
        _caches.stack.pop()
        _C._set_call_cache(_caches.stack[-1])

    def lookup(self, namespace: str, name: str) -> list[Tensor] | None:
        """The saved results of the call that is about to run, or None."""
        return None

    def store(self, namespace: str, name: str, args: tuple[Any, ...], results: list[Tensor]) -> None:
        """Called after an operator has run."""


#: The corresponding torch functions of operators that have another name in the engine.
_TORCH_NAMES = {
    "_affine": "addmm",
    "_linear": "mm",
    "_matmul": "bmm",
    "_normalize_layer": "native_layer_norm",
    "_normalize_group": "native_group_norm",
    "_normalize_batch": "native_batch_norm",
}


def _operator(namespace: str, name: str) -> Any:
    """The public function for this operator."""
    name = name.partition(".")[0]
    home = _C._functions[namespace]
    found = home.get(_TORCH_NAMES.get(name, name))
    return found if found is not None else getattr(torch.Tensor, name)


#: Markers in place of a result: it is to be computed again, or it was already used.
_RECOMPUTE, _TAKEN = object(), object()


class _Recording(_CallCache):
    """Saves the results that the policy selects."""

    def __init__(self, policy: Callable[..., Any], kept: dict[Any, list[Any]]) -> None:
        self.policy = policy
        self.kept = kept

    def store(self, namespace: str, name: str, args: tuple[Any, ...], results: list[Tensor]) -> None:
        """Calls the policy."""
        output = results[0] if len(results) == 1 else tuple(results)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=output)
        policy = self.policy(context, _operator(namespace, name), *args)
        saves = policy is True or policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        kept = [(result.detach(), result._version) for result in results] if saves else _RECOMPUTE
        self.kept.setdefault((namespace, name), []).append(kept)


class _Replaying(_CallCache):
    """Returns the saved results, call by call."""

    def __init__(self, kept: dict[Any, list[Any]], allow_changes: bool) -> None:
        self.kept = kept
        self.allow_changes = allow_changes
        self.counts: dict[Any, int] = {}

    def __enter__(self) -> None:
        self.counts.clear()
        super().__enter__()

    def lookup(self, namespace: str, name: str) -> list[Tensor] | None:
        """The saved results of the same call in forward."""
        call = namespace, name
        number = self.counts[call] = self.counts.get(call, -1) + 1
        kept = self.kept.get(call, [])
        if number >= len(kept):
            raise RuntimeError(
                f"{torch.overrides.resolve_name(_operator(namespace, name))} was called {number + 1} times in backward and "
                f"{len(kept)} times in forward: a function in a selective checkpoint must make the same calls in both."
            )
        results = kept[number]
        if results is _RECOMPUTE:
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
    """Two contexts for `checkpoint` that save the results of some operators, which then do not run again in backward.

    Args:
        policy_fn_or_list: a list of operators whose results are saved, or a function ``policy(ctx, op, *args)``. It is
            called after each operator of the first call and returns a `CheckpointPolicy`, or True to save the result.
            ``ctx`` is a `SelectiveCheckpointContext`.
        allow_cache_entry_mutation: whether saved results may be changed in place. They are not computed again then.

    Operators are the functions that compute: ``torch.nn.functional.linear`` calls ``torch.addmm``, and ``torch.matmul``
    calls ``torch.mm`` and ``torch.bmm``. The policy is not called for views and in-place operations.

    Raises:
        TypeError: the argument is neither a list nor a function.
        ValueError: an element of the list is not an operator.

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
                    f"Expected op in `op_list` to be an OpOverload but got: {operator} of type {type(operator)}."
                    "\nUse the function that computes, such as torch.mm."
                )

        def policy(context: Any, operator: Any, *args: Any) -> bool:
            return operator in operators
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: dict[Any, list[Any]] = {}
    return _Recording(policy, kept), _Replaying(kept, allow_cache_entry_mutation)
