"""`rearrange`: permutes, joins and splits dimensions according to a pattern of names."""

from __future__ import annotations

import math

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from rushlight import Tensor

    #: One side of a pattern: a list of names for each dimension (empty for a 1). None is an ellipsis outside of
    #: parentheses; inside them it is a name.
    Side: TypeAlias = list[list[str] | None]

__all__ = ["rearrange"]

_ELLIPSIS = "..."


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Permutes, joins and splits dimensions, like einops: ``"batch (height width) c -> batch c height width"``.

    Args:
        tensor: a tensor, or a list of tensors, which are stacked.
        pattern: the names of the dimensions before and after ``->``. Names in parentheses form one dimension, ``...``
            is any number of dimensions, ``1`` and ``()`` are dimensions of size 1.
        axes_lengths: the sizes that are needed to split dimensions.

    Raises:
        ValueError: the pattern is invalid or does not match the tensor.
        TypeError: a size is not a number.

    >>> x = torch.arange(6).reshape(2, 3)
    >>> torch.func.rearrange(x, "a b -> (b a)")
    tensor([0, 3, 1, 4, 2, 5])
    >>> torch.func.rearrange(x, "a (b c) -> c a b", c=1).shape
    torch.Size([1, 2, 3])
    """
    if not isinstance(tensor, torch.Tensor):
        tensor = torch.stack(tensor)  # raises an error if they cannot be stacked
    left, right = _parsed(pattern, axes_lengths)
    groups, results = _spread(left, right, tensor.dim())
    sizes: dict[str, int] = {}
    for size, group in zip(tensor.shape, groups):
        sizes.update(_split(size, group, axes_lengths, pattern))
    names = [name for group in groups for name in group]
    apart = tensor.reshape([sizes[name] for name in names])
    moved = apart.permute([names.index(name) for group in results for name in group])
    return moved.reshape([math.prod(sizes[name] for name in group) for group in results])


def _spread(left: Side, right: Side, dimensions: int) -> tuple[list[list[str]], list[list[str]]]:
    """Both sides, with a name for each dimension of the ellipsis."""
    rest = dimensions - sum(group is not None for group in left)
    if rest < 0 or (rest and None not in left):
        least = "less than or equal" if None in left else "equal"
        raise ValueError(
            f"Number of dimensions in pattern ({dimensions - rest}) must be {least} to the number of dimensions in the "
            f"tensor ({dimensions})"
        )
    others = [f"{_ELLIPSIS}{at}" for at in range(rest)]

    def spread(side: Side) -> list[list[str]]:
        found: list[list[str]] = []
        for group in side:
            if group is None:
                found += ([name] for name in others)
            else:
                found.append([name for one in group for name in (others if one == _ELLIPSIS else [one])])
        return found

    return spread(left), spread(right)


def _split(size: int, group: list[str], known: dict[str, int], pattern: str) -> dict[str, int]:
    """The sizes of the dimensions that are split or joined."""
    open_ones = [name for name in group if name not in known]
    product = math.prod(known[name] for name in group if name in known)
    if len(open_ones) > 1:
        raise ValueError(f"cannot infer the sizes of {' and '.join(open_ones)} at once: give one of them")
    if open_ones and product > 0 and size % product == 0:
        return {name: size // product if name in open_ones else known[name] for name in group}
    if open_ones or size != product:
        raise ValueError(f"a dimension of size {size} is no {' * '.join(group) or 1} in {pattern!r} with {known}")
    return {name: known[name] for name in group}


def _parsed(pattern: str, lengths: dict[str, int]) -> tuple[Side, Side]:
    try:
        before, behind = pattern.split("->")
    except ValueError:
        raise ValueError("Pattern must contain a single '->' separator") from None
    left, right = _side(before), _side(behind)
    names, others = (
        {name for group in side for name in ([_ELLIPSIS] if group is None else group)} for side in (left, right)
    )
    if any(group and _ELLIPSIS in group for group in left):
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    if _ELLIPSIS in others - names:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if names != others:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {names ^ others}")
    for length in lengths.values():
        if not isinstance(length, int):
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    if unknown := set(lengths) - names:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
    return left, right


def _side(text: str) -> Side:
    dots = text.count(".")
    if dots and (dots != 3 or text.count(_ELLIPSIS) != 1):
        raise ValueError("Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor ")
    found: Side = []
    group: list[str] | None = None
    seen: set[str] = set()
    for word in text.replace("(", " ( ").replace(")", " ) ").replace(_ELLIPSIS, f" {_ELLIPSIS} ").split():
        if word == "(":
            if group is not None:
                raise ValueError("Axis composition is one-level (brackets inside brackets not allowed)")
            group = []
        elif word == ")":
            if group is None:
                raise ValueError("Brackets are not balanced")
            found.append(group)
            group = None
        elif word == "1":
            if group is None:
                found.append([])
        else:
            _check_name(word)
            if word in seen:
                raise ValueError(f"Indexing expression contains duplicate dimension {word!r}")
            seen.add(word)
            if group is None:
                found.append(None if word == _ELLIPSIS else [word])
            else:
                group.append(word)
    if group is not None:
        raise ValueError(f"Imbalanced parentheses in expression: {text!r}")
    return found


def _check_name(word: str) -> None:
    if word.isdecimal():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if strange := next((letter for letter in word if not (letter.isalnum() or letter in "_.")), None):
        raise ValueError(f"Unknown character {strange!r}")
    if word != _ELLIPSIS and (not word.isidentifier() or word[0] == "_" or word[-1] == "_"):
        raise ValueError(
            f"Invalid axis identifier: {word}\nA name begins with a letter and does not end with an underscore."
        )
