"""Checkpoints that spare some operators the second call: their results are kept. Part of `checkpoint`."""

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
